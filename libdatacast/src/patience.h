/* How long a source bears with a receiver that has become slow, before its tree goes at that one's pace.
 *
 * Somebody above may be about to give that receiver a tree of its own; until then the others need not wait. So where the
 * rule would send less than half of what the tree has carried all the time of late, the tree goes on as it did for a
 * while, and who fell out of the caches is served by duplicates: that is cheap while it takes a small part of the rate,
 * and where it is not, because it stood still for a moment and takes all it can get, or because many are slow, the rule's
 * rate holds at once. */
#ifndef DATACAST_PATIENCE_H
#define DATACAST_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "datacast/time.h"

enum { PATIENCE_WINDOWS = 4 };

struct patience {
  dc_time most;   /* bears so long; 0: not at all */
  uint64_t usual; /* bit/s: the least of the windows, 0 until all are known */
  uint64_t window[PATIENCE_WINDOWS];
  uint32_t windows;          /* that were measured */
  dc_time since;             /* begin of the present window */
  dc_time low;               /* since when the rule wants less than half of the usual; 0: it does not */
  dc_time from, until, rest; /* bears from, until; not again before */
  uint32_t sent;             /* new packets in the present window */
  uint32_t spent;            /* duplicates since it began to bear */
  uint32_t times;
};

/* Packets of so many bytes were sent: new ones, and duplicates. */
void patience_sent(struct patience *p, dc_time now, uint32_t fresh, uint32_t again, uint32_t bytes)
    __attribute__((nonnull));
/* Where the rule would send `rate`: bit/s to send. */
uint64_t patience_rate(struct patience *p, dc_time now, uint64_t rate, uint32_t bytes) __attribute__((nonnull));

#endif
