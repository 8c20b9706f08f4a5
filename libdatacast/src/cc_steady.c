/* Holds the slowest receiver a few packets behind the others (docs/decisions/congestion-control.md).
 *
 * The source knows the slowest one's rate R, and the excess x: what is on its way to it beyond what the path holds at R (cc_slowest.h).
 * It sends at R, a little more while x is below its target, and less and less beyond it, down to nearly nothing where the slowest
 * would fall out of the caches. */
#include "cc_cubic.h"
#include "cc_slowest.h"
#include "cc_spacing.h"

enum mode {
  START,   /* nobody is behind: the rate doubles per round trip */
  MEASURE, /* somebody is, and its rate is not known yet, but for a bound */
  FOLLOW   /* it is measured all the time */
};

enum {
  SPAN = 8,     /* packets of the slowest receiver that tell its rate; twice as many the first time */
  CREDITS = 16, /* w, where it is not known */
  LOSSES = 3,   /* as many as a receiver lets overtake a number before it takes that for lost */
  CREEP = 16    /* a front that waits goes on at such a part of R */
};

/* Nobody who stands still is waited for longer than WAIT: who is out for longer has gone, or asks for little. A front that waits sends a
 * packet per STEP at least, but no more than half of what the slowest takes: what is asked for next says that all are there again. */
#define WAIT (100 * DC_MS)
#define STEP (20 * DC_MS)

struct state {
  struct dc_cc_params p;
  uint64_t rate;       /* r */
  uint64_t limit;      /* of r, from the control plane; 0 for none */
  uint64_t before;     /* R as far as known before somebody was behind */
  dc_time tick, heard; /* the last tick; somebody asked */
  struct slowest slow;
  struct cubic losses;
  struct spacing came;
  uint32_t round_front; /* what the first had asked for, and the excess, when the round began */
  int64_t round_excess;
  uint8_t mode, probe;
  bool last; /* nobody can ask for more */
  bool dry;  /* nothing more was there to send in this round: it tells nothing (BBR: application-limited) */
};

_Static_assert(sizeof(struct state) <= DC_CC_STATE, "state of cc=steady");

static uint64_t clamp(const struct state *s, uint64_t rate)
{
  return rate < s->p.rate_min ? s->p.rate_min : rate > s->p.rate_max ? s->p.rate_max : rate;
}

static uint64_t per_second(const struct state *s, uint64_t packets, dc_time dt)
{
  return packets_rate(packets, dt, s->p.packet_bytes);
}

static uint64_t held(const struct state *s, uint64_t rate, dc_time t)
{
  return packets_held(rate, t, s->p.packet_bytes);
}

static uint64_t clamped(const struct state *s, uint64_t rate)
{
  return clamp(s, rate < s->losses.most ? rate : s->losses.most);
}

static void start(void *state, dc_time now, const struct dc_cc_params *p)
{
  struct state *s = state;
  *s = (struct state){.p = *p, .tick = now, .probe = 1};
  s->p.credits = p->credits != 0 ? p->credits : CREDITS;
  slowest_init(&s->slow, now, p->packet_bytes, s->p.credits);
  cubic_init(&s->losses, p->rate_max);
  s->rate = s->slow.rate = clamp(s, p->rate_init);
  spacing_init(&s->came, p->packet_bytes, s->p.credits, s->rate);
}

static dc_time packet_time(const struct state *s) { return (dc_time)s->p.packet_bytes * 8 * DC_SEC / s->slow.rate; }

/* Nobody asks for anything: nobody says how the slowest does, and what waits may be all that there is (seeds 729, 14968, 47549). */
static bool quiet(const struct state *s, dc_time now, dc_time more)
{
  return now - s->heard > (s->last ? 2 * s->slow.rounds.least : 4 * s->slow.rounds.least + more);
}

/* Nobody who stands still is waited for for ever. Who takes less than a packet in 25 ms does not stand still for WAIT (case 26 of the
 * sweep, 65 % duplicates). A front that waits asks for one packet in CREEP, and has no processor for a STEP now and then. */
static bool waits(const struct state *s, dc_time now)
{
  dc_time few = ALONE * packet_time(s);
  return !quiet(s, now, 2 * CREEP * packet_time(s) + STEP) && now - s->slow.moved <= (few > WAIT ? few : WAIT);
}

