/* Holds the slowest receiver at a steady place in the caches (docs/decisions/congestion-control.md).
 *
 * The interests that nodes send on say how far their slowest child is from falling out of the content store (lag,
 * 0..255 of its depth D). Between two such reports the front has moved by `asked` packets and the lag has changed by
 * `lag`, so the slowest receiver has taken asked - lag * D / 255 of them: its rate is measured, not searched for. The
 * source then sends
 *
 *     r = R * (1 + k * (target - lag) / 255)
 *
 * which keeps the slowest receiver always busy and always inside the caches. What a report leads to shows a round trip
 * later, when the slowest receiver has taken another N packets: k is D / 2N where N is more than D, or the loop would
 * swing. Where there is no lag at all the rate is unknown but higher, and the source probes: by doubling in the
 * beginning, then faster and faster after the last report, but by no more per round than the caches can show before
 * they overflow.
 *
 * Duplicates remain as the signal of the cases where this is not enough:
 *   eviction  (asked for once, so it fell out of the caches): the distance beyond the caches costs one duplicate per
 *             packet and R / (R - r) of them, so r goes far below R until the distance is one that the caches cover
 *             once a round trip is full again, then straight back to R. The duplicates' spacing is the slowest
 *             receiver's rate.
 *   loss      (asked for again): the way to the caches is congested; as TCP does, r falls, and comes back to where it
 *             was. */
#include "cable.h"

enum mode { FREE, HOLD, RECOVER };

enum {
  TARGET = 140,     /* of 255 of what the store holds beyond a receiver's credits, */
  TARGET_MIN = 32,  /* but not less of all */
  GAIN = 32,        /* k in 64ths */
  GAIN_MIN = 8,
  SPAN = 6,         /* packets, and a fourth of the depth, between the two reports of a measurement */
  CALM = 32,        /* rounds without an eviction that let the gain grow again */
  WAITING = 32,     /* packets more that wait for tokens are no noise */
  RUN = 4,          /* duplicates in a row that tell a rate, */
  LONG_RUN = 32,    /* and that it may be higher than was thought */
  PATIENCE = 4,     /* packets of the slowest receiver without a duplicate that end a recovery */
  SLACK = 40,       /* packets a receiver can fall back by before any lag shows: its credits beyond the path's own */
  QUIET = 8,        /* rounds without a lag that double the probing where the caches are small */
  PIPE = 2          /* fourths of a round trip that lie between the source and the caches, at first */
};

struct state {
  struct dc_cable cable;
  uint64_t base;       /* R as far as known */
  uint64_t high;       /* rate that caused no lag, as far as that is still to be trusted */
  dc_time since, last_dup, last; /* begin of a run; last duplicate, interest */
  dc_time tick;        /* when to look again at a recovery */
  dc_time gap;         /* longest pause between two duplicates of this recovery */
  dc_time far;         /* last duplicate of this recovery from beyond what the caches cover */
  dc_time from;        /* the measurement's begin */
  dc_time settled;     /* duplicates until then are still of the recovery before */
  uint64_t least;      /* of R in this recovery */
  uint32_t limit;      /* where this recovery ends at the latest: packets behind */
  uint32_t from_asked, from_sent, sent, run, dup_seq; /* duplicates with numbers in a row; the last one */
  uint32_t asked;      /* one past the newest number asked for */
  uint32_t depth;
  uint16_t quiet;      /* rounds without a lag */
  uint8_t mode, lag, from_lag, gain, step, pipe;
  bool lagged;         /* some lag was seen in this round */
  bool blind;          /* no rate was measured before this recovery */
  bool known;          /* R was measured */
  uint8_t calm;        /* rounds without an eviction */
};

_Static_assert(sizeof(struct state) <= DC_CC_STATE, "state of cc=steady");

static uint64_t clamp(const struct state *s, uint64_t rate)
{
  return rate < s->cable.p.rate_min ? s->cable.p.rate_min : rate > s->cable.p.rate_max ? s->cable.p.rate_max : rate;
}

static uint64_t bits(const struct state *s, uint64_t packets) { return packets * s->cable.p.packet_bytes * 8; }

/* bit/s of so many bits in so long, without overflow for up to 2^33 bits. */
static uint64_t per_second(uint64_t b, dc_time dt) { return dt == 0 ? UINT64_MAX : b * DC_SEC / dt; }

/* Packets that the slowest receiver takes in a round trip. */
static uint64_t pipe(const struct state *s)
{
  uint64_t b = s->base / 1000 * (s->cable.trip / DC_US) / 1000; /* bits, for rates below 2^42 and some hours */
  return b / (8 * (uint64_t)s->cable.p.packet_bytes);
}

static void start(void *state, dc_time now, const struct dc_cc_params *p)
{
  (void)now;
  struct state *s = state;
  *s = (struct state){.base = p->rate_max, .gain = GAIN, .step = 1, .depth = 1, .pipe = PIPE};
  dc_cable_init(&s->cable, p);
}

