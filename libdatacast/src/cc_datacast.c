/* The paper's rule (section 5.2): halve at every duplicate interest, add delta after T without one. */
#include "datacast/cc.h"

struct state {
  struct dc_cc_params p;
  uint64_t rate;
  dc_time quiet; /* the last duplicate or increase: T runs from here */
};

_Static_assert(sizeof(struct state) <= DC_CC_STATE, "state of cc=datacast");

static uint64_t clamp(const struct dc_cc_params *p, uint64_t rate)
{
  return rate < p->rate_min ? p->rate_min : rate > p->rate_max ? p->rate_max : rate;
}

static void start(void *state, dc_time now, const struct dc_cc_params *p)
{
  struct state *s = state;
  s->p = *p;
  s->rate = clamp(p, p->rate_init);
  s->quiet = now;
}

static void interest(void *state, dc_time now, const struct dc_cc_event *e)
{
  struct state *s = state;
  if (!e->duplicate)
    return;
  s->rate = clamp(&s->p, s->rate / 2);
  s->quiet = now;
}

static void tick(void *state, dc_time now)
{
  struct state *s = state;
  uint64_t n = (now - s->quiet) / s->p.interval;
  s->quiet += n * s->p.interval;
  uint64_t room = s->p.rate_max - s->rate;
  s->rate = s->p.delta != 0 && n > room / s->p.delta ? s->p.rate_max : s->rate + n * s->p.delta;
}

static dc_time next_tick(const void *state)
{
  const struct state *s = state;
  return s->quiet + s->p.interval;
}

static uint64_t rate(const void *state) { return ((const struct state *)state)->rate; }

const struct dc_cc_ops dc_cc_datacast = {
    .name = "datacast", .init = start, .interest = interest, .tick = tick, .next_tick = next_tick, .rate = rate};
