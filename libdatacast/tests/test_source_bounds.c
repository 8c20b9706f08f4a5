/* The source at its bounds: rates, bursts, queues, the table by which what waits is found; and what it tells a rule. */
#include <stdio.h>

#include "source_children.h"
#include "sources.h"

/* A rule and a master may say what they like: tokens stay far from where they would overflow. */
static void no_rate_and_no_burst_is_above_its_bound(void)
{
  struct dc_source_cfg cfg = {.cc = &rule,
                              .params = {.rate_init = 1, .rate_max = UINT64_MAX, .packet_bytes = 65535},
                              .burst_packets = UINT32_MAX};
  said = UINT64_MAX;
  dc_source *s = dc_source_init(malloc(dc_source_size()), 0, &cfg);
  dc_source_counters(s, &c);
  assert(c.rate == (uint64_t)1 << 42);
  said = 0; /* no new tokens: only the bucket's */
  dc_source_assign(s, 0, 100000);
  unsigned sent = 0;
  dc_time now = 3600 * DC_SEC;
  for (uint32_t seq = 0; seq < 5000; seq += CAP) {
    for (uint32_t i = 0; i < CAP; i++)
      ask(s, now, seq + i);
    sent += dc_source_poll(s, now, tx, CAP);
  }
  assert(sent == 4096);
  free(s);
}

static void duplicates_beyond_their_queue_are_refused_and_the_others_answered(void)
{
  dc_source *s = make_with(&dc_cc_datacast, 100000000000u, 64, 0, 1000000);
  uint32_t n = DC_SOURCE_QUEUE_MAX + 7;
  for (uint32_t i = 0; i < n; i++) {
    ask(s, DC_SEC + i * DC_MS, i);
    assert(dc_source_poll(s, DC_SEC + i * DC_MS, tx, CAP) == 1);
  }
  dc_time now = 3600 * DC_SEC;
  for (uint32_t i = 0; i < n; i++)
    ask(s, now, i);
  dc_source_counters(s, &c);
  assert(c.duplicates == n && c.drop[DC_DROP_QUEUE] == 7);
  uint32_t next = 0;
  for (unsigned got; (got = dc_source_poll(s, now, tx, CAP)) > 0;)
    for (unsigned i = 0; i < got; i++, next++)
      assert(tx[i].seq == next && tx[i].flags == DC_FLAG_DUP);
  assert(next == DC_SOURCE_QUEUE_MAX);
  ask(s, now, n - 1); /* there is room again */
  assert(dc_source_poll(s, now, tx, CAP) == 1 && tx[0].seq == n - 1);
  free(s);
}

/* Numbers that share a place in the table by which those that wait are found. */
static void numbers_with_one_place_in_the_table_are_told_apart(void)
{
  dc_source *s = make_with(&dc_cc_datacast, 10000000, 1, 0, 1u << 20);
  enum { FAR = 1 << 17 };
  for (uint32_t i = 0; i < 4; i++)
    ask(s, 1000, i * FAR);
  for (uint32_t i = 0; i < 4; i++) {
    dc_time at = 1000 + i * DC_MS;
    assert(dc_source_poll(s, at, tx, CAP) == 1 && tx[0].seq == i * FAR && tx[0].flags == 0);
    for (uint32_t k = i + 1; k < 4; k++)
      ask(s, at, k * FAR); /* still found: merged, no duplicates */
  }
  dc_source_counters(s, &c);
  assert(c.merged == 6 && c.duplicates == 0 && c.queued == 0);
  free(s);
}

static void asks(dc_source *s, dc_time now, uint32_t seq, uint32_t lag, uint32_t cache, const struct dc_segment *ret)
{
  struct dc_header h = {.type = DC_TYPE_INTEREST,
                        .tree = 1,
                        .seq = seq,
                        .stops = 1,
                        .lag = dc_lag_code(lag),
                        .cache = dc_cache_code(cache)};
  dc_source_handle(s, now, &h, ret);
}

