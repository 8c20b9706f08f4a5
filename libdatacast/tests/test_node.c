/* The node: forwarding, hits, misses, aggregation, replication, what is stored and what is refused. */
#include "frames.h"

static struct seen seen;

static struct dc_node_cfg a_switch(void)
{
  struct dc_node_cfg cfg;
  dc_node_cfg_default(&cfg);
  cfg.ports = 8;
  cfg.trees = 4;
  cfg.store_slots = 64;
  cfg.waiting_slots = 64;
  cfg.cache_bytes = 8192;
  return cfg;
}

static struct dc_node_cfg a_host(void)
{
  struct dc_node_cfg cfg = a_switch();
  cfg.ports = 2;
  cfg.endpoint = true;
  return cfg;
}

/* Child k is reached over port k, and the source over port 7. */
static struct asking from_child(uint16_t k, uint32_t tree, uint32_t seq)
{
  return (struct asking){.tree = tree, .seq = seq, .ret = SEG(false, k, 3), .fwd = SEG(false, 7, 2)};
}

static unsigned child_asks(struct bench *b, uint16_t k, uint32_t tree, uint32_t seq, uint8_t flags)
{
  struct asking a = from_child(k, tree, seq);
  a.flags = flags;
  return ask(b, k, &a);
}

static void a_miss_sends_the_interest_on_without_its_own_stop(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
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
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
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
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
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
    assert(seen.h.type == DC_TYPE_DATA && seen.h.seq == 5 && seen.rest_len == 1000 && seen.rest[1] == (uint8_t)(5 * 31 + 1));
  }
  struct dc_tree_counters t = tree_count(&b, 1);
  assert(t.aggregated == 3 && t.replicated == 3 && t.stored == 1 && t.waiting == 0 && t.bytes == 1000 && t.packets == 1);
  struct dc_port_counters p;
  dc_node_port_counters(b.node, 2, &p);
  assert(p.tx_data == 1 && p.tx_data_payload == 1000 && p.tx_frames == 1 && p.tx_bytes == 14 + 4 + 16 + 1000);
  dc_node_port_counters(b.node, 7, &p);
  assert(p.rx_frames == 1 && p.tx_frames == 1 && p.tx_data == 0);
  bench_close(&b);
}

static void a_hit_is_answered_from_the_store(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
  child_asks(&b, 1, 1, 5, 0);
  answer(&b, 7, 1, 5, DC_FLAG_LAST, 1000);
  assert(child_asks(&b, 2, 1, 5, 0) == 1);
  look(&b.tx[0], &seen);
  assert(seen.port == 2 && seen.h.type == DC_TYPE_DATA && seen.h.flags == DC_FLAG_LAST && seen.rest_len == 1000);
  assert(b.tx[0].buf->refs == 2); /* the store's and this one's */
  assert(child_asks(&b, 1, 1, 5, DC_FLAG_RETX) == 1); /* lost below: the nearest store answers */
  assert(tree_count(&b, 1).hits == 2);
  bench_close(&b);
}

