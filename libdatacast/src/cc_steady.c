/* Holds the slowest receiver a few packets behind the others (docs/decisions/congestion-control.md).
 *
 * A receiver asks for one more number when it has got one, and interests tell how many numbers the slowest has not asked for
 * yet (lag). The source told all of them their credits, so it knows what the slowest has had: its rate R is measured, and what
 * lies between it and the source beyond what the path holds at R, the excess x. The source then sends at R, a little more while x is
 * below its target, and less and less beyond it, down to nearly nothing where the slowest would fall out of the caches. */
#include "cc_cubic.h"
#include "cc_packets.h"
#include "cc_steps.h"
#include "datacast/cc.h"

enum mode {
  START,   /* nobody is behind: the rate doubles per round trip */
  MEASURE, /* somebody is, and its rate is not known yet, but for a bound */
  FOLLOW   /* it is measured all the time */
};

enum {
  ALONE = 4,    /* packets that the slowest may be behind by chance */
  STALE = 8,    /* levels of a tree, each of which tells of the packet before */
  SPAN = 8,     /* packets of the slowest receiver that tell its rate; twice as many the first time */
  CREDITS = 16, /* w, where it is not known */
  BEYOND = 64,  /* credits beyond the path that are room, and an eighth of a longer one (seed 1665) */
  CREEP = 16    /* a front that waits goes on at such a part of R */
};

/* Nobody who stands still is waited for longer than WAIT: who is out for longer has gone, or asks for little. A front that waits sends a
 * packet per STEP at least, but no more than half of what the slowest takes: what is asked for next says that all are there again. */
#define WAIT (100 * DC_MS)
#define STEP (20 * DC_MS)

/* Round trips: one begins when the one before is over, and is over when somebody has had more than was sent before it. */
struct trips {
  dc_time begun, least; /* the shortest that was seen; 0: none yet */
  uint32_t until;
};

