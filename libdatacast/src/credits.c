#include "credits.h"

#include "datacast/limits.h"

/* Packets that may wait on the way: fewer, and the window grows; more, and it shrinks. A fourth of the window may wait for other
 * traffic: on a busy link every interest and every packet does. */
static uint64_t few(uint32_t w) { return 10 + w / 4; }
static uint64_t many(uint32_t w) { return 14 + w / 4; }

/* So many samples in a row that show too many end the doubling at once (as HyStart does), within the round. */
enum { LATE = 8 };
/* After so many rounds with a queue, a quarter more is tried for two rounds: one to get there, one to measure. Trials that
 * failed make the next one rarer. Where nearly all credits wait, they wait in a queue for sure, perhaps in one with others, of
 * whom more credits would only take more: nothing is tried there. */
enum { HELD = 8, HELD_MAX = 4096, TRIAL = 2 };

void dc_credits_init(struct dc_credits *c, uint32_t least, bool adaptive)
{
  *c = (struct dc_credits){.adaptive = adaptive, .least = least, .w = least, .goal = least};
  dc_credits_restart(c);
}

void dc_credits_restart(struct dc_credits *c)
{
  c->shortest = c->fastest = DC_NEVER;
  c->doubling = true;
  c->cut = false;
  c->trying = 0;
  c->held = c->late = 0;
  c->next = HELD;
}

static void set(struct dc_credits *c, uint64_t w)
{
  c->goal = w < c->least ? c->least : w > DC_CREDITS_MAX ? DC_CREDITS_MAX : (uint32_t)w;
}

static uint64_t queued(const struct dc_credits *c, dc_time rtt)
{
  return rtt <= c->shortest ? 0 : (uint64_t)c->w * (rtt - c->shortest) / rtt;
}

/* The trial is over: did a quarter more credits bring an eighth more data? */
static void judge(struct dc_credits *c)
{
  if (c->pace > c->pace_before + c->pace_before / 8) {
    c->shortest = c->fastest;
    c->doubling = true;
    c->next = HELD;
  } else {
    set(c, c->before);
    c->next = c->next < HELD_MAX ? 2 * c->next : HELD_MAX;
  }
  c->held = 0;
}

static void end_round(struct dc_credits *c)
{
  uint64_t waiting = queued(c, c->fastest);
  if (c->trying > 0) {
    if (--c->trying == 0)
      judge(c);
    return;
  }
  if (waiting < few(c->w)) {
    c->held = 0;
    if (!c->cut)
      set(c, c->doubling ? 2 * (uint64_t)c->w : c->w + 1u + c->w / 8);
    return;
  }
  c->doubling = false;
  if (waiting > many(c->w))
    set(c, c->w - (waiting - many(c->w)));
  if (++c->held >= c->next && waiting < c->w / 5 * 4u) {
    c->trying = TRIAL;
    c->before = c->w;
    c->pace_before = c->pace;
    set(c, c->w + c->w / 4 + 1u);
  }
}

void dc_credits_sample(struct dc_credits *c, dc_time now, uint64_t order, uint64_t next, dc_time rtt)
{
  if (!c->adaptive)
    return;
  if (rtt == 0)
    rtt = 1;
  if (rtt < c->shortest)
    c->shortest = rtt;
  if (rtt < c->fastest)
    c->fastest = rtt;
  c->late = queued(c, rtt) > many(c->w) + c->w / 8 ? c->late + 1 : 0;
  if (c->doubling && c->late >= LATE) {
    c->doubling = false;
    set(c, c->w);
  }
  if (order < c->round)
    return;
  c->pace = now > c->begin ? c->got * (DC_SEC << 8) / (now - c->begin) : 0;
  end_round(c);
  c->fastest = DC_NEVER;
  c->cut = false;
  c->begin = now;
  c->got = 0;
  c->round = next;
}

/* Only a loss with a queue is a sign of congestion. */
void dc_credits_lost(struct dc_credits *c)
{
  if (!c->adaptive || c->cut || c->fastest == DC_NEVER || queued(c, c->fastest) < many(c->w))
    return;
  c->cut = true;
  c->doubling = false;
  c->trying = 0;
  set(c, (uint64_t)c->w * 3 / 4);
  c->w = c->goal;
}
