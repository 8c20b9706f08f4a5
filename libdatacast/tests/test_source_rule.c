/* What a source tells its rule of rate control, and when; and when it wakes. */
#include <stdio.h>

#include "sources.h"

/* A rule that keeps what it is given, with a tick each millisecond after the last one. */
static struct dc_cc_params given_params;
static dc_time ticked, first_tick;
static unsigned ticks;
static void keep_init(void *state, dc_time now, const struct dc_cc_params *p)
{
  (void)state;
  given_params = *p;
  ticked = now;
  ticks = 0;
}
static void keep_tick(void *state, dc_time now)
{
  (void)state;
  first_tick = ticks++ == 0 ? now : first_tick;
  ticked = now;
}
static dc_time keep_next(const void *state) { return (void)state, ticked + DC_MS; }
static const struct dc_cc_ops keeping = {
    .init = keep_init, .interest = rule_interest, .tick = keep_tick, .next_tick = keep_next, .rate = rule_rate};

static dc_source *make_of(const struct dc_cc_ops *cc, uint64_t rate_max, uint32_t packet_bytes, uint32_t burst)
{
  struct dc_source_cfg cfg = {
      .cc = cc, .params = {.rate_init = 1, .rate_max = rate_max, .packet_bytes = packet_bytes}, .burst_packets = burst};
  return dc_source_init(malloc(dc_source_size()), DC_SEC, &cfg);
}

static void a_rule_is_given_sensible_parameters(void)
{
  said = 1;
  dc_source *s = make_of(&keeping, UINT64_MAX, 0, 1);
  assert(given_params.packet_bytes == 1 && given_params.interval == DC_US &&
         given_params.rate_max == (uint64_t)1 << 42);
  free(s);
  struct dc_source_cfg cfg = {
      .cc = &keeping,
      .params = {.rate_init = 3, .rate_min = 2, .rate_max = 4, .delta = 5, .interval = 1, .packet_bytes = 2}};
  s = dc_source_init(malloc(dc_source_size()), DC_SEC, &cfg);
  assert(given_params.packet_bytes == 2 && given_params.interval == 1 && given_params.rate_max == 4);
  assert(given_params.rate_init == 3 && given_params.rate_min == 2 && given_params.delta == 5);
  free(s);
}

static void each_tick_comes_in_its_time_and_after_a_long_silence_the_last_one_now(void)
{
  said = 1000;
  dc_source *s = make_of(&keeping, 1000, 1250, 1);
  assert(dc_source_poll(s, DC_SEC + DC_MS - 1, tx, CAP) == 0 && ticks == 0);
  assert(dc_source_poll(s, DC_SEC + DC_MS, tx, CAP) == 0 && ticks == 1 && ticked == DC_SEC + DC_MS);
  (void)dc_source_poll(s, DC_SEC + 11 * DC_MS + 5, tx, CAP);
  assert(ticks == 11 && ticked == DC_SEC + 11 * DC_MS);
  ticks = 0;
  (void)dc_source_poll(s, DC_SEC + 75 * DC_MS, tx, CAP); /* 64 of them */
  assert(ticks == 64 && first_tick == DC_SEC + 12 * DC_MS && ticked == DC_SEC + 75 * DC_MS);
  ticks = 0;
  (void)dc_source_poll(s, 9 * DC_SEC + 7, tx, CAP);
  assert(ticks == 64 && first_tick == DC_SEC + 76 * DC_MS && ticked == 9 * DC_SEC + 7);
  (void)dc_source_poll(s, 8 * DC_SEC, tx, CAP); /* a clock that went back */
  assert(ticks == 64);
  free(s);
}

static void asks(dc_source *s, dc_time now, uint32_t seq, uint8_t more, uint8_t cache, uint8_t flags,
                 const struct dc_segment *ret)
{
  struct dc_header h = {
      .type = DC_TYPE_INTEREST, .tree = 1, .seq = seq, .more = more, .stops = 1, .cache = cache, .flags = flags};
  dc_source_handle(s, now, &h, ret);
}

static void a_store_holds_a_packet_at_least_and_as_many_as_it_has_slots(void)
{
  static const struct {
    uint32_t bytes;
    uint64_t cache;
    uint32_t depth;
  } row[] = {{1250, 0, 104},
             {131072, 0, 1},
             {131073, 0, 1},
             {65536, 0, 2},
             {10000, 4352, 1},
             {2000, 4352, 2},
             {1, 65536, DC_NODE_SLOTS_MAX},
             {1, 63488, 63488},
             {1, 8 << 20, DC_NODE_SLOTS_MAX}};
  said = 1;
  for (unsigned i = 0; i < sizeof row / sizeof row[0]; i++) {
    dc_source *s = make_of(&rule, 1, row[i].bytes, 1);
    dc_source_assign(s, 0, 10);
    asks(s, DC_SEC, 0, 0, dc_cache_code(row[i].cache), 0, &to_a);
    assert(learnt.depth == row[i].depth);
    free(s);
  }
}

