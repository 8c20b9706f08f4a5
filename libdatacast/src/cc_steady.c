/* Holds the slowest receiver a few packets behind the others (docs/decisions/congestion-control.md).
 *
 * A receiver asks for one more number when it has got one, and interests tell how many numbers the slowest has not asked for
 * yet (lag). The source told all of them their credits, so it knows what the slowest has had: its rate R is measured, and what
 * lies between it and the source beyond what the path holds at R, the excess x. The source then sends at R, a little more while x is
 * below its target, and less and less beyond it, down to nearly nothing where the slowest would fall out of the caches. */
#include "datacast/cc.h"
#include "datacast/wire.h"

enum mode {
  START,   /* nobody is behind: the rate doubles per round trip */
  MEASURE, /* somebody is, and its rate is not known yet, but for a bound */
  FOLLOW   /* it is measured all the time */
};

enum {
  ALONE = 4,       /* packets that the slowest may be behind by chance */
  STALE = 8,       /* levels of a tree, each of which tells of the packet before */
  SPAN = 8,        /* packets of the slowest receiver that tell its rate; twice as many the first time */
  STEPS = 4,       /* changes of credits that receivers may not have heard of yet */
  CREDITS = 16,    /* w, where it is not known */
  CUBIC = 1 << 15, /* ms that are looked at along the cubic, in which it grows by 14,000 packets */
  CREEP = 16,      /* a front that waits goes on at such a part of R */
  RESTS = 10
};

/* Nobody who stands still is waited for longer than WAIT, and then not again for RESTS times that: who is out for longer has
 * gone, or asks for little. A front that waits sends a packet per STEP at least, but no more than half of what the slowest takes: what is
 * asked for next says that all are there again. */
#define WAIT (100 * DC_MS)
#define STEP (20 * DC_MS)

struct step {
  uint32_t seq, w; /* receivers have w credits from this packet on */
};

struct state {
  struct dc_cc_params p;
  uint64_t rate, base;  /* r, and R as far as known */
  uint64_t limit;       /* of r, from the control plane; 0 for none */
  uint64_t ceiling;     /* r where losses are expected again */
  uint64_t after, most; /* r after the last answer to a loss, and how far it may have grown since then */
  uint64_t before;      /* R as far as known before somebody was behind */
  uint64_t found;       /* and while it is measured first */
  dc_time tick;
  dc_time trip, reach;    /* shortest round trips seen: of the first to ask, of the slowest; 0: none yet */
  dc_time begun, sent_at; /* the round, and what the slowest answers */
  dc_time from, moved;    /* begin of the measurement; when the slowest last asked for more */
  dc_time losses, cut;    /* since when losses bound r; the last answer to one */
  dc_time rests;          /* until then nobody is waited for */
  dc_time heard;          /* somebody asked */
  struct step step[STEPS];
  uint32_t front, low; /* what the first and the slowest have asked for */
  uint32_t sent, depth;
  uint32_t from_had, from_sent;
  uint32_t stale;          /* packets that the slowest only seems to be behind */
  uint32_t round, reached; /* packets whose answers are waited for */
  uint32_t round_front;
  int64_t round_excess;
  uint32_t cut_sent;
  uint8_t mode, told, next, probe;
  bool alone; /* nobody was behind in this round */
  bool dry;   /* there was nothing more to send in it: it tells no rate and no round trip (BBR: application-limited) */
  bool whole; /* the mode was START all through it */
  bool edge;  /* the measurement began when the slowest got something */
};

_Static_assert(sizeof(struct state) <= DC_CC_STATE, "state of cc=steady");

static uint64_t clamp(const struct state *s, uint64_t rate)
{
  return rate < s->p.rate_min ? s->p.rate_min : rate > s->p.rate_max ? s->p.rate_max : rate;
}

/* bit/s of so many packets in so long, without overflow for up to 2^33 bits. */
static uint64_t per_second(const struct state *s, uint64_t packets, dc_time dt)
{
  return dt == 0 ? UINT64_MAX : packets * s->p.packet_bytes * 8 * DC_SEC / dt;
}

/* Packets of some time at a rate, below 2^42 and some hours. */
static uint64_t held(const struct state *s, uint64_t rate, dc_time t)
{
  return rate / 1000 * (t / DC_US) / 1000 / (8 * (uint64_t)s->p.packet_bytes);
}

