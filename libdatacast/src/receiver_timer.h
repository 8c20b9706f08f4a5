/* How long a receiver waits for an answer: RFC 6298. */
#ifndef DATACAST_RECEIVER_TIMER_H
#define DATACAST_RECEIVER_TIMER_H

#include <stdbool.h>

#include "datacast/receiver.h"
#include "datacast/time.h"

struct receiver_timer {
  bool measured; /* srtt is valid */
  dc_time srtt, rttvar, rto;
  dc_time late; /* from the first question to the answer, of what was answered last */
};

/* `cfg`: what bounds `rto`, and what it begins with. The path may be another one from now on. */
void timer_restart(struct receiver_timer *t, const struct dc_receiver_cfg *cfg) __attribute__((nonnull));
/* An answer came `late` after the first question. `clean`: there was one question only (Karn). */
void timer_answered(struct receiver_timer *t, const struct dc_receiver_cfg *cfg, dc_time late, bool clean)
    __attribute__((nonnull));
/* Twice as long, until the next clean sample. */
void timer_back_off(struct receiver_timer *t, const struct dc_receiver_cfg *cfg) __attribute__((nonnull));

#endif
