/* Rate control: what every rule must keep to, and the paper's rule to the letter. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "datacast/cc.h"

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
                              .rtt = x % 4 == 0 ? 0 : 1 + (x >> 33) % (k % 50 == 0 ? DC_SEC : 2 * DC_MS),
                              .marked = x % 97 == 0,
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
      struct dc_cc_event e = {.seq = (uint32_t)k + 200016,
                              .queued = 16,
                              .rtt = 100 * DC_US,
                              .next_seq = (uint32_t)k + 200000,
                              .depth = 87};
      cc->interest(state, now, &e);
      cc->tick(state, now);
    }
    assert(cc->rate(state) == params.rate_max);
  }
}

/* A slow receiver of a known rate behind a store of known depth, as a fluid: the source sends at the rule's rate, each
 * packet brings one report of the lag back. */
static void fair_finds_the_slowest_rate_without_a_duplicate(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("fair");
  const double slow = 100e6, packet = 1500 * 8, depth = 87;
  dc_time now = 0;
  double behind = 0, mean = 0;
  unsigned n = 0;
  cc->init(state, 0, &params);
  for (uint32_t seq = 0; now < 2 * DC_SEC; seq++) {
    now += (dc_time)(packet * 1e9 / (double)cc->rate(state));
    behind += 1 - slow / (double)cc->rate(state);
    if (behind < 0)
      behind = 0;
    assert(behind < depth); /* it never falls out */
    struct dc_cc_event e = {.lag = (uint8_t)(255 * behind / depth),
                            .seq = seq + 16,
                            .queued = 16,
                            .rtt = 100 * DC_US,
                            .next_seq = seq + 1,
                            .depth = 87};
    cc->interest(state, now, &e);
    if (now > DC_SEC) {
      mean += (double)cc->rate(state);
      n++;
      assert(behind > 0.2 * depth && behind < 0.9 * depth);
    }
  }
  assert(mean / n > 0.99 * slow && mean / n < 1.01 * slow);
}

static void fair_falls_far_at_an_eviction_and_once_at_a_loss(void)
{
  const struct dc_cc_ops *cc = dc_cc_find("fair");
  struct dc_cc_event trip = {.seq = 5, .next_seq = 5, .rtt = DC_MS, .queued = 9, .depth = 87};
  struct dc_cc_event evicted = {.duplicate = true, .seq = 7, .behind = 90, .next_seq = 97, .depth = 87};
  struct dc_cc_event lost = {.duplicate = true, .retx = true, .seq = 7, .behind = 3, .next_seq = 10, .depth = 87};
  cc->init(state, 0, &params);
  cc->interest(state, 10 * DC_MS, &evicted);
  assert(cc->rate(state) <= params.rate_init / 8);
  cc->init(state, 0, &params);
  cc->interest(state, 10 * DC_MS, &trip);
  uint64_t before = cc->rate(state);
  cc->interest(state, 10 * DC_MS, &lost);
  cc->tick(state, cc->next_tick(state));
  uint64_t rate = cc->rate(state);
  assert(rate < before / 4 * 3 && rate > before / 2);
  cc->interest(state, 10 * DC_MS + 2000, &lost);
  assert(cc->rate(state) == rate);
}

/* A cable as a fluid: sources of this rule share its queue, and everybody's packets bring back a round trip. */
enum { SOURCES = 4 };
static uint64_t each[SOURCES][DC_CC_STATE / 8];

static void share_a_cable(const struct dc_cc_params *p, double *mean, double *used)
{
  const struct dc_cc_ops *cc = dc_cc_find("fair");
  const double capacity = 1e9, base = 1e6, slice = 12000;
  static double before[84]; /* the queue that packets met that come back now: a round trip ago */
  double queue = 0, owed[SOURCES] = {0}, sum = 0;
  memset(before, 0, sizeof before);
  uint32_t seq[SOURCES] = {0};
  for (int i = 0; i < SOURCES; i++) {
    cc->init(each[i], 0, &p[i]);
    mean[i] = 0;
  }
  unsigned step = 0;
  for (dc_time now = 0; now < DC_SEC; now += (dc_time)slice, step++) {
    double came = 0, met = before[step % 84];
    before[step % 84] = queue;
    for (int i = 0; i < SOURCES; i++) {
      double bits = (double)cc->rate(each[i]) * slice / 1e9;
      if (now < (dc_time)i * 50 * DC_MS) /* one after another */
        continue;
      came += bits;
      owed[i] += bits;
      if (now > DC_SEC / 2)
        mean[i] += bits * 2;
      if (cc->next_tick(each[i]) <= now)
        cc->tick(each[i], now);
      for (; owed[i] >= 12000; owed[i] -= 12000) {
        struct dc_cc_event e = {.seq = seq[i] + 16,
                                .next_seq = seq[i],
                                .rtt = (dc_time)(base + met / capacity * 1e9),
                                .queued = 9,
                                .depth = 87};
        seq[i]++;
        cc->interest(each[i], now, &e);
      }
    }
    double gone = capacity * slice / 1e9;
    if (now > DC_SEC / 2)
      sum += 2 * (queue + came < gone ? queue + came : gone);
    queue = queue + came < gone ? 0 : queue + came - gone;
  }
  *used = sum / capacity;
}

static void shares_depend_on_weights_and_not_on_who_came_first(void)
{
  struct dc_cc_params p[SOURCES];
  double mean[SOURCES], used;
  for (int i = 0; i < SOURCES; i++) {
    p[i] = params;
    p[i].rate_init = params.rate_max / 8 / (uint64_t)(1 + i);
    p[i].credits = 48 / (unsigned)(1 + i); /* the first has more of them */
  }
  share_a_cable(p, mean, &used);
  for (int i = 0; i < SOURCES; i++)
    assert(mean[i] > 0.9 * 250e6 && mean[i] < 1.1 * 250e6);
  assert(used > 0.97);
  for (int i = 0; i < SOURCES; i++)
    p[i].weight = i == 0 ? 400 : i == 1 ? 200 : 100;
  share_a_cable(p, mean, &used);
  for (int i = 0; i < SOURCES; i++)
    assert(mean[i] / p[i].weight > 0.9 * 1.25e6 && mean[i] / p[i].weight < 1.1 * 1.25e6);
}

static void background_takes_what_nobody_wants(void)
{
  struct dc_cc_params p[SOURCES] = {params, params, params, params};
  double mean[SOURCES], used;
  p[0].background = true;
  share_a_cable(p, mean, &used);
  assert(mean[0] < 0.05e9 && used > 0.95);
}

int main(void)
{
  names_are_listed_and_found();
  the_papers_rule_halves_and_adds();
  every_rule_stays_between_its_limits();
  fair_finds_the_slowest_rate_without_a_duplicate();
  fair_falls_far_at_an_eviction_and_once_at_a_loss();
  shares_depend_on_weights_and_not_on_who_came_first();
  background_takes_what_nobody_wants();
  puts("cc ok");
  return 0;
}