static void a_retx_waits_until_its_answer_is_overdue(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
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
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
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

static void a_retx_goes_on_at_once_when_later_data_has_come(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
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
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
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
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
  child_asks(&b, 1, 1, 5, 0);
  b.now += 8 * cfg.retx_min - 1;
  assert(child_asks(&b, 2, 1, 5, 0) == 0);
  b.now += 1;
  assert(child_asks(&b, 2, 1, 5, 0) == 1);
  bench_close(&b);
}

static void nocache_passes_the_store_and_cleans_it(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
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
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
  child_asks(&b, 1, 1, 5, 0);
  assert(child_asks(&b, 2, 1, 5, DC_FLAG_NOCACHE) == 1);
  assert(child_asks(&b, 3, 1, 5, DC_FLAG_NOCACHE) == 0);
  assert(answer(&b, 7, 1, 5, 0, 1000) == 3);
  bench_close(&b);
}

static void a_duplicate_is_passed_on_but_not_stored(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
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
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
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
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
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
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
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

static void data_nobody_asked_for_is_refused_and_never_stored(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
  assert(answer(&b, 7, 1, 5, 0, 1000) == 0);
  assert(dropped(&b, DC_DROP_UNKNOWN_TREE) == 1);
  child_asks(&b, 1, 1, 6, 0);
  assert(answer(&b, 7, 1, 5, 0, 1000) == 0);
  assert(dropped(&b, DC_DROP_UNWANTED) == 1);
  assert(answer(&b, 7, 1, 6, 0, 1000) == 1);
  assert(answer(&b, 7, 1, 6, 0, 1000) == 0); /* a second time */
  assert(dropped(&b, DC_DROP_UNWANTED) == 2);
  assert(child_asks(&b, 1, 1, 5, 0) == 1); /* 5 was not stored */
  bench_close(&b);
}

static void the_oldest_packet_leaves_the_store_first(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
  static const uint32_t order[] = {3, 1, 2, 9, 4, 5, 6, 7, 8}; /* 9 x 1000 bytes into 8192: the first to come goes */
  for (unsigned i = 0; i < 9; i++) {
    child_asks(&b, 1, 1, order[i], 0);
    answer(&b, 7, 1, order[i], 0, 1000);
  }
  struct dc_tree_counters t = tree_count(&b, 1);
  assert(t.packets == 8 && t.bytes == 8000 && t.evicted == 1);
  child_asks(&b, 2, 1, 1, 0);
  assert(tree_count(&b, 1).hits == 1);
  child_asks(&b, 2, 1, 3, 0);
  assert(tree_count(&b, 1).misses == 10);
  bench_close(&b);
}

static void sequence_numbers_a_ring_apart_share_a_slot(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
  for (uint32_t seq = 7; seq <= 7 + 64; seq += 64) {
    child_asks(&b, 1, 1, seq, 0);
    answer(&b, 7, 1, seq, 0, 10);
  }
  struct dc_tree_counters t = tree_count(&b, 1);
  assert(t.packets == 1 && t.bytes == 10 && t.evicted == 1);
  child_asks(&b, 2, 1, 71, 0);
  assert(tree_count(&b, 1).hits == 1);
  bench_close(&b);
}

static void an_interest_says_how_large_the_store_shall_be(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  cfg.cache_bytes_max = 32 * 1024;
  bench_open(&b, &cfg);
  struct asking a = from_child(1, 1, 0);
  for (a.seq = 0; a.seq < 40; a.seq++) {
    a.cache = dc_cache_code(1024 * 1024); /* more than may be asked for */
    ask(&b, 1, &a);
    answer(&b, 7, 1, a.seq, 0, 1000);
  }
  assert(tree_count(&b, 1).packets == 32);
  a.cache = dc_cache_code(8192);
  ask(&b, 1, &a); /* smaller from now on */
  assert(tree_count(&b, 1).packets == 8);
  a.cache = 1;
  ask(&b, 1, &a);
  answer(&b, 7, 1, a.seq, 0, 5000); /* larger than the whole store: passed on only */
  assert(tree_count(&b, 1).packets == 4);
  bench_close(&b);
}

static void trees_share_a_bound_on_memory_and_idle_ones_give_first(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  cfg.memory_bytes = 8000;
  bench_open(&b, &cfg);
  for (uint32_t tree = 1; tree <= 2; tree++)
    for (uint32_t seq = 0; seq < 4; seq++) {
      child_asks(&b, 1, tree, seq, 0);
      answer(&b, 7, tree, seq, 0, 1000);
    }
  /* Both are in use: tree 3 gets nothing, tree 2 only its own. */
  child_asks(&b, 1, 3, 0, 0);
  assert(answer(&b, 7, 3, 0, 0, 1000) == 1);
  assert(tree_count(&b, 3).stored == 0);
  child_asks(&b, 1, 2, 4, 0);
  answer(&b, 7, 2, 4, 0, 1000);
  assert(tree_count(&b, 2).packets == 4 && tree_count(&b, 1).packets == 4);

  b.now += 300 * DC_MS; /* trees 1 and 3 stand still, tree 2 goes on */
  child_asks(&b, 1, 2, 5, 0);
  answer(&b, 7, 2, 5, 0, 1000);
  assert(tree_count(&b, 2).packets == 5 && tree_count(&b, 1).packets == 0);
  struct dc_node_counters c;
  dc_node_counters(b.node, &c);
  assert(c.bytes == 5000 && c.trees == 2 && c.trees_evicted == 1); /* 3 may stay: there is room again */

  dc_node_wipe(b.node);
  dc_node_counters(b.node, &c);
  assert(c.bytes == 0 && c.trees == 2);
  bench_close(&b);
}

static void packets_have_a_bound_of_their_own_where_buffers_are_scarce(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  cfg.memory_packets = 5;
  bench_open(&b, &cfg);
  for (uint32_t seq = 0; seq < 20; seq++) {
    child_asks(&b, 1, 1, seq, 0);
    answer(&b, 7, 1, seq, 0, 10);
  }
  assert(tree_count(&b, 1).packets == 5);
  child_asks(&b, 2, 1, 19, 0);
  assert(tree_count(&b, 1).hits == 1);
  bench_close(&b);
}

static void a_tree_too_many_is_refused_until_one_is_idle(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
  for (uint32_t tree = 1; tree <= 4; tree++) {
    b.now += DC_MS;
    assert(child_asks(&b, 1, tree * 1000, 5, 0) == 1);
  }
  answer(&b, 7, 1000, 5, 0, 1000);
  assert(child_asks(&b, 1, 77, 5, 0) == 0);
  assert(dropped(&b, DC_DROP_TREES) == 1);

  b.now += cfg.idle;
  child_asks(&b, 1, 2000, 6, 0); /* 1000 had data, 2000 is asked for again: 3000 is the one idle longest */
  assert(child_asks(&b, 1, 77, 5, 0) == 1);
  struct dc_node_counters c;
  dc_node_counters(b.node, &c);
  assert(c.trees == 4 && c.trees_evicted == 1);
  assert(answer(&b, 7, 3000, 5, 0, 10) == 0 && dropped(&b, DC_DROP_UNKNOWN_TREE) == 1);
  assert(answer(&b, 7, 77, 5, 0, 10) == 1 && answer(&b, 7, 2000, 5, 0, 10) == 1);
  bench_close(&b);
}

static void what_waited_in_a_tree_is_forgotten_with_it(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  cfg.trees = 1;
  bench_open(&b, &cfg);
  child_asks(&b, 1, 1, 5, 0);
  b.now += cfg.idle;
  child_asks(&b, 2, 2, 6, 0);
  assert(tree_count(&b, 2).children == 1 && tree_count(&b, 2).waiting == 1);
  assert(answer(&b, 7, 2, 5, 0, 10) == 0); /* 5 waited in the other tree's table */
  assert(dropped(&b, DC_DROP_UNWANTED) == 1);
  bench_close(&b);
}

static void a_child_too_many_is_refused_until_one_is_silent(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
  struct asking a = from_child(1, 1, 5);
  for (uint16_t k = 0; k < DC_CHILDREN_MAX; k++) {
    b.now += 1;
    a.ret = SEG(false, 1, k);
    assert(ask(&b, 1, &a) == (k == 0 ? 1 : 0));
  }
  a.ret = SEG(false, 1, 999);
  assert(ask(&b, 1, &a) == 0 && dropped(&b, DC_DROP_CHILDREN) == 1);

  a.ret = SEG(false, 1, 0); /* child 0 is heard of again */
  assert(ask(&b, 1, &a) == 0);
  b.now += DC_SEC;
  a.ret = SEG(false, 1, 999);
  a.seq = 6;
  assert(ask(&b, 1, &a) == 1); /* takes the place of child 1, silent for longest */
  assert(tree_count(&b, 1).children == DC_CHILDREN_MAX);
  assert(answer(&b, 7, 1, 5, 0, 10) == DC_CHILDREN_MAX - 1); /* and gets nothing that child 1 asked for */
  for (unsigned i = 0; i < b.n; i++) {
    look(&b.tx[i], &seen);
    assert(seen.label[0] != DC_LABEL_ADJ + 999 && seen.label[0] != DC_LABEL_ADJ + 1);
  }
  assert(answer(&b, 7, 1, 6, 0, 10) == 1);
  bench_close(&b);
}

static void waiting_interests_are_bounded(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  cfg.waiting_slots = 16; /* 4 sets of 4 */
  bench_open(&b, &cfg);
  static const uint32_t order[16] = {8, 4, 0, 1, 2, 3, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15};
  for (unsigned i = 0; i < 16; i++) {
    b.now++;
    assert(child_asks(&b, 1, 1, order[i], 0) == 1);
  }
  b.now += 50 * DC_MS;
  assert(child_asks(&b, 1, 1, 8, DC_FLAG_RETX) == 1); /* so that 4 is the oldest of 0, 4, 8 and 12, which share a set */
  assert(child_asks(&b, 1, 1, 16, 0) == 0 && dropped(&b, DC_DROP_WAITING) == 1);
  b.now += 50 * DC_MS;
  assert(child_asks(&b, 1, 1, 16, 0) == 1); /* those before were never answered */
  assert(tree_count(&b, 1).waiting == 16);
  assert(answer(&b, 7, 1, 0, 0, 10) == 1 && answer(&b, 7, 1, 4, 0, 10) == 0);
  bench_close(&b);
}

static void an_adjacency_is_popped_and_the_rest_sent_on_untouched(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
  static const uint8_t own[6] = {2, 0, 0, 0, 0, 1}, neighbour[6] = {2, 0, 0, 0, 0, 2};
  dc_node_set_port(b.node, 3, own, neighbour);
  uint8_t p[2048];
  write_stack(p, (uint32_t[]){DC_LABEL_ADJ + 3, DC_LABEL_ADJ + 500, DC_LABEL_LOCAL}, 3);
  size_t len = stack_len(3) + write_payload(p + stack_len(3), 1, 5, 0, 600);
  assert(give(&b, 0, p, len) == 1);
  uint8_t out[2048];
  assert(b.tx[0].port == 3 && flatten(&b.tx[0], out, sizeof out) == len - 4);
  assert(memcmp(out, neighbour, 6) == 0 && memcmp(out + 6, own, 6) == 0 && out[12] == 0x88 && out[13] == 0x47);
  assert(memcmp(out + 14, p + 18, len - 18) == 0);

  write_stack(p, (uint32_t[]){DC_LABEL_ADJ + 4}, 1); /* the last label: EtherType 0x88B5 comes out, to whoever is there */
  len = stack_len(1) + write_payload(p + stack_len(1), 1, 5, 0, 600);
  assert(give(&b, 4, p, len) == 1); /* by the port it came in on */
  flatten(&b.tx[0], out, sizeof out);
  assert(b.tx[0].port == 4 && out[12] == 0x88 && out[13] == 0xb5 && memcmp(out, ANY, 6) == 0);

  struct dc_port_counters c;
  dc_node_port_counters(b.node, 3, &c);
  assert(c.tx_data == 1 && c.tx_data_payload == 600);
  struct dc_node_counters n;
  dc_node_counters(b.node, &n);
  assert(n.forwarded == 2 && n.data == 0);
  bench_close(&b);
}

static void frames_that_cannot_be_forwarded_are_counted_by_reason(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
  uint8_t p[2048];
  size_t len = stack_len(2) + 16;

  write_stack(p, (uint32_t[]){DC_LABEL_ADJ + 8, DC_LABEL_LOCAL}, 2);
  write_payload(p + stack_len(2), 1, 5, 0, 0);
  assert(give(&b, 0, p, len) == 0 && dropped(&b, DC_DROP_PORT) == 1);
  assert(give(&b, 99, p, len) == 0 && dropped(&b, DC_DROP_PORT) == 2); /* from a port that is none */
  write_stack(p, (uint32_t[]){17, DC_LABEL_LOCAL}, 2);
  assert(give(&b, 0, p, len) == 0 && dropped(&b, DC_DROP_LABEL) == 1);
  write_stack(p, (uint32_t[]){DC_LABEL_ADJ + DC_PORT_MAX + 1, DC_LABEL_LOCAL}, 2);
  assert(give(&b, 0, p, len) == 0 && dropped(&b, DC_DROP_LABEL) == 2);
  write_stack(p, (uint32_t[]){DC_LABEL_LOCAL, DC_LABEL_LOCAL}, 2);
  assert(give(&b, 0, p, len) == 0 && dropped(&b, DC_DROP_STACK) == 1);
  write_stack(p, (uint32_t[]){DC_LABEL_ADJ, DC_LABEL_LOCAL}, 2);
  assert(give(&b, 0, p, 14 + 4 + 3) == 0 && dropped(&b, DC_DROP_STACK) == 2);
  for (unsigned i = 0; i < 60; i++)
    dc_label_write(p + stack_len(i), DC_LABEL_ADJ, false);
  assert(give(&b, 0, p, sizeof p) == 0 && dropped(&b, DC_DROP_STACK) == 3);

  dc_ether_write(p, ANY, NOBODY, 0x0800);
  assert(give(&b, 0, p, 60) == 0 && dropped(&b, DC_DROP_ETHERTYPE) == 1);
  assert(give(&b, 0, p, 13) == 0 && dropped(&b, DC_DROP_TRUNCATED) == 1);
  dc_ether_write(p, ANY, NOBODY, DC_ETHERTYPE_MPLS);
  assert(give(&b, 0, p, 17) == 0 && dropped(&b, DC_DROP_TRUNCATED) == 2);
  dc_ether_write(p, ANY, NOBODY, DC_ETHERTYPE_DATACAST);
  assert(give(&b, 0, p, 60) == 0 && dropped(&b, DC_DROP_NO_ENDPOINT) == 1);
  bench_close(&b);
}

static void interests_with_a_wrong_route_are_refused(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
  struct asking a = from_child(1, 1, 5);
  uint8_t p[2048];
  write_stack(p, (uint32_t[]){DC_LABEL_LOCAL}, 1);
  uint8_t *h = p + stack_len(1);
  size_t len = stack_len(1) + write_asking(h, 1024, &a);

  h[12] = 1; /* this stop would be the last */
  assert(give(&b, 1, p, len) == 0 && dropped(&b, DC_DROP_ROUTE) == 1);
  h[12] = 3; /* one stop more than there is, and the segment does not end at a waypoint */
  assert(give(&b, 1, p, len) == 0 && dropped(&b, DC_DROP_ROUTE) == 2);
  h[12] = 65;
  assert(give(&b, 1, p, len) == 0 && dropped(&b, DC_DROP_ROUTE) == 3);
  h[12] = 2;
  h[17] = 49; /* more ports than a segment may have */
  assert(give(&b, 1, p, len) == 0 && dropped(&b, DC_DROP_ROUTE) == 4);

  a.ret = SEG(false, 8); /* no such port */
  assert(ask(&b, 1, &a) == 0 && dropped(&b, DC_DROP_PORT) == 1);
  a = from_child(1, 1, 5);
  a.fwd = SEG(false, 8);
  assert(ask(&b, 1, &a) == 0 && dropped(&b, DC_DROP_PORT) == 2);
  a.fwd = HERE(false); /* the source is on this host, but this is none */
  assert(ask(&b, 1, &a) == 0 && dropped(&b, DC_DROP_NO_ENDPOINT) == 1);
  a.fwd = HERE(true); /* to itself */
  assert(ask(&b, 1, &a) == 0 && dropped(&b, DC_DROP_ROUTE) == 5);
  a = from_child(1, 1, 5);
  a.ret = HERE(true);
  assert(ask(&b, 1, &a) == 0 && dropped(&b, DC_DROP_ROUTE) == 6);
  struct dc_node_counters c;
  dc_node_counters(b.node, &c);
  assert(c.trees == 0 && c.interests == 0); /* nothing of it left a trace */
  bench_close(&b);
}

static void an_empty_stack_is_for_the_endpoint(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_host();
  bench_open(&b, &cfg);
  uint8_t p[100] = {0};
  write_stack(p, NULL, 0);
  write_payload(p + 14, 1, 5, 0, 20);
  assert(give(&b, 0, p, 60) == 1); /* Ethernet pads to 60 */
  assert(b.tx[0].port == DC_PORT_HOST && b.tx[0].prefix_len == 0 && b.tx[0].off == 14 && b.tx[0].len == 36);
  assert(give(&b, 0, p, 14 + 16 + 19) == 0 && dropped(&b, DC_DROP_TRUNCATED) == 1);
  p[14] = 0x22;
  assert(give(&b, 0, p, 60) == 0 && dropped(&b, DC_DROP_VERSION) == 1);
  bench_close(&b);
}

static void a_receiver_on_a_waypoints_host_asks_its_own_node(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_host();
  bench_open(&b, &cfg);
  struct asking a = {.tree = 1, .seq = 5, .ret = HERE(false), .fwd = SEG(false, 1)};
  assert(ask(&b, DC_PORT_HOST, &a) == 1);
  look(&b.tx[0], &seen);
  assert(seen.port == 1 && seen.labels == 0 && seen.h.stops == 1);
  a.ret = SEG(false, 0, 4); /* another child below */
  assert(ask(&b, 0, &a) == 0);
  assert(answer(&b, 1, 1, 5, 0, 300) == 2);
  assert(b.tx[0].port == DC_PORT_HOST && b.tx[0].prefix_len == 0);
  look(&b.tx[0], &seen);
  assert(seen.h.seq == 5 && seen.rest_len == 300);
  look(&b.tx[1], &seen);
  assert(seen.port == 0 && seen.labels == 1 && seen.label[0] == DC_LABEL_ADJ + 4);
  a.ret = HERE(false);
  assert(ask(&b, DC_PORT_HOST, &a) == 1); /* a hit, for this host */
  assert(b.tx[0].port == DC_PORT_HOST && tree_count(&b, 1).hits == 1);
  bench_close(&b);
}

static void a_source_with_two_children_is_asked_once(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_host();
  bench_open(&b, &cfg);
  struct dc_segment to_node = HERE(true);
  struct asking a = {.tree = 1, .seq = 5, .ret = SEG(true, 0), .fwd = HERE(false), .next_ret = &to_node};
  assert(ask(&b, 0, &a) == 1);
  assert(b.tx[0].port == DC_PORT_HOST && b.tx[0].prefix_len == DC_HEADER_LEN);
  uint8_t p[2048];
  size_t len = flatten(&b.tx[0], p, sizeof p);
  struct dc_header h;
  struct dc_segment ret;
  assert(dc_interest_at_source(p, len, &h, &ret) == DC_DROP_NONE);
  assert(h.seq == 5 && ret.n == 0 && ret.local);

  a.ret = SEG(true, 1, 6);
  assert(ask(&b, 1, &a) == 0);
  assert(answer(&b, DC_PORT_HOST, 1, 5, 0, 300) == 2); /* the source answers its own node */
  look(&b.tx[0], &seen);
  assert(seen.port == 0 && seen.labels == 1 && seen.label[0] == DC_LABEL_LOCAL);
  look(&b.tx[1], &seen);
  assert(seen.port == 1 && seen.labels == 2 && seen.label[0] == DC_LABEL_ADJ + 6 && seen.label[1] == DC_LABEL_LOCAL);
  assert(seen.h.seq == 5 && seen.rest_len == 300);
  bench_close(&b);
}

static void an_appliance_leaves_every_port_to_its_switch(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  cfg.ports = 1;
  cfg.lone_port = true;
  bench_open(&b, &cfg);
  struct asking a = from_child(30, 1, 5);
  assert(ask(&b, 0, &a) == 1);
  look(&b.tx[0], &seen);
  assert(seen.port == 0 && seen.labels == 2 && seen.label[0] == DC_LABEL_ADJ + 7 && seen.label[1] == DC_LABEL_ADJ + 2);

  uint8_t p[2048]; /* its switch may have taken LOCAL off */
  write_stack(p, NULL, 0);
  size_t len = stack_len(0) + write_payload(p + stack_len(0), 1, 5, 0, 200);
  assert(give(&b, 0, p, len) == 1);
  look(&b.tx[0], &seen);
  assert(seen.port == 0 && seen.labels == 2 && seen.label[0] == DC_LABEL_ADJ + 30 && seen.label[1] == DC_LABEL_ADJ + 3);
  bench_close(&b);
}

static void the_lag_of_the_slowest_child_travels_up(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch(); /* 8192 bytes: 8.192 packets of 1000 */
  bench_open(&b, &cfg);
  child_asks(&b, 2, 1, 0, 0); /* this one asks once and stays behind */
  for (uint32_t seq = 0; seq < 200; seq++) {
    b.now += 10 * DC_US;
    if (child_asks(&b, 1, 1, seq, 0) > 0) {
      look(&b.tx[0], &seen);
      if (seq == 0)
        assert(seen.h.lag == 0);
      if (seq == 199)
        assert(seen.h.lag == 255);
    }
    answer(&b, 7, 1, seq, 0, 1000);
  }
  b.now += 2 * DC_SEC; /* not heard of for long: counts no more */
  for (uint32_t seq = 200; seq < 240; seq++) {
    child_asks(&b, 1, 1, seq, 0);
    look(&b.tx[0], &seen);
    answer(&b, 7, 1, seq, 0, 1000);
  }
  assert(seen.h.lag == 0);

  struct asking a = from_child(3, 1, 240); /* what is told from below is passed on at once, and kept */
  a.lag = 100;
  ask(&b, 3, &a);
  look(&b.tx[0], &seen);
  assert(seen.h.lag == 100);
  for (uint32_t seq = 241; seq < 260; seq++)
    child_asks(&b, 1, 1, seq, 0);
  look(&b.tx[0], &seen);
  assert(seen.h.lag >= 100);
  bench_close(&b);
}

static void a_restart_gives_every_packet_back(void)
{
  struct bench b;
  struct dc_node_cfg cfg = a_switch();
  bench_open(&b, &cfg);
  for (uint32_t tree = 1; tree <= 4; tree++) {
    child_asks(&b, 1, tree, 5, 0);
    answer(&b, 7, tree, 5, 0, 100);
  }
  bench_sent(&b);
  assert(live_bufs == 4);
  dc_node_clear(b.node);
  assert(live_bufs == 0);
  assert(child_asks(&b, 1, 9, 5, 0) == 1 && answer(&b, 7, 9, 5, 0, 100) == 1); /* and it goes on */
  bench_close(&b);
}

static void a_wrong_configuration_is_named(void)
{
  struct dc_node_cfg cfg;
  const char *what;
  dc_node_cfg_default(&cfg);
  assert(dc_node_cfg_check(&cfg, &what) == 0 && what == NULL);
#define REFUSED(field, value)                                                        \
  do {                                                                               \
    dc_node_cfg_default(&cfg);                                                       \
    cfg.field = value;                                                               \
    assert(dc_node_cfg_check(&cfg, &what) < 0 && strcmp(what, #field) == 0);         \
  } while (0)
  REFUSED(ports, 0);
  REFUSED(ports, DC_NODE_PORTS_MAX + 1);
  REFUSED(cache_bytes, 0);
  REFUSED(cache_bytes_max, 1);
  REFUSED(memory_bytes, 0);
  REFUSED(trees, 0);
  REFUSED(trees, DC_NODE_TREES_MAX + 1);
  REFUSED(store_slots, 100);
  REFUSED(waiting_slots, 2);
  REFUSED(retx_min, 0);
  REFUSED(idle, 0);
}

int main(void)
{
  a_miss_sends_the_interest_on_without_its_own_stop();
  an_interest_towards_a_waypoint_ends_in_local();
  data_goes_to_every_child_that_waits_and_is_stored();
  a_hit_is_answered_from_the_store();
  a_retx_waits_until_its_answer_is_overdue();
  a_retx_waits_longer_where_answers_take_longer();
  a_retx_goes_on_at_once_when_later_data_has_come();
  a_retx_over_a_repaired_tree_goes_on_at_once();
  a_repeated_interest_is_sent_on_after_a_long_time_even_without_retx();
  nocache_passes_the_store_and_cleans_it();
  nocache_is_not_held_back_by_an_ordinary_interest();
  a_duplicate_is_passed_on_but_not_stored();
  a_waypoint_that_only_passes_aggregates_but_stores_nothing();
  one_route_that_stores_is_enough_to_store();
  the_answer_to_a_repeated_interest_says_nothing_of_the_response_time();
  data_nobody_asked_for_is_refused_and_never_stored();
  the_oldest_packet_leaves_the_store_first();
  sequence_numbers_a_ring_apart_share_a_slot();
  an_interest_says_how_large_the_store_shall_be();
  trees_share_a_bound_on_memory_and_idle_ones_give_first();
  packets_have_a_bound_of_their_own_where_buffers_are_scarce();
  a_tree_too_many_is_refused_until_one_is_idle();
  what_waited_in_a_tree_is_forgotten_with_it();
  a_child_too_many_is_refused_until_one_is_silent();
  waiting_interests_are_bounded();
  an_adjacency_is_popped_and_the_rest_sent_on_untouched();
  frames_that_cannot_be_forwarded_are_counted_by_reason();
  interests_with_a_wrong_route_are_refused();
  an_empty_stack_is_for_the_endpoint();
  a_receiver_on_a_waypoints_host_asks_its_own_node();
  a_source_with_two_children_is_asked_once();
  an_appliance_leaves_every_port_to_its_switch();
  the_lag_of_the_slowest_child_travels_up();
  a_restart_gives_every_packet_back();
  a_wrong_configuration_is_named();
  puts("node: ok");
  return 0;
}
