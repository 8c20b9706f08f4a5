/* What the spacing of packets tells of a path, and of the queue before it. */
#include <assert.h>
#include <stdio.h>

#include "cc_spacing.h"

#define PACKET 1500u
#define RATE 100000000u /* a packet in 120 us */

static struct spacing s;
static uint32_t had;
static dc_time now;

static bool come(unsigned packets, dc_time apart)
{
  bool first = false;
  for (unsigned i = 0; i < packets; i++)
    first |= spacing_seen(&s, now += apart, ++had);
  return first;
}

static void begin(void)
{
  spacing_init(&s, PACKET, 16, RATE);
  had = 0;
  now = DC_SEC;
}

static void nothing_is_known_before_packets_came(void)
{
  begin();
  assert(!spacing_seen(&s, now, 0) && spacing_most(&s) == 0);
  assert(!come(7, 120 * DC_US) && spacing_most(&s) == 0); /* the first of them waited, nobody knows for how long */
  assert(come(1, 120 * DC_US) && spacing_most(&s) == UINT64_MAX);
  assert(!come(100, 120 * DC_US));
}

static void who_gets_them_as_they_were_sent_is_not_bounded(void)
{
  begin();
  come(20, 130 * DC_US);
  assert(spacing_most(&s) == UINT64_MAX);
  begin();
  come(20, 140 * DC_US);
  assert(spacing_most(&s) == 7 * 8 * PACKET * DC_SEC / (7 * 140 * DC_US));
}

/* What it has had is asked for less credits, and those change. */
static void what_falls_back_is_no_rate(void)
{
  begin();
  come(15, 1200 * DC_US);
  had -= 9;
  for (unsigned i = 0; i < 9; i++)
    assert(!come(1, 12000 * DC_US) && spacing_most(&s) == RATE / 10);
  spacing_round(&s, RATE, true);
  come(14, 600 * DC_US);
  assert(spacing_most(&s) == RATE / 5);
}

/* All come together, and then none for a round trip. */
static void few_credits_are_a_short_train(void)
{
  for (uint32_t credits = 4; credits <= 16; credits += 12) {
    spacing_init(&s, PACKET, credits, RATE);
    had = 0;
    now = DC_SEC;
    assert(come(3, 120 * DC_US) == (credits == 4));
    assert(spacing_most(&s) == (credits == 4 ? UINT64_MAX : 0));
  }
}

/* They stood in a queue for a second before the first came: only how far apart they come counts. */
static void a_slow_link_is_known_by_its_packets_and_not_by_their_round_trip(void)
{
  begin();
  now += DC_SEC;
  come(17, 1200 * DC_US);
  assert(spacing_most(&s) == RATE / 10);
}

static void a_silence_between_two_trains_is_no_rate(void)
{
  begin();
  come(9, 120 * DC_US);
  for (unsigned round = 0; round < 4; round++) {
    now += 100 * DC_MS;
    spacing_round(&s, 2 * RATE, true);
    come(40, 120 * DC_US);
    assert(round < 1 || spacing_most(&s) == RATE); /* of what is sent at twice that by now */
  }
}

static void what_comes_is_held_to_the_rate_of_a_round_before(void)
{
  begin();
  come(20, 120 * DC_US);
  spacing_round(&s, 2 * RATE, true);
  come(20, 120 * DC_US);
  assert(spacing_most(&s) == UINT64_MAX); /* sent before the rate was doubled */
  spacing_round(&s, 2 * RATE, true);
  come(20, 120 * DC_US);
  assert(spacing_most(&s) == RATE);
}

static void the_best_of_two_rounds_counts(void)
{
  begin();
  come(15, 1200 * DC_US); /* two trains */
  spacing_round(&s, RATE, true);
  come(14, 2400 * DC_US);
  assert(spacing_most(&s) == RATE / 10);
  spacing_round(&s, RATE, true);
  assert(spacing_most(&s) == RATE / 20);
  spacing_round(&s, RATE, true);
  assert(spacing_most(&s) == UINT64_MAX); /* none was timed in either */
}

static void a_round_with_nothing_to_send_tells_nothing(void)
{
  begin();
  come(20, 12000 * DC_US);
  spacing_round(&s, RATE, false);
  assert(spacing_most(&s) == UINT64_MAX);
}

int main(void)
{
  nothing_is_known_before_packets_came();
  who_gets_them_as_they_were_sent_is_not_bounded();
  what_falls_back_is_no_rate();
  few_credits_are_a_short_train();
  a_slow_link_is_known_by_its_packets_and_not_by_their_round_trip();
  a_silence_between_two_trains_is_no_rate();
  what_comes_is_held_to_the_rate_of_a_round_before();
  the_best_of_two_rounds_counts();
  a_round_with_nothing_to_send_tells_nothing();
  puts("cc_spacing ok");
  return 0;
}
