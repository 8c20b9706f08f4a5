/* Rate control over a path of some delay: what is told of it, and what losses and others in its queue do. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "datacast/cc.h"
#include "datacast/wire.h"

enum { DEPTH = 87 };

static uint64_t state[DC_CC_STATE / 8];
static const struct dc_cc_params params = {.rate_init = 500000000,
                                           .rate_min = 1000000,
                                           .rate_max = 1000000000,
                                           .delta = 5000000,
                                           .interval = DC_MS,
                                           .packet_bytes = 1500};

static struct dc_cc_event lost_event(uint32_t n, uint32_t ago)
{
  return (struct dc_cc_event){.duplicate = true, .retx = true, .seq = n - ago, .next_seq = n, .depth = DEPTH};
}

/* One receiver over a path of some delay that drops nothing, from the rule's point of view: it has the credits of the plan and what
 * it was told, gives one up with every fourth packet, and asks for n + w when it gets n. */
static struct {
  dc_time at[1 << 22]; /* when the source hears of a number */
  uint32_t n, asked, heard, w, got;
  uint64_t limit; /* what the control plane allows; 0: all */
  dc_time now;
} pipe_;

static void run_path(const struct dc_cc_ops *cc, dc_time trip, dc_time until, uint32_t credits)
{
  while (pipe_.now < until) {
    dc_time next = pipe_.now + (dc_time)(1500 * 8 * 1e9 / (double)cc->rate(state));
    if (pipe_.at[pipe_.n] > next)
      next = pipe_.at[pipe_.n];
    for (; pipe_.heard < pipe_.asked && pipe_.at[pipe_.heard] <= next; pipe_.heard++) {
      struct dc_cc_event e = {.seq = pipe_.heard, .next_seq = pipe_.n, .depth = DEPTH};
      for (; cc->next_tick(state) <= pipe_.at[pipe_.heard];)
        cc->tick(state, cc->next_tick(state));
      cc->interest(state, pipe_.at[pipe_.heard], &e);
    }
    pipe_.now = next;
    uint32_t goal = credits + dc_path_packets(cc->told(state, pipe_.n, pipe_.limit));
    if (pipe_.w <= goal)
      pipe_.w = goal;
    else if (++pipe_.got % 4 == 0)
      pipe_.w--;
    for (pipe_.n++; pipe_.asked < pipe_.n + pipe_.w; pipe_.asked++)
      pipe_.at[pipe_.asked] =
          pipe_.now + trip > pipe_.at[pipe_.asked - 1] ? pipe_.now + trip : pipe_.at[pipe_.asked - 1];
    assert(pipe_.asked < 1 << 22);
  }
}

static void start_path(const struct dc_cc_ops *cc, uint32_t credits)
{
  struct dc_cc_params p = params;
  p.credits = credits;
  cc->init(state, 0, &p);
  assert(cc->told(state, pipe_.n, 0) == 0);
  memset(&pipe_, 0, sizeof pipe_);
  pipe_.w = pipe_.asked = credits;
}

static bool told_about(const struct dc_cc_ops *cc, uint32_t holds, uint32_t credits)
{
  uint32_t n = dc_path_packets(cc->told(state, pipe_.n, 0));
  return n + credits >= holds && n <= holds * 5 / 2; /* a fourth more, up to the next step, and one that is kept */
}

static void steady_tells_what_the_path_holds(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  assert(dc_cc_datacast.told == NULL);
  start_path(cc, 48);
  run_path(cc, 100 * DC_US, DC_SEC, 48); /* 8 packets at 1 Gb/s: the plan's credits cover them */
  assert(cc->told(state, pipe_.n, 0) == 0);

  for (uint32_t credits = 8; credits <= 48; credits += 20) {
    start_path(cc, credits);
    run_path(cc, 10 * DC_MS, 3 * DC_SEC, credits); /* 833 */
    assert(told_about(cc, 833, credits));
    uint32_t before = pipe_.n;
    run_path(cc, 10 * DC_MS, 13 * DC_SEC, credits); /* it goes on like that, and fills the link */
    assert(told_about(cc, 833, credits) && pipe_.n - before > 833333 * 0.99);
    run_path(cc, DC_MS, 15 * DC_SEC, credits); /* a path of 83 */
    assert(told_about(cc, 83, credits));
  }
}

/* What was sent a round trip ago, of 10 ms at most. */
static void lose_one(const struct dc_cc_ops *cc)
{
  struct dc_cc_event lost = lost_event(pipe_.n, 833);
  cc->interest(state, pipe_.now, &lost);
}

