/* Numbers that receivers ask for at once (docs/decisions/congestion-control.md, "Batches"). */
#ifndef DC_BATCH_H
#define DC_BATCH_H

#include <stdint.h>

#include "datacast/limits.h"

/* From which number on others may still have to ask for [first, last] without being behind. More than a batch at once is a start,
 * or credits that grow, and counts whole but for the last. */
static inline uint32_t dc_batch_first(uint32_t first, uint32_t last)
{
  return last - first < DC_BATCH_MAX ? first : last;
}

#endif