/* Of all children: how many numbers the slowest has not asked for, and the least store. Sent or not makes no difference. */
static void a_rule_learns_of_the_slowest_and_of_the_least_store(void)
{
  said = 1000000000;
  dc_source *s = make_with(&rule, said, 1, 0, 100000);
  dc_time now = 10 * DC_SEC;
  for (uint32_t seq = 0; seq < 30; seq++, now += 100 * DC_US) {
    asks(s, now, seq, 0, 128 * 1024, &to_a);
    assert(learnt.lag == (seq == 0 ? 0 : 1) && learnt.depth == (seq == 0 ? 128 * 1024 : 64 * 1024) / 1250);
    asks(s, now, seq, 0, 64 * 1024, &to_b);
    assert(learnt.lag == 0 && learnt.depth == 64 * 1024 / 1250);
    if (seq % 2 == 0)
      dc_source_poll(s, now, tx, CAP);
  }
  while (dc_source_poll(s, now += DC_MS, tx, CAP) > 0)
    ;
  for (uint32_t seq = 30; seq < 50; seq++, now += 100 * DC_US) {
    asks(s, now, seq, 0, 128 * 1024, &to_a); /* the other one stands still */
    assert(learnt.lag == seq - 29);
  }
  asks(s, now, 30, 10, 64 * 1024, &to_b); /* it goes on, and tells of one that is behind it */
  assert(learnt.lag == 49 - 30 + 10);
  now += 151 * DC_MS;
  asks(s, now, 50, 0, 128 * 1024, &to_a); /* it waits for an answer: it counts, however long it is silent */
  assert(learnt.lag == 50 - 30 + 10);
  while (dc_source_poll(s, now += DC_MS, tx, CAP) > 0)
    ;
  now += 151 * DC_MS;
  asks(s, now, 51, 0, 128 * 1024, &to_a); /* now it does not */
  assert(learnt.lag == 0 && learnt.depth == 128 * 1024 / 1250);
  free(s);
}

/* One bit of a number was damaged. Those who asked before it, and after it, wait for lower ones. */
static void a_damaged_number_far_ahead_goes_before_nobody_and_is_nobodys_place(void)
{
  said = 10000000; /* a packet each ms */
  dc_source *s = make_with(&rule, 10000000, 1, 0, 1000);
  dc_time now = 1000;
  asks(s, now, 0, 0, 128 * 1024, &to_a);
  asks(s, now, 55 | 64, 79, 128 * 1024, &to_a);
  for (uint32_t seq = 1; seq < 60; seq++)
    asks(s, now, seq, 0, 128 * 1024, &to_a);
  assert(learnt.lag == 1); /* the damaged number */
  assert(dc_source_poll(s, now, tx, CAP) == 1 && tx[0].seq == 0);
  assert(dc_source_poll(s, now += DC_MS, tx, CAP) == 1 && tx[0].seq == 119);
  for (uint32_t seq = 60; seq < 80; seq++) /* below the highest that was sent */
    asks(s, now, seq, 0, 128 * 1024, &to_a);
  for (uint32_t seq = 1; seq < 80; seq++)
    assert(dc_source_poll(s, now += DC_MS, tx, CAP) == 1 && tx[0].seq == seq);
  free(s);
}

/* One bit of a return segment was damaged, of two interests, and one came twice: a copy says no more than one. */
static void damaged_interests_make_nobody(void)
{
  said = 10000000;
  dc_source *s = make_with(&rule, 10000000, 1, 0, 1000);
  asks(s, 1000, 0, 0, 128 * 1024, &to_a);
  for (unsigned k = 0; k < 3; k++)
    asks(s, 1000, 1, 0, 128 * 1024, &to_b);
  for (uint32_t seq = 1; seq < 30; seq++)
    asks(s, 1000, seq, 0, 128 * 1024, &to_a);
  assert(learnt.lag == 0);
  asks(s, 1000, 2, 0, 128 * 1024, &to_b); /* the same bit of another one (seeds 92784, 102471) */
  assert(learnt.lag == 0);
  asks(s, 1000, 3, 0, 128 * 1024, &to_b); /* it goes on: somebody is there */
  assert(learnt.lag == 26);
  free(s);
}

