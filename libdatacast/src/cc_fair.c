/* One rule, two questions (docs/decisions/congestion-control.md):
 *
 *   the cable: how much of what it shares with others is this tree's? A window of packets, divided by the round trip.
 *   the caches: how fast is the slowest receiver? Its rate is measured, and it is held inside the content store.
 *
 * The source sends at the lesser of the two. Both are told by what interests bring: round trips (the stamps of data that
 * come back), losses (asked for again) and marks for the cable; lag and evictions for the caches. */
#include "datacast/cc.h"

/* What happened in a round, a round trip of at least SAMPLES stamps, leads from state to state:
 *
 *   cable    | calm             | queue            | loss            | queues in most rounds | in few
 *   START    | window doubles   | drain -> SHARE   | cut -> SHARE    |                       |
 *   SHARE    | + 1/STEPS of C   | drain            | cut             | -> COMPETE            |
 *   COMPETE  | as Cubic         | as Cubic         | cut as Cubic    |                       | -> SHARE
 *
 *   caches   | lag              | no lag           | eviction        | back in the store
 *   FREE     | -> FOLLOW        |                  | -> RECOVER      |
 *   FOLLOW   | hold the lag     | more -> FREE     | -> RECOVER      |
 *   RECOVER  |                  |                  | an eighth of R  | -> FOLLOW
 */
enum cable { START, SHARE, COMPETE };
enum caches { FREE, FOLLOW, RECOVER };

enum {
  STEPS = 64,
  SAMPLES = 4,
  QUEUE = 4,    /* packets that paths that cross make wait by chance, */
  PART = 8,     /* beside this part of the round trip, before it is a queue */
  CALM = 12,    /* rounds without a queue that double the growth */
  PAUSE = 768,  /* 1024ths of the rate that a drain leaves out */
  MARGIN = 32,  /* of the window that a drain gives up, so that shares become equal */
  OTHERS = 8,   /* rounds with a queue beyond those without that tell of somebody who does not drain it */
  TARGET = 140, /* of 255 of the store: the lag to hold */
  SPAN = 6,     /* packets, and a fourth of the store, between the reports of a measurement */
  RUN = 4,      /* duplicates in a row that tell a rate */
  PATIENCE = 4  /* packets of the slowest receiver without a duplicate that end a recovery */
};

struct state {
  struct dc_cc_params p;
  uint64_t window, was; /* bits on the way; rate of the round before */
  dc_time queue;        /* then */
  uint64_t top;         /* window at the last loss, or when the queue came */
  dc_time base, trip;   /* shortest round trip; of the last round */
  dc_time quick, begun; /* shortest of this round, its begin */
  dc_time cut;          /* last loss that was answered */
  uint32_t cut_seq;     /* losses before it are answered */
  uint8_t cable, samples, score;
  uint8_t calm;         /* rounds without a queue */
  uint16_t pause;       /* 1024ths of the window that are not sent */
  dc_time until, resume; /* end of the pause; of what comes back from before a cut */
  bool marked, busy;   /* in this round */
  uint8_t caches, lag, from_lag;
  bool lagged, known;
  uint32_t asked, depth, from_asked;
  dc_time from;
  uint64_t slow; /* R, the slowest receiver's rate */
  uint32_t run, dup_seq;
  dc_time since, last_dup, settled;
  unsigned quiet;
};

_Static_assert(sizeof(struct state) <= DC_CC_STATE, "state of cc=fair");

static uint64_t packet(const struct state *s) { return 8 * (uint64_t)s->p.packet_bytes; }
static uint64_t per_second(uint64_t bits, dc_time dt) { return dt == 0 ? UINT64_MAX : bits * DC_SEC / dt; }
static uint64_t within(uint64_t x, uint64_t low, uint64_t high) { return x < low ? low : x > high ? high : x; }
static uint64_t clamp(const struct state *s, uint64_t rate) { return within(rate, s->p.rate_min, s->p.rate_max); }
/* Bits that a rate (below 2^42) makes of a time. */
static uint64_t product(uint64_t rate, dc_time t) { return rate / 1000 * (t / DC_US + (t < DC_MS)) / 1000; }