/* Up to the target more than R, beyond it a little less, so that the excess stays there; where a fourth of the room is left the
 * front waits. Where R is not known yet and nobody asks any more it never will be: what has room goes at the rate of before. */
static void follow(struct state *s, dc_time now)
{
  s->rate = clamped(s, s->slow.rate);
  if (s->mode == START)
    return;
  uint64_t n = slowest_path(&s->slow), room = slowest_room(&s->slow), target = slowest_target(&s->slow),
           late = room / 4 * 3;
  int64_t x = slowest_excess(&s->slow);
  uint64_t over = x > 0 ? (uint64_t)x : 0;
  if (s->mode == MEASURE && (over <= late || s->last) && quiet(s, now, 0)) {
    s->rate = clamped(s, s->before);
    return;
  }
  if (over <= target) {
    s->rate = clamped(s, s->slow.rate + s->slow.rate / ((n > target ? n : target) + 1) * (target - over));
    return;
  }
  if (!waits(s, now))
    return;
  uint64_t less = target < late ? s->slow.rate / 8 : 0;
  if (over <= late) {
    s->rate = clamped(s, s->slow.rate - less / (late - target) * (over - target));
    return;
  }
  uint64_t least = per_second(s, 1, STEP);
  least = least > s->slow.rate / 2 ? s->slow.rate / 2 : least < s->slow.rate / CREEP ? s->slow.rate / CREEP : least;
  s->rate = over < room ? (s->slow.rate - less) / (room - late) * (room - over) : 0;
  s->rate = clamped(s, s->rate < least ? least : s->rate);
}

static void begin_measuring(struct state *s, dc_time now) { slowest_measure_from(&s->slow, now); }

/* What was sent in a row before somebody was noticed to be behind is what tells its rate. */
static void keep_rate(struct state *s, dc_time now)
{
  (void)now;
  s->before = s->slow.rate;
}

static void begin_round(struct state *s)
{
  s->round_front = s->slow.front;
  s->round_excess = slowest_excess(&s->slow);
  s->dry = false;
}

/* Who has had all of that was held up and is not slow; and a round in which that was tells no rate (test_busy_hosts.py). */
static void take_rate_back(struct state *s, dc_time now)
{
  s->slow.rate = s->before;
  slowest_measure_from(&s->slow, now);
  trips_took(&s->slow.rounds, now, s->slow.sent);
  begin_round(s);
}

static void take_rate(struct state *s, dc_time now)
{
  uint64_t found = per_second(s, slowest_moved(&s->slow), now - s->slow.since.at);
  s->slow.rate = clamp(s, found - found / 16);
  slowest_measure_from(&s->slow, now);
}

enum event {
  BEHIND,    /* somebody is ALONE packets behind the first */
  CAUGHT_UP, /* nobody is any more */
  TIMED,     /* the slowest has had 2 * SPAN packets */
  CUT        /* a loss was answered */
};

/* All that changes the state; what is not in here leaves it as it is. */
static const struct {
  enum mode in;
  enum event on;
  enum mode next;
  void (*act)(struct state *s, dc_time now);
} transitions[] = {
    {START, BEHIND, MEASURE, keep_rate},
    {START, CUT, FOLLOW, begin_measuring},
    {MEASURE, CAUGHT_UP, START, take_rate_back},
    {MEASURE, TIMED, FOLLOW, take_rate},
};

static void happened(struct state *s, dc_time now, enum event event)
{
  for (unsigned i = 0; i < sizeof transitions / sizeof *transitions; i++)
    if (transitions[i].in == s->mode && transitions[i].on == event) {
      s->mode = transitions[i].next;
      transitions[i].act(s, now);
      return;
    }
}

/* In MEASURE: R is not known, but for a bound. */
static void find(struct state *s, dc_time now, uint32_t lag)
{
  uint32_t moved = slowest_moved(&s->slow);
  if (!waits(s, now)) {
    take_rate_back(s, now);
    return;
  }
  if (lag < ALONE / 2) {
    happened(s, now, CAUGHT_UP);
    return;
  }
  if (!s->slow.since.edge && moved > 0) {
    slowest_measure_from(&s->slow, now);
    s->slow.since.edge = true;
  } else if (s->slow.since.edge && moved >= 2 * SPAN) {
    happened(s, now, TIMED);
    return;
  }
  uint64_t bound = per_second(s, moved + 1, now - s->slow.since.at);
  uint64_t least = s->before / CREEP / (moved == 0 ? 1 : CREEP); /* it may only stand still (seeds 112921, 283183) */
  if (bound < least)
    bound = least;
  /* It has credits for all that is on the way, and half of the room is left: perhaps a deep tree is only being filled. Or it has had all
   * that was sent meanwhile (case 26 of the sweep, 24 % duplicates). */
  uint64_t sent = s->slow.sent - slowest_had(&s->slow);
  bool few = sent < s->p.credits && sent < slowest_room(&s->slow) / 2;
  if (!few && bound < s->slow.rate && s->slow.sent - s->slow.since.sent > moved + 1)
    s->slow.rate = clamp(s, bound);
}