/* What a receiver has had that has asked for so many: credits grow at once and are given up with every fourth packet. */
static uint32_t had(const struct state *s, uint32_t asked)
{
  for (unsigned i = STEPS - 1; i > 0; i--) {
    uint64_t seq = s->step[i].seq, w = s->step[i].w, before = s->step[i - 1].w;
    if (asked <= seq + before)
      continue;
    uint64_t n = asked > w ? asked - w : 0, slow = seq + (asked - seq - before) * 4 / 3;
    if (w >= before)
      return (uint32_t)(n > seq ? n : seq);
    return (uint32_t)(n < slow ? n : slow);
  }
  return asked > s->step[0].w ? asked - s->step[0].w : 0;
}

/* What the way to the slowest holds at R: no more than its credits, however long it stood still when it was timed. */
static uint64_t path(const struct state *s)
{
  uint64_t n = held(s, s->base, s->reach != 0 ? s->reach : s->trip), w = s->low - had(s, s->low);
  return n < w ? n : w;
}

static uint64_t clamped(const struct state *s, uint64_t rate) { return clamp(s, rate < s->most ? rate : s->most); }

static void start(void *state, dc_time now, const struct dc_cc_params *p)
{
  struct state *s = state;
  *s = (struct state){.p = *p, .tick = now, .depth = 1, .begun = now, .probe = 1, .alone = true, .whole = true};
  s->p.credits = p->credits != 0 ? p->credits : CREDITS;
  for (unsigned i = 0; i < STEPS; i++)
    s->step[i].w = s->p.credits;
  s->after = s->most = s->ceiling = p->rate_max;
  s->rate = s->base = clamp(s, p->rate_init);
}

/* Nobody who stands still is waited for for ever. */
static bool waits(struct state *s, dc_time now)
{
  if (now < s->rests)
    return false;
  dc_time each = (dc_time)s->p.packet_bytes * 8 * DC_SEC / s->base, few = ALONE * each;
  if (now - s->heard > 4 * s->trip + 2 * CREEP * each) /* nobody asks for more: what waits is all that there is */
    return false;
  if (now - s->moved <= (few > WAIT ? few : WAIT))
    return true;
  s->rests = now + RESTS * WAIT;
  return false;
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
  uint64_t n = path(s), w = s->low - had(s, s->low);
  return s->depth + (w > n ? w - n : 0);
}

static uint64_t target_of(const struct state *s)
{
  uint64_t room = room_of(s);
  return room / 4 * 3 < s->p.credits ? room / 4 * 3 : s->p.credits;
}

/* Up to the target more than R, beyond it a little less, so that the excess stays there; where a fourth of the room is left the
 * front waits. */
