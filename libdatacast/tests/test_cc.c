/* Rate control: what every rule must keep to, and the paper's rule to the letter. */
#include "rule.h"

static void names_are_listed_and_found(void)
{
  unsigned n = 0;
  for (; dc_cc_name(n) != NULL; n++)
    assert(dc_cc_find(dc_cc_name(n)) != NULL && strcmp(dc_cc_find(dc_cc_name(n))->name, dc_cc_name(n)) == 0);
  assert(n >= 1 && dc_cc_find("datacast") == &dc_cc_datacast && dc_cc_find("vegas") == NULL && dc_cc_find("") == NULL);
}

static void the_papers_rule_halves_and_adds(void)
{
  const struct dc_cc_ops *cc = &dc_cc_datacast;
  struct dc_cc_event dup = {.duplicate = true, .seq = 7}, fresh = {.seq = 8};
  cc->init(state, 0, &params);
  assert(cc->rate(state) == 500000000 && cc->next_tick(state) == DC_MS);
  cc->interest(state, 100, &fresh);
  assert(cc->rate(state) == 500000000 && cc->next_tick(state) == DC_MS);
  cc->tick(state, DC_MS - 1);
  assert(cc->rate(state) == 500000000);
  cc->tick(state, DC_MS);
  assert(cc->rate(state) == 505000000 && cc->next_tick(state) == 2 * DC_MS);
  cc->interest(state, DC_MS + 400000, &dup);
  assert(cc->rate(state) == 252500000 && cc->next_tick(state) == 2 * DC_MS + 400000); /* T without a duplicate */
  cc->interest(state, DC_MS + 400000, &dup);
  assert(cc->rate(state) == 126250000);
  cc->tick(state, 5 * DC_MS + 399999); /* late: catches up, three intervals have passed whole */
  assert(cc->rate(state) == 141250000 && cc->next_tick(state) == 5 * DC_MS + 400000);
}

/* However many intervals pass at once, the rate is what one after the other would have made of it. */
static void the_papers_rule_catches_up_to_its_limit_and_not_before(void)
{
  const struct dc_cc_ops *cc = &dc_cc_datacast;
  static const struct {
    uint64_t delta, intervals, rate;
  } rows[] = {{300000000, 0, 500000000}, {300000000, 1, 800000000},  {300000000, 2, 1000000000},
              {250000000, 1, 750000000}, {250000000, 2, 1000000000}, {250000000, 3, 1000000000},
              {700000000, 0, 500000000}, {700000000, 1, 1000000000}, {UINT64_MAX, 9, 1000000000},
              {0, 9, 500000000}};
  for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct dc_cc_params p = params;
    p.delta = rows[i].delta;
    cc->init(state, 0, &p);
    cc->tick(state, rows[i].intervals * DC_MS);
    assert(cc->rate(state) == rows[i].rate);
  }
}

static void every_rule_stays_between_its_limits(void)
{
  for (unsigned i = 0; dc_cc_name(i) != NULL; i++) {
    const struct dc_cc_ops *cc = dc_cc_find(dc_cc_name(i));
    dc_time now = 5 * DC_SEC;
    uint64_t x = 88172645463325252u;
    cc->init(state, now, &params);
    assert(cc->rate(state) >= params.rate_min && cc->rate(state) <= params.rate_max);
    for (int k = 0; k < 200000; k++) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      struct dc_cc_event e = {.duplicate = x % 50 == 0,
                              .retx = x % 3 == 0,
                              .lag = (uint32_t)(x >> 20) % 300,
                              .seq = (uint32_t)k,
                              .next_seq = (uint32_t)k,
                              .depth = 1 + (uint32_t)(x >> 50) % 400};
      now += (x >> 8) % (k % 1000 == 0 ? 10 * DC_SEC : 100 * DC_US);
      if (x % 5 != 0)
        cc->interest(state, now, &e);
      for (int late = 0; cc->next_tick(state) <= now && late < 100; late++)
        cc->tick(state, cc->next_tick(state));
      cc->tick(state, now);
      assert(cc->next_tick(state) > now);
      assert(cc->rate(state) >= params.rate_min && cc->rate(state) <= params.rate_max);
    }
    /* Left in peace every rule finds the whole link again. */
    for (int k = 0; k < 100000; k++) {
      now += DC_MS;
      struct dc_cc_event e = {.seq = (uint32_t)k + 200016, .next_seq = (uint32_t)k + 200000, .depth = 87};
      cc->interest(state, now, &e);
      cc->tick(state, now);
    }
    assert(cc->rate(state) == params.rate_max);
  }
}