/* In FOLLOW. */
static void measure(struct state *s, dc_time now)
{
  uint32_t moved = slowest_moved(&s->slow);
  dc_time dt = now - s->slow.since.at;
  uint64_t n = slowest_path(&s->slow);
  if ((moved < SPAN && (moved < 2 || dt < WAIT)) || moved < n / 8)
    return;
  /* Nodes tell of it with interests that go on anyway: after a silence several steps come at once (200 receivers, 100 ms). */
  if (dt < s->slow.rounds.least / 8)
    return;
  uint64_t r = clamp(s, per_second(s, moved, dt));
  bool known = !slowest_in_step(&s->slow); /* a deep tree has its distance while r rises, too (seed 22679) */
  if (s->rate < s->slow.rate / 2 && moved + 1 >= s->slow.sent - s->slow.since.sent)
    known = false; /* it has had all that a front that waits has sent (seeds 102683, 132613, 140943) */
  if (r > s->slow.rate)
    s->slow.rate += (r - s->slow.rate) / 4;
  else if (known && (slowest_lag(&s->slow) >= ALONE || slowest_excess(&s->slow) >= (int64_t)slowest_target(&s->slow)))
    s->slow.rate -= (s->slow.rate - r) / 4;
  slowest_measure_from(&s->slow, now);
}

/* Has the control plane divided the link? Then all who send there are known. */
static bool divided(const struct state *s) { return s->limit != 0 && s->limit < s->p.rate_max / 10 * 9; }

/* Among groups the control plane has divided the link already, and none goes below half of its share. */
static void lost(struct state *s, dc_time now, uint32_t seq)
{
  if (s->slow.rounds.least == 0)
    return; /* nothing has come yet: a timer has ended */
  /* The rate doubles in a round trip at most, so half of what it holds was sent in the last one: its repeat has crossed it (54011). */
  if (s->slow.sent - seq <= held(s, s->rate, s->slow.rounds.least) / 2)
    return;
  bool fresh = cubic_new(&s->losses, seq, s->slow.sent);
  uint64_t lag = slowest_lag(&s->slow), target = slowest_target(&s->slow);
  if (lag >= ALONE && (lag > target || slowest_excess(&s->slow) > (int64_t)target))
    return; /* its own queue, not that of all */
  cubic_count(&s->losses, seq);
  if (!fresh)
    return;
  uint64_t r = clamped(s, s->mode == MEASURE ? s->before : s->slow.rate), half = divided(s) ? s->limit / 2 : 0;
  if (s->limit != 0 && s->limit < r)
    r = s->limit; /* a part of what is not sent drains no queue */
  cubic_cut(&s->losses, now, r, half > s->p.rate_min ? half : s->p.rate_min);
  happened(s, now, CUT);
}

/* What the path holds, for receivers. Beside those who answer losses its queues too, or credits and not losses would say what each gets;
 * but not in the first STEP of losses, in which who shares a link with groups that begin is told his share. Nor for fewer numbers than
 * LOSSES: where a link becomes ten times slower a timer ends, and nothing is lost until credits follow that. While R is only believed it
 * holds no more than what comes (in a queue of before, credits grew by what that held, and by what they had grown by). */
static void tell(struct state *s, dc_time now, dc_time trip, uint64_t r)
{
  uint64_t most = s->mode == FOLLOW || s->dry ? UINT64_MAX : spacing_most(&s->came);
  if (s->limit != 0 && s->limit < r)
    r = s->limit;
  if (most < r)
    r = most;
  uint64_t n = held(s, r, s->slow.rounds.least) / 4 * 5;
  uint64_t queued = held(s, clamped(s, s->slow.rate), trip) / 4 * 5;
  if (cubic_bounds(&s->losses) && s->losses.lost >= LOSSES && now - s->losses.since > STEP && !divided(s) &&
      queued > n + s->p.credits)
    n = queued - s->p.credits;
  steps_want(&s->slow.credits, n);
}

