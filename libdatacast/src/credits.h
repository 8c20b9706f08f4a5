/* How many interests a receiver may have out: enough for the path's bandwidth times its delay and some packets more
 * that wait on the way, whoever makes them wait: the slowest link, or the source's bucket (after TCP Vegas; the paper's
 * section 5.2 wants "to saturate the pipe").
 *
 * Never fewer than the configured credits. A round trip tells how many packets wait only against the shortest one, and
 * answers from a near cache have a shorter one than the source's. Those that have fallen out of the caches are answered
 * by the source alone (DUP): for them there is a window of its own, against the shortest round trip of such answers.
 * (Trying a larger window to find out takes bandwidth from TCP in a shared queue, so it is not done.) */
#ifndef DATACAST_CREDITS_H
#define DATACAST_CREDITS_H

#include <stdbool.h>
#include <stdint.h>

#include "datacast/time.h"

struct dc_credits {
  bool adaptive;
  bool far; /* the last answers were the source's own */
  bool cut; /* a loss was answered in this round */
  uint32_t least;
  uint32_t w; /* in force: follows the goal one by one, so that no burst goes out and no pause comes */
  struct {
    dc_time shortest; /* round trip ever seen */
    uint32_t goal;
    bool doubling; /* until the first queue shows */
  } path[2];       /* for answers on the way, and for the source's own (DUP) */
  uint32_t near;   /* answers in a row that were none of the source's own */
  uint32_t losses; /* in this round */
  uint32_t pause;  /* rounds without growth, after a loss */
  uint32_t late;   /* samples in a row that showed a queue, while doubling */
  uint32_t got;    /* data so far */
  dc_time fastest; /* round trip of this round */
  uint64_t round;  /* ends when an interest of this number or later is answered */
};

void dc_credits_init(struct dc_credits *c, uint32_t least, bool adaptive) __attribute__((nonnull));
/* The path may be another one. */
void dc_credits_restart(struct dc_credits *c) __attribute__((nonnull));
/* Some data came. */
static inline void dc_credits_step(struct dc_credits *c)
{
  c->got++;
  uint32_t goal = c->path[c->far].goal;
  if (c->w < goal)
    c->w++;
  else if (c->w > goal && c->got % 4 == 0)
    c->w--;
}
/* An interest that was sent once, as number `order`, was answered after `rtt`, by the source alone if `dup`; `next` is
 * the number of the next one. */
void dc_credits_sample(struct dc_credits *c, uint64_t order, uint64_t next, dc_time rtt, bool dup)
    __attribute__((nonnull));
void dc_credits_lost(struct dc_credits *c) __attribute__((nonnull));

#endif
