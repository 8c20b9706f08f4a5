/* Rate control: what every rule must keep to, and the paper's rule to the letter. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "datacast/cc.h"
#include "datacast/wire.h"

static uint64_t state[DC_CC_STATE / 8];
static const struct dc_cc_params params = {.rate_init = 500000000,
                                           .rate_min = 1000000,
                                           .rate_max = 1000000000,
                                           .delta = 5000000,
                                           .interval = DC_MS,
                                           .packet_bytes = 1500};

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
  struct dc_cc_event dup = {.duplicate = true, .seq = 7, .behind = 90}, fresh = {.seq = 8, .queued = 1};
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
                              .lag = (uint8_t)(x >> 20),
                              .seq = (uint32_t)k,
                              .behind = (uint32_t)(x >> 30) % 2000,
                              .queued = (uint32_t)(x >> 40) % 100,
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
      struct dc_cc_event e = {.seq = (uint32_t)k + 200016, .queued = 16, .next_seq = (uint32_t)k + 200000, .depth = 87};
      cc->interest(state, now, &e);
      cc->tick(state, now);
    }
    assert(cc->rate(state) == params.rate_max);
  }
}

/* A slow receiver of a known rate behind a store of known depth, as a fluid: the source sends at the rule's rate, each
 * packet brings one report of the lag back. */
static void steady_finds_the_slowest_rate_without_a_duplicate(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  const double slow = 100e6, packet = 1500 * 8, depth = 87;
  dc_time now = 0;
  double behind = 0, mean = 0;
  unsigned n = 0;
  cc->init(state, 0, &params);
  for (uint32_t seq = 0; now < 2 * DC_SEC; seq++) {
    dc_time dt = (dc_time)(packet * 1e9 / (double)cc->rate(state));
    for (; cc->next_tick(state) <= now + dt; dt = (dc_time)(packet * 1e9 / (double)cc->rate(state)))
      cc->tick(state, cc->next_tick(state));
    now += dt;
    behind += 1 - slow * (double)dt / 1e9 / packet;
    if (behind < 0)
      behind = 0;
    assert(behind < depth); /* it never falls out */
    struct dc_cc_event e = {
        .lag = (uint8_t)(255 * behind / depth), .seq = seq + 16, .queued = 16, .next_seq = seq + 1, .depth = 87};
    cc->interest(state, now, &e);
    if (now > DC_SEC) {
      mean += (double)cc->rate(state);
      n++;
      assert(behind > 0.2 * depth && behind < 0.9 * depth);
    }
  }
  assert(mean / n > 0.99 * slow && mean / n < 1.01 * slow);
}

static void steady_falls_far_at_an_eviction_and_once_at_a_loss(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  struct dc_cc_event evicted = {.duplicate = true, .seq = 7, .behind = 90, .next_seq = 97, .depth = 87};
  struct dc_cc_event lost = {.duplicate = true, .retx = true, .seq = 7, .behind = 3, .next_seq = 10, .depth = 87};
  cc->init(state, 0, &params);
  cc->interest(state, 10 * DC_MS, &evicted);
  assert(cc->rate(state) <= params.rate_init / 8);
  cc->init(state, 0, &params);
  cc->interest(state, 10 * DC_MS, &lost);
  uint64_t rate = cc->rate(state);
  assert(rate < params.rate_init && rate > params.rate_init / 2);
  cc->interest(state, 10 * DC_MS + 1000, &lost);
  assert(cc->rate(state) == rate);
}

/* The caches are behind already: that packets are lost besides says nothing of the rate. */
static void steady_is_not_cut_by_losses_in_a_recovery(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  struct dc_cc_event evicted = {.duplicate = true, .seq = 7, .behind = 90, .next_seq = 97, .depth = 87};
  cc->init(state, 0, &params);
  cc->interest(state, 10 * DC_MS, &evicted);
  uint64_t rate = cc->rate(state);
  for (uint32_t k = 0; k < 10; k++) {
    struct dc_cc_event lost = {
        .duplicate = true, .retx = true, .seq = 98 + k, .behind = 3, .next_seq = 99 + k, .depth = 87};
    cc->interest(state, (20 + 10 * k) * DC_MS, &lost);
    assert(cc->rate(state) == rate);
  }
}

/* One that stands still is gone, most likely: the rate that it had taken is the others'. */
static void steady_does_not_follow_a_receiver_that_stands_still(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  uint64_t after[2];
  for (int still = 0; still < 2; still++) {
    dc_time now = 0;
    uint32_t seq = 0;
    struct dc_cc_event e = {.queued = 16, .depth = 87};
    cc->init(state, 0, &params);
    for (unsigned k = 0; k < 4000; k++) { /* in step: the lag stays where it is wanted */
      now += 120 * DC_US;
      e.seq = seq + 16, e.next_seq = ++seq, e.lag = k < 100 ? (uint8_t)k : 100;
      cc->tick(state, now);
      cc->interest(state, now, &e);
    }
    for (unsigned k = 0; still && e.lag < 250; k++) {
      now += 120 * DC_US;
      e.seq = seq + 16, e.next_seq = ++seq, e.lag = (uint8_t)(100 + 255 * k / 87);
      cc->interest(state, now, &e);
    }
    now += 120 * DC_US;
    e.seq = seq + 16, e.next_seq = ++seq, e.lag = 0; /* forgotten */
    cc->interest(state, now, &e);
    after[still] = cc->rate(state);
  }
  assert(after[1] > after[0] / 20 * 19);
}

