/* Holds the slowest receiver at a steady place in the caches (docs/decisions/congestion-control.md).
 *
 * The interests that nodes send on say how far their slowest child is from falling out of the content store (lag, 0..255 of
 * its depth D). Between two such reports the source has sent `sent` new packets and the lag has changed by `lag`, so the
 * slowest receiver has taken sent - lag * D / 255 of them: its rate is measured, not searched for. The source then sends
 *
 *     r = R * (1 + k * (target - lag) / 255)
 *
 * which keeps the slowest receiver always busy and always inside the caches. Where there is no lag at all the rate is
 * unknown but higher, and the source probes: by doubling in the beginning, then faster and faster after the last report.
 *
 * Duplicates remain as the signal of the cases where this is not enough:
 *   eviction  (asked for once, so it fell out of the caches): the distance beyond the caches costs one duplicate per packet
 *             and R / (R - r) of them, so r goes far below R until there is no further one, then straight back to R.
 *             The duplicates' spacing is the slowest receiver's rate. The gain k is halved: the loop was too slow.
 *   loss      (asked for again): the way to the caches is congested; as TCP does, r falls, and comes back to where it was. */
#include "datacast/cc.h"

enum mode { START, HOLD, RECOVER };

enum {
  TARGET = 140,     /* of 255 */
  GAIN = 32,        /* k in 64ths */
  GAIN_MIN = 8,
  SPAN = 6,         /* packets, and a fourth of the depth, between the two reports of a measurement */
  DEAD = 8,         /* who takes less than that part of what is sent, all of a sudden, is not slow */
  STALE = 2,        /* reports after a change of rate that still tell of the time before it */
  CALM = 32,        /* rounds without an eviction that let the gain grow again */
  RUN = 4,          /* duplicates in a row that tell a rate, */
  LONG_RUN = 32,    /* and that it may be higher than was thought */
  PATIENCE = 4,     /* packets of the slowest receiver without a duplicate that end a recovery */
  FIRST_ROUND = 16, /* T: no round is known yet */
  LONG = 4,         /* rounds can seem long when w has become smaller: at most so many times the shortest one */
  REPORTS = 4,      /* of lags that a round needs at least */
  COURTESY = 64     /* rounds of additive increase after a loss */
};

/* A round ends when interests come in that answer what was sent after it began: about a round trip. A receiver asks for
 * number n + w when it gets n, and w is the longest queue of interests that was seen lately. */

struct state {
  struct dc_cc_params p;
  uint64_t rate, base; /* r, and R as far as known */
  uint64_t actual;     /* what is really sent, smoothed */
  dc_time tick;
  dc_time since, last_dup, last, cut; /* begin of a recovery; last duplicate, interest, answer to a loss */
  dc_time gap;         /* longest pause between two duplicates of this recovery */
  dc_time from, begun; /* the measurement's begin, the round's */
  dc_time shortest;    /* round lately */
  uint64_t least, ceiling; /* of R in this recovery; r when a loss was told */
  uint32_t from_sent, tick_sent, sent;
  uint32_t run, dup_seq;   /* duplicates with numbers in a row; the last one */
  uint32_t asked, window;   /* one past the newest number asked for; w */
  uint32_t round, settled;  /* `asked` at the end of this round; and when lags again belong to the present rate */
  dc_time changed;          /* that rate is in force since, */
  uint32_t changed_sent;    /* and after so many packets */
  uint32_t depth;
  uint8_t mode, lag, from_lag, gain, step, courtesy;
  bool lagged;         /* some lag was seen in this round */
  uint8_t reports;     /* of lags in this round, at least so many */
  bool starved;        /* the queue of interests was empty in this round */
  uint8_t calm;        /* rounds without an eviction */
};

_Static_assert(sizeof(struct state) <= DC_CC_STATE, "state of cc=steady");

static uint64_t clamp(const struct state *s, uint64_t rate)
{
  return rate < s->p.rate_min ? s->p.rate_min : rate > s->p.rate_max ? s->p.rate_max : rate;
}

static uint64_t bits(const struct state *s, uint64_t packets) { return packets * s->p.packet_bytes * 8; }

/* bit/s of so many bits in so long, without overflow for up to 2^33 bits. */
static uint64_t per_second(uint64_t b, dc_time dt) { return dt == 0 ? UINT64_MAX : b * DC_SEC / dt; }

