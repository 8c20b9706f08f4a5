/* The node: what is stored and what is refused; its bounds. */
#include "nodes.h"

static struct seen seen;

static void data_nobody_asked_for_is_refused_and_never_stored(void)
{
  struct bench b = bench_of(a_switch());
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
  struct bench b = bench_of(a_switch());
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
  struct bench b = bench_of(a_switch());
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
  struct dc_node_cfg cfg = a_switch();
  cfg.cache_bytes_max = 32 * 1024;
  struct bench b = bench_of(cfg);
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
  struct dc_node_cfg cfg = a_switch();
  cfg.memory_bytes = 8000;
  struct bench b = bench_of(cfg);
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

/* A group that came first and asked for much would leave nothing to those that come after it. */
static void where_memory_is_scarce_each_tree_gets_what_a_node_gives_unasked(void)
{
  struct dc_node_cfg cfg = a_switch();
  cfg.cache_bytes = 4000;
  cfg.cache_bytes_max = 32 * 1024;
  cfg.memory_bytes = 16000;
  struct bench b = bench_of(cfg);
  struct asking a = from_child(1, 1, 0);
  a.cache = dc_cache_code(32 * 1024);
  for (a.seq = 0; a.seq < 20; a.seq++) {
    ask(&b, 1, &a);
    answer(&b, 7, 1, a.seq, 0, 1000);
  }
  assert(tree_count(&b, 1).packets == 16);
  for (uint32_t seq = 0; seq < 8; seq++) {
    child_asks(&b, 1, 2, seq, 0);
    answer(&b, 7, 2, seq, 0, 1000);
  }
  assert(tree_count(&b, 2).packets == 4 && tree_count(&b, 1).packets == 12); /* what it was given, and no more */
  b.now += 200 * DC_MS;
  ask(&b, 1, &a); /* who has more need not be the one that is longest unused */
  for (uint32_t tree = 3; tree <= 4; tree++)
    for (uint32_t seq = 0; seq < 8; seq++) {
      child_asks(&b, 1, tree, seq, 0);
      answer(&b, 7, tree, seq, 0, 1000);
    }
  for (uint32_t tree = 1; tree <= 4; tree++)
    assert(tree_count(&b, tree).packets == 4);
  bench_close(&b);
}

static void packets_have_a_bound_of_their_own_where_buffers_are_scarce(void)
{
  struct dc_node_cfg cfg = a_switch();
  cfg.memory_packets = 5;
  struct bench b = bench_of(cfg);
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
  struct dc_node_cfg cfg = a_switch();
  struct bench b = bench_of(cfg);
  for (uint32_t tree = 1; tree <= 4; tree++) {
    b.now += DC_MS;
    assert(child_asks(&b, 1, tree * 1000, 5, 0) == 1 && answer(&b, 7, tree * 1000, 5, 0, 1000) == 1);
  }
  assert(child_asks(&b, 1, 77, 5, 0) == 0);
  assert(dropped(&b, DC_DROP_TREES) == 1);

  b.now += cfg.idle - DC_MS - 1;
  child_asks(&b, 1, 1000, 6, 0);
  child_asks(&b, 1, 2000, 6, 0); /* 3000 is the one idle longest, but not yet for long enough */
  assert(child_asks(&b, 1, 77, 5, 0) == 0 && dropped(&b, DC_DROP_TREES) == 2);
  b.now += 1;
  assert(child_asks(&b, 1, 77, 5, 0) == 1);
  struct dc_node_counters c;
  dc_node_counters(b.node, &c);
  assert(c.trees == 4 && c.trees_evicted == 1);
  assert(answer(&b, 7, 3000, 5, 0, 10) == 0 && dropped(&b, DC_DROP_UNKNOWN_TREE) == 1);
  assert(answer(&b, 7, 77, 5, 0, 10) == 1 && answer(&b, 7, 2000, 6, 0, 10) == 1);
  bench_close(&b);
}

/* Interests with invented ids fill the table, but not for long and not for others. */
static void trees_that_never_brought_data_go_first(void)
{
  struct bench b = bench_of(a_switch());
  for (uint32_t id = 900; id < 904; id++)
    assert(child_asks(&b, 2, id, 5, 0) == 1); /* all there is room for */
  assert(child_asks(&b, 1, 1, 5, 0) == 1);    /* a group begins */
  for (uint32_t id = 904; id < 2000; id++)
    assert(child_asks(&b, 2, id, 5, 0) == 1); /* these take the places of their like, from the same port */
  assert(answer(&b, 7, 1, 5, 0, 100) == 1 && tree_count(&b, 1).packets == 1);
  assert(child_asks(&b, 3, 2, 5, 0) == 1 && child_asks(&b, 4, 3, 5, 0) == 1);
  for (uint32_t id = 2000; id < 3000; id++)
    assert(child_asks(&b, 2, id, 5, 0) == 1);
  assert(answer(&b, 7, 2, 5, 0, 100) == 1 && answer(&b, 7, 3, 5, 0, 100) == 1);
  for (uint32_t id = 3000; id < 4000; id++)
    child_asks(&b, 2, id, 5, 0);
  for (uint32_t tree = 1; tree <= 3; tree++)
    assert(tree_count(&b, tree).packets == 1); /* what brought data stays, cache and all */
  assert(child_asks(&b, 2, 3999, 5, 0) == 0 && tree_count(&b, 3999).waiting == 1);
  assert(dropped(&b, DC_DROP_TREES) == 0);
  struct dc_node_counters c;
  dc_node_counters(b.node, &c);
  assert(c.trees == 4);
  bench_close(&b);
}

static void what_waited_in_a_tree_is_forgotten_with_it(void)
{
  struct dc_node_cfg cfg = a_switch();
  cfg.trees = 1;
  struct bench b = bench_of(cfg);
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
  struct bench b = bench_of(a_switch());
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
  struct dc_node_cfg cfg = a_switch();
  cfg.waiting_slots = 16; /* 4 sets of 4 */
  struct bench b = bench_of(cfg);
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

/* Who asks for many has a waiting table that holds them, until the tables of all take an eighth of the memory. */
static void a_waiting_table_grows_with_what_waits_as_far_as_there_is_memory(void)
{
  enum { SLOTS = 8192, ASKED = 6000, SURE = 2048, SET = 160 };
  struct dc_node_cfg cfg = a_switch();
  cfg.waiting_slots = SLOTS;
  cfg.memory_bytes = 8 * SET * (1024 - 512); /* one tree's may have 1,024 sets */
  struct bench b = bench_of(cfg);
  for (uint32_t tree = 1; tree <= 3; tree++)
    for (uint32_t seq = 0; seq < ASKED; seq++)
      (void)child_asks(&b, 1, tree, seq, 0);
  assert(tree_count(&b, 1).waiting == 2 * SURE && tree_count(&b, 2).waiting == SURE &&
         tree_count(&b, 3).waiting == SURE);
  dc_node_clear(b.node); /* what one has grown into the next one in its place has, and no other */
  for (uint32_t tree = 4; tree <= 6; tree++)
    for (uint32_t seq = 0; seq < ASKED; seq++)
      (void)child_asks(&b, 1, tree, seq, 0);
  assert(tree_count(&b, 4).waiting + tree_count(&b, 5).waiting + tree_count(&b, 6).waiting == 4 * SURE);
  bench_close(&b);

  cfg.memory_bytes = 64 << 20;
  b = bench_of(cfg);
  for (uint32_t seq = 0; seq < ASKED; seq++)
    assert(child_asks(&b, 1, 1, seq, 0) == 1);
  assert(tree_count(&b, 1).waiting == ASKED);
  bench_close(&b);
}

/* Who sees an interest pass, or guesses its number, cannot answer it from elsewhere. */
static void data_is_taken_only_from_where_it_was_asked_for(void)
{
  struct dc_node_cfg cfg = a_switch();
  struct bench b = bench_of(cfg);
  assert(child_asks(&b, 1, 1, 5, 0) == 1); /* goes up by port 7 */
  for (uint16_t port = 0; port < 7; port++)
    assert(answer(&b, port, 1, 5, 0, 100) == 0 && dropped(&b, DC_DROP_UNWANTED) == port + 1u);
  assert(tree_count(&b, 1).packets == 0 && tree_count(&b, 1).waiting == 1);
  assert(answer(&b, 7, 1, 5, 0, 100) == 1 && tree_count(&b, 1).packets == 1);

  /* After a repair the interest goes another way, and its data comes from there. */
  assert(child_asks(&b, 1, 1, 6, 0) == 1);
  struct asking a = from_child(1, 1, 6);
  a.flags = DC_FLAG_RETX;
  a.fwd = SEG(false, 6, 2);
  assert(ask(&b, 1, &a) == 1 && b.tx[0].port == 6);
  assert(answer(&b, 7, 1, 6, 0, 100) == 0 && answer(&b, 6, 1, 6, 0, 100) == 1);
  bench_close(&b);

  /* A host's own source answers from inside; nobody outside can in its place. */
  cfg = a_host();
  b = bench_of(cfg);
  a = from_child(1, 1, 5);
  a.fwd = HERE(false);
  assert(ask(&b, 1, &a) == 1 && b.tx[0].port == DC_PORT_HOST);
  assert(answer(&b, 0, 1, 5, 0, 100) == 0 && answer(&b, 1, 1, 5, 0, 100) == 0 && tree_count(&b, 1).packets == 0);
  assert(answer(&b, DC_PORT_HOST, 1, 5, 0, 100) == 1);
  bench_close(&b);
}

int main(void)
{
  data_is_taken_only_from_where_it_was_asked_for();
  data_nobody_asked_for_is_refused_and_never_stored();
  the_oldest_packet_leaves_the_store_first();
  sequence_numbers_a_ring_apart_share_a_slot();
  an_interest_says_how_large_the_store_shall_be();
  trees_share_a_bound_on_memory_and_idle_ones_give_first();
  where_memory_is_scarce_each_tree_gets_what_a_node_gives_unasked();
  packets_have_a_bound_of_their_own_where_buffers_are_scarce();
  a_tree_too_many_is_refused_until_one_is_idle();
  trees_that_never_brought_data_go_first();
  what_waited_in_a_tree_is_forgotten_with_it();
  a_child_too_many_is_refused_until_one_is_silent();
  waiting_interests_are_bounded();
  a_waiting_table_grows_with_what_waits_as_far_as_there_is_memory();
  puts("node, store: ok");
  return 0;
}
