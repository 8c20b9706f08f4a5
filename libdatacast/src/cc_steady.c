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
#include "datacast/cc.h"

enum mode { START, HOLD, RECOVER };

enum {
  TARGET = 140,    /* of 255 of what the store holds beyond a receiver's credits, */
  TARGET_MIN = 32, /* but not less of all */
  SPAN = 6,        /* packets, and a fourth of the depth, between the two reports of a measurement */
  RUN = 4,         /* duplicates in a row that tell a rate */
  PATIENCE = 4,    /* packets of the slowest receiver without a duplicate that end a recovery */
  FIRST_TRIP = 16, /* T: no round trip is known yet */
  CREDITS = 16,    /* w, where it is not known */
  LONG = 4,        /* rounds can seem long when w has become smaller: at most so many round trips */
  REPORTS = 4,     /* of lags that a round needs at least */
  COURTESY = 64,   /* rounds of additive increase after a loss */
  SLACK = 40,      /* packets a receiver can fall back by before any lag shows: its credits beyond the path's own */
  QUIET = 8,       /* rounds without a lag that double the probing where the caches are small */
  BRAKE = 191,     /* lag beyond which the front waits for who stands still */
  PIPE = 2         /* fourths of a round trip that lie between the source and the caches, at first */
};

/* Nobody is waited for longer than WAIT, and then not again for RESTS times that: who is out for longer has gone, or asks for
 * little. A front that waits creeps at a CREEPth of R, at least a packet per STEP: what is asked for next says that all are
 * there again. */
#define WAIT (100 * DC_MS)
#define STEP (20 * DC_MS)
enum { RESTS = 10, CREEP = 16 };

/* A round ends when interests come in that answer what was sent after it began: about a round trip. A receiver asks for
 * number n + w when it gets n. */

struct state {
  struct dc_cc_params p;
  uint64_t rate, base; /* r, and R as far as known */
  uint64_t actual;     /* what is really asked for, smoothed */
  uint64_t high;       /* rate that caused no lag, as far as that is still to be trusted */
  dc_time tick;
  dc_time since, last_dup, last, cut; /* begin of a run; last duplicate, interest, answer to a loss */
  dc_time gap;                        /* longest pause between two duplicates of this recovery */
  dc_time far;                        /* last duplicate of this recovery from beyond what the caches cover */
  dc_time from, begun;                /* the measurement's begin, the round's */
  dc_time trip;                       /* round trip */
  dc_time waits, rests;    /* since when the front waits, 0: it does not; until then it does not wait again */
  dc_time settled;         /* duplicates until then are still of the recovery before */
  uint64_t least, ceiling; /* of R in this recovery; r when a loss was told */
  uint32_t limit;          /* where this recovery ends at the latest: packets behind */
  uint32_t from_asked, round_asked, sent, cut_sent;
  uint32_t run, dup_seq;  /* duplicates with numbers in a row; the last one */
  uint32_t asked, window; /* one past the newest number asked for; w as far as known */
  uint32_t round;         /* `asked` at the end of this round */
  uint32_t depth;
  uint16_t quiet; /* rounds without a lag */
  uint8_t mode, lag, from_lag, step, courtesy, pipe;
  bool lagged;     /* some lag was seen in this round */
  bool timed;      /* a round trip was measured */
  bool halved;     /* the first lag was answered */
  bool blind;      /* no rate was measured before this recovery */
  uint8_t reports; /* of lags in this round, at least so many */
  bool starved;    /* the queue of interests was empty in this round */
};

_Static_assert(sizeof(struct state) <= DC_CC_STATE, "state of cc=steady");

static uint64_t clamp(const struct state *s, uint64_t rate)
{
  return rate < s->p.rate_min ? s->p.rate_min : rate > s->p.rate_max ? s->p.rate_max : rate;
}

static uint64_t bits(const struct state *s, uint64_t packets) { return packets * s->p.packet_bytes * 8; }

/* bit/s of so many bits in so long, without overflow for up to 2^33 bits. */
static uint64_t per_second(uint64_t b, dc_time dt) { return dt == 0 ? UINT64_MAX : b * DC_SEC / dt; }

