#include "credits.h"

#include "datacast/limits.h"

/* Of a packet, and the least window: with fewer out no gap could be seen. */
#ifndef ONLY_GIVEN
#define ONLY_GIVEN 0
#endif
enum { UNIT = 1024, LEAST = 4 };

/* RFC 9438: C of 0.4 packets per s^3, beta 0.7; Reno's pace with that beta is 3 (1 - beta) / (1 + beta) per round trip. */
enum { C_10 = 4, BETA_10 = 7, RENO_17 = 9, LONGEST_MS = 60000 };

void dc_credits_init(struct dc_credits *c, uint32_t given, bool adaptive)
{
  *c = (struct dc_credits){.adaptive = adaptive, .given = given, .w = given, .fine = (uint64_t)given * UNIT};
  c->doubling = true;
}

void dc_credits_restart(struct dc_credits *c) { dc_credits_init(c, c->given, c->adaptive); }

static void set(struct dc_credits *c, uint64_t fine)
{
  uint64_t most = (uint64_t)DC_CREDITS_MAX * UNIT, least = c->given / 4 > LEAST ? c->given / 4 : c->given < LEAST ? c->given : LEAST;
  c->fine = fine > most ? most : fine < least * UNIT ? least * UNIT : fine;
  c->w = (uint32_t)(c->fine / UNIT);
}

static uint64_t cube_root(uint64_t x)
{
  uint64_t y = 0;
  for (uint64_t bit = 1 << 20; bit > 0; bit /= 2)
    if ((y + bit) * (y + bit) * (y + bit) <= x)
      y += bit;
  return y;
}

/* Where CUBIC's window is at that time: C (t - K)^3 + W_max. */
static uint64_t cubic(const struct dc_credits *c, dc_time t)
{
  bool before = t < c->flat;
  uint64_t ms = (before ? c->flat - t : t - c->flat) / DC_MS;
  ms = ms < LONGEST_MS ? ms : LONGEST_MS;
  uint64_t off = ms * ms * ms / 1000 * C_10 * UNIT / 10 / 1000000;
  return !before ? c->top + off : off < c->top ? c->top - off : 0;
}

void dc_credits_got(struct dc_credits *c, dc_time now, uint64_t order, uint64_t next, dc_time rtt, bool more)
{
  if (!c->adaptive)
    return;
  c->srtt = c->srtt == 0 ? rtt : (7 * c->srtt + rtt) / 8;
  if (more)
    c->hungry = next;
  if (c->w >= c->given && (order >= c->hungry || ONLY_GIVEN)) { /* it does not use them: fewer would do, and queue less */
    c->epoch = 0;
    if (order >= c->hungry + 2 * c->w)
      c->doubling = false;
    if (c->w > c->given)
      set(c, c->fine - UNIT / 8);
    return;
  }
  if (c->doubling) {
    set(c, c->fine + UNIT);
    return;
  }
  if (c->epoch == 0) {
    c->epoch = now;
    c->top = c->top < c->fine ? c->fine : c->top;
    c->flat = now + cube_root((c->top - c->fine) * 10 / C_10 * 1000000 / UNIT * 1000) * DC_MS;
    c->reno = c->fine;
  }
  c->reno += (uint64_t)UNIT * UNIT * RENO_17 / 17 / c->fine;
  uint64_t goal = cubic(c, now + c->srtt);
  goal = goal < c->reno ? c->reno : goal;
  goal = goal > c->fine * 3 / 2 ? c->fine * 3 / 2 : goal;
  if (goal > c->fine)
    set(c, c->fine + (goal - c->fine) * UNIT / c->fine);
}

void dc_credits_lost(struct dc_credits *c, uint64_t order, uint64_t next)
{
  if (!c->adaptive || order < c->told)
    return;
  c->told = next;
  c->top = c->fine < c->top ? c->fine * (10 + BETA_10) / 20 : c->fine; /* others have come: leave them room */
  c->doubling = false;
  c->epoch = 0;
  set(c, c->fine * BETA_10 / 10);
}
