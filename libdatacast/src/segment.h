/* Ethernet and stack of a segment, from any of its ports on. */
#ifndef DATACAST_SEGMENT_H
#define DATACAST_SEGMENT_H

#include "datacast/route.h"

/* As dc_segment_write, but ports from index `from` on get labels: 1 where the sender has the ports itself, 0 at an
 * appliance, whose switch takes the first port off the stack too. */
size_t dc_segment_write_from(uint8_t *p, const struct dc_segment *seg, unsigned from, const uint8_t dst[6],
                             const uint8_t src[6]) __attribute__((nonnull));

#endif