/* Packets that the slowest receiver takes in a round trip. */
static uint64_t pipe(const struct state *s)
{
  if (!s->timed)
    return 0;
  uint64_t b = s->base / 1000 * (s->trip / DC_US) / 1000; /* bits, for rates below 2^42 and some hours */
  return b / (8 * (uint64_t)s->p.packet_bytes);
}

static void begin_round(struct state *s, dc_time now)
{
  s->begun = now;
  s->round_asked = s->asked;
  s->round = s->sent + s->window;
  s->lagged = s->starved = false;
  s->reports = 0;
}

static void start(void *state, dc_time now, const struct dc_cc_params *p)
{
  struct state *s = state;
  *s = (struct state){.p = *p, .tick = now, .trip = FIRST_TRIP * p->interval, .step = 1, .depth = 1, .pipe = PIPE};
  s->window = p->credits != 0 ? p->credits : CREDITS;
  s->rate = s->base = s->actual = clamp(s, p->rate_init);
  begin_round(s, now);
}

/* The lag to hold. It is counted from the newest number that a receiver asked for: what it asks for again, because it was
 * lost, lies up to its credits further back. */
static uint8_t target(const struct state *s)
{
  uint32_t room = s->depth > s->p.credits ? (s->depth - s->p.credits) * TARGET / s->depth : TARGET;
  return (uint8_t)(room < TARGET_MIN ? TARGET_MIN : room);
}

static void measure_from(struct state *s, dc_time now)
{
  s->from = now;
  s->from_asked = s->asked;
  s->from_lag = s->lag;
}

/* A host that stands still for a moment falls out of the caches, and what it missed has to be sent again: that takes the link
 * for as long as waiting, and more where several stood still. So the front slows down before, until it nearly stands. */
static uint64_t wait_for(struct state *s, dc_time now, uint64_t rate)
{
  if (s->lag <= BRAKE) {
    s->waits = 0;
    return rate;
  }
  if (now < s->rests)
    return rate;
  if (s->waits == 0)
    s->waits = now;
  if (now - s->waits > WAIT) {
    s->waits = 0;
    s->rests = now + RESTS * WAIT;
    return rate;
  }
  uint64_t most = s->base / (255 - BRAKE) * (255u - s->lag), least = clamp(s, per_second(bits(s, 1), STEP));
  least = least < s->base / CREEP ? s->base / CREEP : least;
  most = most < least ? least : most;
  return most < rate ? most : rate;
}

