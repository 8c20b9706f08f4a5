/* Runs of numbers beside a set that holds every number. */
#include "runs.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { SPAN = 400 };

static struct dc_runs r;
static bool model[SPAN];

static uint32_t random_below(uint32_t n)
{
  static uint64_t x = 88172645463325252u;
  x ^= x << 13, x ^= x >> 7, x ^= x << 17;
  return (uint32_t)(x % n);
}

static void agree(void)
{
  uint32_t end = 0, above = 0;
  for (uint32_t k = SPAN; k-- > 0;) {
    assert(dc_runs_has(&r, k) == model[k] && dc_runs_above(&r, k) == above);
    above += model[k];
    if (model[k] && end == 0)
      end = k + 1;
  }
  assert(dc_runs_end(&r) == end);
  for (uint32_t k = 1; k < r.n; k++)
    assert(r.run[k - 1].end < r.run[k].begin); /* none touches the next */
}

static void the_set_is_that_of_the_model(void)
{
  for (unsigned round = 0; round < 60; round++) {
    r.n = 0;
    memset(model, 0, sizeof model);
    for (unsigned step = 0; step < 120; step++) {
      uint32_t at = random_below(SPAN), n = 1 + random_below(4), end = at;
      if (step % 16 == 15) {
        dc_runs_cut(&r, at);
        memset(&model[at], 0, SPAN - at);
      } else {
        while (end < SPAN && end < at + n && !model[end])
          model[end++] = true;
        if (end > at)
          dc_runs_add(&r, at, end);
      }
      agree();
    }
  }
}

/* The two with the least between them become one. */
static void too_many_runs_join_where_least_is_gained(void)
{
  r.n = 0;
  for (uint32_t k = 0; k < DC_RUNS_MAX; k++)
    dc_runs_add(&r, 10 * k + (k > 700), 10 * k + 1 + (k > 700)); /* between 700 and 701 lies one more than elsewhere, */
  dc_runs_add(&r, 10 * 500 + 2, 10 * 500 + 4);                   /* between 500's two runs one only */
  assert(r.n == DC_RUNS_MAX);
  assert(!dc_runs_has(&r, 9) || !dc_runs_has(&r, 5009)); /* one gap of the smallest ones is gone, no other */
  unsigned gained = 0;
  for (uint32_t k = 0; k < 10 * DC_RUNS_MAX; k++)
    gained += dc_runs_has(&r, k);
  assert(gained == DC_RUNS_MAX + 2 + 9);
  dc_runs_add(&r, 10 * DC_RUNS_MAX + 100, 10 * DC_RUNS_MAX + 101); /* joins 5000 and 5002 */
  assert(r.n == DC_RUNS_MAX && dc_runs_has(&r, 5001) && dc_runs_end(&r) == 10 * DC_RUNS_MAX + 101);
}

/* The gap that a number would have stood in may be the one that goes. */
static void a_number_in_the_gap_that_is_closed_is_there_already(void)
{
  r.n = 0;
  dc_runs_add(&r, 0, 1);
  dc_runs_add(&r, 4, 5); /* the smallest gap: 1 to 3 */
  for (uint32_t k = 2; k < DC_RUNS_MAX; k++)
    dc_runs_add(&r, 10 * k, 10 * k + 1);
  assert(r.n == DC_RUNS_MAX);
  dc_runs_add(&r, 2, 3);
  assert(r.n == DC_RUNS_MAX - 1 && dc_runs_has(&r, 2) && r.run[0].begin == 0 && r.run[0].end == 5);
}

int main(void)
{
  the_set_is_that_of_the_model();
  too_many_runs_join_where_least_is_gained();
  a_number_in_the_gap_that_is_closed_is_there_already();
  puts("runs ok");
  return 0;
}