static void measure_from(struct state *s, dc_time now)
{
  s->from = now;
  s->from_asked = s->asked;
  s->from_sent = s->sent;
  s->from_lag = s->lag;
}

/* The lag to hold. It is counted from the newest number that a receiver asked for: what it asks for again, because it was
 * lost, lies up to its credits further back. */
static uint8_t target(const struct state *s)
{
  uint32_t room = s->depth > s->cable.p.credits ? (s->depth - s->cable.p.credits) * TARGET / s->depth : TARGET;
  return (uint8_t)(room < TARGET_MIN ? TARGET_MIN : room);
}

/* The rate that the caches allow. */
static uint64_t allowed(const struct state *s)
{
  if (s->mode == FREE)
    return s->cable.p.rate_max;
  if (s->mode == RECOVER)
    return clamp(s, s->base / 8);
  uint64_t k = 64u * s->gain, n = pipe(s); /* k in 4096ths */
  if (n > s->depth && k > 2048 * (uint64_t)s->depth / n)
    k = 2048 * (uint64_t)s->depth / n;
  int64_t off = ((int64_t)target(s) - s->lag) * (int64_t)k; /* of 4096 * 255 */
  return clamp(s, (uint64_t)((int64_t)s->base + (int64_t)(s->base / (4096 * 255)) * off));
}

static uint64_t rate(const void *state)
{
  const struct state *s = state;
  uint64_t a = allowed(s), b = dc_cable_rate(&s->cable);
  return a < b ? a : b;
}

