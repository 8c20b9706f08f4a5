/* How much of what a tree shares with others is its own: a window of bits, cut when a queue forms, so that the queue
 * empties and everybody learns the empty path's round trip (docs/decisions/congestion-control.md). */
#ifndef DATACAST_CABLE_H
#define DATACAST_CABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "datacast/cc.h"

struct dc_cable {
  struct dc_cc_params p;
  bool starting, paused;
  bool busy, used; /* interests waited for tokens in this round; in the one before */
  uint8_t samples, full, calm; /* of this round; rounds in a row with a queue, and without one */
  uint64_t window, top;        /* bits on the way; when the queue came, or at the last loss */
  dc_time base, trip;          /* shortest round trip; of the last round */
  dc_time slow, quick, begun;        /* shortest of this round; its begin */
  dc_time heard, woke, silence; /* last interest; the last silence's end and length */
  dc_time queue;               /* of the last round */
  dc_time until, resume, cut;  /* end of the pause; of what was sent before it; the last loss that was answered */
  uint32_t sent, lost, cut_sent; /* packets at the round's begin; losses in it; what was sent when one was answered */
};

void dc_cable_init(struct dc_cable *c, const struct dc_cc_params *p) __attribute__((nonnull));
/* A round trip of whoever asks first, when so many packets were sent. True when a round has ended. */
void dc_cable_heard(struct dc_cable *c, dc_time now, uint64_t rate) __attribute__((nonnull));
bool dc_cable_trip(struct dc_cable *c, dc_time now, dc_time rtt, uint32_t sent) __attribute__((nonnull));
/* An interest says that number `seq` was lost above every cache. */
void dc_cable_lost(struct dc_cable *c, dc_time now, uint32_t seq, uint32_t sent) __attribute__((nonnull));
/* The end of a pause may have come. */
void dc_cable_tick(struct dc_cable *c, dc_time now) __attribute__((nonnull));
uint64_t dc_cable_rate(const struct dc_cable *c) __attribute__((nonnull, pure));

#endif
