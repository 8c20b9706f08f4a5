/* The node: an interest for a range of numbers is as good as one for each of them. */
#include "nodes.h"

static struct seen seen;

static unsigned child_asks_for(struct bench *b, uint16_t k, uint32_t seq, uint8_t more, uint8_t flags)
{
  struct asking a = from_child(k, 1, seq);
  a.more = more;
  a.flags = flags;
  return ask(b, k, &a);
}

/* The i-th frame is an interest that goes up, for exactly these numbers. */
static void expect_interest(struct bench *b, unsigned i, uint32_t seq, uint8_t more, uint8_t flags)
{
  look(&b->tx[i], &seen);
  assert(seen.port == 7 && seen.labels == 1 && seen.label[0] == DC_LABEL_ADJ + 2);
  assert(seen.h.type == DC_TYPE_INTEREST && seen.h.stops == 1);
  assert(seen.h.seq == seq && seen.h.more == more && seen.h.flags == flags);
  struct dc_stop left;
  assert(dc_stop_parse(seen.rest, seen.rest_len, &left) == seen.rest_len);
}

static void expect_data(struct bench *b, unsigned i, uint16_t port, uint32_t seq)
{
  look(&b->tx[i], &seen);
  assert(seen.port == port && seen.h.type == DC_TYPE_DATA && seen.h.seq == seq && seen.h.more == 0);
}

static void what_nobody_has_goes_on_as_one_interest(void)
{
  struct bench b = bench_of(a_switch());
  assert(child_asks_for(&b, 1, 10, 63, 0) == 1);
  expect_interest(&b, 0, 10, 63, 0);
  struct dc_tree_counters t = tree_count(&b, 1);
  assert(t.interests == 64 && t.misses == 64 && t.waiting == 64);
  struct dc_node_counters all;
  dc_node_counters(b.node, &all);
  assert(all.interests == 64);
  for (uint32_t seq = 10; seq < 74; seq++) {
    assert(answer(&b, 7, 1, seq, 0, 100) == 1);
    expect_data(&b, 0, 1, seq);
  }
  assert(answer(&b, 7, 1, 74, 0, 100) == 0 && dropped(&b, DC_DROP_UNWANTED) == 1); /* not one more */
  dc_node_counters(b.node, &all);
  assert(tree_count(&b, 1).data == 64 && all.data == 64);
  bench_close(&b);
}

static void hits_holes_and_what_waits_are_told_apart_number_by_number(void)
{
  struct bench b = bench_of(a_switch());
  child_asks_for(&b, 2, 12, 1, 0); /* 12 and 13 come and are stored */
  answer(&b, 7, 1, 12, 0, 100);
  answer(&b, 7, 1, 13, 0, 100);
  child_asks_for(&b, 2, 16, 0, 0); /* 16 waits */

  /* 10 11 miss, 12 13 hit, 14 15 miss, 16 waits, 17 misses */
  assert(child_asks_for(&b, 1, 10, 7, 0) == 5);
  unsigned up = 0, down = 0;
  static const uint8_t want[3][2] = {{10, 1}, {14, 1}, {17, 0}};
  for (unsigned i = 0; i < 5; i++)
    if (b.tx[i].port == 7) {
      expect_interest(&b, i, want[up][0], want[up][1], 0);
      up++;
    } else {
      expect_data(&b, i, 1, 12 + down++);
    }
  assert(up == 3 && down == 2);
  struct dc_tree_counters t = tree_count(&b, 1);
  assert(t.hits == 2 && t.aggregated == 1 && t.misses == 3 + 5 && t.waiting == 6);

  assert(answer(&b, 7, 1, 16, 0, 100) == 2); /* both want it */
  assert(answer(&b, 7, 1, 11, 0, 100) == 1);
  expect_data(&b, 0, 1, 11);
  bench_close(&b);
}

static void a_range_that_all_have_asked_for_stays_here(void)
{
  struct bench b = bench_of(a_switch());
  assert(child_asks_for(&b, 1, 0, 15, 0) == 1);
  assert(child_asks_for(&b, 2, 0, 15, 0) == 0);
  assert(child_asks_for(&b, 3, 8, 15, 0) == 1); /* 8 to 15 wait */
  expect_interest(&b, 0, 16, 7, 0);
  for (uint32_t seq = 0; seq < 24; seq++)
    assert(answer(&b, 7, 1, seq, 0, 100) == (seq < 8 ? 2 : seq < 16 ? 3 : 1));
  bench_close(&b);
}

static void retx_and_nocache_mean_each_number_too(void)
{
  struct bench b = bench_of(a_switch());
  child_asks_for(&b, 1, 0, 3, 0);
  assert(child_asks_for(&b, 1, 0, 3, DC_FLAG_RETX) == 0); /* too soon */
  b.now += 2 * DC_MS;
  assert(child_asks_for(&b, 1, 0, 5, DC_FLAG_RETX) == 1); /* 0 to 3 again, 4 and 5 for the first time */
  expect_interest(&b, 0, 0, 5, DC_FLAG_RETX);
  struct dc_tree_counters t = tree_count(&b, 1);
  assert(t.retx_forwarded == 4 && t.misses == 6 && t.waiting == 6);
  for (uint32_t seq = 0; seq < 6; seq++)
    answer(&b, 7, 1, seq, 0, 100);
  assert(tree_count(&b, 1).packets == 6);
  assert(child_asks_for(&b, 2, 1, 2, DC_FLAG_NOCACHE) == 1); /* 1 to 3 are not answered from here */
  expect_interest(&b, 0, 1, 2, DC_FLAG_NOCACHE);
  assert(tree_count(&b, 1).packets == 3);
  bench_close(&b);
}

