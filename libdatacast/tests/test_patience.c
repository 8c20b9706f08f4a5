/* How long a source bears with a receiver that has become slow, to the packet and the nanosecond. */
#include "patience.h"

#include <assert.h>
#include <stdio.h>

enum { BYTES = 1250, MOST_MS = 300 };
#define MOST (MOST_MS * DC_MS)
#define WINDOW (40 * DC_MS)
#define GRACE (40 * DC_MS)

/* Of so many packets in a window. */
static uint64_t rate_of(uint32_t packets) { return (uint64_t)packets * BYTES * 8 * 1000000 / 40000; }

static struct patience begun(dc_time now) { return (struct patience){.most = MOST, .since = now}; }

static void window(struct patience *p, dc_time *now, uint32_t packets)
{
  patience_sent(p, *now += WINDOW - 1, packets - 1, 0, BYTES);
  patience_sent(p, *now += 1, 1, 0, BYTES);
}

/* One that has carried a hundred packets a window. */
static struct patience steady(dc_time *now)
{
  struct patience p = begun(*now);
  for (unsigned i = 0; i < PATIENCE_WINDOWS; i++)
    window(&p, now, 100);
  assert(p.usual == rate_of(100));
  return p;
}

static void the_usual_is_the_least_of_the_last_windows(void)
{
  static const uint32_t sent[] = {20, 30, 40, 50, 60, 25, 70, 80, 90, 35, 95, 96, 97, 98, 99};
  enum { N = sizeof sent / sizeof sent[0] };
  dc_time now = DC_SEC;
  struct patience p = begun(now);
  for (unsigned i = 0; i < N; i++) {
    window(&p, &now, sent[i]);
    uint32_t least = UINT32_MAX;
    for (unsigned k = i; i + 1 >= PATIENCE_WINDOWS && k + PATIENCE_WINDOWS > i; k--)
      least = sent[k] < least ? sent[k] : least;
    assert(p.usual == (i + 1 < PATIENCE_WINDOWS ? 0 : rate_of(least)));
    assert(p.windows == i + 1 && p.since == now && p.sent == 0);
  }
  patience_sent(&p, now += 50 * DC_MS, 10, 0, BYTES); /* one that ends late is as long as it is */
  assert(p.usual == 10 * BYTES * 8 * 20);
}

static void of_few_packets_nothing_is_known(void)
{
  for (uint32_t few = 7; few <= 8; few++) {
    dc_time now = DC_SEC;
    struct patience p = begun(now);
    for (unsigned i = 0; i < PATIENCE_WINDOWS; i++)
      window(&p, &now, i == 2 ? few : 100);
    assert(p.usual == (few < 8 ? 0 : rate_of(8)));
  }
}

static void who_has_none_measures_and_counts_nothing(void)
{
  struct patience p = {.most = 0};
  for (unsigned i = 1; i < 20; i++)
    patience_sent(&p, i * WINDOW, 100, 3, BYTES);
  assert(p.windows == 0 && p.usual == 0 && p.spent == 0 && p.sent == 0);
}

static void it_begins_where_less_than_half_is_wanted_for_longer_than_a_moment(void)
{
  dc_time now = DC_SEC;
  struct patience p = steady(&now);
  uint64_t half = rate_of(50), less = half - 1;
  assert(patience_rate(&p, now, half, BYTES) == half && p.low == 0);
  assert(patience_rate(&p, now, less, BYTES) == less && p.low == now);
  dc_time low = now;
  assert(patience_rate(&p, now += GRACE - 1, less, BYTES) == less && p.low == low && p.times == 0);
  assert(patience_rate(&p, now, half, BYTES) == half && p.low == 0); /* for a moment only */
  assert(patience_rate(&p, now, less, BYTES) == less && p.low == now);
  assert(patience_rate(&p, now + GRACE - 1, less, BYTES) == less && p.times == 0);
  p.spent = 77;
  assert(patience_rate(&p, now += GRACE, less, BYTES) == rate_of(100) && p.times == 1 && p.spent == 0);
  assert(p.from == now && p.until == now + MOST && p.rest == now + 10 * MOST);
  assert(patience_rate(&p, now, rate_of(101), BYTES) == rate_of(101)); /* what the rule gives beyond it it takes */
  assert(patience_rate(&p, now + 1, half, BYTES) == rate_of(100) && p.low != 0);
}

