/* How many interests a receiver may have out: the window of its flow. It starts with what the master gave. A loss cuts it
 * as TCP's CUBIC does (RFC 9438), and so does its growth follow; beyond what was given it grows only while the source says
 * that it could send more than it is asked for (DC_FLAG_MORE). A receiver keeps step with TCP beside it, for it is one flow
 * with TCP's window; it needs no delay, so hosts that stand still cost it nothing. */
#ifndef DATACAST_CREDITS_H
#define DATACAST_CREDITS_H

#include <stdbool.h>
#include <stdint.h>

#include "datacast/time.h"

struct dc_credits {
  bool adaptive;
  bool doubling;   /* no loss yet */
  uint32_t given;  /* at first; up to here it grows unasked */
  uint32_t w;      /* in force */
  uint64_t fine;   /* w in 1024ths of a packet */
  uint64_t top;    /* where it was at the last loss */
  uint64_t reno;   /* where Reno would be */
  dc_time epoch;   /* the growth since the last loss began; 0: it has not */
  dc_time flat;    /* from then on until it is back at the top */
  dc_time srtt;
  uint64_t told;   /* losses of interests before this one were answered */
  uint64_t hungry; /* the source wanted to be asked for more when this one was next */
};

void dc_credits_init(struct dc_credits *c, uint32_t given, bool adaptive) __attribute__((nonnull));
/* The path may be another one. */
void dc_credits_restart(struct dc_credits *c) __attribute__((nonnull));
/* Interest number `order` was answered after `rtt`; `next` is the number of the next one. */
void dc_credits_got(struct dc_credits *c, dc_time now, uint64_t order, uint64_t next, dc_time rtt, bool more)
    __attribute__((nonnull));
void dc_credits_lost(struct dc_credits *c, uint64_t order, uint64_t next) __attribute__((nonnull));

#endif
