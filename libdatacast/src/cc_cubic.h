/* How far a rate may grow after losses, beside connections of TCP: CUBIC's window (RFC 9438) as a rate.
 *
 * A loss takes three tenths, once per window. Then it comes back along 0.4 (t - K)^3 packets around what it was, K being when it is
 * there again; or as Reno beside such cuts where that is more. Who has less than the last time leaves the rest to others. */
#ifndef DATACAST_CC_CUBIC_H
#define DATACAST_CC_CUBIC_H

#include <stdbool.h>
#include <stdint.h>

#include "datacast/time.h"

struct cubic {
  uint64_t link;           /* the most there is: no loss bounds the rate */
  uint64_t most;           /* the rate that losses allow */
  uint64_t ceiling, after; /* where losses are expected again; the rate after the last one */
  dc_time since, cut;      /* since when losses bound the rate; the last answer to one */
  uint32_t sent;           /* packets sent before it */
  uint32_t lost, highest;  /* numbers that were lost since then, in order, and the last of them */
};

void cubic_init(struct cubic *c, uint64_t link) __attribute__((nonnull));
static inline bool cubic_bounds(const struct cubic *c) { return c->most < c->link; }
/* Is the loss of packet `seq` one that no answer was given to yet? So many were sent. It is from now on. */
bool cubic_new(struct cubic *c, uint32_t seq, uint32_t sent) __attribute__((nonnull));
/* The loss of `seq` is one of those that bound the rate. */
void cubic_count(struct cubic *c, uint32_t seq) __attribute__((nonnull));
/* Answer one where `rate` was sent: no less than `least` is left. */
void cubic_cut(struct cubic *c, dc_time now, uint64_t rate, uint64_t least) __attribute__((nonnull));
/* A round has passed in which packets took `took` there and back; `times` as fast as others do. */
void cubic_grow(struct cubic *c, dc_time now, dc_time took, unsigned times, uint32_t packet_bytes)
    __attribute__((nonnull));

#endif