static void it_lasts_its_time_and_rests_for_ten_times_as_long(void)
{
  dc_time now = DC_SEC;
  struct patience p = steady(&now);
  uint64_t less = rate_of(10);
  assert(patience_rate(&p, now, less, BYTES) == less);
  assert(patience_rate(&p, now += GRACE, less, BYTES) == rate_of(100));
  dc_time from = now;
  assert(patience_rate(&p, from + MOST - 1, less, BYTES) == rate_of(100));
  assert(patience_rate(&p, from + MOST, less, BYTES) == less);
  assert(patience_rate(&p, from + 10 * MOST - 1, less, BYTES) == less && p.times == 1);
  assert(patience_rate(&p, from + 10 * MOST, less, BYTES) == rate_of(100) && p.times == 2);
}

/* Of what the tree carries meanwhile a fourth, and four. */
static void it_ends_with_more_duplicates_than_are_borne_with(void)
{
  dc_time now = DC_SEC;
  struct patience p = steady(&now); /* 2,500 packets a second */
  uint64_t less = rate_of(10);
  patience_rate(&p, now, less, BYTES);
  patience_rate(&p, now += GRACE, less, BYTES);
  patience_sent(&p, now, 0, 3, BYTES);
  patience_sent(&p, now, 0, 1, BYTES);
  assert(p.spent == 4 && patience_rate(&p, now, less, BYTES) == rate_of(100));
  patience_sent(&p, now += 16 * DC_MS, 0, 10, BYTES); /* 40 packets */
  assert(p.spent == 14 && patience_rate(&p, now, less, BYTES) == rate_of(100));
  patience_sent(&p, now, 0, 1, BYTES);
  assert(patience_rate(&p, now, less, BYTES) == less && p.until == now);
  assert(patience_rate(&p, now + 1, less, BYTES) == less && p.times == 1);
}

/* Nor is what it carries while it waits for somebody, or bears with him, what it can carry. */
static void what_goes_by_patience_measures_nothing(void)
{
  dc_time now = DC_SEC;
  struct patience p = steady(&now);
  uint64_t less = rate_of(10);
  patience_sent(&p, now + 1, 5, 0, BYTES);
  assert(p.sent == 5);
  patience_rate(&p, now, less, BYTES);
  patience_sent(&p, now += GRACE - 1, 100, 2, BYTES);
  assert(p.windows == PATIENCE_WINDOWS && p.since == now && p.sent == 0 && p.spent == 2);
  patience_rate(&p, now += 1, less, BYTES);
  assert(p.times == 1);
  dc_time until = p.until, since = p.since;
  patience_sent(&p, until - 1, 100, 1, BYTES);
  assert(p.sent == 0 && p.since == since && p.spent == 1);
  patience_sent(&p, until, 9, 0, BYTES); /* over: it counts again */
  assert(p.windows == PATIENCE_WINDOWS + 1 && p.since == until && p.sent == 0);
}

static void a_moment_is_over_when_it_is_as_long_as_it_may_be(void)
{
  dc_time now = DC_SEC;
  struct patience p = steady(&now);
  patience_rate(&p, now, rate_of(10), BYTES);
  patience_sent(&p, now + GRACE - 1, 5, 0, BYTES);
  assert(p.sent == 0 && p.since == now + GRACE - 1);
  patience_sent(&p, now + GRACE, 5, 0, BYTES);
  assert(p.sent == 5 && p.since == now + GRACE - 1);
  p = begun(0);
  patience_sent(&p, DC_MS, 5, 0, BYTES); /* of a clock that has just begun it waits for nobody either */
  assert(p.sent == 5 && p.since == 0);
}

int main(void)
{
  the_usual_is_the_least_of_the_last_windows();
  of_few_packets_nothing_is_known();
  who_has_none_measures_and_counts_nothing();
  it_begins_where_less_than_half_is_wanted_for_longer_than_a_moment();
  it_lasts_its_time_and_rests_for_ten_times_as_long();
  it_ends_with_more_duplicates_than_are_borne_with();
  what_goes_by_patience_measures_nothing();
  a_moment_is_over_when_it_is_as_long_as_it_may_be();
  puts("patience ok");
  return 0;
}
