/* The node: hits, misses, aggregation, interests asked again. */
#include "nodes.h"

static struct seen seen;

static void a_miss_sends_the_interest_on_without_its_own_stop(void)
{
  struct bench b = bench_of(a_switch());
  struct asking a = from_child(1, 0xa1, 5);
  a.cache = dc_cache_code(8192);
  assert(ask(&b, 1, &a) == 1);

  look(&b.tx[0], &seen);
  assert(seen.port == 7 && seen.labels == 1 && seen.label[0] == DC_LABEL_ADJ + 2);
  assert(seen.h.type == DC_TYPE_INTEREST && seen.h.stops == 1 && seen.h.tree == 0xa1 && seen.h.seq == 5);
  assert(seen.h.cache == a.cache && seen.h.flags == 0);
  struct dc_stop left;
  assert(dc_stop_parse(seen.rest, seen.rest_len, &left) == seen.rest_len);
  assert(left.ret.n == 1 && left.ret.port[0] == 9 && left.ret.local && left.fwd.n == 0);

  struct dc_tree_counters t = tree_count(&b, 0xa1);
  assert(t.misses == 1 && t.waiting == 1 && t.hits == 0 && t.children == 1);
  bench_close(&b);
}

static void an_interest_towards_a_waypoint_ends_in_local(void)
{
  struct bench b = bench_of(a_switch());
  struct asking a = from_child(1, 1, 5);
  a.fwd = SEG(true, 7);
  assert(ask(&b, 1, &a) == 1);
  look(&b.tx[0], &seen);
  assert(seen.labels == 1 && seen.label[0] == DC_LABEL_LOCAL && seen.h.stops == 2);
  assert(dc_route_check(seen.rest, seen.rest_len) == 2);
  bench_close(&b);
}

static void data_goes_to_every_child_that_waits_and_is_stored(void)
{
  struct bench b = bench_of(a_switch());
  assert(child_asks(&b, 1, 1, 5, 0) == 1);
  assert(child_asks(&b, 2, 1, 5, 0) == 0); /* aggregated */
  assert(child_asks(&b, 3, 1, 5, 0) == 0);
  assert(child_asks(&b, 3, 1, 5, 0) == 0); /* the same child again */

  assert(answer(&b, 7, 1, 5, 0, 1000) == 3);
  dc_buf *shared = b.tx[0].buf;
  assert(shared->refs == 4); /* three copies and the store */
  for (unsigned i = 0; i < 3; i++) {
    assert(b.tx[i].buf == shared); /* not copied */
    look(&b.tx[i], &seen);
    assert(seen.port == i + 1 && seen.labels == 1 && seen.label[0] == DC_LABEL_ADJ + 3);
    assert(seen.h.type == DC_TYPE_DATA && seen.h.seq == 5 && seen.rest_len == 1000 &&
           seen.rest[1] == (uint8_t)(5 * 31 + 1));
  }
  struct dc_tree_counters t = tree_count(&b, 1);
  assert(t.aggregated == 3 && t.replicated == 3 && t.stored == 1 && t.waiting == 0 && t.bytes == 1000 &&
         t.packets == 1);
  struct dc_port_counters p;
  dc_node_port_counters(b.node, 2, &p);
  assert(p.tx_data == 1 && p.tx_data_payload == 1000 && p.tx_frames == 1 && p.tx_bytes == 14 + 4 + 16 + 1000);
  dc_node_port_counters(b.node, 7, &p);
  assert(p.rx_frames == 1 && p.tx_frames == 1 && p.tx_data == 0);
  bench_close(&b);
}

static void what_many_children_of_one_tree_ask_for_goes_to_none_of_another(void)
{
  struct bench b = bench_of(a_switch());
  for (uint16_t k = 1; k <= 6; k++)
    for (uint32_t tree = 1; tree <= 3; tree++) {
      struct asking a = from_child(k, tree, 5);
      a.ret = SEG(false, k, (uint16_t)tree);
      ask(&b, k, &a);
    }
  for (uint32_t tree = 1; tree <= 3; tree++) {
    assert(answer(&b, 7, tree, 5, 0, 1000) == 6);
    for (unsigned i = 0; i < 6; i++) {
      look(&b.tx[i], &seen);
      assert(seen.port == i + 1 && seen.labels == 1 && seen.label[0] == DC_LABEL_ADJ + tree);
    }
  }
  bench_close(&b);
}