/* What is not sent tries nothing. Who is not waited for does not count. */
static bool may_try(const struct state *s, dc_time now)
{
  int64_t x = slowest_excess(&s->slow);
  bool grows = slowest_lag(&s->slow) >= ALONE && x > s->round_excess;
  return s->slow.rate < s->losses.most && (!waits(s, now) || (!grows && x < (int64_t)slowest_target(&s->slow) / 4 * 3));
}

static void end_round(struct state *s, dc_time now)
{
  dc_time trip = trips_took(&s->slow.rounds, now, s->slow.sent);
  if (!s->dry)
    trips_seen(&s->slow.rounds, trip);
  else if (s->slow.rounds.least != 0)
    trip = s->slow.rounds.least;
  uint64_t r = per_second(s, s->slow.front - s->round_front, trip);
  if (s->mode == START) {
    if (!s->dry && (2 * r >= s->slow.rate || s->slow.front - s->round_front >= SPAN)) /* silence is no rate */
      s->slow.rate = clamp(s, 2 * r < 2 * s->slow.rate ? 2 * r : 2 * s->slow.rate);
  } else if (s->mode == FOLLOW && may_try(s, now)) {
    s->slow.rate = clamp(s, s->slow.rate + s->slow.rate / 64 * s->probe);
    if (s->probe < 16)
      s->probe *= 2;
  } else {
    s->probe = 1;
  }
  /* Among groups in half of the time: they need not find out what each may have. */
  cubic_grow(&s->losses, now, trip, divided(s) ? 2 : 1, s->p.packet_bytes);
  tell(s, now, trip, s->slow.rate);
  spacing_round(&s->came, s->slow.rate, !s->dry);
  begin_round(s);
}

static void interest(void *state, dc_time now, const struct dc_cc_event *e)
{
  struct state *s = state;
  s->slow.sent = e->next_seq;
  s->heard = now;
  s->dry |= e->dry;
  s->last = e->last;
  if (e->duplicate) {
    if (e->retx)
      lost(s, now, e->seq);
    follow(s, now);
    return;
  }
  if (s->slow.front == 0)
    s->slow.rounds.begun = s->slow.trips.begun = s->slow.moved = now;
  slowest_heard(&s->slow, now, e);
  uint32_t lag = slowest_lag(&s->slow);
  if (lag >= ALONE)
    happened(s, now, BEHIND);
  else if (s->mode == START && lag == 0)
    slowest_measure_from(&s->slow,
                         now); /* what came before somebody was behind is not the slowest's pace (seed 17330) */
  if (slowest_had(&s->slow) > s->slow.trips.until)
    trips_seen(&s->slow.trips, trips_took(&s->slow.trips, now, s->slow.sent));
  if (s->mode == MEASURE)
    find(s, now, lag);
  else if (s->mode == FOLLOW)
    measure(s, now);
  bool known = spacing_seen(&s->came, now, first_had(&s->slow));
  if (first_had(&s->slow) > s->slow.rounds.until)
    end_round(s, now);
  else if (known)
    tell(s, now, s->slow.rounds.least, s->mode == MEASURE ? s->before : s->slow.rate);
  follow(s, now);
}

static void tick(void *state, dc_time now)
{
  struct state *s = state;
  if (now < s->tick + s->p.interval)
    return;
  s->tick += (now - s->tick) / s->p.interval * s->p.interval;
  follow(s, now);
}

static dc_time next_tick(const void *state)
{
  const struct state *s = state;
  return s->tick + s->p.interval;
}

static uint64_t rate(const void *state) { return ((const struct state *)state)->rate; }

static uint8_t told(void *state, uint32_t sent, uint64_t limit)
{
  struct state *s = state;
  s->limit = limit;
  return steps_tell(&s->slow.credits, sent, s->slow.low);
}

const struct dc_cc_ops dc_cc_steady = {.name = "steady",
                                       .spreads_repairs = true,
                                       .init = start,
                                       .interest = interest,
                                       .tick = tick,
                                       .next_tick = next_tick,
                                       .rate = rate,
                                       .told = told};