/* A slow receiver of a known rate behind a store of 87 packets, as a fluid: the source sends at the rule's rate, each packet brings
 * an interest that tells how many numbers the slowest has not asked for yet. All have `out` credits. */
static struct {
  dc_time now;
  double behind;
  uint32_t seq, depth, out;
} fluid;

#define SLOW 100e6
#define PACKET (1500 * 8)

static void start_fluid_with(const struct dc_cc_ops *cc, uint32_t credits, uint32_t depth)
{
  struct dc_cc_params p = params;
  p.credits = credits;
  memset(&fluid, 0, sizeof fluid);
  fluid.depth = depth;
  fluid.out = 16;
  cc->init(state, 0, &p);
}

static void start_fluid(const struct dc_cc_ops *cc) { start_fluid_with(cc, params.credits, DEPTH); }

static void flow(const struct dc_cc_ops *cc, double slow)
{
  dc_time dt = (dc_time)(PACKET * 1e9 / (double)cc->rate(state));
  for (; cc->next_tick(state) <= fluid.now + dt; dt = (dc_time)(PACKET * 1e9 / (double)cc->rate(state)))
    cc->tick(state, cc->next_tick(state));
  fluid.now += dt;
  fluid.behind += 1 - slow * (double)dt / 1e9 / PACKET;
  if (fluid.behind < 0)
    fluid.behind = 0;
  struct dc_cc_event e = {
      .lag = (uint32_t)fluid.behind, .seq = fluid.seq + fluid.out, .next_seq = fluid.seq + 1, .depth = fluid.depth};
  fluid.seq++;
  cc->interest(state, fluid.now, &e);
}

static void steady_finds_the_slowest_rate_without_a_duplicate(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  double mean = 0;
  unsigned n = 0;
  start_fluid(cc);
  while (fluid.now < 2 * DC_SEC) {
    flow(cc, SLOW);
    assert(fluid.behind < DEPTH); /* it never falls out */
    if (fluid.now > DC_SEC) {
      mean += (double)cc->rate(state);
      n++;
      assert(fluid.behind > 4 && fluid.behind < DEPTH / 2.0);
    }
  }
  assert(mean / n > 0.99 * SLOW && mean / n < 1.01 * SLOW);
}

/* Who is slow is kept behind by its credits, or by three fourths of what the store and those that are asked for hold, where that is less. */
static void steady_keeps_the_slowest_as_far_behind_as_the_store_bears(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  for (uint32_t depth = 20; depth <= 80; depth += 20) {
    double behind = 0;
    unsigned n = 0;
    start_fluid_with(cc, 48, depth);
    while (fluid.now < 2 * DC_SEC) {
      flow(cc, SLOW);
      behind += fluid.now > DC_SEC ? fluid.behind : 0;
      n += fluid.now > DC_SEC;
    }
    double want = depth == 20 ? 27 : depth == 40 ? 42 : 48; /* 3/4 * (20 + 16), 3/4 * (40 + 16), credits */
    assert(behind / n > want - 2 && behind / n < want + 2);
  }
}

/* A silence is no rate: when who stood still is back, the rate is that of before. Who stays away for long has gone, most likely, and
 * is not waited for again soon. */