static void a_hit_is_answered_from_the_store(void)
{
  struct bench b = bench_of(a_switch());
  child_asks(&b, 1, 1, 5, 0);
  answer(&b, 7, 1, 5, DC_FLAG_LAST, 1000);
  assert(child_asks(&b, 2, 1, 5, 0) == 1);
  look(&b.tx[0], &seen);
  assert(seen.port == 2 && seen.h.type == DC_TYPE_DATA && seen.h.flags == DC_FLAG_LAST && seen.rest_len == 1000);
  assert(b.tx[0].buf->refs == 2);                     /* the store's and this one's */
  assert(child_asks(&b, 1, 1, 5, DC_FLAG_RETX) == 1); /* lost below: the nearest store answers */
  assert(tree_count(&b, 1).hits == 2);
  bench_close(&b);
}

static void a_retx_waits_until_its_answer_is_overdue(void)
{
  struct dc_node_cfg cfg = a_switch();
  struct bench b = bench_of(cfg);
  child_asks(&b, 1, 1, 5, 0);
  b.now += cfg.retx_min - 1;
  assert(child_asks(&b, 1, 1, 5, DC_FLAG_RETX) == 0);
  b.now += 1;
  assert(child_asks(&b, 2, 1, 5, DC_FLAG_RETX) == 1);
  look(&b.tx[0], &seen);
  assert(seen.h.type == DC_TYPE_INTEREST && seen.h.flags == DC_FLAG_RETX);
  assert(child_asks(&b, 3, 1, 5, DC_FLAG_RETX) == 0); /* it has just been sent on */
  assert(tree_count(&b, 1).retx_forwarded == 1);
  assert(answer(&b, 7, 1, 5, 0, 100) == 3);
  bench_close(&b);
}

static void a_retx_waits_longer_where_answers_take_longer(void)
{
  struct bench b = bench_of(a_switch());
  child_asks(&b, 1, 1, 1, 0);
  b.now += 10 * DC_MS;
  answer(&b, 7, 1, 1, 0, 100);
  child_asks(&b, 1, 1, 2, 0);
  b.now += 14 * DC_MS;
  assert(child_asks(&b, 1, 1, 2, DC_FLAG_RETX) == 0);
  b.now += 1 * DC_MS;
  assert(child_asks(&b, 1, 1, 2, DC_FLAG_RETX) == 1);
  bench_close(&b);
}

static void a_retx_of_what_was_sent_already_does_not_wait_for_a_slow_source(void)
{
  struct bench b = bench_of(a_switch());
  child_asks(&b, 1, 1, 1, 0);
  b.now += 2 * DC_MS;
  answer(&b, 7, 1, 1, 0, 100);
  child_asks(&b, 1, 1, 2, 0);
  for (uint32_t seq = 3; seq < 40; seq++) { /* each waits for tokens at the source */
    child_asks(&b, 1, 1, seq, 0);
    b.now += 100 * DC_MS;
    answer(&b, 7, 1, seq, 0, 100);
  }
  child_asks(&b, 2, 1, 0, 0);
  child_asks(&b, 1, 1, 100, 0);
  b.now += 4 * DC_MS - 1; /* twice the shortest */
  assert(child_asks(&b, 2, 1, 0, DC_FLAG_RETX) == 0 && child_asks(&b, 1, 1, 100, DC_FLAG_RETX) == 0);
  b.now += 1;
  assert(child_asks(&b, 2, 1, 0, DC_FLAG_RETX) == 1 && child_asks(&b, 1, 1, 100, DC_FLAG_RETX) == 0);
  bench_close(&b);
}

static void a_retx_goes_on_at_once_when_later_data_has_come(void)
{
  struct bench b = bench_of(a_switch());
  child_asks(&b, 1, 1, 1, 0);
  child_asks(&b, 1, 1, 2, 0);
  child_asks(&b, 1, 1, 3, 0);
  assert(child_asks(&b, 1, 1, 1, DC_FLAG_RETX) == 0);
  answer(&b, 7, 1, 2, 0, 100);
  assert(child_asks(&b, 1, 1, 3, DC_FLAG_RETX) == 0); /* asked for after 2: may well come */
  assert(child_asks(&b, 1, 1, 1, DC_FLAG_RETX) == 1); /* asked for before 2, on a FIFO path: lost */
  assert(child_asks(&b, 2, 1, 1, DC_FLAG_RETX) == 0); /* the new one is under way */
  bench_close(&b);
}

