/* A number that is not believed: one interest alone that is for far more than all others of its child was damaged on the way. */
#ifndef DC_FAR_H
#define DC_FAR_H

#include <stdbool.h>
#include <stdint.h>

enum { DC_FAR = 64 };

/* last: where the child was; 0: nowhere yet. */
static inline bool dc_far(uint32_t last, uint32_t seq) { return last != 0 && seq > last && seq - last > DC_FAR; }

#endif
