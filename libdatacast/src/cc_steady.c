/* Two limits, of which the lower one holds (docs/decisions/congestion-control.md): this tree's share of the cables
 * (cable.c), and what the slowest receiver takes, which is here.
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
 * swing.
 *
 *   state   | lag                 | round without a lag        | eviction   | no eviction for a while
 *   FREE    | hold: R is measured |                            | recover    |
 *   HOLD    | r follows           | R grows; at the most: free | recover    |
 *   RECOVER |                     |                            | r = R / 8  | hold
 *
 * An eviction (a duplicate that is asked for once) costs one duplicate per packet beyond the caches and R / (R - r) of
 * them, so r goes far below R until the caches cover the distance. */
#include "cable.h"

enum mode { FREE, HOLD, RECOVER };

enum {
  TARGET = 140,    /* of 255 of what the store holds beyond a receiver's credits, */
  TARGET_MIN = 32, /* but not less of all */
  SPAN = 6,        /* packets, and a fourth of the depth, between the two reports of a measurement */
  RUN = 4,         /* duplicates in a row that tell a rate */
  PATIENCE = 4,    /* packets of the slowest receiver without a duplicate that end a recovery */
  PIPE = 2,        /* fourths of a round trip that lie between the source and the caches, at first */
  SLACK = 40       /* packets a receiver can fall back by before any lag shows: its credits beyond the path's own */
};

struct state {
  struct dc_cable cable;
  uint64_t base;          /* R as far as known */
  uint64_t high;          /* rate that caused no lag, as far as that is still to be trusted */
  dc_time since, dup;     /* begin of a run of duplicates; the last one */
  dc_time from, settled;  /* the measurement's begin; duplicates until then are still of the recovery before */
  dc_time tick;           /* when to look again at a recovery */
  uint32_t from_asked, asked; /* one past the newest number asked for */
  uint32_t run, dup_seq;  /* duplicates with numbers in a row; the last one */
  uint32_t depth;
  uint8_t mode, lag, from_lag, pipe;
  bool lagged;            /* some lag was seen in this round */
  bool known;             /* R was measured */
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
  *s = (struct state){.base = p->rate_max, .depth = 1, .pipe = PIPE};
  dc_cable_init(&s->cable, p);
}

static void measure_from(struct state *s, dc_time now)
{
  s->from = now;
  s->from_asked = s->asked;
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
  uint64_t k = 2048, n = pipe(s); /* in 4096ths */
  if (n > s->depth)
    k = k * s->depth / n;
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
  uint32_t front = s->asked - s->from_asked;

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
  r = clamp(s, r < s->base / 8 ? s->base / 8 : r);
  if (s->lag == 255 && r > s->base)
    r = s->base; /* it fell by more than can be told */
  /* The fewer packets, the less sure. */
  uint64_t weight = !s->known ? 64 : moved < 16 ? moved : 16;
  s->base = r > s->base ? s->base + (r - s->base) / 64 * weight : s->base - (s->base - r) / 64 * weight;
  s->known = true;
  measure_from(s, now);
}

static void hold(struct state *s, dc_time now)
{
  s->mode = HOLD;
  s->settled = now + s->cable.trip + s->cable.trip / 4;
  measure_from(s, now);
}

/* Packets between the source's newest one and the slowest receiver's requests, when they reach the source, that the
 * caches cover once a round trip is full again. */
static uint64_t covered(const struct state *s) { return (uint64_t)s->depth * target(s) / 255 + pipe(s) * s->pipe / 4; }

static void evicted(struct state *s, dc_time now, const struct dc_cc_event *e)
{
  if (s->mode != RECOVER && now >= s->settled) {
    if (s->mode == FREE)
      s->base = clamp(s, rate(s) / 2);
    if (s->settled != 0 && now - s->settled < s->cable.trip)
      s->pipe /= 2; /* the last recovery ended too early */
    s->mode = RECOVER;
    s->tick = now + s->cable.p.interval;
  }
  /* One receiver that asks for number after number shows its own rate; its credits may have to grow first. */
  if (s->run == 0 || e->seq != s->dup_seq + 1) {
    s->since = now;
    s->run = 1;
  } else if (++s->run > RUN) {
    bool sure = now - s->since > 2 * s->cable.trip;
    uint64_t r = clamp(s, per_second(bits(s, s->run - 1u), now - s->since));
    if (r < s->base && (sure || !s->known))
      s->base = r;
  }
  s->dup_seq = e->seq;
  s->dup = now;
  if (s->mode == RECOVER && e->behind <= covered(s))
    hold(s, now);
}

static void recovered(struct state *s, dc_time now)
{
  uint64_t behind = (uint64_t)s->lag * s->depth / 255 + pipe(s) / 8;
  dc_time patience = PATIENCE * bits(s, 1) * DC_SEC / s->base;
  bool silent = now - s->cable.heard > PATIENCE * patience + PATIENCE * s->cable.p.interval;
  if (now - s->dup >= patience && (silent || s->lag <= target(s) || (s->lag < 255 && behind <= covered(s))))
    hold(s, now);
}

/* A round without a lag: probe for more, by no more than the caches can show within a round before they overflow. Who
 * was slow for a moment is not any more, perhaps. */
static void grow(struct state *s)
{
  uint64_t most = per_second(bits(s, (uint64_t)s->depth * s->depth / (8 * SLACK) + 1), s->cable.trip);
  uint64_t used = rate(s), add = s->base / 8 < most ? s->base / 8 : most;
  if (used > s->high)
    s->high = used;
  if (s->base < s->high && s->depth >= pipe(s)) {
    if ((s->high - s->base) / 2 > add)
      add = (s->high - s->base) / 2;
    s->high -= (s->high - s->base) / 4;
  }
  s->base = clamp(s, s->base + add);
  if (s->base == s->cable.p.rate_max)
    s->mode = FREE;
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
  dc_cable_heard(&s->cable, now, rate(s));
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
  s->depth = e->depth;
  s->lag = e->lag;
  s->lagged |= e->lag > 0;
  s->cable.busy |= e->queued > 1;
  if (s->mode == FREE && e->lag > 0)
    seek(s, now, s->known ? rate(s) : rate(s) / 2);
  measure(s, now);
  if (s->mode == RECOVER)
    recovered(s, now);
  if (e->rtt != 0 && dc_cable_trip(&s->cable, now, e->rtt, e->next_seq)) {
    if (!s->lagged && s->mode == HOLD && s->cable.used) /* else it says nothing of the receivers */
      grow(s);
    s->lagged = false;
  }
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

const struct dc_cc_ops dc_cc_steady = {
    .name = "steady",
    .spreads_repairs = true,
    .init = start,
    .interest = interest,
    .tick = tick,
    .next_tick = next_tick,
    .rate = rate};
