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

/* By two children and by one. */
static dc_source *asked_for_0_and_50(void)
{
  said = 100000000000u;
  dc_source *s = make_of(&rule, said, 1250, 64);
  dc_source_assign(s, 0, 100);
  ask(s, DC_SEC, 0);
  ask_from(s, DC_SEC, 0, 0, &to_b);
  ask(s, DC_SEC, 50);
  return s;
}

/* Below what was sent, too. */
static void what_waits_below_what_was_sent_counts_for_the_slowest(void)
{
  dc_source *s = asked_for_0_and_50();
  said = 0;
  dc_source_limit(s, DC_SEC + DC_MS, 0);
  assert(dc_source_poll(s, DC_SEC + DC_MS, tx, CAP) == 3);
  for (uint32_t seq = 30; seq < 60; seq++)
    ask(s, DC_SEC + DC_MS, seq == 50 ? 60 : seq);
  dc_source_counters(s, &c);
  assert(c.queued == 30 && learnt.lag == 31);
  free(s);
}

static void one_that_waits_below_the_slowest_is_none_that_it_has_not_asked_for(void)
{
  dc_source *s = asked_for_0_and_50();
  assert(dc_source_poll(s, DC_SEC + DC_MS, tx, CAP) == 3);
  ask(s, DC_SEC + DC_MS, 30);
  ask_from(s, DC_SEC + DC_MS, 30, 0, &to_b);
  assert(learnt.lag == 1); /* 50 */
  ask(s, DC_SEC + DC_MS, 51);
  assert(learnt.lag == 2);
  free(s);
}

static uint8_t says_path(void *state, uint32_t sent, uint64_t limit)
{
  (void)state, (void)sent, (void)limit;
  return 0x50;
}