static void a_rule_learns_what_was_asked_again_and_whether_it_is_the_last(void)
{
  said = 100000000000u;
  dc_source *s = make_of(&rule, said, 1250, 64);
  dc_source_assign(s, 3, 3);
  ask(s, DC_SEC, 3);
  assert(!learnt.last && !learnt.retx && !learnt.duplicate);
  ask(s, DC_SEC, 4);
  assert(!learnt.last);
  ask_from(s, DC_SEC, 5, DC_FLAG_RETX, &to_a);
  assert(learnt.last && learnt.retx && !learnt.duplicate);
  assert(dc_source_poll(s, DC_SEC, tx, CAP) == 1 && dc_source_poll(s, DC_SEC + DC_MS, tx, CAP) == 2);
  ask_from(s, DC_SEC + DC_MS, 3, 0, &to_a);
  assert(learnt.duplicate && !learnt.retx && learnt.last && learnt.seq == 0 && learnt.next_seq == 3);
  dc_source_counters(s, &c);
  assert(c.numbers == 3 && c.next_seq == 6 && c.rate == said && c.new_packets == 3 && c.duplicates == 1);
  assert(dc_source_poll(s, DC_SEC + DC_MS, tx, CAP) == 1); /* an answer is no new number */
  dc_source_counters(s, &c);
  assert(c.numbers == 3 && c.dup_packets == 1 && c.new_packets == 3);
  free(s);
}

/* Of 0, 1 and 5 to 20 one child asks for ten; of what waits the other has asked for a part. */
static void what_waits_for_the_source_counts_for_the_slowest(void)
{
  said = 0;
  dc_source *s = make_of(&rule, 1000, 1250, 1);
  dc_source_assign(s, 0, 2);
  dc_source_assign(s, 5, 16);
  for (uint32_t seq = 0; seq < 2; seq++)
    ask(s, DC_SEC, seq);
  for (uint32_t seq = 5; seq < 13; seq++)
    ask(s, DC_SEC, seq);
  static const uint32_t number[] = {0, 1, 5, 6}, lag[] = {9, 8, 7, 6};
  for (unsigned i = 0; i < 2; i++) {
    ask_from(s, DC_SEC, number[i], 0, &to_b);
    assert(learnt.lag == lag[i]);
  }
  assert(dc_source_poll(s, DC_SEC, tx, CAP) == 1 && tx[0].seq == 0); /* to one of them: it waits still */
  said = 1000000000;
  dc_source_limit(s, DC_SEC, 0);
  assert(dc_source_poll(s, DC_SEC + 10 * DC_US, tx, CAP) == 1 && tx[0].seq == 0);
  for (unsigned i = 2; i < 4; i++) {
    ask_from(s, DC_SEC + 10 * DC_US, number[i], 0, &to_b);
    assert(learnt.lag == lag[i]);
  }
  free(s);
}

/* The furthest number of a batch once more begins no new batch. */
static void the_last_number_asked_for_again_leaves_nobody_further_behind(void)
{
  said = 0;
  dc_source *s = make_of(&rule, 1000, 1250, 1);
  dc_source_assign(s, 0, 1000);
  asks(s, DC_SEC, 0, 3, 0, 0, &to_a);
  asks(s, DC_SEC, 0, 3, 0, 0, &to_b);
  asks(s, DC_SEC, 4, 3, 0, 0, &to_a);
  assert(learnt.lag == 1);
  asks(s, DC_SEC, 7, 0, 0, DC_FLAG_RETX, &to_a);
  assert(learnt.lag == 1);
  free(s);
}

static void what_nobody_has_a_place_for_is_counted_number_by_number(void)
{
  said = 0;
  dc_source *s = make_of(&rule, 1000, 1250, 1);
  dc_source_assign(s, 0, 1000);
  for (uint16_t i = 0; i <= DC_SOURCE_CHILDREN_MAX; i++) {
    struct dc_segment ret = {.n = 1, .port = {i}};
    asks(s, DC_SEC, 10u * i, 4, 0, 0, &ret);
  }
  dc_source_counters(s, &c);
  assert(c.interests == 5 * (DC_SOURCE_CHILDREN_MAX + 1) && c.drop[DC_DROP_CHILDREN] == 5);
  assert(c.queued == 5 * DC_SOURCE_CHILDREN_MAX);
  free(s);
}