/* Who asks for nothing new, as the source waits for its slowest, asks again for what has not come, and tells how far that one is now
 * (seed 146707). */
static void what_is_asked_for_again_tells_how_far_the_slowest_has_come(void)
{
  said = 10000000;
  dc_source *s = make_with(&rule, 10000000, 1, 0, 1000);
  for (uint32_t seq = 0; seq < 50; seq++)
    asks(s, 1000, seq, seq < 24 ? 0 : seq - 24, 128 * 1024, &to_a);
  assert(learnt.lag == 25);
  asks(s, 1000, 45, 15, 128 * 1024, &to_a); /* up to 30 */
  assert(learnt.lag == 19);
  asks(s, 1000, 40, 15, 128 * 1024, &to_a); /* from before, and late */
  assert(learnt.lag == 19);
  free(s);
}

static void ask_for(dc_source *s, uint32_t seq, uint8_t more, const struct dc_segment *ret)
{
  struct dc_header h = {.type = DC_TYPE_INTEREST, .tree = 1, .seq = seq, .more = more, .stops = 1};
  dc_source_handle(s, 1000, &h, ret);
}

/* Two ask in turns for the same. Who asks first is ahead of the other by a batch, which is no distance but for one number. */
static void who_asks_for_several_at_once_leaves_nobody_behind(void)
{
  dc_source *s = make_with(&rule, 1, 1, 0, 10000);
  said = 1;
  for (uint32_t seq = 0; seq < 80; seq += 4) {
    ask_for(s, seq, 3, &to_a);
    assert(learnt.lag == (seq != 0)); /* at first the other one is not known */
    ask_for(s, seq, 3, &to_b);
    assert(learnt.lag == 0);
  }
  for (uint32_t seq = 80; seq < 100; seq += 4)
    ask_for(s, seq, 3, &to_a);
  assert(learnt.lag == 17);
  ask_for(s, 80, 1, &to_b); /* in the middle of a batch */
  assert(learnt.lag == 15);
  for (uint32_t seq = 82; seq < 98; seq += 4)
    ask_for(s, seq, 3, &to_b);
  assert(learnt.lag == 0); /* in the middle of the last one */
  ask_for(s, 98, 1, &to_b);
  ask_for(s, 100, 7, &to_a); /* the longest batch */
  assert(learnt.lag == 1);
  ask_for(s, 108, 8, &to_a); /* none: credits that have grown */
  assert(learnt.lag == 17);
  ask_for(s, 117, 0, &to_a);
  assert(learnt.lag == 18);
  free(s);
}

/* Receivers may hear of an extent before the source does. */
static void who_asks_too_early_is_answered_when_the_numbers_are_there(void)
{
  dc_source *s = make_with(&dc_cc_datacast, 100000000000u, 64, 0, 10);
  struct dc_header h = {.type = DC_TYPE_INTEREST, .tree = 1, .seq = 8, .more = 5, .stops = 1};
  dc_source_handle(s, 1000, &h, &to_a); /* 8 and 9 are there */
  ask(s, 1000, 500);
  assert(dc_source_poll(s, DC_MS, tx, CAP) == 2 && tx[1].seq == 9 && dc_source_next_wake(s) == DC_NEVER);
  dc_source_handle(s, 2 * DC_MS, &h, &to_a); /* again: 8 and 9 twice, the others once */
  assert(dc_source_poll(s, 2 * DC_MS, tx, CAP) == 2 && tx[0].flags == DC_FLAG_DUP);
  dc_source_assign(s, 10, 3);
  assert(dc_source_next_wake(s) == 2 * DC_MS);
  assert(dc_source_poll(s, 3 * DC_MS, tx, CAP) == 3 && tx[0].seq == 10 && tx[2].seq == 12);
  dc_source_assign(s, 13, 10);
  assert(dc_source_poll(s, 4 * DC_MS, tx, CAP) == 1 && tx[0].seq == 13);
  dc_source_counters(s, &c);
  assert(c.duplicates == 2 && c.drop[DC_DROP_BEYOND] == 0 && c.interests == 8);
  free(s);
}