static void steady_waits_for_a_host_that_stands_still(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  start_fluid(cc);
  while (fluid.now < DC_SEC)
    flow(cc, SLOW);
  dc_time crept[3] = {0};
  for (unsigned stall = 0; stall < 3; stall++) { /* 9 ms, 500 ms, 60 ms */
    dc_time from = fluid.now, until = from + (stall == 0 ? 9 : stall == 1 ? 500 : 60) * DC_MS;
    while (fluid.now < until) {
      dc_time before = fluid.now;
      flow(cc, 0);
      assert(stall > 0 || fluid.behind < DEPTH);
      crept[stall] += (double)cc->rate(state) <= SLOW / 2 ? fluid.now - before : 0;
    }
    fluid.behind = 0; /* it has taken what had come meanwhile */
    flow(cc, SLOW);
    assert((double)cc->rate(state) > SLOW / 4 * 3);
  }
  assert(crept[0] == 0 && crept[1] > 80 * DC_MS && crept[1] < 130 * DC_MS && crept[2] == 0);
}

/* As connections of TCP do, whose queue it is. */
static void steady_falls_by_three_tenths_for_all_losses_of_a_window(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  start_fluid(cc);
  while (fluid.now < 100 * DC_MS)
    flow(cc, 1e9);
  assert(cc->rate(state) == params.rate_max);
  struct dc_cc_event lost = lost_event(fluid.seq, 2);
  cc->interest(state, fluid.now, &lost);
  assert(cc->rate(state) == params.rate_max / 10 * 7);
  lost.seq++; /* sent before the first was told */
  cc->interest(state, fluid.now + 10 * DC_MS, &lost);
  assert(cc->rate(state) == params.rate_max / 10 * 7);
  lost.seq += 2, lost.next_seq += 2;
  cc->interest(state, fluid.now + 20 * DC_MS, &lost);
  assert(cc->rate(state) == params.rate_max / 100 * 49);
  while (fluid.now < 300 * DC_MS) /* and comes back */
    flow(cc, 1e9);
  assert(cc->rate(state) == params.rate_max);
}

/* A queue is full although everybody keeps to his share: only what is less than that empties it. But all whose share is a part of
 * the link are known, and half of it stays, however often something is lost. */
static void steady_falls_below_its_share_at_a_loss(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  start_fluid(cc);
  while (fluid.now < 100 * DC_MS)
    flow(cc, 1e9);
  cc->told(state, fluid.seq, params.rate_max / 4);
  struct dc_cc_event lost = lost_event(fluid.seq, 2);
  cc->interest(state, fluid.now, &lost);
  assert(cc->rate(state) == params.rate_max / 4 / 10 * 7);
  for (unsigned i = 0; i < 5; i++) {
    lost.seq += 2, lost.next_seq += 2;
    cc->interest(state, fluid.now + (i + 1) * 10 * DC_MS, &lost);
    assert(cc->rate(state) == params.rate_max / 4 / 2);
  }
}

/* While a deep tree is filled the slowest is behind by its depth, and nothing else is known of it. */
static void steady_is_not_slowed_by_the_depth_of_a_tree(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  start_fluid(cc);
  for (uint32_t k = 1; k < 100; k++) {
    struct dc_cc_event e = {.lag = k < 9 ? k : 9, .seq = 15 + k, .next_seq = k + 1, .depth = DEPTH};
    cc->interest(state, (dc_time)k * PACKET * 2, &e); /* rate_init is half a gigabit */
    assert(cc->rate(state) >= params.rate_init);
  }
}

/* Nor while the rate rises, when somebody was slow before: the tree's depth stays, and all that is sent is taken (seed 22679). */
static void steady_is_not_slowed_by_the_depth_of_a_tree_after_a_slow_receiver(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  start_fluid_with(cc, 6, 40);
  fluid.out = 6;
  for (fluid.behind = 0; cc->rate(state) > SLOW / 5; fluid.behind = 12)
    flow(cc, 0);
  for (uint32_t k = 0; k < 20; k++) {
    fluid.behind = 3; /* and one with the packet that goes out */
    flow(cc, 0);
  }
  assert(cc->rate(state) == params.rate_max);
}