/* The front nearly stands while somebody does, comes back at once, and bears it for so long only. */
static void steady_waits_for_a_host_that_stands_still(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  dc_time now = 0;
  uint32_t seq = 0;
  struct dc_cc_event e = {.queued = 16, .depth = 87};
  cc->init(state, 0, &params);
  for (unsigned k = 0; k < 4000; k++) {
    now += 120 * DC_US;
    e.seq = seq + 16, e.next_seq = ++seq, e.lag = k < 100 ? (uint8_t)k : 100;
    cc->tick(state, now);
    cc->interest(state, now, &e);
  }
  uint64_t before = cc->rate(state);
  unsigned waited[3] = {0};
  for (unsigned stall = 0; stall < 3; stall++) { /* 60 ms, 500 ms, 60 ms */
    for (unsigned i = 0; i < (stall == 1 ? 250 : 30); i++) {
      now += 2 * DC_MS;
      e.seq = seq + 16, e.next_seq = ++seq, e.lag = 255;
      struct dc_cc_event lost = {
          .duplicate = true, .retx = true, .seq = seq, .behind = 3, .next_seq = seq, .depth = 87};
      cc->tick(state, now);
      cc->interest(state, now, &e);
      if (stall == 0)
        cc->interest(state, now, &lost); /* its timers are no losses */
      waited[stall] += cc->rate(state) <= before / 15 ? 2 : 0;
    }
    now += 120 * DC_US;
    e.seq = seq + 16, e.next_seq = ++seq, e.lag = 100;
    cc->interest(state, now, &e);
    assert(stall > 0 || cc->rate(state) > before / 4 * 3);
  }
  assert(waited[0] == 60 && waited[1] >= 95 && waited[1] <= 105 && waited[2] == 0);
}

/* After a recovery with two seconds between two duplicates, a timer's, the rate comes back within round trips. */
static void steady_takes_no_timer_for_the_spacing_of_duplicates(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  dc_time now = 0;
  cc->init(state, 0, &params);
  for (uint32_t seq = 0; seq < 100; seq++) {
    now += 100 * DC_US;
    struct dc_cc_event e = {.seq = seq + 16, .queued = 16, .next_seq = seq, .depth = 87};
    cc->interest(state, now, &e);
    cc->tick(state, now);
  }
  uint64_t before = cc->rate(state);
  for (unsigned i = 0; i < 2; i++, now += 2 * DC_SEC) {
    struct dc_cc_event out = {.duplicate = true, .seq = 7 + 20 * i, .behind = 900, .next_seq = 1000, .depth = 87};
    cc->interest(state, now, &out);
  }
  now -= 2 * DC_SEC;
  assert(cc->rate(state) <= before / 8);
  for (uint32_t seq = 1000; seq < 1100; seq++) {
    now += 10 * DC_MS / 100;
    struct dc_cc_event e = {.seq = seq + 16, .queued = 16, .next_seq = seq, .depth = 87};
    cc->interest(state, now, &e);
    cc->tick(state, now);
  }
  assert(cc->rate(state) > before / 8);
}

/* One receiver over a path of some delay that drops nothing, from the rule's point of view: it has the credits of the plan and what
 * it was told, gives one up with every fourth packet, and asks for n + w when it gets n. */
static struct {
  dc_time at[1 << 22]; /* when the source hears of a number */
  uint32_t n, asked, heard, w, got;
  dc_time now;
} pipe_;

static void run_path(const struct dc_cc_ops *cc, dc_time trip, dc_time until, uint32_t credits)
{
  while (pipe_.now < until) {
    dc_time next = pipe_.now + (dc_time)(1500 * 8 * 1e9 / (double)cc->rate(state));
    if (pipe_.at[pipe_.n] > next)
      next = pipe_.at[pipe_.n];
    for (; pipe_.heard < pipe_.asked && pipe_.at[pipe_.heard] <= next; pipe_.heard++) {
      struct dc_cc_event e = {
          .seq = pipe_.heard, .queued = pipe_.heard - pipe_.n + 1, .next_seq = pipe_.n, .depth = 87};
      for (; cc->next_tick(state) <= pipe_.at[pipe_.heard];)
        cc->tick(state, cc->next_tick(state));
      cc->interest(state, pipe_.at[pipe_.heard], &e);
    }
    pipe_.now = next;
    uint32_t goal = credits + dc_path_packets(cc->told(state, 0));
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
  assert(cc->told(state, 0) == 0);
  memset(&pipe_, 0, sizeof pipe_);
  pipe_.w = pipe_.asked = credits;
}

static bool told_about(const struct dc_cc_ops *cc, uint32_t holds, uint32_t credits)
{
  uint32_t n = dc_path_packets(cc->told(state, 0));
  return n + credits >= holds && n <= holds * 3 / 2;
}

static void steady_tells_what_the_path_holds(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("steady");
  assert(dc_cc_datacast.told == NULL);
  start_path(cc, 48);
  run_path(cc, 100 * DC_US, DC_SEC, 48); /* 8 packets at 1 Gb/s: the plan's credits cover them */
  assert(cc->told(state, 0) == 0);

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

int main(void)
{
  names_are_listed_and_found();
  the_papers_rule_halves_and_adds();
  every_rule_stays_between_its_limits();
  steady_finds_the_slowest_rate_without_a_duplicate();
  steady_falls_far_at_an_eviction_and_once_at_a_loss();
  steady_is_not_cut_by_losses_in_a_recovery();
  steady_does_not_follow_a_receiver_that_stands_still();
  steady_waits_for_a_host_that_stands_still();
  steady_takes_no_timer_for_the_spacing_of_duplicates();
  steady_tells_what_the_path_holds();
  puts("cc ok");
  return 0;
}
