#include "cable.h"

/* What a round (a round trip of the leader) saw leads from state to state:
 *
 *   state    | no queue         | a queue                  | FULL queues in a row | loss
 *   starting | window doubles   | drain, sharing           |                      | cut, drain, sharing
 *   sharing  | + C / STEPS      | drain                    | competing            | cut, drain
 *   competing| sharing          | grows as Cubic           |                      | cut, as Cubic
 *
 * Additive increase by the same step for all, and a cut by the same part at the same moment, for all see the same queue:
 * shares become equal (Chiu and Jain, 1989), whatever they were and whoever came first. */
static bool competing(const struct dc_cable *c);
static dc_time threshold(const struct dc_cable *c);
enum {
  STEPS = 64,
  QUEUE = 4,   /* packets that wait by chance where paths cross, */
  PART = 32,   /* and this part of the round trip, are no queue */
  SILENCE = 4, /* packets of the rate without an interest: a host stood still */
  SPREAD = 3,  /* a queue delays all: the longest trip of a round by no more than so many times the shortest */
  SAMPLES = 4, /* that a round needs */
  FULL = 16,   /* drains that did not help: somebody keeps the queue, so TCP does; as many more until it is forgotten, */
  FORGET = 4,  /* so many for each round without a queue */
  BACK = 8,
  CALM = 12,   /* rounds without a queue that double the step: others have left */
  MARGIN = 64, /* part of the window that a drain gives up */
  PAUSE = 4,   /* a pause sends at this part of the rate */
  RARE = 50    /* losses: one in so many packets of a round is no congestion (BBRv2), unless TCP is there */
};


static uint64_t packet(const struct dc_cable *c) { return 8 * (uint64_t)c->p.packet_bytes; }
static uint64_t within(uint64_t x, uint64_t low, uint64_t high) { return x < low ? low : x > high ? high : x; }
/* Bits that a rate (below 2^42) makes of a time. */
static uint64_t product(uint64_t rate, dc_time t) { return rate / 1000 * (t / DC_US + (t < DC_MS)) / 1000; }

void dc_cable_init(struct dc_cable *c, const struct dc_cc_params *p)
{
  *c = (struct dc_cable){.p = *p, .starting = true};
  if (p->weight == 0)
    c->p.weight = 100;
  if (p->credits == 0)
    c->p.credits = 16;
}

uint64_t dc_cable_rate(const struct dc_cable *c)
{
  dc_time over = competing(c) ? c->trip : c->base;
  uint64_t rate = c->base == 0 ? c->p.rate_init : c->window * DC_SEC / (c->paused ? c->base * PAUSE : over);
  return within(rate, c->p.rate_min, c->p.rate_max);
}

static bool competing(const struct dc_cable *c) { return c->full >= FULL; }

static dc_time threshold(const struct dc_cable *c)
{
  dc_time t = c->base / PART + QUEUE * packet(c) * DC_SEC / c->p.rate_max;
  return c->p.background ? t / 2 : t; /* gone before the others notice */
}

/* Most of the rate is left out until a queue of so long has gone; what comes back before is from before. */
static void pause(struct dc_cable *c, dc_time now, dc_time queue)
{
  c->paused = true;
  c->until = now + 1 + queue * PAUSE / (PAUSE - 1);
  c->resume = c->until + c->trip;
  c->trip = c->base;
  c->calm = 0;
}