/* ---- the cable ---- */

static uint64_t share(const struct state *s)
{
  if (s->base == 0)
    return s->p.rate_init;
  uint64_t now = s->window - s->window / 1024 * s->pause;
  return clamp(s, per_second(now, s->pause > 0 ? s->base : s->trip));
}

static dc_time threshold(const struct state *s)
{
  dc_time t = s->base / PART + QUEUE * packet(s) * DC_SEC / s->p.rate_max;
  return s->p.background ? t / 2 : t; /* gone before the others notice */
}

static uint64_t cbrt_of(uint64_t x)
{
  uint64_t r = 0;
  for (uint64_t bit = 1u << 20; bit > 0; bit /= 2)
    if ((r + bit) * (r + bit) * (r + bit) <= x)
      r += bit;
  return r;
}

/* RFC 9438, in milliseconds: C (t - K)^3 + top, and never slower than Reno's line. */
static void grow_as_cubic(struct state *s, dc_time now)
{
  uint64_t ms = (now - s->cut) / DC_MS, top = s->top / packet(s);
  uint64_t k = cbrt_of(top * 3 * DC_SEC / 4);
  int64_t off = (int64_t)within(ms, 0, 1u << 20) - (int64_t)k;
  int64_t cubic = (int64_t)s->top + off * off / 1000 * off / 1000 * 4 / 10 * (int64_t)packet(s) / 1000;
  s->window += packet(s) * 53 / 100 * s->p.weight / 100;
  if (cubic > (int64_t)s->window)
    s->window = within((uint64_t)cubic, s->window, s->window + s->window / 2);
}

/* What comes back until then is from before the cut. */
static void hold(struct state *s, dc_time until)
{
  s->resume = until + s->trip;
  if (s->cable != COMPETE)
    s->trip = s->base;
}

/* Most of a rate is left out until a queue has gone. */
static void pause(struct state *s, dc_time now, dc_time queue)
{
  s->pause = PAUSE;
  s->until = now + 1 + queue * 1024 / PAUSE;
  hold(s, s->until);
}

/* What the sustained rate and the empty path hold, a little less; for a round so much less that the queue drains, as
 * long as it will be when this shows: it has grown for two rounds since. */
static void drain(struct state *s, dc_time now, dc_time queue)
{
  /* The queue grew by what was sent beyond what came through, and will until this shows. */
  uint64_t grown = queue > s->queue ? (queue - s->queue) * 1024 / (now - s->begun + 1) : 0;
  uint64_t ahead = queue + (grown + 1024 / 8) * s->trip / 1024;
  s->window = product(s->was * 1024 / (1024 + grown), s->base);
  s->window -= s->window / MARGIN;
  s->calm = 0;
  pause(s, now, ahead);
}

/* A round without a cut before it has seen the queue over the threshold, or not. */
static void judge(struct state *s, dc_time now, bool full, dc_time queue)
{
  s->score = full ? (s->score < 2 * OTHERS ? s->score + 1 : s->score) : s->score > 0 ? s->score - 1 : 0;
  if (s->cable == COMPETE) {
    if (!full) {
      s->cable = SHARE;
      s->score = OTHERS - 2; /* to be sure, one queue may drain */
    } else if (s->busy)
      grow_as_cubic(s, now);
  } else if (full || s->marked) {
    if (s->score <= 1)
      s->top = s->window;
    s->cable = SHARE;
    if (s->score >= OTHERS && !s->p.background) {
      s->cable = COMPETE;
      s->window = s->top;
      s->cut = now;
    } else {
      drain(s, now, queue);
      if (s->p.background)
        s->window /= 4;
    }
  } else if (s->busy) {
    /* By the time that went, so that shares do not depend on how often a tree hears of its packets. */
    dc_time unit = s->base > 2 * s->p.interval ? s->base : 2 * s->p.interval;
    uint64_t part = within((now - s->begun) * 1024 / unit, 0, 4096);
    uint64_t step = product(s->p.rate_max / STEPS, s->base) * s->p.weight / 100 * part / 1024 + 1;
    if (s->p.background)
      step = step / 8 + 1;
    else /* others have left, most likely */
      step <<= s->calm / CALM < 4 ? s->calm / CALM : 4;
    if (s->calm < 255)
      s->calm++;
    s->window += s->cable == START ? (queue < s->base / 64 ? s->window : s->window / 4) : step;
  }
}