/* A full table refuses single numbers; the others go on. */
static void a_number_without_a_place_does_not_hold_up_the_others(void)
{
  struct dc_node_cfg cfg = a_switch();
  cfg.waiting_slots = 8; /* 2 sets of 4 */
  struct bench b = bench_of(cfg);
  assert(child_asks_for(&b, 1, 100, 7, 0) == 1); /* every place is taken */
  assert(child_asks_for(&b, 1, 300, 3, 0) == 0 && dropped(&b, DC_DROP_WAITING) == 4);
  answer(&b, 7, 1, 100, 0, 100); /* one place for an even number */
  assert(child_asks_for(&b, 2, 301, 2, 0) == 1 && dropped(&b, DC_DROP_WAITING) == 6);
  expect_interest(&b, 0, 302, 0, 0);
  bench_close(&b);
}

static void more_than_a_range_may_be_is_refused_whole(void)
{
  struct bench b = bench_of(a_switch());
  assert(child_asks_for(&b, 1, 0, 64, 0) == 0 && child_asks_for(&b, 1, UINT32_MAX, 1, 0) == 0);
  assert(dropped(&b, DC_DROP_RANGE) == 2 && tree_count(&b, 1).interests == 0);
  assert(child_asks_for(&b, 1, UINT32_MAX - 1, 1, 0) == 1);
  bench_close(&b);
}

/* Two children take turns; who asks first has a batch that the other has still to ask for. Else each level of a tree would
 * add one to what its slowest is behind. */
static void a_batch_that_others_have_still_to_ask_for_is_no_distance(void)
{
  struct dc_node_cfg cfg = a_switch();
  cfg.waiting_slots = 256;
  struct bench b = bench_of(cfg);
  for (uint32_t seq = 0; seq < 80; seq += 8, b.now += 10 * DC_US) {
    assert(child_asks_for(&b, 1, seq, 7, 0) == 1);
    expect_interest(&b, 0, seq, 7, 0);
    assert(seen.h.lag == (seq == 0 ? 0 : 1));
    assert(child_asks_for(&b, 2, seq, 7, 0) == 0);
  }
  child_asks_for(&b, 1, 80, 7, 0);
  struct asking told = from_child(1, 1, 88);
  told.more = 7;
  told.lag = dc_lag_code(12); /* who tells of a slower one below is believed to the number */
  ask(&b, 1, &told);
  expect_interest(&b, 0, 88, 7, 0);
  assert(seen.h.lag == 12);
  told.lag = 0;
  for (told.seq = 96; told.seq < 120; told.seq += 8, b.now += 10 * DC_US)
    ask(&b, 1, &told); /* the other stands still, and all but a batch counts */
  expect_interest(&b, 0, 112, 7, 0);
  assert(seen.h.lag == dc_lag_code(112 - 79));
  told.seq = 120;
  told.more = 8; /* none: credits that have grown */
  ask(&b, 1, &told);
  expect_interest(&b, 0, 120, 8, 0);
  assert(seen.h.lag == dc_lag_code(128 - 79));
  bench_close(&b);
}

/* Who asks again for what has not come tells how far the slowest below it has come since (seed 146707). */
static void what_is_asked_for_again_tells_of_the_slowest(void)
{
  struct bench b = bench_of(a_switch());
  struct asking told = from_child(1, 1, 0);
  for (; told.seq < 20; told.seq++, b.now += 10 * DC_US) {
    told.lag = dc_lag_code(told.seq / 2);
    ask(&b, 1, &told);
  }
  assert(child_asks_for(&b, 2, 20, 0, 0) == 1);
  b.now += 50 * DC_MS;
  told.flags = DC_FLAG_RETX;
  told.seq = 18;
  told.lag = dc_lag_code(2); /* up to 16 */
  ask(&b, 1, &told);
  expect_interest(&b, 0, 18, 0, DC_FLAG_RETX);
  assert(seen.h.lag == 2);
  told.seq = 17;
  told.lag = dc_lag_code(8); /* from before, and late */
  ask(&b, 1, &told);
  expect_interest(&b, 0, 17, 0, DC_FLAG_RETX);
  assert(seen.h.lag == 1);
  bench_close(&b);
}

int main(void)
{
  what_nobody_has_goes_on_as_one_interest();
  hits_holes_and_what_waits_are_told_apart_number_by_number();
  a_range_that_all_have_asked_for_stays_here();
  retx_and_nocache_mean_each_number_too();
  a_number_without_a_place_does_not_hold_up_the_others();
  more_than_a_range_may_be_is_refused_whole();
  a_batch_that_others_have_still_to_ask_for_is_no_distance();
  what_is_asked_for_again_tells_of_the_slowest();
  puts("node, range: ok");
  return 0;
}