/* The slowest receiver's rate from two reports of its lag, far enough apart. */
static void measure(struct state *s, dc_time now)
{
  uint32_t front = s->asked - s->from_asked, sent = s->sent - s->from_sent;
  if (front > sent + WAITING && front > sent + sent / 4)
    front = sent; /* credits grow: what waits here could not be taken */
  if (s->lag == 0 || s->from_lag == 0 || s->from_lag == 255 || front > (1u << 20)) {
    measure_from(s, now);
    return;
  }
  /* In 255ths of a packet, as the lag is told. */
  int64_t fell = ((int64_t)s->lag - s->from_lag) * s->depth;
  uint64_t moved = front + (uint64_t)(fell < 0 ? -fell : fell) / 255;
  if (moved < SPAN || moved < s->depth / 4 || now == s->from)
    return;
  if (s->known && s->depth < pipe(s) && now - s->from < s->cable.trip / 4 && s->lag < 255)
    return; /* where the caches are small the rate must be known well */
  int64_t taken = (int64_t)front * 255 - fell;
  if (s->known && taken < 255 + (int64_t)s->depth) { /* it stands still: gone, most likely, and soon forgotten */
    if (front > s->depth)
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
  uint64_t weight = !s->known ? 64 : moved < 16 ? moved : 16;
  s->base = r > s->base ? s->base + (r - s->base) / 64 * weight : s->base - (s->base - r) / 64 * weight;
  s->known = true;
  s->step = 1;
  s->quiet = 0;
  measure_from(s, now);
}

static void hold(struct state *s, dc_time now)
{
  s->mode = HOLD;
  s->settled = now + s->cable.trip + s->cable.trip / 4;
  s->quiet = 0;
  measure_from(s, now);
}

/* Packets between the source's newest one and the slowest receiver's requests, when they reach the source, that the
 * caches cover once a round trip is full again. */
static uint64_t covered(const struct state *s) { return (uint64_t)s->depth * target(s) / 255 + pipe(s) * s->pipe / 4; }

static void evicted(struct state *s, dc_time now, const struct dc_cc_event *e)
{
  bool next = s->run > 0 && e->seq == s->dup_seq + 1;
  if (s->mode != RECOVER && now >= s->settled) {
    if (s->mode == FREE)
      s->base = clamp(s, rate(s) / 2);
    else
      s->gain = s->gain / 2 < GAIN_MIN ? GAIN_MIN : s->gain / 2;
    if (s->settled != 0 && now - s->settled < s->cable.trip)
      s->pipe /= 2; /* the last recovery ended too early */
    s->blind = !s->known;
    /* The first one lies where the caches end: back by what lies between there and the target. */
    s->limit = s->blind || s->pipe != PIPE ? 0 : e->behind - (uint32_t)((uint64_t)s->depth * (255u - target(s)) / 255);
    s->limit = s->limit > e->behind ? 0 : s->limit;
    s->mode = RECOVER;
    s->tick = now + s->cable.p.interval;
    s->least = s->base / 8;
    s->far = 0;
    s->calm = 0;
    s->gap = 0;
  } else if (now - s->last_dup > s->gap) {
    s->gap = now - s->last_dup;
  }
  /* One receiver that asks for number after number shows its own rate. */
  if (!next) {
    s->since = now;
    s->run = 1;
  } else if (++s->run > RUN) {
    /* Its credits may have to grow first: a rate that was measured already stands for two round trips. */
    bool sure = now - s->since > 2 * s->cable.trip;
    uint64_t r = clamp(s, per_second(bits(s, s->run - 1u), now - s->since));
    if (r < s->base && (s->blind || sure))
      s->base = r > s->least ? r : s->least;
    else if (r > s->base && s->run >= LONG_RUN && sure)
      s->base = r;
    if (sure && s->run > LONG_RUN)
      s->run = 0;
  }
  s->dup_seq = e->seq;
  s->last_dup = now;
  if (s->mode != RECOVER)
    return;
  if (e->behind > covered(s) && e->behind > s->limit) {
    if (!next)
      s->far = now;
  } else if (s->far == 0 || (next && s->run > RUN) || now - s->far > s->cable.trip / 2) {
    hold(s, now);
  }
}

static void recovered(struct state *s, dc_time now)
{
  dc_time packet = bits(s, 1) * DC_SEC / s->base;
  dc_time patience = PATIENCE * packet > 2 * s->gap ? PATIENCE * packet : 2 * s->gap;
  dc_time report = 2 * bits(s, 1) * DC_SEC / rate(s);
  bool stale = now - s->last > patience && now - s->last > report && now - s->last > PATIENCE * s->cable.p.interval;
  uint64_t behind = (uint64_t)s->lag * s->depth / 255 + pipe(s) / 8;
  if (now - s->last_dup >= patience && (stale || s->lag <= target(s) || (s->lag < 255 && behind <= covered(s))))
    hold(s, now);
}

/* bit/s that a round may add: what the caches can show, within a round, before they overflow. */
static uint64_t gentle(const struct state *s)
{
  unsigned doubled = s->quiet / QUIET < 12 ? s->quiet / QUIET : 12;
  return per_second(bits(s, ((uint64_t)s->depth * s->depth / (8 * SLACK) + 1) << doubled), s->cable.trip);
}

/* A round without a lag: probe for more. */
static void grow(struct state *s)
{
  uint64_t most = gentle(s), add = s->base / 32 * s->step < most ? s->base / 32 * s->step : most;
  if (s->base < s->high && s->depth >= pipe(s)) { /* who was slow for a moment is not any more, perhaps */
    if ((s->high - s->base) / 2 > add)
      add = (s->high - s->base) / 2;
    s->high -= (s->high - s->base) / 4;
  }
  if (s->step < 32)
    s->step = (uint8_t)(2 * s->step);
  s->base = clamp(s, s->base + add);
  if (s->base == s->cable.p.rate_max)
    s->mode = FREE;
}

static void end_round(struct state *s)
{
  if (++s->calm >= CALM && s->gain < GAIN) {
    s->gain++;
    s->calm = 0;
  }
  if (!s->lagged && s->mode == HOLD && s->cable.used) { /* else it says nothing of the receivers */
    uint64_t used = rate(s);
    if (used > s->high)
      s->high = used;
    if (s->quiet < UINT16_MAX)
      s->quiet++;
    grow(s);
  }
  s->lagged = false;
}

/* R is below what was sent: until it is measured, the last doubling was one too many. */
static void seek(struct state *s, dc_time now, uint64_t most)
{
  s->base = clamp(s, most);
  s->mode = HOLD;
  measure_from(s, now);
}

static void interest(void *state, dc_time now, const struct dc_cc_event *e)
{
  struct state *s = state;
  s->last = now;
  if (e->duplicate) {
    if (e->retx) {
      if (s->mode == FREE && s->cable.starting)
        seek(s, now, rate(s) / 2);
      dc_cable_lost(&s->cable, now, e->seq, e->next_seq);
    } else
      evicted(s, now, e);
    return;
  }
  if (e->seq >= s->asked)
    s->asked = e->seq + 1;
  s->sent = e->next_seq;
  s->depth = e->depth;
  s->lag = e->lag;
  s->lagged |= e->lag > 0;
  s->cable.busy |= e->queued > 1;
  if (s->mode == FREE && e->lag > 0)
    seek(s, now, s->known ? rate(s) : rate(s) / 2);
  measure(s, now);
  if (s->mode == RECOVER)
    recovered(s, now);
  if (e->rtt != 0 && dc_cable_trip(&s->cable, now, e->rtt, e->next_seq))
    end_round(s);
}

static void tick(void *state, dc_time now)
{
  struct state *s = state;
  dc_cable_tick(&s->cable, now);
  if (now < s->tick)
    return;
  s->tick = now + s->cable.p.interval;
  if (s->mode == RECOVER)
    recovered(s, now);
}

static dc_time next_tick(const void *state)
{
  const struct state *s = state;
  dc_time look = s->mode == RECOVER ? s->tick : DC_NEVER;
  return s->cable.paused && s->cable.until < look ? s->cable.until : look;
}

static uint64_t repairs(const void *state) { return dc_cable_rate(&((const struct state *)state)->cable); }

const struct dc_cc_ops dc_cc_steady = {
    .name = "steady", .init = start, .interest = interest, .tick = tick, .next_tick = next_tick, .rate = rate,
    .repairs = repairs};