/* What came through of the rate, over the empty path; the queue has grown by the rest, and will until this shows. */
static void drain(struct dc_cable *c, dc_time now, dc_time queue, uint64_t rate)
{
  dc_time took = now - c->begun + 1, grown = queue > c->queue ? queue - c->queue : 0;
  grown = grown < took ? grown : took;
  c->window = product(rate / 1024 * (1024 * took / (took + grown)), c->base);
  c->window -= c->window / (c->p.background ? 2 : MARGIN);
  pause(c, now, queue + c->trip / 1024 * (grown * 1024 / took + 1024 / 8));
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
static void grow_as_cubic(struct dc_cable *c, dc_time now)
{
  uint64_t ms = within((now - c->cut) / DC_MS, 0, 1u << 20), k = cbrt_of(c->top / packet(c) * 3 * DC_SEC / 4);
  int64_t off = (int64_t)ms - (int64_t)k;
  int64_t cubic = (int64_t)c->top + off * off / 1000 * off / 1000 * 4 / 10 * (int64_t)packet(c) / 1000;
  c->window += packet(c) * 53 / 100 * c->p.weight / 100;
  if (cubic > (int64_t)c->window)
    c->window = within((uint64_t)cubic, c->window, c->window + c->window / 2);
}

/* By the time that went, so that shares do not depend on how often a tree hears of its packets. */
static void grow(struct dc_cable *c, dc_time now)
{
  if (c->starting) {
    c->window *= 2;
    return;
  }
  dc_time unit = c->base > 2 * c->p.interval ? c->base : 2 * c->p.interval;
  uint64_t part = within((now - c->begun) * 1024 / unit, 0, 4096);
  uint64_t step = product(c->p.rate_max / STEPS, c->base) * c->p.weight / 100 * part / 1024 + 1;
  step = c->p.background ? step / 8 + 1 : step << within(c->calm / CALM, 0, 4);
  /* Back to where the queue came: hosts that stood still for a moment look like one. */
  uint64_t back = c->top > c->window ? (c->top - c->window) / BACK : 0;
  c->window += back > step ? back : step;
}

static void begin_round(struct dc_cable *c, dc_time now, uint32_t sent)
{
  c->begun = now;
  c->samples = 0;
  c->used = c->busy;
  c->busy = false;
  c->sent = sent;
  c->lost = 0;
}

static void end_round(struct dc_cable *c, dc_time now, uint32_t sent)
{
  dc_time queue = c->quick - c->base;
  uint64_t rate = dc_cable_rate(c);
  if (!c->busy) { /* credits were the limit */
    uint64_t real = (sent - c->sent) * packet(c) * DC_SEC / (now - c->begun + 1);
    rate = real < rate ? real : rate;
  }
  c->trip = c->quick;
  if (queue <= threshold(c) || c->slow - c->base > SPREAD * queue) {
    c->full = c->full > FORGET ? c->full - FORGET : 0;
    if (c->calm < UINT8_MAX)
      c->calm++;
    if (c->busy && competing(c))
      grow_as_cubic(c, now);
    else if (c->busy)
      grow(c, now);
  } else {
    c->starting = false;
    if (c->full == 0)
      c->top = c->window;
    if (competing(c)) {
      if (c->full < 2 * FULL)
        c->full++;
    } else if (!c->p.background && ++c->full == FULL) {
      c->full = 2 * FULL;
      c->window = c->top;
      c->cut = now;
    }
    if (!competing(c))
      drain(c, now, queue, rate);
    else if (c->busy)
      grow_as_cubic(c, now);
    else if (++c->calm % FULL == 0) /* credits are the limit, so no loss will ever tell: drain again */
      c->full = 0;
  }
  /* What waits by chance is no reason to slow down. */
  uint64_t most = product(c->p.rate_max, c->trip + threshold(c)) + packet(c);
  if (c->starting && c->window >= most) { /* what seemed an empty path may be the others' queue: look */
    c->starting = false;
    pause(c, now, c->trip);
  }
  c->window = within(c->window, product(c->p.rate_min, c->base), most);
  c->queue = queue;
  c->base += c->base / 4096; /* the path may be another one */
}

/* Interests come again after a silence: what was on its way meanwhile waited for a host that stood still. */
void dc_cable_heard(struct dc_cable *c, dc_time now, uint64_t rate)
{
  if (now - c->heard >= SILENCE * packet(c) * DC_SEC / rate) {
    c->woke = now;
    c->silence = now - c->heard;
  }
  c->heard = now;
}

bool dc_cable_trip(struct dc_cable *c, dc_time now, dc_time rtt, uint32_t sent)
{
  if (c->base == 0) {
    c->base = c->trip = rtt;
    c->begun = now;
    c->window = within(product(c->p.rate_init, rtt), 1, 2 * c->p.credits * packet(c));
  }
  if (rtt < c->base)
    c->base = rtt;
  if (rtt > c->base + threshold(c) && now - rtt < c->woke && rtt - c->base <= 2 * c->silence) {
    begin_round(c, now, sent);
    return false;
  }
  if (c->samples == 0 || rtt < c->quick)
    c->quick = rtt;
  if (c->samples == 0 || rtt > c->slow)
    c->slow = rtt;
  c->samples++;
  bool ends = now >= c->resume && (c->samples > SAMPLES ? now - c->begun >= c->trip : now - c->begun > SAMPLES * c->trip + c->p.interval);
  if (ends)
    end_round(c, now, sent);
  if (ends || now < c->resume)
    begin_round(c, now, sent);
  return ends;
}

void dc_cable_lost(struct dc_cable *c, dc_time now, uint32_t seq, uint32_t sent)
{
  if (c->base == 0 || (int32_t)(seq - c->cut_sent) < 0 || (++c->lost * RARE < sent - c->sent && !competing(c)))
    return;
  c->cut_sent = sent;
  c->cut = now;
  c->top = c->window;
  if (c->window > 2 * packet(c)) /* below that, more losses tell nothing: RFC 5681 */
    c->window = c->window / 10 * 7;
  c->starting = false;
  if (!competing(c))
    pause(c, now, c->trip > c->base ? c->trip - c->base : 0);
}

void dc_cable_tick(struct dc_cable *c, dc_time now) { c->paused &= now < c->until; }