static void numbers_may_go_up_to_the_last_but_one(void)
{
  said = 1000;
  dc_source *s = make_of(&rule, 1000, 1250, 4);
  dc_source_assign(s, UINT32_MAX - 5, 6);
  dc_source_assign(s, 7, 0);
  ask(s, DC_SEC, 7);
  dc_source_counters(s, &c);
  assert(c.queued == 0);
  dc_source_assign(s, UINT32_MAX - 5, 5);
  asks(s, DC_SEC, UINT32_MAX - 5, 4, 0, 0, &to_a);
  dc_source_counters(s, &c);
  assert(c.queued == 5 && c.drop[DC_DROP_BEYOND] == 0 && c.drop[DC_DROP_RANGE] == 0);
  asks(s, DC_SEC, UINT32_MAX - 5, 6, 0, 0, &to_a);
  dc_source_counters(s, &c);
  assert(c.drop[DC_DROP_RANGE] == 1);
  free(s);
}

/* Of tokens, a tick and an answer whichever comes first. */
static void a_source_wakes_for_what_comes_first(void)
{
  said = 0;
  dc_source *s = make_of(&keeping, 1000000000, 1250, 1);
  dc_source_assign(s, 0, 1000);
  assert(dc_source_next_wake(s) == DC_NEVER);
  for (uint32_t i = 0; i < 3; i++)
    ask(s, DC_SEC, i);
  assert(dc_source_next_wake(s) == DC_SEC);                                                    /* the bucket has one */
  assert(dc_source_poll(s, DC_SEC, tx, CAP) == 1 && dc_source_next_wake(s) == DC_SEC + DC_MS); /* the tick */
  said = 5000000;                                                                              /* a packet each 2 ms */
  dc_source_limit(s, DC_SEC, 0);
  assert(dc_source_next_wake(s) == DC_SEC + DC_MS);
  said = 20000000;
  dc_source_limit(s, DC_SEC, 0);
  assert(dc_source_next_wake(s) == DC_SEC + 500 * DC_US);
  said = 10000000; /* both at once */
  dc_source_limit(s, DC_SEC, 0);
  assert(dc_source_next_wake(s) == DC_SEC + DC_MS);
  free(s);
}

/* A packet takes its time of what the tree may send at most: its part of the link, or its limit; here 1,000 s. */
static void answers_keep_the_pace_of_the_limit_or_the_link(void)
{
  static const uint64_t most[][2] = {{9, 0}, {100, 9}, {9, 100}};
  for (unsigned i = 0; i < 3; i++) {
    said = 0;
    dc_source *s = make_of(&spreading, most[i][0], 1250, 2);
    dc_source_assign(s, 0, 1000);
    dc_source_limit(s, DC_SEC, most[i][1]);
    ask(s, DC_SEC, 0);
    assert(dc_source_poll(s, DC_SEC, tx, CAP) == 1);
    for (unsigned k = 0; k < 2; k++)
      ask_from(s, 8000 * DC_SEC, 0, 0, k == 0 ? &to_a : &to_b);
    assert(dc_source_poll(s, 8000 * DC_SEC, tx, CAP) == 2);
    for (dc_time at = 0, k = 0; k < 10; k++, at = dc_source_next_wake(s)) { /* eight are made up for */
      if (k > 0 && at > 8000 * DC_SEC)
        assert(at % (1000 * DC_SEC) == 750 * DC_SEC && dc_source_poll(s, at - 1, tx, CAP) == 0);
      (void)dc_source_poll(s, at > 8000 * DC_SEC ? at : 8000 * DC_SEC, tx, CAP);
      ask_from(s, at > 8000 * DC_SEC ? at : 8000 * DC_SEC, 0, 0, &to_a);
    }
    free(s);
  }
}

int main(void)
{
  a_rule_is_given_sensible_parameters();
  each_tick_comes_in_its_time_and_after_a_long_silence_the_last_one_now();
  a_store_holds_a_packet_at_least_and_as_many_as_it_has_slots();
  a_rule_learns_what_was_asked_again_and_whether_it_is_the_last();
  what_waits_for_the_source_counts_for_the_slowest();
  the_last_number_asked_for_again_leaves_nobody_further_behind();
  what_nobody_has_a_place_for_is_counted_number_by_number();
  numbers_may_go_up_to_the_last_but_one();
  a_source_wakes_for_what_comes_first();
  answers_keep_the_pace_of_the_limit_or_the_link();
  puts("source's rule ok");
  return 0;
}
