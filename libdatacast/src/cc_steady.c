/* Holds the slowest receiver at a steady place in the caches (docs/decisions/congestion-control.md).
 *
 * The interests that nodes send on say how far their slowest child is from falling out of the content store (lag, 0..255 of its
 * depth D). Between two such reports the front has moved by `asked` packets and the lag has changed by `lag`, so the slowest
 * receiver has taken asked - lag * D / 255 of them: its rate R is measured, not searched for. The source then sends
 *
 *     r = R * (1 + k * (target - lag) / 255)
 *
 * Where nobody lags R is higher than r, and the source probes. Receivers hold what the path fills at R, as the source tells
 * them, and the credits of the plan. Duplicates remain as the signal of the cases where this is not enough:
 *   eviction  (asked for once, so it fell out of the caches): r goes far below R until the caches cover the distance again
 *   loss      (asked for again): the way to the caches is congested; as TCP does, r falls, and comes back to where it was */
#include "datacast/cc.h"
#include "datacast/wire.h"

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
  BRAKE = 191,     /* lag beyond which the front waits for who stands still */
  PIPE = 2         /* fourths of a round trip that lie between the source and the caches, at first */
};

/* Nobody is waited for longer than WAIT, and then not again for RESTS times that: who is out for longer has gone, or asks for
 * little. A front that waits creeps at a CREEPth of R, at least a packet per STEP: what is asked for next says that all are
 * there again. */
#define WAIT (100 * DC_MS)
#define STEP (20 * DC_MS)
enum { RESTS = 10, CREEP = 16 };

/* A round begins with an interest, and ends when the packet that is sent next then is answered. A receiver asks for number n + w
 * when it gets n, so the answer to n tells the round trip, whoever waits for tokens. */

struct state {
  struct dc_cc_params p;
  uint64_t rate, base; /* r, and R as far as known */
  uint64_t limit;      /* of r, from the control plane; 0 for none */
  uint64_t actual;     /* what is really asked for, smoothed */
  uint64_t high;       /* rate that caused no lag, as far as that is still to be trusted */
  dc_time tick;
  dc_time since, last_dup, last, cut; /* begin of a run; last duplicate, interest, answer to a loss */
  dc_time gap;                        /* longest pause between two duplicates of this recovery */
  dc_time from, begun;                /* the measurement's begin, the round's */
  dc_time trip, answer;               /* round trip; how long this round's first packet took, 0: not answered yet */
  dc_time waits, rests;    /* since when the front waits, 0: it does not; until then it does not wait again */
  dc_time settled;         /* duplicates until then are still of the recovery before */
  uint64_t least, ceiling; /* of R in this recovery; r when a loss was told */
  uint32_t from_asked, round_asked, round_sent, sent, cut_sent;
  uint32_t run, dup_seq;  /* duplicates with numbers in a row; the last one */
  uint32_t asked, window; /* one past the newest number asked for; w as far as known */
  uint32_t round;         /* `asked` at the end of this round */
  uint32_t depth;
  uint8_t mode, lag, from_lag, round_lag, step, courtesy, pipe;
  uint8_t told;         /* that the path holds, as in data's flags */
  uint8_t reports;      /* of lags in this round, at least so many */
  bool timed, halved;   /* a round trip was measured; the first lag was answered */
  bool fresh;           /* no interest in this round yet */
  bool lagged, starved; /* some lag was seen in this round; the queue of interests was empty */
  bool waited;          /* what was told did not grow at the end of the round before */
};

_Static_assert(sizeof(struct state) <= DC_CC_STATE, "state of cc=steady");

static uint64_t clamp(const struct state *s, uint64_t rate)
{
  return rate < s->p.rate_min ? s->p.rate_min : rate > s->p.rate_max ? s->p.rate_max : rate;
}

static uint64_t bits(const struct state *s, uint64_t packets) { return packets * s->p.packet_bytes * 8; }

/* bit/s of so many bits in so long, without overflow for up to 2^33 bits. */
static uint64_t per_second(uint64_t b, dc_time dt) { return dt == 0 ? UINT64_MAX : b * DC_SEC / dt; }

/* Packets of a round trip at a rate, below 2^42 and some hours; of the slowest receiver. */
static uint64_t held(const struct state *s, uint64_t rate)
{
  return s->timed ? rate / 1000 * (s->trip / DC_US) / 1000 / (8 * (uint64_t)s->p.packet_bytes) : 0;
}

static uint64_t pipe(const struct state *s) { return held(s, s->base); }

static void begin_round(struct state *s, dc_time now)
{
  s->begun = now;
  s->round_asked = s->asked;
  s->lagged = s->starved = false;
  s->answer = 0;
  s->fresh = true;
  s->reports = 0;
}

