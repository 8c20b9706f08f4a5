/* How many interests a receiver may have out: enough for the path's bandwidth times its delay and some packets more that
 * wait on the way, whoever makes them wait: the slowest link, or the source's bucket (after TCP Vegas; the paper's section
 * 5.2 wants "to saturate the pipe").
 *
 * A round trip says how many packets wait only against the shortest one, and that may have been an answer from a near
 * cache. So when packets seem to wait for long, a few more credits are tried: if more data comes for it, they did not. */
#ifndef DATACAST_CREDITS_H
#define DATACAST_CREDITS_H

#include <stdbool.h>
#include <stdint.h>

#include "datacast/time.h"

struct dc_credits {
  bool adaptive;
  bool doubling;    /* until the first queue shows */
  bool cut;         /* a loss was answered in this round */
  uint8_t trying;   /* rounds of a trial that are left */
  uint32_t least;
  uint32_t w;       /* in force: follows the goal one by one, so that no burst goes out and no pause comes */
  uint32_t goal;
  uint32_t late;    /* samples in a row that showed a queue, while doubling */
  uint32_t held;    /* rounds in a row that showed one */
  uint32_t next;    /* so many of them lead to the next trial */
  uint32_t before;  /* w before the trial */
  dc_time shortest; /* round trip of what waited for nothing */
  dc_time fastest;  /* round trip of this round */
  dc_time begin;    /* of the round */
  uint32_t got;     /* data in this round */
  uint64_t pace, pace_before; /* data per second of the last round, and before the trial; times 256 */
  uint64_t round;   /* ends when an interest of this number or later is answered */
};

void dc_credits_init(struct dc_credits *c, uint32_t least, bool adaptive) __attribute__((nonnull));
/* The path may be another one. */
void dc_credits_restart(struct dc_credits *c) __attribute__((nonnull));
/* Some data came. */
static inline void dc_credits_step(struct dc_credits *c)
{
  c->got++;
  if (c->w < c->goal)
    c->w++;
  else if (c->w > c->goal && c->got % 4 == 0)
    c->w--;
}
/* An interest that was sent once, as number `order`, was answered after `rtt`; `next` is the number of the next one. */
void dc_credits_sample(struct dc_credits *c, dc_time now, uint64_t order, uint64_t next, dc_time rtt)
    __attribute__((nonnull));
void dc_credits_lost(struct dc_credits *c) __attribute__((nonnull));

#endif