/* Where the slowest stands still its timers end, and its own queue may drop: others' share of the way is not at stake. */
static void steady_is_not_cut_by_losses_of_who_stands_still(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  uint64_t after[2];
  for (int loses = 0; loses < 2; loses++) {
    start_fluid(cc);
    while (fluid.now < DC_SEC)
      flow(cc, SLOW);
    for (unsigned k = 0; k < 40; k++)
      flow(cc, 0);
    struct dc_cc_event lost = lost_event(fluid.seq, 1);
    if (loses)
      cc->interest(state, fluid.now, &lost);
    fluid.behind = 0;
    flow(cc, SLOW);
    after[loses] = cc->rate(state);
  }
  assert(after[0] == after[1]);
}

static struct dc_cc_event last_event(void)
{
  uint32_t asked = fluid.seq + fluid.out, lag = (uint32_t)fluid.behind;
  return (struct dc_cc_event){.lag = lag, .seq = asked - 1, .next_seq = fluid.seq, .depth = DEPTH, .last = true};
}

static void rest(const struct dc_cc_ops *cc, dc_time until)
{
  for (; cc->next_tick(state) <= until; fluid.now = until)
    cc->tick(state, cc->next_tick(state));
}

/* The slowest stands still as the last is asked for: nobody can say that it goes on, however far it is behind (seed 148110). */
static void steady_sends_the_last_of_a_file_at_the_rate_of_before(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  for (uint32_t still = 30; still <= 85; still += 55) {
    start_fluid(cc);
    while (fluid.now < 100 * DC_MS)
      flow(cc, 1e9);
    for (uint32_t k = 0; k < still; k++)
      flow(cc, 0);
    assert(cc->rate(state) >= params.rate_max / 16 / 16 && cc->rate(state) < params.rate_max / 10);
    struct dc_cc_event e = last_event();
    cc->interest(state, fluid.now, &e);
    rest(cc, fluid.now + 2 * DC_MS);
    assert(cc->rate(state) == params.rate_max);
  }
}

/* A front that waits asks for one packet in sixteen. Where all has been asked for nobody will ask, and nobody is waited for. */
static void steady_waits_no_longer_where_all_was_asked_for(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  for (int last = 0; last < 2; last++) {
    start_fluid(cc);
    while (fluid.now < DC_SEC)
      flow(cc, SLOW);
    for (uint32_t k = 0; k < 85; k++)
      flow(cc, 0);
    struct dc_cc_event e = last_event();
    e.last = last != 0;
    cc->interest(state, fluid.now, &e);
    assert((double)cc->rate(state) <= SLOW / 2);
    rest(cc, fluid.now + 2 * DC_MS);
    assert(last ? (double)cc->rate(state) > 0.9 * SLOW : (double)cc->rate(state) <= SLOW / 2);
  }
}

/* Who takes all that a front sends that waits takes no less than that: it lacks something else, and may be as fast as before (seed
 * 132613). */
static void steady_does_not_take_its_own_waiting_for_the_slowest_rate(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  start_fluid(cc);
  while (fluid.now < DC_SEC)
    flow(cc, SLOW);
  for (uint32_t k = 0; k < 100; k++) {
    fluid.behind = 90; /* three quarters of the room are 77 */
    flow(cc, 0);
    assert((double)cc->rate(state) < SLOW / 2 && (double)cc->rate(state) > SLOW / 4);
  }
}

/* 83 packets are on their way. A node tells where the slowest is with interests that it sends on, so the source hears of it twice within
 * a microsecond, and then not for 32 packets: no receiver takes sixteen in that (range, 200 receivers). */
static void steady_takes_no_steps_that_are_told_together_for_a_rate(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  struct dc_cc_params p = params;
  p.credits = 128;
  p.rate_init = (uint64_t)SLOW;
  cc->init(state, 0, &p);
  for (uint32_t k = 0; k < 300; k++) {
    dc_time now = k == 0 ? 0 : 10 * DC_MS + k / 2 * 32 * (dc_time)(PACKET * 1e9 / SLOW) + k % 2 * DC_US;
    uint32_t had = 16 * k;
    struct dc_cc_event e = {.lag = had < 90 ? had : 90, .seq = had + 127, .next_seq = had + 83, .depth = DEPTH};
    for (; cc->next_tick(state) <= now;)
      cc->tick(state, cc->next_tick(state));
    cc->interest(state, now, &e);
    assert(k < 150 || ((double)cc->rate(state) > 0.9 * SLOW && (double)cc->rate(state) < 1.2 * SLOW));
  }
}