struct state {
  struct dc_cc_params p;
  uint64_t rate, base; /* r, and R as far as known */
  uint64_t limit;      /* of r, from the control plane; 0 for none */
  uint64_t before;     /* R as far as known before somebody was behind */
  dc_time tick;
  dc_time from, moved;          /* begin of the measurement; when the slowest last asked for more */
  dc_time heard;                /* somebody asked */
  struct trips rounds, slowest; /* of the first to ask; of the slowest (hosts that take turns, test_busy_hosts.py) */
  struct steps credits;
  struct cubic losses;
  uint32_t front, low; /* what the first and the slowest have asked for */
  uint32_t sent, depth;
  uint32_t from_had, from_sent;
  uint32_t stale; /* packets that the slowest only seems to be behind */
  uint32_t round_front;
  int64_t round_excess;
  uint8_t mode, probe;
  bool last; /* nobody can ask for more */
  bool dry;  /* nothing more was there to send in this round: it tells nothing (BBR: application-limited) */
  bool edge; /* the first measurement began when the slowest got something, not in silence (range, 100 ms: 0.957) */
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

static dc_time took(struct trips *t, dc_time now, uint32_t sent)
{
  dc_time took = now > t->begun ? now - t->begun : 1;
  t->begun = now;
  t->until = sent;
  return took;
}

static void seen(struct trips *t, dc_time took) { t->least = t->least == 0 || took < t->least ? took : t->least; }

static uint32_t had(const struct state *s, uint32_t asked) { return steps_had(&s->credits, asked); }

/* What the way to the slowest holds at R: no more than its credits, however long it stood still when it was timed. */
static uint64_t path(const struct state *s)
{
  uint64_t n = held(s, s->base, s->slowest.least != 0 ? s->slowest.least : s->rounds.least),
           w = steps_out(&s->credits, s->low);
  return n < w ? n : w;
}

static uint64_t clamped(const struct state *s, uint64_t rate)
{
  return clamp(s, rate < s->losses.most ? rate : s->losses.most);
}

static void start(void *state, dc_time now, const struct dc_cc_params *p)
{
  struct state *s = state;
  *s = (struct state){.p = *p, .tick = now, .depth = 1, .rounds.begun = now, .probe = 1};
  s->p.credits = p->credits != 0 ? p->credits : CREDITS;
  steps_init(&s->credits, s->p.credits);
  cubic_init(&s->losses, p->rate_max);
  s->rate = s->base = clamp(s, p->rate_init);
}

static dc_time packet_time(const struct state *s) { return (dc_time)s->p.packet_bytes * 8 * DC_SEC / s->base; }

/* Nobody asks for anything: nobody says how the slowest does, and what waits may be all that there is (seeds 729, 14968, 47549). */
static bool quiet(const struct state *s, dc_time now, dc_time more)
{
  return now - s->heard > (s->last ? 2 * s->rounds.least : 4 * s->rounds.least + more);
}

/* Nobody who stands still is waited for for ever. Who takes less than a packet in 25 ms does not stand still for WAIT (case 26 of the
 * sweep, 65 % duplicates). A front that waits asks for one packet in CREEP. */
static bool waits(const struct state *s, dc_time now)
{
  dc_time few = ALONE * packet_time(s);
  return !quiet(s, now, 2 * CREEP * packet_time(s)) && now - s->moved <= (few > WAIT ? few : WAIT);
}

/* Packets on their way to the slowest beyond what the path holds. */
static int64_t excess(const struct state *s) { return (int64_t)s->sent - had(s, s->low) - (int64_t)path(s) - s->stale; }

static uint32_t lag_of(const struct state *s)
{
  uint32_t lag = had(s, s->front) - had(s, s->low);
  return lag > s->stale ? lag - s->stale : 0;
}

/* Has it taken all that was sent since the measurement began, at the same small distance? Then its rate is not known. */
static bool keeps_up(struct state *s, uint32_t moved)
{
  uint32_t lag = had(s, s->front) - had(s, s->low);
  if (s->sent - s->from_sent > moved + 1 || s->sent - s->from_sent + 1 < moved || lag > STALE)
    return false;
  s->stale = lag;
  return true;
}

static uint64_t room_of(const struct state *s)
{
  uint64_t n = path(s), w = steps_out(&s->credits, s->low);
  uint64_t beyond = w > n ? w - n : 0, most = n / 8 > BEYOND ? n / 8 : BEYOND;
  most = most > s->p.credits ? most : s->p.credits;
  return s->depth + (beyond < most ? beyond : most);
}

static uint64_t target_of(const struct state *s)
{
  uint64_t room = room_of(s);
  return room / 4 * 3 < s->p.credits ? room / 4 * 3 : s->p.credits;
}

/* Up to the target more than R, beyond it a little less, so that the excess stays there; where a fourth of the room is left the
 * front waits. Where R is not known yet and nobody asks any more it never will be: what has room goes at the rate of before. */
static void follow(struct state *s, dc_time now)
{
  s->rate = clamped(s, s->base);
  if (s->mode == START)
    return;
  uint64_t n = path(s), room = room_of(s), target = target_of(s), late = room / 4 * 3;
  int64_t x = excess(s);
  uint64_t over = x > 0 ? (uint64_t)x : 0;
  if (s->mode == MEASURE && over <= late && quiet(s, now, 0)) {
    s->rate = clamped(s, s->before);
    return;
  }
  if (over <= target) {
    s->rate = clamped(s, s->base + s->base / ((n > target ? n : target) + 1) * (target - over));
    return;
  }
  if (!waits(s, now))
    return;
  uint64_t less = target < late ? s->base / 8 : 0;
  if (over <= late) {
    s->rate = clamped(s, s->base - less / (late - target) * (over - target));
    return;
  }
  uint64_t least = per_second(s, 1, STEP);
  least = least > s->base / 2 ? s->base / 2 : least < s->base / CREEP ? s->base / CREEP : least;
  s->rate = over < room ? (s->base - less) / (room - late) * (room - over) : 0;
  s->rate = clamped(s, s->rate < least ? least : s->rate);
}

static void measure_from(struct state *s, dc_time now)
{
  s->from = now;
  s->from_had = had(s, s->low);
  s->from_sent = s->sent;
  s->edge = false;
}

/* What was sent in a row before somebody was noticed to be behind is what tells its rate. */
static void keep_rate(struct state *s, dc_time now)
{
  (void)now;
  s->before = s->base;
}

static void begin_round(struct state *s)
{
  s->round_front = s->front;
  s->round_excess = excess(s);
  s->dry = false;
}

/* Who has had all of that was held up and is not slow; and a round in which that was tells no rate (test_busy_hosts.py). */
static void take_rate_back(struct state *s, dc_time now)
{
  s->base = s->before;
  measure_from(s, now);
  took(&s->rounds, now, s->sent);
  begin_round(s);
}

static void take_rate(struct state *s, dc_time now)
{
  uint64_t found = per_second(s, had(s, s->low) - s->from_had, now - s->from);
  s->base = clamp(s, found - found / 16);
  measure_from(s, now);
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
    {START, CUT, FOLLOW, measure_from},
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
  uint32_t moved = had(s, s->low) - s->from_had;
  if (!waits(s, now)) {
    take_rate_back(s, now);
    return;
  }
  if (lag < ALONE / 2) {
    happened(s, now, CAUGHT_UP);
    return;
  }
  if (!s->edge && moved > 0) {
    measure_from(s, now);
    s->edge = true;
  } else if (s->edge && moved >= 2 * SPAN) {
    happened(s, now, TIMED);
    return;
  }
  uint64_t bound = per_second(s, moved + 1, now - s->from);
  uint64_t least = per_second(s, 1, moved == 0 ? STEP : WAIT);
  if (moved == 0 && least < s->before / CREEP)
    least = s->before / CREEP;
  if (bound < least)
    bound = least;
  /* It has credits for all that is on the way, and half of the room is left: perhaps a deep tree is only being filled. Or it has had all
   * that was sent meanwhile (case 26 of the sweep, 24 % duplicates). */
  uint64_t sent = s->sent - had(s, s->low);
  bool few = sent < s->p.credits && sent < room_of(s) / 2;
  if (!few && bound < s->base && s->sent - s->from_sent > moved + 1)
    s->base = clamp(s, bound);
}

/* In FOLLOW. */
static void measure(struct state *s, dc_time now)
{
  uint32_t moved = had(s, s->low) - s->from_had;
  dc_time dt = now - s->from;
  uint64_t n = path(s);
  if ((moved < SPAN && (moved < 2 || dt < WAIT)) || moved < n / 8)
    return;
  uint64_t r = clamp(s, per_second(s, moved, dt));
  bool known = !keeps_up(s, moved); /* a deep tree has its distance while r rises, too (seed 22679) */
  if (r > s->base)
    s->base += (r - s->base) / 4;
  else if (known && (lag_of(s) >= ALONE || excess(s) >= (int64_t)target_of(s)))
    s->base -= (s->base - r) / 4;
  measure_from(s, now);
}

/* Has the control plane divided the link? Then all who send there are known. */
static bool divided(const struct state *s) { return s->limit != 0 && s->limit < s->p.rate_max / 10 * 9; }

/* Among groups the control plane has divided the link already, and none goes below half of its share. */
static void lost(struct state *s, dc_time now, uint32_t seq)
{
  if (!cubic_new(&s->losses, seq, s->sent))
    return;
  if (lag_of(s) >= ALONE && (lag_of(s) > target_of(s) || excess(s) > (int64_t)target_of(s)))
    return; /* its own queue, not that of all */
  uint64_t r = clamped(s, s->mode == MEASURE ? s->before : s->base), half = divided(s) ? s->limit / 2 : 0;
  if (s->limit != 0 && s->limit < r)
    r = s->limit; /* a part of what is not sent drains no queue */
  cubic_cut(&s->losses, now, r, half > s->p.rate_min ? half : s->p.rate_min);
  happened(s, now, CUT);
}

/* What the path holds, for receivers. Beside those who answer losses its queues too, or credits and not losses would say what each gets;
 * but not in the first STEP of losses, in which who shares a link with groups that begin is told his share. */
static void tell(struct state *s, dc_time now, dc_time trip)
{
  uint64_t r = s->limit != 0 && s->limit < s->base ? s->limit : s->base, n = held(s, r, s->rounds.least) / 4 * 5;
  uint64_t queued = held(s, clamped(s, s->base), trip) / 4 * 5;
  if (cubic_bounds(&s->losses) && now - s->losses.since > STEP && !divided(s) && queued > n + s->p.credits)
    n = queued - s->p.credits;
  steps_want(&s->credits, n);
}

/* What is not sent tries nothing. Who is not waited for does not count. */
static bool may_try(const struct state *s, dc_time now)
{
  if (s->base >= s->losses.most)
    return false;
  return !waits(s, now) ||
         (excess(s) < (int64_t)target_of(s) / 4 * 3 && (lag_of(s) < ALONE || excess(s) <= s->round_excess));
}

static void end_round(struct state *s, dc_time now)
{
  dc_time trip = took(&s->rounds, now, s->sent);
  if (!s->dry)
    seen(&s->rounds, trip);
  else if (s->rounds.least != 0)
    trip = s->rounds.least;
  uint64_t r = per_second(s, s->front - s->round_front, trip);
  if (s->mode == START) {
    if (!s->dry && (2 * r >= s->base || s->front - s->round_front >= SPAN)) /* silence is no rate */
      s->base = clamp(s, 2 * r < 2 * s->base ? 2 * r : 2 * s->base);
  } else if (s->mode == FOLLOW && may_try(s, now)) {
    s->base = clamp(s, s->base + s->base / 64 * s->probe);
    if (s->probe < 16)
      s->probe *= 2;
  } else {
    s->probe = 1;
  }
  /* Among groups in half of the time: they need not find out what each may have. */
  cubic_grow(&s->losses, now, trip, divided(s) ? 2 : 1, s->p.packet_bytes);
  tell(s, now, trip);
  begin_round(s);
}

static void interest(void *state, dc_time now, const struct dc_cc_event *e)
{
  struct state *s = state;
  s->sent = e->next_seq;
  s->heard = now;
  s->dry |= e->dry;
  s->last = e->last;
  if (e->duplicate) {
    if (e->retx)
      lost(s, now, e->seq);
    follow(s, now);
    return;
  }
  if (s->front == 0)
    s->rounds.begun = s->slowest.begun = s->moved = now;
  s->depth = e->depth;
  if (e->seq >= s->front)
    s->front = e->seq + 1;
  uint32_t low = s->front > e->lag ? s->front - e->lag : 0;
  if (low < s->low && s->low - low > 1 + e->lag / 16) { /* another one; less is in how it is told */
    s->low = low;
    measure_from(s, now);
    s->moved = now;
  } else if (low > s->low) {
    s->low = low;
    s->moved = now;
  }
  if (s->stale > had(s, s->front) - had(s, s->low)) /* seed 11046 */
    s->stale = had(s, s->front) - had(s, s->low);
  uint32_t lag = lag_of(s);
  if (lag >= ALONE)
    happened(s, now, BEHIND);
  else if (s->mode == START && lag == 0)
    measure_from(s, now); /* what came before somebody was behind is not the slowest's pace (seed 17330) */
  if (had(s, s->low) > s->slowest.until)
    seen(&s->slowest, took(&s->slowest, now, s->sent));
  if (s->mode == MEASURE)
    find(s, now, lag);
  else if (s->mode == FOLLOW)
    measure(s, now);
  if (had(s, s->front) > s->rounds.until)
    end_round(s, now);
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
  return steps_tell(&s->credits, sent, s->low);
}

const struct dc_cc_ops dc_cc_steady = {.name = "steady",
                                       .spreads_repairs = true,
                                       .init = start,
                                       .interest = interest,
                                       .tick = tick,
                                       .next_tick = next_tick,
                                       .rate = rate,
                                       .told = told};