static void end_round(struct state *s, dc_time now)
{
  dc_time queue = s->quick > s->base ? s->quick - s->base : 0;
  uint64_t rate = share(s);
  s->trip = s->quick;
  judge(s, now, queue > threshold(s), queue);
  uint64_t most = product(s->p.rate_max, s->trip) + packet(s);
  if (s->cable == START && s->window >= most)
    s->cable = SHARE;
  s->window = within(s->window, product(s->p.rate_min, s->base), most);
  s->was = rate;
  s->queue = queue;
  s->base += s->base / 4096; /* the path may be another one */
}

static void round_trip(struct state *s, dc_time now, dc_time rtt)
{
  if (s->base == 0) {
    s->base = s->quick = s->trip = rtt;
    s->window = within(product(s->p.rate_init, rtt), 1, 2 * s->p.credits * packet(s));
    s->was = share(s);
    s->begun = now;
    return;
  }
  if (rtt < s->base)
    s->base = rtt;
  if (now < s->resume) {
    s->begun = now;
    return;
  }
  if (s->samples == 0 || rtt < s->quick)
    s->quick = rtt;
  s->samples++;
  if (s->samples < SAMPLES || now - s->begun < s->trip)
    return;
  end_round(s, now);
  s->begun = now;
  s->samples = 0;
  s->marked = s->busy = false;
}

static void lost(struct state *s, dc_time now, const struct dc_cc_event *e)
{
  if (e->seq < s->cut_seq)
    return;
  s->cut_seq = e->next_seq;
  if (s->cable == START)
    s->cable = SHARE;
  s->score = (uint8_t)within(s->score + 1u, 0, 2 * OTHERS);
  s->calm = 0;
  s->top = s->window;
  s->cut = now;
  s->window = s->window / 10 * 7;
  pause(s, now, s->trip > s->base ? s->trip - s->base : 0);
}

/* ---- the caches ---- */

static uint64_t pipe(const struct state *s) { return product(s->slow, s->trip) / packet(s); }

static uint64_t allowed(const struct state *s)
{
  if (s->caches == FREE)
    return s->p.rate_max;
  if (s->caches == RECOVER)
    return clamp(s, s->slow / 8);
  uint64_t k = 2048, n = pipe(s); /* in 4096ths */
  if (n > s->depth)
    k = k * s->depth / n;
  int64_t off = ((int64_t)TARGET - s->lag) * (int64_t)k / 255;
  return clamp(s, (uint64_t)((int64_t)s->slow + (int64_t)(s->slow / 4096) * off));
}

static uint64_t both(const struct state *s)
{
  uint64_t a = share(s), b = allowed(s);
  return a < b ? a : b;
}

static void measure_from(struct state *s, dc_time now)
{
  s->from = now;
  s->from_asked = s->asked;
  s->from_lag = s->lag;
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
  if (s->depth < pipe(s) && now - s->from < s->trip / 4 && s->lag < 255)
    return; /* where the caches are small the rate must be known well */
  int64_t taken = (int64_t)front * 255 - fell;
  if (s->known && taken < 255 + (int64_t)s->depth) { /* it stands still: gone, most likely, and soon forgotten */
    if (front > s->depth)
      measure_from(s, now);
    return;
  }
  uint64_t r = taken <= 0 ? 0 : per_second(packet(s) * (uint64_t)taken / 255, now - s->from);
  r = clamp(s, r < s->slow / 8 ? s->slow / 8 : r);
  if (s->lag == 255 && r > s->slow)
    r = s->slow; /* it fell by more than can be told */
  uint64_t weight = !s->known ? 64 : moved < 16 ? moved : 16; /* the fewer packets, the less sure */
  s->slow = r > s->slow ? s->slow + (r - s->slow) / 64 * weight : s->slow - (s->slow - r) / 64 * weight;
  s->known = true;
  s->quiet = 0;
  measure_from(s, now);
}