/* While it is not known how slow the slowest is the source creeps, and what is lost then was not sent at that rate. */
static void steady_does_not_fall_from_a_rate_it_only_crept_at(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  struct dc_cc_params p = params;
  struct dc_cc_event e = {.depth = DEPTH};
  dc_time now = 0;
  p.credits = 128;
  cc->init(state, 0, &p);
  for (uint32_t k = 0; k < 1111; k++) {
    e.lag = k < 1000 ? 0 : k - 1000;
    e.seq = k + 127;
    e.next_seq = k;
    cc->interest(state, now += PACKET, &e);
  }
  assert(cc->rate(state) < p.rate_max / 10);
  struct dc_cc_event lost = lost_event(1110, 2);
  cc->interest(state, now, &lost);
  e.lag = 0;
  cc->interest(state, now, &e);
  assert(cc->rate(state) == p.rate_max / 10 * 7);
}

/* One damaged interest asks for seventeen numbers at once: all seem to have had what was not sent yet, and nothing is asked for in the
 * next rounds. */
static void steady_is_not_slowed_by_an_interest_for_many_numbers(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  start_fluid(cc);
  while (fluid.now < 100 * DC_MS)
    flow(cc, 1e9);
  struct dc_cc_event e = {.seq = fluid.seq + 15, .next_seq = fluid.seq, .depth = DEPTH};
  for (unsigned k = 0; k < 17; k++, e.seq++)
    cc->interest(state, fluid.now, &e);
  for (unsigned k = 0; k < 40; k++) { /* what is asked for next was asked for already: the furthest number stays */
    e.next_seq++;
    fluid.now += PACKET;
    cc->interest(state, fluid.now, &e);
    assert(cc->rate(state) == params.rate_max);
    if (e.seq < e.next_seq + 15)
      e.seq = e.next_seq + 15;
  }
}

/* A node that was restarted has forgotten who waits there: nobody hears of anything until timers end. */
static void steady_is_not_slowed_by_a_round_in_which_nobody_asked(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  start_fluid(cc);
  while (fluid.now < 100 * DC_MS)
    flow(cc, 1e9);
  fluid.now += DC_SEC;
  flow(cc, 1e9);
  flow(cc, 1e9);
  assert(cc->rate(state) >= params.rate_max / 2);
}

int main(void)
{
  names_are_listed_and_found();
  the_papers_rule_halves_and_adds();
  the_papers_rule_catches_up_to_its_limit_and_not_before();
  every_rule_stays_between_its_limits();
  steady_finds_the_slowest_rate_without_a_duplicate();
  steady_keeps_the_slowest_as_far_behind_as_the_store_bears();
  steady_waits_for_a_host_that_stands_still();
  steady_falls_by_three_tenths_for_all_losses_of_a_window();
  steady_falls_below_its_share_at_a_loss();
  steady_is_not_slowed_by_the_depth_of_a_tree();
  steady_is_not_slowed_by_the_depth_of_a_tree_after_a_slow_receiver();
  steady_is_not_cut_by_losses_of_who_stands_still();
  steady_sends_the_last_of_a_file_at_the_rate_of_before();
  steady_waits_no_longer_where_all_was_asked_for();
  steady_does_not_take_its_own_waiting_for_the_slowest_rate();
  steady_takes_no_steps_that_are_told_together_for_a_rate();
  steady_does_not_fall_from_a_rate_it_only_crept_at();
  steady_is_not_slowed_by_an_interest_for_many_numbers();
  steady_is_not_slowed_by_a_round_in_which_nobody_asked();
  puts("cc ok");
  return 0;
}
