/* How long a receiver waits for an answer: RFC 6298. */
#ifndef DATACAST_RECEIVER_TIMER_H
#define DATACAST_RECEIVER_TIMER_H

#include <stdbool.h>

#include "datacast/time.h"

struct receiver_timer {
  bool measured; /* srtt is valid */
  dc_time srtt, rttvar, rto;
  dc_time late;            /* from the first question to the answer, of what was answered last */
  dc_time min, max, first; /* bounds of `rto`; what it begins with */
};

/* The path may be another one from now on. */
void timer_restart(struct receiver_timer *t) __attribute__((nonnull));
/* An answer came `late` after the first question. `clean`: there was one question only (Karn). */
void timer_answered(struct receiver_timer *t, dc_time late, bool clean) __attribute__((nonnull));
/* Twice as long, until the next clean sample. */
void timer_back_off(struct receiver_timer *t) __attribute__((nonnull));

#endif