static void a_retx_over_a_repaired_tree_goes_on_at_once(void)
{
  struct bench b = bench_of(a_switch());
  child_asks(&b, 1, 1, 5, 0);
  child_asks(&b, 2, 1, 5, 0);
  assert(child_asks(&b, 1, 1, 5, DC_FLAG_RETX) == 0);
  struct asking a = from_child(1, 1, 5);
  a.flags = DC_FLAG_RETX;
  a.fwd = SEG(false, 6, 2);
  assert(ask(&b, 1, &a) == 1);
  look(&b.tx[0], &seen);
  assert(seen.port == 6 && seen.h.flags == DC_FLAG_RETX);
  a = from_child(2, 1, 5);
  a.flags = DC_FLAG_RETX;
  a.fwd = SEG(false, 6, 2);
  assert(ask(&b, 2, &a) == 0); /* one was enough */
  assert(answer(&b, 6, 1, 5, 0, 100) == 2);
  bench_close(&b);
}

static void a_repeated_interest_is_sent_on_after_a_long_time_even_without_retx(void)
{
  struct dc_node_cfg cfg = a_switch();
  struct bench b = bench_of(cfg);
  child_asks(&b, 1, 1, 5, 0);
  b.now += 8 * cfg.retx_min - 1;
  assert(child_asks(&b, 2, 1, 5, 0) == 0);
  b.now += 1;
  assert(child_asks(&b, 2, 1, 5, 0) == 1);
  bench_close(&b);
}

static void nocache_passes_the_store_and_cleans_it(void)
{
  struct bench b = bench_of(a_switch());
  child_asks(&b, 1, 1, 5, 0);
  answer(&b, 7, 1, 5, 0, 1000);
  assert(child_asks(&b, 1, 1, 5, DC_FLAG_NOCACHE) == 1);
  look(&b.tx[0], &seen);
  assert(seen.h.type == DC_TYPE_INTEREST && seen.h.flags == DC_FLAG_NOCACHE);
  assert(tree_count(&b, 1).packets == 0);
  assert(child_asks(&b, 2, 1, 5, DC_FLAG_NOCACHE) == 0); /* aggregated: one on its way is enough */
  assert(answer(&b, 7, 1, 5, 0, 1000) == 2);
  assert(tree_count(&b, 1).packets == 1);
  bench_close(&b);
}

static void nocache_is_not_held_back_by_an_ordinary_interest(void)
{
  struct bench b = bench_of(a_switch());
  child_asks(&b, 1, 1, 5, 0);
  assert(child_asks(&b, 2, 1, 5, DC_FLAG_NOCACHE) == 1);
  assert(child_asks(&b, 3, 1, 5, DC_FLAG_NOCACHE) == 0);
  assert(answer(&b, 7, 1, 5, 0, 1000) == 3);
  bench_close(&b);
}

static void a_duplicate_is_passed_on_but_not_stored(void)
{
  struct bench b = bench_of(a_switch());
  child_asks(&b, 1, 1, 5, 0);
  assert(answer(&b, 7, 1, 5, DC_FLAG_DUP, 1000) == 1);
  look(&b.tx[0], &seen);
  assert(seen.h.flags == DC_FLAG_DUP);
  struct dc_tree_counters t = tree_count(&b, 1);
  assert(t.dup_data == 1 && t.stored == 0 && t.packets == 0);
  bench_close(&b);
}

static void a_waypoint_that_only_passes_aggregates_but_stores_nothing(void)
{
  struct bench b = bench_of(a_switch());
  struct asking a = from_child(1, 1, 5);
  a.pass = true;
  assert(ask(&b, 1, &a) == 1);
  a.ret = SEG(false, 2, 3);
  assert(ask(&b, 2, &a) == 0);
  assert(answer(&b, 7, 1, 5, 0, 1000) == 2);
  assert(tree_count(&b, 1).stored == 0);
  assert(ask(&b, 2, &a) == 1); /* not kept: asked for again */
  bench_close(&b);
}

static void one_route_that_stores_is_enough_to_store(void)
{
  struct bench b = bench_of(a_switch());
  struct asking a = from_child(1, 1, 5);
  a.pass = true;
  ask(&b, 1, &a);
  child_asks(&b, 2, 1, 5, 0);
  answer(&b, 7, 1, 5, 0, 1000);
  assert(tree_count(&b, 1).stored == 1);
  bench_close(&b);
}

static void the_answer_to_a_repeated_interest_says_nothing_of_the_response_time(void)
{
  struct bench b = bench_of(a_switch());
  child_asks(&b, 1, 1, 1, 0);
  b.now += 10 * DC_MS;
  answer(&b, 7, 1, 1, 0, 100);
  for (uint32_t seq = 2; seq < 20; seq++) {
    child_asks(&b, 1, 1, seq, 0);
    b.now += 20 * DC_MS;
    assert(child_asks(&b, 1, 1, seq, DC_FLAG_RETX) == 1);
    answer(&b, 7, 1, seq, 0, 100); /* to the first one, as it happens */
  }
  child_asks(&b, 1, 1, 30, 0);
  b.now += 15 * DC_MS - 1;
  assert(child_asks(&b, 1, 1, 30, DC_FLAG_RETX) == 0); /* still 1.5 x 10 ms */
  bench_close(&b);
}