static void start(void *state, dc_time now, const struct dc_cc_params *p)
{
  struct state *s = state;
  *s = (struct state){.p = *p, .tick = now, .begun = now, .shortest = FIRST_ROUND * p->interval, .gain = GAIN, .step = 1, .depth = 1};
  s->rate = s->base = s->actual = clamp(s, p->rate_init);
}

static uint32_t round_end(const struct state *s) { return s->sent + s->window; }

static void measure_from(struct state *s, dc_time now)
{
  s->from = now;
  s->from_sent = s->sent;
  s->from_lag = s->lag;
}

static void follow(struct state *s)
{
  if (s->mode == START) {
    s->rate = s->base;
    return;
  }
  int64_t off = ((int64_t)TARGET - s->lag) * s->gain; /* of 64 * 255 */
  int64_t add = (int64_t)(s->base / (64 * 255)) * off;
  s->rate = clamp(s, (uint64_t)((int64_t)s->base + add));
}

/* The slowest receiver's rate from two reports of its lag, far enough apart, and both of the present rate. */
static void measure(struct state *s, dc_time now)
{
  uint32_t sent = s->sent - s->from_sent;
  bool settled = (s->asked >= s->settled && s->sent - s->changed_sent >= STALE) || now - s->changed > LONG * s->shortest;
  if (s->lag == 0 || s->from_lag == 0 || s->from_lag == 255 || sent > 4096 || !settled) {
    measure_from(s, now);
    return;
  }
  /* In 255ths of a packet, as the lag is told. */
  int64_t fell = ((int64_t)s->lag - s->from_lag) * s->depth;
  uint64_t moved = sent + (uint64_t)(fell < 0 ? -fell : fell) / 255;
  if (moved < SPAN || moved < s->depth / 4 || now == s->from)
    return;
  int64_t taken = (int64_t)sent * 255 - fell;
  if (s->mode == HOLD && taken < (int64_t)sent * 255 / DEAD) { /* it stands still: gone, most likely, and soon forgotten */
    measure_from(s, now);
    return;
  }
  uint64_t r = taken <= 0 ? 0 : per_second(bits(s, (uint64_t)taken) / 255, now - s->from);
  if (r < s->base / 8)
    r = s->base / 8;
  r = clamp(s, r);
  if (s->lag == 255 && r > s->base)
    r = s->base; /* it fell by more than can be told */
  /* The fewer packets, the less sure. */
  uint64_t weight = s->mode == START ? 64 : moved < 16 ? moved : 16;
  s->base = r > s->base ? s->base + (r - s->base) / 64 * weight : s->base - (s->base - r) / 64 * weight;
  if (s->mode == START)
    s->mode = HOLD;
  s->step = 1;
  s->settled = round_end(s);
  s->changed = now;
  s->changed_sent = s->sent;
  measure_from(s, now);
}

static void evicted(struct state *s, dc_time now, uint32_t seq)
{
  if (s->mode != RECOVER) {
    if (s->mode == START)
      s->base = clamp(s, s->base / 2);
    else
      s->gain = s->gain / 2 < GAIN_MIN ? GAIN_MIN : s->gain / 2;
    s->mode = RECOVER;
    s->least = s->base / 8;
    s->run = 0;
    s->calm = 0;
    s->gap = 0;
  } else if (now - s->last_dup > s->gap) {
    s->gap = now - s->last_dup;
  }
  /* One receiver that asks for number after number shows its own rate. */
  if (s->run == 0 || seq != s->dup_seq + 1) {
    s->since = now;
    s->run = 1;
  } else if (++s->run > RUN) {
    uint64_t r = clamp(s, per_second(bits(s, s->run - 1u), now - s->since));
    if (r < s->base)
      s->base = r > s->least ? r : s->least;
    else if (s->run >= LONG_RUN)
      s->base = r;
    s->run = s->run > 1024 ? 0 : s->run;
  }
  s->dup_seq = seq;
  s->last_dup = now;
  s->rate = clamp(s, s->base / 8);
}

