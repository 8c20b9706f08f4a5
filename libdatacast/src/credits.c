#include "credits.h"

#include "datacast/limits.h"

/* Packets that may wait on the way: fewer, and the window grows; more, and it shrinks. An eighth of the window may wait for
 * other traffic: on a busy link every interest and every packet does. */
static uint64_t few(uint32_t w) { return 12 + w / 8; }
static uint64_t many(uint32_t w) { return 14 + w / 8; }

/* So many samples in a row that show too many end the doubling at once (as HyStart does), within the round. */
enum { LATE = 8 };

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
  c->late = 0;
}

static void set(struct dc_credits *c, uint64_t w)
{
  c->goal = w < c->least ? c->least : w > DC_CREDITS_MAX ? DC_CREDITS_MAX : (uint32_t)w;
}

static uint64_t queued(const struct dc_credits *c, dc_time rtt)
{
  return rtt <= c->shortest ? 0 : (uint64_t)c->w * (rtt - c->shortest) / rtt;
}

static void end_round(struct dc_credits *c)
{
  uint64_t waiting = queued(c, c->fastest);
  if (waiting < few(c->w)) {
    if (!c->cut)
      set(c, c->doubling ? 2 * (uint64_t)c->w : c->w + 1u + c->w / 8);
    return;
  }
  c->doubling = false;
  if (waiting > many(c->w))
    set(c, c->w - (waiting - many(c->w)));
}

void dc_credits_sample(struct dc_credits *c, uint64_t order, uint64_t next, dc_time rtt)
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
  end_round(c);
  c->fastest = DC_NEVER;
  c->cut = false;
  c->round = next;
}

/* Only a loss with a queue is a sign of congestion. */
void dc_credits_lost(struct dc_credits *c)
{
  if (!c->adaptive || c->cut || c->fastest == DC_NEVER || queued(c, c->fastest) < many(c->w))
    return;
  c->cut = true;
  c->doubling = false;
  set(c, (uint64_t)c->w * 3 / 4);
  c->w = c->goal;
}
