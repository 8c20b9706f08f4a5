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
                              .queued = (uint32_t)(x >> 40) % 100};
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
      struct dc_cc_event e = {.seq = (uint32_t)k, .queued = 16};
      cc->interest(state, now, &e);
      cc->tick(state, now);
    }
    assert(cc->rate(state) == params.rate_max);
  }
}

int main(void)
{
  names_are_listed_and_found();
  the_papers_rule_halves_and_adds();
  every_rule_stays_between_its_limits();
  puts("cc ok");
  return 0;
}