static void follow(struct state *s, dc_time now)
{
  s->caches = FOLLOW;
  s->settled = now + s->trip + s->trip / 4;
  measure_from(s, now);
}

/* Packets between the newest one and the slowest receiver's requests that the store covers once a round trip is full. */
static uint64_t covered(const struct state *s) { return (uint64_t)s->depth * TARGET / 255 + pipe(s) / 2; }

static void evicted(struct state *s, dc_time now, const struct dc_cc_event *e)
{
  if (s->caches != RECOVER && now >= s->settled) {
    if (s->caches == FREE)
      s->slow = both(s) / 2;
    s->caches = RECOVER;
  }
  /* One receiver that asks for number after number shows its own rate. */
  if (s->run == 0 || e->seq != s->dup_seq + 1) {
    s->since = now;
    s->run = 1;
  } else if (++s->run > RUN && (!s->known || now - s->since > 2 * s->trip)) {
    uint64_t r = clamp(s, per_second(packet(s) * (s->run - 1u), now - s->since));
    if (r < s->slow)
      s->slow = r;
  }
  s->dup_seq = e->seq;
  s->last_dup = now;
  if (s->caches == RECOVER && e->behind <= covered(s))
    follow(s, now);
}

/* More where the slowest receiver shows no lag, but no more per round than the store can show before it overflows. */
static void look_for_more(struct state *s)
{
  uint64_t n = pipe(s), more = n < s->depth ? s->slow : s->slow / 8 * s->depth / (n + 1);
  s->slow += within(more << within(s->quiet / 4, 0, 8), 0, s->slow) + 1;
  s->quiet++;
  if (s->slow >= s->p.rate_max)
    s->caches = FREE;
}

static void interest(void *state, dc_time now, const struct dc_cc_event *e)
{
  struct state *s = state;
  if (e->duplicate) {
    if (e->retx)
      lost(s, now, e);
    else
      evicted(s, now, e);
    return;
  }
  if (e->seq >= s->asked)
    s->asked = e->seq + 1;
  s->depth = e->depth;
  s->lag = e->lag;
  s->lagged |= e->lag > 0;
  s->busy |= e->queued > 1;
  s->marked |= e->marked;
  if (s->caches == FREE && e->lag > 0) {
    s->slow = s->known ? both(s) : both(s) / 2;
    follow(s, now);
  }
  if (s->caches == FOLLOW)
    measure(s, now);
  if (s->caches == RECOVER && now - s->last_dup > PATIENCE * packet(s) * DC_SEC / s->slow)
    follow(s, now);
  if (e->rtt != 0) {
    dc_time began = s->begun;
    round_trip(s, now, e->rtt);
    if (s->begun != began) {
      if (!s->lagged && s->caches == FOLLOW)
        look_for_more(s);
      s->lagged = false;
    }
  }
}

static void start(void *state, dc_time now, const struct dc_cc_params *p)
{
  (void)now;
  struct state *s = state;
  *s = (struct state){.p = *p, .depth = 1};
  s->p.rate_init = clamp(s, p->rate_init);
  if (s->p.weight == 0)
    s->p.weight = 100;
  if (s->p.credits == 0)
    s->p.credits = 16;
}

static void tick(void *state, dc_time now)
{
  struct state *s = state;
  if (now >= s->until)
    s->pause = 0;
}

static dc_time next_tick(const void *state)
{
  const struct state *s = state;
  return s->pause > 0 ? s->until : DC_NEVER;
}

static uint64_t rate(const void *state) { return both(state); }

const struct dc_cc_ops dc_cc_fair = {
    .name = "fair", .init = start, .interest = interest, .tick = tick, .next_tick = next_tick, .rate = rate};
