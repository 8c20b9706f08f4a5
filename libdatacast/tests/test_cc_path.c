/* Rate control over a path of some delay: what it holds, losses, and sources that have little to send. */
#include "rule.h"

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

/* 833: sent a round trip ago, of 10 ms at most. */
static void lose(const struct dc_cc_ops *cc, uint32_t ago)
{
  struct dc_cc_event lost = lost_event(pipe_.n, ago);
  cc->interest(state, pipe_.now, &lost);
}

/* Its repeat was on the way already: timers end where a source has slowed down, and no queue has dropped anything (seed 54011). */
static void steady_is_not_cut_by_what_was_asked_for_again_as_it_was_sent(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  for (uint32_t ago = 40; ago <= 80; ago += 40) { /* 83 packets are on their way */
    start_path(cc, 48);
    run_path(cc, DC_MS, DC_SEC, 48);
    lose(cc, ago);
    assert(cc->rate(state) == (ago == 40 ? params.rate_max : params.rate_max / 10 * 7));
  }
}

/* Nothing has come yet: it stands behind others' packets. */
static void steady_is_not_cut_by_a_timer_that_ends_before_anything_came(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  start_path(cc, 48);
  pipe_.n = 48;
  lose(cc, 48);
  assert(cc->rate(state) == params.rate_init);
}

/* Beside connections that fill a queue of 2 ms, over a path of 0.1 ms, credits would decide what it gets, 24 packets in that time. Once
 * losses say that others are there they do no longer, unless the link is divided. Two numbers again and again may be timers. */
static void steady_tells_of_a_queue_that_others_fill(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  enum { OTHERS, DIVIDED, TIMERS };
  for (unsigned why = OTHERS; why <= TIMERS; why++) {
    start_path(cc, 24);
    pipe_.limit = why == DIVIDED ? params.rate_max / 2 : 0;
    run_path(cc, 100 * DC_US, DC_SEC / 2, 24);
    run_path(cc, 2 * DC_MS, DC_SEC, 24);
    assert(cc->told(state, pipe_.n, pipe_.limit) == 0);
    for (uint32_t i = 0; i < 6; i++)
      lose(cc, 833 - i % (why == TIMERS ? 2 : 3));
    run_path(cc, 2 * DC_MS, DC_SEC + 15 * DC_MS, 24);
    assert(cc->told(state, pipe_.n, pipe_.limit) == 0); /* perhaps it will be divided */
    run_path(cc, 2 * DC_MS, DC_SEC + 50 * DC_MS, 24);
    uint64_t told = dc_path_packets(cc->told(state, pipe_.n, pipe_.limit)), most = cc->rate(state) / 6000000;
    assert(why != OTHERS ? told == 0 : told + 24 >= most && told <= 3 * most);
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
  lose(cc, 833);
  run_path(cc, 100 * DC_MS, 5 * DC_SEC, 48);
  double r = (double)cc->rate(state);
  assert(r > 0.8 * 1e8 && r < 0.9 * 1e8);
  lose(cc, 833);
  run_path(cc, 100 * DC_MS, 8 * DC_SEC, 48);
  assert((double)cc->rate(state) > 0.8 * r && (double)cc->rate(state) < 0.85 * r);
  for (unsigned i = 0; i < 4; i++) {
    run_path(cc, 100 * DC_MS, (11 * 4 + i) * DC_SEC / 4 + DC_SEC / 2, 48);
    assert((double)cc->rate(state) > 0.845 * r && (double)cc->rate(state) < 0.86 * r);
  }
  run_path(cc, 100 * DC_MS, 20 * DC_SEC, 48);
  assert((double)cc->rate(state) > 0.95 * r);
}

/* Blocks of four packets, one in 20 ms, over a link of 1 Gb/s: with 24 credits a round takes 120 ms, in which 24 packets come. */
static void steady_takes_no_source_that_has_little_to_send_for_slow_receivers(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  for (unsigned dry = 0; dry < 2; dry++) {
    struct dc_cc_params p = params;
    p.credits = 24;
    p.rate_init = p.rate_max;
    cc->init(state, 0, &p);
    dc_time now = 0;
    uint32_t n = 0;
    for (; now < 2 * DC_SEC; now += 20 * DC_MS)
      for (unsigned i = 0; i < 4; i++, n++) {
        struct dc_cc_event e = {.seq = n, .next_seq = n, .depth = DEPTH, .dry = dry && i == 0 && n > 0};
        cc->interest(state, now + i, &e);
      }
    assert((cc->rate(state) == params.rate_max) == (dry != 0));
    assert(!dry || cc->told(state, n, 0) == 0); /* nor that time for what the path takes */
  }
}

int main(void)
{
  steady_tells_what_the_path_holds();
  steady_is_not_cut_by_what_was_asked_for_again_as_it_was_sent();
  steady_is_not_cut_by_a_timer_that_ends_before_anything_came();
  steady_tells_of_a_queue_that_others_fill();
  steady_comes_back_along_cubics_curve();
  steady_takes_no_source_that_has_little_to_send_for_slow_receivers();
  puts("cc_path ok");
  return 0;
}