/* Its repeat was on the way already: timers end where a source has slowed down, and no queue has dropped anything (seed 54011). */
static void steady_is_not_cut_by_what_was_asked_for_again_as_it_was_sent(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  for (uint32_t ago = 40; ago <= 80; ago += 40) { /* 83 packets are on their way */
    start_path(cc, 48);
    run_path(cc, DC_MS, DC_SEC, 48);
    struct dc_cc_event lost = lost_event(pipe_.n, ago);
    cc->interest(state, pipe_.now, &lost);
    assert(cc->rate(state) == (ago == 40 ? params.rate_max : params.rate_max / 10 * 7));
  }
}

/* Beside connections that fill a queue of 1.6 ms, over a path of 0.1 ms, credits would decide what it gets, 48 packets in that time. Once
 * losses say that others are there they do no longer, unless the link is divided. */
static void steady_tells_of_a_queue_that_others_fill(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  for (unsigned divided = 0; divided < 2; divided++) {
    start_path(cc, 48);
    pipe_.limit = divided ? params.rate_max / 2 : 0;
    for (dc_time k = 1; k <= 16; k++)
      run_path(cc, k * 100 * DC_US, k * 50 * DC_MS, 48); /* slowly, or it asks for more before */
    run_path(cc, 1600 * DC_US, DC_SEC, 48);
    assert(cc->told(state, pipe_.n, pipe_.limit) == 0);
    lose_one(cc);
    run_path(cc, 1600 * DC_US, DC_SEC + 15 * DC_MS, 48);
    assert(cc->told(state, pipe_.n, pipe_.limit) == 0); /* perhaps it will be divided */
    run_path(cc, 1600 * DC_US, DC_SEC + 50 * DC_MS, 48);
    uint32_t told = dc_path_packets(cc->told(state, pipe_.n, pipe_.limit)),
             most = (uint32_t)(cc->rate(state) / 7500000);
    assert(divided ? told == 0 : told + 48 >= most && told <= 3 * most);
  }
}

/* Where little is left of what it had it asks whether more credits bring more, as they do beside others that fill a queue, and on a path
 * that has become longer: 167 packets. What the control plane has divided is nobody's to ask for. */
static void steady_asks_for_more_where_more_credits_bring_more(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  for (unsigned divided = 0; divided < 2; divided++) {
    start_path(cc, 24);
    pipe_.limit = divided ? params.rate_max / 2 : 0;
    run_path(cc, 100 * DC_US, DC_SEC / 2, 24);
    run_path(cc, 2 * DC_MS, DC_SEC, 24);
    uint32_t told = dc_path_packets(cc->told(state, pipe_.n, pipe_.limit));
    assert(divided ? told == 0 : told + 24 >= 167);
    assert(divided || cc->rate(state) == params.rate_max);
  }
}

/* 833 packets are on the way, so that the curve and not Reno's line counts. At the second loss 0.865 of them are, and the curve is flat
 * at 0.85 of that, 108 packets above its beginning: after 6.5 s. */
static void steady_comes_back_along_cubics_curve(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  start_path(cc, 48);
  struct dc_cc_params p = params;
  p.credits = 48;
  p.rate_init = p.rate_max = 100000000;
  cc->init(state, 0, &p);
  run_path(cc, 100 * DC_MS, 3 * DC_SEC, 48);
  lose_one(cc);
  run_path(cc, 100 * DC_MS, 5 * DC_SEC, 48);
  double r = (double)cc->rate(state);
  assert(r > 0.8 * 1e8 && r < 0.9 * 1e8);
  lose_one(cc);
  run_path(cc, 100 * DC_MS, 8 * DC_SEC, 48);
  assert((double)cc->rate(state) > 0.8 * r && (double)cc->rate(state) < 0.85 * r);
  for (unsigned i = 0; i < 4; i++) {
    run_path(cc, 100 * DC_MS, (11 * 4 + i) * DC_SEC / 4 + DC_SEC / 2, 48);
    assert((double)cc->rate(state) > 0.845 * r && (double)cc->rate(state) < 0.86 * r);
  }
  run_path(cc, 100 * DC_MS, 20 * DC_SEC, 48);
  assert((double)cc->rate(state) > 0.95 * r);
}

int main(void)
{
  steady_tells_what_the_path_holds();
  steady_is_not_cut_by_what_was_asked_for_again_as_it_was_sent();
  steady_tells_of_a_queue_that_others_fill();
  steady_asks_for_more_where_more_credits_bring_more();
  steady_comes_back_along_cubics_curve();
  puts("cc, path: ok");
  return 0;
}