static void start(void *state, dc_time now, const struct dc_cc_params *p)
{
  struct state *s = state;
  *s = (struct state){.p = *p, .tick = now, .trip = FIRST_TRIP * p->interval, .step = 1, .depth = 1, .pipe = PIPE};
  s->window = s->p.credits = p->credits != 0 ? p->credits : CREDITS;
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
  measure_from(s, now);
}

static void hold(struct state *s, dc_time now)
{
  s->mode = HOLD;
  s->settled = now + s->trip + s->trip / 4;
  s->cut_sent = s->sent;
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
    s->mode = RECOVER;
    s->least = s->base / 8;
    s->gap = 0;
  } else if (now - s->last_dup > s->gap) { /* after more than a round trip it comes from a timer */
    s->gap = now - s->last_dup < s->trip ? now - s->last_dup : s->trip;
  }
  /* One receiver that asks for number after number shows its own rate. */
  if (!next) {
    s->since = now;
    s->run = 1;
  } else if (++s->run > RUN) {
    uint64_t r = clamp(s, per_second(bits(s, s->run - 1u), now - s->since));
    if (r < s->base && now - s->since > 2 * s->trip) /* its credits may have to grow first */
      s->base = r > s->least ? r : s->least;
  }
  s->dup_seq = e->seq;
  s->last_dup = now;
  if (s->mode != RECOVER)
    return;
  if (e->behind <= covered(s)) {
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
  if (s->fresh) {
    s->fresh = false;
    s->round_lag = e->lag;
    s->begun = now;
    s->round_asked = s->asked;
    s->round_sent = s->sent;
    s->round = s->sent + s->window + 1; /* the next packet's answer asks for the number before */
  } else if (s->answer == 0 && s->asked >= s->round)
    s->answer = now > s->begun ? now - s->begun : 1;
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
  uint64_t safe = per_second(bits(s, (uint64_t)s->depth * s->depth / (8 * SLACK) + 1), s->trip);
  return safe > s->base / 128 ? safe : s->base / 128;
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
  s->base = clamp(s, s->base + add);
}

/* While interests are what is short and the slowest receiver keeps up, the path holds more than was told; never more than R
 * fills. That shows a round later. Receivers give up a credit with every fourth packet: `window` is never less than they have. */
static void tell(struct state *s)
{
  uint64_t r = s->mode == START ? s->p.rate_max : s->base, n = held(s, s->limit != 0 && s->limit < r ? s->limit : r);
  uint8_t most = dc_path_flags(n < DC_PATH_MAX ? (uint32_t)n : DC_PATH_MAX);
  uint32_t w = s->p.credits + dc_path_packets(s->told), less = (s->sent - s->round_sent) / 8;
  s->window = s->window > w + less ? s->window - less : w;
  s->waited = !s->waited;
  if (s->told > most)
    s->told = (uint8_t)(s->told - 0x10);
  else if (s->told < most && s->waited && s->starved && s->lag <= s->round_lag && s->lag <= target(s))
    s->told = (uint8_t)(s->told + 0x10);
  w = s->p.credits + dc_path_packets(s->told);
  s->window = w > s->window ? w : s->window;
}

static void end_round(struct state *s, dc_time now)
{
  uint32_t asked = s->asked - s->round_asked;
  dc_time took = now - s->begun;
  if (asked < (1u << 24) && took > 0 && s->waits == 0)
    s->actual =
        s->mode == START ? per_second(bits(s, asked), took) : (s->actual + per_second(bits(s, asked), took)) / 2;
  if (s->answer != 0)
    s->trip = s->answer < s->trip ? s->answer : s->trip;
  if (!s->lagged) {
    uint64_t used = s->base < s->actual ? s->base : s->actual;
    s->high = used > s->high ? used : s->high;
    grow(s);
  }
  if (s->answer != 0)
    tell(s);
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
  else if (s->timed && s->reports >= REPORTS && (s->answer != 0 || now - s->begun > LONG * s->trip))
    end_round(s, now);
}

static dc_time next_tick(const void *state)
{
  const struct state *s = state;
  return s->tick + s->p.interval;
}

static uint64_t rate(const void *state) { return ((const struct state *)state)->rate; }

static uint8_t told(void *state, uint64_t limit)
{
  ((struct state *)state)->limit = limit;
  return ((struct state *)state)->told;
}

const struct dc_cc_ops dc_cc_steady = {.name = "steady",
                                       .spreads_repairs = true,
                                       .init = start,
                                       .interest = interest,
                                       .tick = tick,
                                       .next_tick = next_tick,
                                       .rate = rate,
                                       .told = told};