static void follow(struct state *s, dc_time now)
{
  if (s->mode == START) {
    s->rate = s->base;
    return;
  }
  uint64_t k = 2048, n = pipe(s); /* k in 4096ths */
  if (n > s->depth)
    k = k * s->depth / n;
  int64_t off = ((int64_t)target(s) - s->lag) * (int64_t)k; /* of 4096 * 255 */
  s->rate = wait_for(s, now, clamp(s, (uint64_t)((int64_t)s->base + (int64_t)(s->base / (4096 * 255)) * off)));
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
  if (s->mode == HOLD && s->depth < pipe(s) && now - s->from < s->trip / 4 && s->lag < 255)
    return; /* where the caches are small the rate must be known well */
  int64_t taken = (int64_t)front * 255 - fell;
  if (s->mode == HOLD && taken < 255 + (int64_t)s->depth) { /* it stands still: gone, most likely, and soon forgotten */
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
  uint64_t weight = s->mode == START ? 64 : moved < 16 ? moved : 16;
  s->base = r > s->base ? s->base + (r - s->base) / 64 * weight : s->base - (s->base - r) / 64 * weight;
  if (s->mode == START)
    s->mode = HOLD;
  s->step = 1;
  s->quiet = 0;
  measure_from(s, now);
}

static void hold(struct state *s, dc_time now)
{
  s->mode = HOLD;
  s->settled = now + s->trip + s->trip / 4;
  s->cut_sent = s->sent;
  s->quiet = 0;
  begin_round(s, now);
  measure_from(s, now);
  follow(s, now);
}

/* Packets between the source's newest one and the slowest receiver's requests, when they reach the source, that the
 * caches cover once a round trip is full again. */
static uint64_t covered(const struct state *s) { return (uint64_t)s->depth * target(s) / 255 + pipe(s) * s->pipe / 4; }

static void evicted(struct state *s, dc_time now, const struct dc_cc_event *e)
{
  bool next = s->run > 0 && e->seq == s->dup_seq + 1;
  if (s->mode != RECOVER && now >= s->settled) {
    if (s->mode == START)
      s->base = clamp(s, s->base / 2);
    if (s->settled != 0 && now - s->settled < s->trip)
      s->pipe /= 2; /* the last recovery ended too early */
    s->blind = s->mode == START;
    /* The first one lies where the caches end: back by what lies between there and the target. */
    s->limit = s->blind || s->pipe != PIPE ? 0 : e->behind - (uint32_t)((uint64_t)s->depth * (255u - target(s)) / 255);
    s->limit = s->limit > e->behind ? 0 : s->limit;
    s->mode = RECOVER;
    s->least = s->base / 8;
    s->far = 0;
    s->gap = 0;
  } else if (now - s->last_dup > s->gap) { /* after more than a round trip it comes from a timer */
    s->gap = now - s->last_dup < s->trip ? now - s->last_dup : s->trip;
  }
  /* One receiver that asks for number after number shows its own rate. */
  if (!next) {
    s->since = now;
    s->run = 1;
  } else if (++s->run > RUN) {
    /* Its credits may have to grow first: a rate that was measured already stands for two round trips. */
    bool sure = now - s->since > 2 * s->trip;
    uint64_t r = clamp(s, per_second(bits(s, s->run - 1u), now - s->since));
    if (r < s->base && (s->blind || sure))
      s->base = r > s->least ? r : s->least;
  }
  s->dup_seq = e->seq;
  s->last_dup = now;
  if (s->mode != RECOVER)
    return;
  if (e->behind > covered(s) && e->behind > s->limit) {
    if (!next)
      s->far = now;
  } else if (s->far == 0 || (next && s->run > RUN) || now - s->far > s->trip / 2) {
    hold(s, now);
    return;
  }
  s->rate = clamp(s, s->base / 8);
}

/* As Cubic does: a little lower, quickly back to where it was lost, then slowly on. */
static void lost(struct state *s, dc_time now, uint32_t seq)
{
  if (s->mode == RECOVER || s->waits != 0 || seq < s->cut_sent ||
      (s->cut != 0 && (now - s->cut < s->p.interval || now - s->cut < s->trip)))
    return; /* what was sent before the last answer was told then */
  s->cut = now;
  s->cut_sent = s->sent;
  s->ceiling = s->actual < s->base ? s->actual : s->base;
  s->courtesy = COURTESY;
  s->base = clamp(s, s->ceiling / 10 * 8);
  if (s->mode == START) { /* without a lag, r is above R from now on */
    s->base = clamp(s, s->base / 10 * 8);
    s->mode = HOLD;
  }
  follow(s, now);
}

static void recovered(struct state *s, dc_time now)
{
  dc_time packet = bits(s, 1) * DC_SEC / s->base;
  dc_time patience = PATIENCE * packet > 2 * s->gap ? PATIENCE * packet : 2 * s->gap;
  dc_time report = 2 * bits(s, 1) * DC_SEC / s->rate;
  bool stale = now - s->last > patience && now - s->last > report && now - s->last > PATIENCE * s->p.interval;
  uint64_t behind = (uint64_t)s->lag * s->depth / 255 + pipe(s) / 8;
  if (now - s->last_dup >= patience && (stale || s->lag <= target(s) || (s->lag < 255 && behind <= covered(s))))
    hold(s, now);
}

/* The first round trip: the first number beyond the credits answers the first packet. */
static void first_trip(struct state *s, dc_time now)
{
  s->timed = true;
  s->trip = now - s->begun > 0 ? now - s->begun : 1;
  if (s->mode == START) { /* as many packets again would come in a burst at the source's rate */
    uint64_t r = per_second(bits(s, 2 * (uint64_t)s->window), s->trip);
    if (r < s->base)
      s->base = clamp(s, r);
  }
  begin_round(s, now);
}

static void interest(void *state, dc_time now, const struct dc_cc_event *e)
{
  struct state *s = state;
  s->sent = e->next_seq;
  s->last = now;
  if (e->duplicate) {
    if (e->retx)
      lost(s, now, e->seq);
    else
      evicted(s, now, e);
    return;
  }
  if (s->asked == 0)
    s->begun = now;
  if (e->seq >= s->asked)
    s->asked = e->seq + 1;
  if (e->queued > s->window)
    s->window = e->queued;
  if (!s->timed && s->sent > 0 && e->seq >= s->window)
    first_trip(s, now);
  s->starved |= e->queued <= 1;
  s->depth = e->depth;
  if (s->mode == START && !s->halved && e->lag > 0) {
    s->base = clamp(s, s->base / 2); /* until it is measured: the last doubling was one too many */
    s->halved = true;
  }
  s->lag = e->lag;
  s->lagged |= e->lag > 0;
  if (s->reports < REPORTS)
    s->reports++;
  measure(s, now);
  if (s->mode == RECOVER)
    recovered(s, now);
  else
    follow(s, now);
}

/* bit/s that a round may add: what the caches can show, within a round, before they overflow. */
static uint64_t gentle(const struct state *s)
{
  unsigned doubled = s->quiet / QUIET < 12 ? s->quiet / QUIET : 12;
  return per_second(bits(s, ((uint64_t)s->depth * s->depth / (8 * SLACK) + 1) << doubled), s->trip);
}

/* Probe for more where the slowest receiver shows no lag. */
static void grow(struct state *s)
{
  uint64_t add = s->p.delta;
  if (s->mode == START) {
    uint64_t twice = 2 * s->actual;
    add = twice > 2 * s->base ? s->base : twice > s->base ? twice - s->base : 0;
  } else if (s->courtesy > 0) {
    s->courtesy--;
    uint64_t most = gentle(s);
    if (s->base / 16 > add)
      add = s->base / 16;
    if (add > most)
      add = most;
    if (s->base < s->ceiling && (s->ceiling - s->base) / 8 > add)
      add = (s->ceiling - s->base) / 8;
  } else {
    uint64_t most = gentle(s);
    add = s->base / 32 * s->step < most ? s->base / 32 * s->step : most;
    if (s->base < s->high && s->depth >= pipe(s)) { /* who was slow for a moment is not any more, perhaps */
      if ((s->high - s->base) / 2 > add)
        add = (s->high - s->base) / 2;
      s->high -= (s->high - s->base) / 4;
    }
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
  uint32_t asked = s->asked - s->round_asked;
  dc_time took = now - s->begun;
  if (asked < (1u << 24) && took > 0 && s->waits == 0)
    s->actual =
        s->mode == START ? per_second(bits(s, asked), took) : (s->actual + per_second(bits(s, asked), took)) / 2;
  /* Rounds that end early, because w has grown, tell nothing. */
  if (took < s->trip && !s->p.adaptive)
    s->trip = took > 0 ? took : 1;
  else if (took > s->trip && s->asked >= s->round)
    s->trip += s->trip / 64 < took - s->trip ? s->trip / 64 : took - s->trip;
  if (!s->lagged) {
    uint64_t used = s->base < s->actual ? s->base : s->actual;
    if (used > s->high)
      s->high = used;
    if (s->quiet < UINT16_MAX)
      s->quiet++;
    grow(s);
  }
  if (s->window > s->p.credits)
    s->window -= s->window / 32;
  begin_round(s, now);
  follow(s, now);
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
  else if (s->timed && s->reports >= REPORTS &&
           ((s->asked >= s->round && (!s->p.adaptive || now - s->begun >= s->trip)) || now - s->begun > LONG * s->trip))
    end_round(s, now);
}

static dc_time next_tick(const void *state)
{
  const struct state *s = state;
  return s->tick + s->p.interval;
}

static uint64_t rate(const void *state) { return ((const struct state *)state)->rate; }

const struct dc_cc_ops dc_cc_steady = {.name = "steady",
                                       .spreads_repairs = true,
                                       .init = start,
                                       .interest = interest,
                                       .tick = tick,
                                       .next_tick = next_tick,
                                       .rate = rate};