/* A place in the waiting table is given up after eight times the patience of a RETX, which grows with the response. */
static void what_waits_keeps_its_place_the_longer_the_longer_answers_take(void)
{
  struct dc_node_cfg cfg = a_switch();
  cfg.waiting_slots = 4;
  struct bench b = bench_of(cfg);
  child_asks(&b, 1, 1, 0, 0);
  b.now += 100 * DC_MS;
  answer(&b, 7, 1, 0, 0, 100);
  for (uint32_t seq = 1; seq <= 4; seq++)
    assert(child_asks(&b, 1, 1, seq, 0) == 1);
  b.now += 1200 * DC_MS - 1;
  assert(child_asks(&b, 1, 1, 5, 0) == 0 && dropped(&b, DC_DROP_WAITING) == 1);
  b.now += 1;
  assert(child_asks(&b, 1, 1, 5, 0) == 1 && tree_count(&b, 1).waiting == 4);
  bench_close(&b);
}

/* Another way shows in any of its stops. */
static void a_retx_over_a_tree_that_is_another_at_its_far_end_goes_on_at_once(void)
{
  struct bench b = bench_of(a_switch());
  child_asks(&b, 1, 1, 5, 0);
  struct asking a = from_child(1, 1, 5);
  struct dc_segment other = SEG(true, 10);
  a.flags = DC_FLAG_RETX;
  assert(ask(&b, 1, &a) == 0);
  a.next_ret = &other;
  assert(ask(&b, 1, &a) == 1 && ask(&b, 1, &a) == 0);
  a = from_child(1, 1, 5);
  a.flags = DC_FLAG_RETX;
  a.fwd = SEG(false, 7, 4);
  assert(ask(&b, 1, &a) == 1);
  bench_close(&b);
}

/* The shortest answer took no time; and of the newest number itself nothing shows that it was sent. */
static void a_retx_of_what_was_sent_already_waits_for_the_least_there_is(void)
{
  struct dc_node_cfg cfg = a_switch();
  struct bench b = bench_of(cfg);
  child_asks(&b, 1, 1, 1, 0);
  answer(&b, 7, 1, 1, 0, 100);
  for (uint32_t seq = 3; seq < 40; seq++) {
    child_asks(&b, 1, 1, seq, 0);
    b.now += 100 * DC_MS;
    answer(&b, 7, 1, seq, 0, 100);
  }
  child_asks(&b, 2, 1, 0, 0);
  assert(child_asks(&b, 2, 1, 39, DC_FLAG_NOCACHE) == 1);
  b.now += cfg.retx_min - 1;
  assert(child_asks(&b, 2, 1, 0, DC_FLAG_RETX) == 0);
  b.now += 1;
  assert(child_asks(&b, 2, 1, 39, DC_FLAG_RETX) == 0 && child_asks(&b, 2, 1, 0, DC_FLAG_RETX) == 1);
  bench_close(&b);
}

int main(void)
{
  a_miss_sends_the_interest_on_without_its_own_stop();
  an_interest_towards_a_waypoint_ends_in_local();
  data_goes_to_every_child_that_waits_and_is_stored();
  what_many_children_of_one_tree_ask_for_goes_to_none_of_another();
  a_hit_is_answered_from_the_store();
  a_retx_waits_until_its_answer_is_overdue();
  a_retx_waits_longer_where_answers_take_longer();
  a_retx_of_what_was_sent_already_does_not_wait_for_a_slow_source();
  a_retx_goes_on_at_once_when_later_data_has_come();
  a_retx_over_a_repaired_tree_goes_on_at_once();
  a_repeated_interest_is_sent_on_after_a_long_time_even_without_retx();
  nocache_passes_the_store_and_cleans_it();
  nocache_is_not_held_back_by_an_ordinary_interest();
  a_duplicate_is_passed_on_but_not_stored();
  a_waypoint_that_only_passes_aggregates_but_stores_nothing();
  one_route_that_stores_is_enough_to_store();
  the_answer_to_a_repeated_interest_says_nothing_of_the_response_time();
  what_waits_keeps_its_place_the_longer_the_longer_answers_take();
  a_retx_over_a_tree_that_is_another_at_its_far_end_goes_on_at_once();
  a_retx_of_what_was_sent_already_waits_for_the_least_there_is();
  puts("node, interest: ok");
  return 0;
}