static void what_the_path_holds_stands_on_what_is_sent_and_nowhere_else(void)
{
  struct dc_cc_ops telling = rule;
  telling.told = says_path;
  said = 100000000000u;
  dc_source *s = make_of(&telling, said, 1250, 64);
  dc_source_assign(s, 0, 100);
  assert(dc_source_poll(s, DC_SEC, tx, CAP) == 0);
  ask(s, DC_SEC, 0);
  ask(s, DC_SEC, 1);
  tx[2].flags = 0;
  assert(dc_source_poll(s, DC_SEC + DC_MS, tx, CAP) == 2);
  assert(tx[0].flags == 0x50 && tx[1].flags == 0x50 && tx[2].flags == 0);
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

/* From its moment on a tick's rate holds, and before it the one before. */
static void keep_faster(void *state, dc_time now)
{
  keep_tick(state, now);
  said = 10000000;
}

static void tokens_come_at_the_rate_of_their_time(void)
{
  struct dc_cc_ops faster = keeping;
  faster.tick = keep_faster;
  said = 0;
  dc_source *s = make_of(&faster, 1000000000, 1250, 8); /* a packet each ms, from the tick on */
  dc_source_assign(s, 0, 100);
  for (uint32_t i = 0; i < 4; i++)
    ask(s, DC_SEC, i);
  assert(dc_source_poll(s, DC_SEC, tx, CAP) == 1);
  assert(dc_source_poll(s, DC_SEC + 1500 * DC_US, tx, CAP) == 0 && dc_source_next_wake(s) == DC_SEC + 2 * DC_MS);
  assert(dc_source_poll(s, DC_SEC + 2 * DC_MS, tx, CAP) == 1);
  free(s);
}

static const struct dc_segment to_c = {.n = 1, .local = true, .port = {2}};

/* Whichever of those that asked it is. */
static void who_was_sent_it_asks_again_while_another_waits(void)
{
  said = 0;
  dc_source *s = make_of(&rule, 1000, 1250, 2);
  dc_source_assign(s, 0, 1);
  assert(dc_source_poll(s, DC_SEC, tx, CAP) == 0);
  const struct dc_segment *const to[] = {&to_a, &to_b, &to_c};
  for (unsigned i = 0; i < 3; i++)
    ask_from(s, DC_SEC, 0, 0, to[i]);
  said = 10000000;
  dc_source_limit(s, DC_SEC, 0);
  assert(dc_source_poll(s, DC_SEC + DC_MS, tx, CAP) == 2 && dc_segment_equal(tx[1].ret, &to_b));
  for (unsigned i = 0; i < 3; i++)
    ask_from(s, DC_SEC + DC_MS, 0, 0, to[i]);
  dc_source_counters(s, &c);
  assert(c.duplicates == 2 && c.merged == 3 && c.queued == 1 && c.numbers == 1);
  free(s);
}

/* Sixteen ask, are answered, ask again and are answered again; then as many others. */
static void who_was_answered_keeps_no_place(void)
{
  said = 100000000000u;
  dc_source *s = make_of(&rule, said, 1250, 64);
  dc_source_assign(s, 0, 10);
  dc_time now = DC_SEC;
  for (uint16_t others = 0; others < 3; others++)
    for (unsigned turn = 0; turn < 3; turn++) {
      for (uint16_t i = 0; i < DC_SOURCE_CHILDREN_MAX; i++) {
        struct dc_segment ret = {.n = 2, .port = {others, i}};
        ask_from(s, now, 0, 0, &ret);
      }
      assert(dc_source_poll(s, now += DC_MS, tx, CAP) == DC_SOURCE_CHILDREN_MAX);
    }
  dc_source_counters(s, &c);
  assert(c.drop[DC_DROP_CHILDREN] == 0 && c.numbers == 1);
  free(s);
}

static void early_interests_that_are_lost_are_counted(void)
{
  said = 0;
  dc_source *s = make_of(&rule, 1000, 1250, 1);
  dc_source_assign(s, 0, 1);
  for (uint32_t i = 0; i < DC_SOURCE_EARLY_MAX + 2; i++)
    asks(s, DC_SEC, 1 + 5 * i, 4, 0, 0, &to_a);
  dc_source_counters(s, &c);
  assert(c.interests == 10 && c.drop[DC_DROP_BEYOND] == 10);
  dc_source_assign(s, 5, 1); /* one number is as many as there may be */
  ask(s, DC_SEC, 5);
  dc_source_counters(s, &c);
  assert(c.interests == 11 && c.queued == 1);
  free(s);
}

/* Below what was sent, or above it. */
static void what_was_cut_off_waits_in_neither_queue(void)
{
  said = 0;
  dc_source *s = make_of(&rule, 1000, 1250, 1);
  dc_source_assign(s, 0, 100);
  ask(s, DC_SEC, 50);
  assert(dc_source_poll(s, DC_SEC, tx, CAP) == 1);
  ask(s, DC_SEC, 30);
  ask(s, DC_SEC, 60);
  ask(s, DC_SEC, 31);
  dc_source_cut(s, 30);
  said = 100000000000u;
  dc_source_limit(s, DC_SEC, 0);
  assert(dc_source_poll(s, DC_SEC + DC_MS, tx, CAP) == 0);
  dc_source_counters(s, &c);
  assert(c.queued == 0 && c.drop[DC_DROP_BEYOND] == 3 && dc_source_next_wake(s) == DC_NEVER);
  free(s);
}

static void an_array_is_filled_and_no_more(void)
{
  said = 100000000000u;
  dc_source *s = make_of(&rule, said, 1250, 64);
  dc_source_assign(s, 0, 100);
  for (uint32_t i = 0; i < 3; i++)
    ask(s, DC_SEC, i);
  assert(dc_source_poll(s, DC_SEC, tx, CAP) == 1 && dc_source_poll(s, DC_SEC + DC_MS, tx, CAP) == 2);
  for (uint32_t i = 0; i < 9; i++)
    ask(s, DC_SEC + DC_MS, i); /* three again, six for the first time */
  static const unsigned all[] = {5, 4, 0};
  for (unsigned i = 0; i < 3; i++) {
    tx[5].seq = 77;
    assert(dc_source_poll(s, DC_SEC + 2 * DC_MS, tx, 5) == all[i] && tx[5].seq == 77);
  }
  free(s);
}

int main(void)
{
  a_rule_is_given_sensible_parameters();
  each_tick_comes_in_its_time_and_after_a_long_silence_the_last_one_now();
  a_store_holds_a_packet_at_least_and_as_many_as_it_has_slots();
  a_rule_learns_what_was_asked_again_and_whether_it_is_the_last();
  what_waits_for_the_source_counts_for_the_slowest();
  what_waits_below_what_was_sent_counts_for_the_slowest();
  one_that_waits_below_the_slowest_is_none_that_it_has_not_asked_for();
  what_the_path_holds_stands_on_what_is_sent_and_nowhere_else();
  the_last_number_asked_for_again_leaves_nobody_further_behind();
  what_nobody_has_a_place_for_is_counted_number_by_number();
  numbers_may_go_up_to_the_last_but_one();
  a_source_wakes_for_what_comes_first();
  answers_keep_the_pace_of_the_limit_or_the_link();
  tokens_come_at_the_rate_of_their_time();
  who_was_sent_it_asks_again_while_another_waits();
  who_was_answered_keeps_no_place();
  early_interests_that_are_lost_are_counted();
  what_was_cut_off_waits_in_neither_queue();
  an_array_is_filled_and_no_more();
  puts("source's rule ok");
  return 0;
}
