#include "credits.h"

#include "datacast/limits.h"

/* Packets that may wait on the way: fewer, and the window grows; more, and it shrinks. An eighth of the window may wait
 * for other traffic, for on a busy link every interest and every packet does; but no more than queues can hold. */
enum { FEW = 4, MANY = 6, OTHERS_MAX = 32 };

static uint64_t others(uint32_t w) { return w / 8 < OTHERS_MAX ? w / 8 : OTHERS_MAX; }
static uint64_t few(uint32_t w) { return FEW + others(w); }
static uint64_t many(uint32_t w) { return MANY + others(w); }

/* So many samples in a row that show too many end the growth for this round, as HyStart does; the doubling goes on when
 * the next round shows that they waited for no more than a burst. */
enum { LATE = 8 };

enum { NEAR = 8 };  /* answers in a row that show that the caches answer again */
enum { PAUSE = 2 }; /* rounds */

void dc_credits_init(struct dc_credits *c, uint32_t least, bool adaptive)
{
  *c = (struct dc_credits){.adaptive = adaptive, .least = least, .w = least};
  c->path[0].goal = c->path[1].goal = least;
  dc_credits_restart(c);
}

void dc_credits_restart(struct dc_credits *c)
{
  for (unsigned i = 0; i < 2; i++) {
    c->path[i].shortest = DC_NEVER;
    c->path[i].doubling = true;
  }
  c->fastest = DC_NEVER;
  c->cut = false;
  c->late = c->pause = c->losses = 0;
}

static void set(struct dc_credits *c, uint64_t w)
{
  c->path[c->far].goal = w < c->least ? c->least : w > DC_CREDITS_MAX ? DC_CREDITS_MAX : (uint32_t)w;
}

static uint64_t queued(const struct dc_credits *c, dc_time rtt)
{
  dc_time shortest = c->path[c->far].shortest;
  return rtt <= shortest ? 0 : (uint64_t)c->w * (rtt - shortest) / rtt;
}

static void begin_round(struct dc_credits *c, uint64_t next)
{
  c->fastest = DC_NEVER;
  c->cut = false;
  c->losses = 0;
  c->round = next;
}

static void end_round(struct dc_credits *c)
{
  uint64_t waiting = queued(c, c->fastest);
  if (c->pause > 0)
    c->pause--;
  if (waiting < few(c->w)) {
    if (!c->cut && c->pause == 0)
      set(c, c->path[c->far].doubling ? 2 * (uint64_t)c->w : c->w + 1u + c->w / 8);
    return;
  }
  c->path[c->far].doubling = false;
  if (waiting > many(c->w))
    set(c, c->w - (waiting - many(c->w)));
}

void dc_credits_sample(struct dc_credits *c, uint64_t order, uint64_t next, dc_time rtt, bool dup)
{
  if (!c->adaptive)
    return;
  if (rtt == 0)
    rtt = 1;
  c->near = dup ? 0 : c->near + 1;
  if (dup != c->far && (dup || c->near >= NEAR)) {
    c->far = dup;
    begin_round(c, next);
  }
  if (dup == c->far && rtt < c->path[c->far].shortest)
    c->path[c->far].shortest = rtt;
  if (dup != c->far)
    return;
  if (rtt < c->fastest)
    c->fastest = rtt;
  c->late = queued(c, rtt) > many(c->w) + others(c->w) ? c->late + 1 : 0;
  if (c->path[c->far].doubling && c->late >= LATE)
    set(c, c->w);
  if (order < c->round)
    return;
  end_round(c);
  begin_round(c, next);
}

/* A loss ends the growth. With a queue it is a sign of congestion; so are many, though the queue may not show: answers
 * from a near cache may have waited and yet be no later than the source's. */
void dc_credits_lost(struct dc_credits *c)
{
  if (!c->adaptive)
    return;
  c->pause = PAUSE;
  c->losses++;
  if (c->cut || c->fastest == DC_NEVER || (queued(c, c->fastest) < many(c->w) && c->losses <= MANY + c->w / 16))
    return;
  c->cut = true;
  c->path[c->far].doubling = false;
  set(c, (uint64_t)c->w * 3 / 4);
  c->w = c->path[c->far].goal;
}