/* Of those that nobody has a number for, the last ones are kept. */
static void early_interests_are_bounded(void)
{
  dc_source *s = make_with(&dc_cc_datacast, 100000000000u, 64, 0, 10);
  for (uint32_t i = 0; i < DC_SOURCE_EARLY_MAX + 5; i++)
    ask(s, 1000, 10 + i);
  for (uint32_t i = 5; i < DC_SOURCE_EARLY_MAX + 5; i++)
    ask(s, 1000, 10 + i); /* again, and kept already */
  ask(s, 1000, UINT32_MAX);
  dc_source_counters(s, &c);
  assert(c.drop[DC_DROP_BEYOND] == 6 && c.queued == 0);
  dc_source_assign(s, 10, DC_SOURCE_EARLY_MAX + 5);
  unsigned n = dc_source_poll(s, DC_SEC, tx, 64);
  assert(n == 64 && tx[0].seq == 16);
  free(s);
}

/* Two numbers, then three: who had sent all that there was when the third was asked for had nothing to send. */
static void a_rule_is_told_when_there_was_nothing_more_to_send(void)
{
  said = 10000000000u;
  dc_source *s = make_with(&rule, 10000000000u, 64, 0, 2);
  ask(s, 1000, 0);
  assert(!learnt.dry);
  assert(dc_source_poll(s, 2000, tx, CAP) == 1);
  ask(s, 3000, 1);
  assert(!learnt.dry); /* nobody had asked for it, as receivers had enough */
  assert(dc_source_poll(s, 4000, tx, CAP) == 1);
  dc_source_assign(s, 2, 3);
  ask(s, 5000, 2);
  assert(learnt.dry);
  ask(s, 5000, 3);
  assert(!learnt.dry);
  assert(dc_source_poll(s, 6000, tx, CAP) == 2);
  ask(s, 7000, 4);
  assert(!learnt.dry);
  free(s);
}

/* A rule is told where among the numbers that were sent a repeated one stands: here of 5, 6, 7, 20 and 21. */
static void a_rule_is_told_the_place_of_a_repeated_number_among_those_sent(void)
{
  static const uint32_t numbers[] = {5, 6, 7, 20, 21};
  enum { N = sizeof numbers / sizeof numbers[0] };
  said = 100000000000u;
  dc_source *s = make_with(&rule, 100000000000u, CAP, 5, 3);
  dc_source_assign(s, 20, 2);
  dc_time now = 1000;
  for (unsigned i = 0; i < N; i++) {
    ask(s, now, numbers[i]);
    assert(!learnt.duplicate && learnt.seq == i && learnt.next_seq == i);
    assert(dc_source_poll(s, now += DC_MS, tx, CAP) == 1 && tx[0].seq == numbers[i]);
  }
  for (unsigned i = 0; i < N; i++) {
    ask_from(s, now, numbers[i], DC_FLAG_RETX, &to_b);
    assert(learnt.duplicate && learnt.seq == i && learnt.next_seq == N);
  }
  free(s);
}

int main(void)
{
  who_asks_too_early_is_answered_when_the_numbers_are_there();
  early_interests_are_bounded();
  a_damaged_number_far_ahead_goes_before_nobody_and_is_nobodys_place();
  damaged_interests_make_nobody();
  what_is_asked_for_again_tells_how_far_the_slowest_has_come();
  no_rate_and_no_burst_is_above_its_bound();
  duplicates_beyond_their_queue_are_refused_and_the_others_answered();
  numbers_with_one_place_in_the_table_are_told_apart();
  a_rule_learns_of_the_slowest_and_of_the_least_store();
  who_asks_for_several_at_once_leaves_nobody_behind();
  a_rule_is_told_when_there_was_nothing_more_to_send();
  a_rule_is_told_the_place_of_a_repeated_number_among_those_sent();
  puts("source's bounds ok");
  return 0;
}