static void follow(struct state *s, dc_time now)
{
  s->rate = clamped(s, s->base);
  if (s->mode == START)
    return;
  uint64_t n = path(s), room = room_of(s), target = target_of(s), late = room / 4 * 3;
  int64_t x = excess(s);
  uint64_t over = x > 0 ? (uint64_t)x : 0;
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

/* Somebody is behind: how fast is it? What was sent in a row before it was noticed is what tells. */
static void behind(struct state *s)
{
  s->mode = MEASURE;
  s->whole = false;
  s->found = 0;
  s->before = s->base;
}

static void find(struct state *s, dc_time now, uint32_t lag)
{
  uint32_t moved = had(s, s->low) - s->from_had;
  if (!waits(s, now)) {
    s->base = s->before;
    measure_from(s, now);
    return;
  }
  if (lag < ALONE / 2) { /* it has had all of that, so it was held up and is not slow */
    s->mode = START;
    s->base = s->before;
  } else if (!s->edge && moved > 0) {
    measure_from(s, now);
    s->edge = true;
  } else if (s->edge && moved > 1) {
    s->found = per_second(s, moved, now - s->from);
    if (moved >= 2 * SPAN)
      s->mode = FOLLOW;
  }
  if (s->mode == MEASURE) {
    uint64_t bound = per_second(s, moved + 1, now - s->from);
    uint64_t least = per_second(s, 1, moved == 0 ? STEP : WAIT);
    if (moved == 0 && least < s->before / CREEP)
      least = s->before / CREEP;
    if (bound < least)
      bound = least;
    /* It has credits for all that is on the way, and half of the room is left: perhaps a deep tree is only being filled. */
    uint64_t sent = s->sent - had(s, s->low);
    bool few = sent < s->p.credits && sent < room_of(s) / 2;
    if (!few && bound < s->base && s->sent - s->from_sent > moved + 1)
      s->base = clamp(s, bound);
    return;
  }
  if (s->mode == FOLLOW)
    s->base = clamp(s, s->found - s->found / 16);
  measure_from(s, now);
}

static void measure(struct state *s, dc_time now)
{
  uint32_t moved = had(s, s->low) - s->from_had;
  dc_time dt = now - s->from;
  uint64_t n = path(s);
  if ((moved < SPAN && (moved < 2 || dt < WAIT)) || moved < n / 8)
    return;
  uint64_t r = clamp(s, per_second(s, moved, dt));
  if (r > s->base)
    s->base += (r - s->base) / 4;
  else if (keeps_up(s, moved))
    ;
  else if (lag_of(s) >= ALONE || excess(s) >= (int64_t)target_of(s))
    s->base -= (s->base - r) / 4;
  measure_from(s, now);
}

/* Has the control plane divided the link? Then all who send there are known. */
static bool divided(const struct state *s) { return s->limit != 0 && s->limit < s->p.rate_max / 10 * 9; }

/* As CUBIC does (RFC 9438): three tenths lower, once per window. Who has less than the last time leaves the rest to others. Among
 * groups the control plane has divided the link already, and none goes below half of its share. */
static void lost(struct state *s, dc_time now, uint32_t seq)
{
  if (seq < s->cut_sent || (s->cut != 0 && now - s->cut < s->trip))
    return; /* what was sent before the last answer was told then */
  s->cut_sent = s->sent;
  if (lag_of(s) >= ALONE && excess(s) > (int64_t)target_of(s))
    return; /* its own queue, not that of all */
  uint64_t r = clamped(s, s->base);
  if (s->limit != 0 && s->limit < r)
    r = s->limit; /* a part of what is not sent drains no queue */
  uint64_t less = r / 10 * 7, half = divided(s) ? s->limit / 2 : 0;
  if (s->most == s->p.rate_max)
    s->losses = now;
  s->cut = now;
  s->ceiling = r < s->ceiling ? r / 20 * 17 : r;
  s->after = s->most = clamp(s, less > half ? less : half);
  s->probe = 1;
  if (s->mode == START) {
    s->mode = FOLLOW;
    s->whole = false;
    measure_from(s, now);
  }
}

static uint64_t cube_root(uint64_t n)
{
  uint64_t root = 0;
  for (uint64_t bit = CUBIC / 2; bit > 0; bit /= 2)
    if ((root + bit) * (root + bit) * (root + bit) <= n)
      root += bit;
  return root;
}

/* And up along its curve, 0.4 (t - K)^3 packets from what it was, K being when it is there again; or as Reno beside such cuts where
 * that is more, 0.53 packets a round. Among groups in half of that time: they need not find out what each may have. */
static void regrow(struct state *s, dc_time now, dc_time took)
{
  if (s->most == s->p.rate_max)
    return;
  uint64_t n = held(s, s->ceiling > s->after ? s->ceiling - s->after : 0, took);
  dc_time since = (now - s->cut) * (divided(s) ? 2 : 1);
  uint64_t t = since / DC_MS, k = cube_root((n < CUBIC ? n : CUBIC) * 2500000000); /* ms */
  uint64_t d = t > k ? t - k : k - t;
  d = d < CUBIC ? d : CUBIC;
  uint64_t off = per_second(s, d * d * d * 2 / 5 / 1000000000, took);
  uint64_t cubic = t > k ? s->ceiling + off : s->ceiling > off ? s->ceiling - off : 0;
  uint64_t reno = s->after + per_second(s, 53, took) / 100 * (since / took);
  cubic = cubic > reno ? cubic : reno;
  if (cubic > s->most)
    s->most = clamp(s, cubic);
}

/* What the path holds, for receivers. Beside those who answer losses its queues too, or credits and not losses would say what each gets;
 * but not in the first STEP of losses, in which who shares a link with groups that begin is told his share. */
static void tell(struct state *s, dc_time now, dc_time took)
{
  uint64_t r = s->limit != 0 && s->limit < s->base ? s->limit : s->base, n = held(s, r, s->trip) / 4 * 5;
  uint64_t queued = held(s, clamped(s, s->base), took) / 4 * 5;
  if (s->most < s->p.rate_max && now - s->losses > STEP && !divided(s) && queued > n + s->p.credits)
    n = queued - s->p.credits;
  uint8_t most = dc_path_flags(n < DC_PATH_MAX ? (uint32_t)n : DC_PATH_MAX);
  if (most > s->next)
    s->next = most;
  else if (s->next >= 0x20 && most + 0x20 <= s->next)
    s->next = (uint8_t)(s->next - 0x10);
}

static void end_round(struct state *s, dc_time now)
{
  dc_time took = now - s->begun;
  if (!s->dry)
    s->trip = s->trip == 0 || took < s->trip ? (took > 0 ? took : 1) : s->trip;
  else if (s->trip != 0)
    took = s->trip;
  uint64_t r = per_second(s, s->front - s->round_front, took > 0 ? took : 1);
  if (s->mode == START) {
    if (s->whole && !s->dry && (2 * r >= s->base || s->front - s->round_front >= SPAN)) /* silence is no rate */
      s->base = clamp(s, 2 * r < 2 * s->base ? 2 * r : 2 * s->base);
  } else if (s->mode == FOLLOW && s->base < s->most && /* what is not sent tries nothing */
             (s->alone || (excess(s) <= s->round_excess && excess(s) < (int64_t)target_of(s) / 4 * 3))) {
    s->base = clamp(s, s->base + s->base / 64 * s->probe);
    if (s->probe < 16)
      s->probe *= 2;
  } else {
    s->probe = 1;
  }
  regrow(s, now, took > 0 ? took : 1);
  tell(s, now, took);
  s->begun = now;
  s->round = s->sent;
  s->round_front = s->front;
  s->round_excess = excess(s);
  s->alone = true;
  s->dry = false;
  s->whole = s->mode == START;
}

static void interest(void *state, dc_time now, const struct dc_cc_event *e)
{
  struct state *s = state;
  s->sent = e->next_seq;
  s->heard = now;
  s->dry |= e->dry;
  if (e->duplicate) {
    if (e->retx)
      lost(s, now, e->seq);
    follow(s, now);
    return;
  }
  if (s->front == 0)
    s->begun = s->sent_at = s->moved = now;
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
    s->rests = 0;
  }
  if (s->stale > had(s, s->front) - had(s, s->low))
    s->stale = had(s, s->front) - had(s, s->low);
  uint32_t lag = lag_of(s);
  if (s->mode == START && lag >= ALONE) {
    behind(s);
  } else if (s->mode == START && lag == 0)
    measure_from(s, now);
  s->alone &= now < s->rests || (lag < ALONE && excess(s) < (int64_t)target_of(s) / 4 * 3);
  if (had(s, s->low) > s->reached) {
    dc_time took = now - s->sent_at;
    s->reach = s->reach == 0 || took < s->reach ? took : s->reach;
    s->sent_at = now;
    s->reached = s->sent;
  }
  if (s->mode == MEASURE)
    find(s, now, lag);
  else if (s->mode == FOLLOW)
    measure(s, now);
  if (had(s, s->front) > s->round)
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

/* Has the slowest taken this step? */
static bool taken(const struct state *s, unsigned i)
{
  uint32_t before = s->step[i - 1].w, w = s->step[i].w;
  return had(s, s->low) >= s->step[i].seq + (w < before ? 4 * (before - w) : 0);
}

/* What receivers have had can only be told while few steps are on their way, and one that gives up credits alone. */
static bool may_step(const struct state *s, bool down)
{
  bool last = taken(s, STEPS - 1);
  return last || (!down && s->step[STEPS - 1].w >= s->step[STEPS - 2].w && taken(s, 1));
}

static uint8_t told(void *state, uint32_t sent, uint64_t limit)
{
  struct state *s = state;
  s->limit = limit;
  if (s->next != s->told && may_step(s, s->next < s->told)) {
    for (unsigned i = 1; i < STEPS; i++)
      s->step[i - 1] = s->step[i];
    s->told = s->next;
    s->step[STEPS - 1] = (struct step){sent, s->p.credits + dc_path_packets(s->told)};
  }
  return s->told;
}

const struct dc_cc_ops dc_cc_steady = {.name = "steady",
                                       .spreads_repairs = true,
                                       .init = start,
                                       .interest = interest,
                                       .tick = tick,
                                       .next_tick = next_tick,
                                       .rate = rate,
                                       .told = told};