/* As Cubic does: a little lower, quickly back to where it was lost, then slowly on. */
static void lost(struct state *s, dc_time now)
{
  if (s->mode == RECOVER || (s->cut != 0 && (now - s->cut < s->p.interval || now - s->cut < s->shortest)))
    return;
  s->cut = now;
  s->ceiling = s->actual < s->base ? s->actual : s->base;
  s->courtesy = COURTESY;
  s->base = clamp(s, s->ceiling / 10 * 8);
  if (s->mode == START) { /* without a lag, r is above R from now on */
    s->base = clamp(s, s->base / 10 * 8);
    s->mode = HOLD;
  }
  follow(s);
}

static void recovered(struct state *s, dc_time now)
{
  dc_time packet = bits(s, 1) * DC_SEC / s->base;
  dc_time patience = PATIENCE * packet > 2 * s->gap ? PATIENCE * packet : 2 * s->gap;
  bool stale = now - s->last > patience && now - s->last > PATIENCE * s->p.interval; /* the last report of a lag */
  if (now - s->last_dup < patience || (s->lag > TARGET && !stale))
    return;
  s->mode = HOLD;
  s->settled = s->round = round_end(s);
  s->changed = now;
  s->changed_sent = s->sent;
  measure_from(s, now);
  follow(s);
}

static void interest(void *state, dc_time now, const struct dc_cc_event *e)
{
  struct state *s = state;
  s->sent = e->next_seq;
  s->last = now;
  if (e->duplicate) {
    if (e->retx)
      lost(s, now);
    else
      evicted(s, now, e->seq);
    return;
  }
  if (e->seq >= s->asked)
    s->asked = e->seq + 1;
  if (e->queued > s->window)
    s->window = e->queued;
  s->starved |= e->queued <= 1;
  s->depth = e->depth;
  s->lag = e->lag;
  s->lagged |= e->lag > 0;
  if (s->reports < REPORTS)
    s->reports++;
  measure(s, now);
  if (s->mode == RECOVER)
    recovered(s, now);
  else
    follow(s);
}

/* Probe for more where the slowest receiver shows no lag. */
static void grow(struct state *s)
{
  uint64_t add = s->p.delta;
  if (s->mode == START) {
    add = s->base;
  } else if (s->courtesy > 0) {
    s->courtesy--;
    uint64_t back = s->base < s->ceiling ? (s->ceiling - s->base) / 8 : s->base / 16;
    if (back > add)
      add = back;
  } else {
    add = s->base / 32 * s->step;
    if (s->step < 32)
      s->step = (uint8_t)(2 * s->step);
  }
  /* With too few interests to use the rate, it says nothing of the receivers, and must not run away. */
  uint64_t most = s->starved && s->mode != START ? 4 * s->actual : s->p.rate_max;
  if (s->base < most)
    s->base = clamp(s, s->base + add < most ? s->base + add : most);
}

static void end_round(struct state *s, dc_time now)
{
  uint32_t sent = s->sent - s->tick_sent;
  if (sent < 65536)
    s->actual = (s->actual + per_second(bits(s, sent), now - s->begun)) / 2;
  s->tick_sent = s->sent;
  if (now - s->begun < s->shortest)
    s->shortest = now - s->begun;
  else
    s->shortest += s->shortest / 64;
  s->begun = now;
  if (++s->calm >= CALM && s->gain < GAIN) {
    s->gain++;
    s->calm = 0;
  }
  if (!s->lagged)
    grow(s);
  s->lagged = s->starved = false;
  s->reports = 0;
  s->window -= s->window / 32;
  s->round = round_end(s);
  follow(s);
}

static void tick(void *state, dc_time now)
{
  struct state *s = state;
  if (now < s->tick + s->p.interval)
    return;
  uint64_t n = (now - s->tick) / s->p.interval;
  s->tick += n * s->p.interval;
  if (s->mode == RECOVER)
    recovered(s, now);
  else if (s->reports >= REPORTS && (s->asked >= s->round || now - s->begun > LONG * s->shortest))
    end_round(s, now);
}

static dc_time next_tick(const void *state)
{
  const struct state *s = state;
  return s->tick + s->p.interval;
}

static uint64_t rate(const void *state) { return ((const struct state *)state)->rate; }

const struct dc_cc_ops dc_cc_steady = {
    .name = "steady", .init = start, .interest = interest, .tick = tick, .next_tick = next_tick, .rate = rate};
