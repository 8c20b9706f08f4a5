/* The node's bounds on memory, to the byte, the packet and the nanosecond. */
#include "nodes.h"

#include "node_state.h"

static unsigned brings(struct bench *b, uint32_t tree, uint32_t seq, uint8_t cache, uint16_t len)
{
  struct asking a = from_child(1, tree, seq);
  a.cache = cache;
  ask(b, 1, &a);
  return answer(b, 7, tree, seq, 0, len);
}

static uint64_t room(struct dc_node *node, uint64_t bytes, uint64_t packets, uint32_t held, uint32_t in)
{
  struct dc_tree tree;
  memset(&tree, 0, sizeof tree);
  tree.store = (struct dc_store){.slots = 8, .capacity = 20000, .bytes = held, .packets = in};
  node->bytes = bytes;
  node->packets = packets;
  return dc_node_room(node, &tree);
}

/* What it may have, while more than a 64th of the memory is left; else what a node gives unasked, or what it has. */
static void a_store_can_have_what_it_may_while_memory_is_not_scarce(void)
{
  struct dc_node_cfg cfg = a_switch();
  cfg.cache_bytes = 4000;
  cfg.memory_bytes = 64000;
  cfg.memory_packets = 640;
  struct bench b = bench_of(cfg);
  struct dc_node *node = b.node;
  assert(room(node, 62999, 629, 0, 0) == 20000);
  assert(room(node, 63000, 629, 0, 0) == 4000 && room(node, 62999, 630, 0, 0) == 4000);
  assert(room(node, 63000, 0, 4001, 1) == 4001 && room(node, 63000, 0, 3999, 1) == 4000);
  assert(room(node, 0, 0, 5000, 5) == 8000); /* eight packets as large as those that it holds */
  assert(room(node, 63000, 0, 5000, 5) == 5000 && room(node, 0, 0, 25000, 5) == 20000);
  dc_node_set_packets(node, 0);
  assert(room(node, 0, 1000000, 0, 0) == 20000); /* no such bound */
  dc_node_set_packets(node, 64);
  assert(room(node, 0, 62, 0, 0) == 20000 && room(node, 0, 63, 0, 0) == 4000);
  struct dc_tree less;
  memset(&less, 0, sizeof less);
  less.store = (struct dc_store){.slots = 8, .capacity = 3000};
  assert(dc_node_room(node, &less) == 3000); /* it asked for less than a node gives unasked */
  node->bytes = node->packets = 0;
  bench_close(&b);
}

static void a_packet_as_large_as_the_store_or_all_of_the_memory_is_kept(void)
{
  struct dc_node_cfg cfg = a_switch();
  cfg.cache_bytes = 1000;
  cfg.memory_bytes = 1500;
  struct bench b = bench_of(cfg);
  assert(brings(&b, 1, 1, 0, 1001) == 1 && tree_count(&b, 1).packets == 0);
  assert(brings(&b, 1, 2, 0, 1000) == 1 && tree_count(&b, 1).packets == 1);
  assert(brings(&b, 2, 1, 0, 500) == 1 && tree_count(&b, 2).packets == 1 && tree_count(&b, 1).packets == 1);
  assert(brings(&b, 3, 1, 0, 1) == 1 && tree_count(&b, 3).packets == 0);
  bench_close(&b);
}

/* Not sooner, and the one that is longest unused first. */
static void a_tree_stands_still_when_it_was_not_used_for_a_quarter_of_a_second(void)
{
  for (dc_time less = 0; less < 2; less++) {
    struct dc_node_cfg cfg = a_switch();
    cfg.cache_bytes = 1000;
    cfg.memory_bytes = 2000;
    struct bench b = bench_of(cfg);
    assert(brings(&b, 1, 1, 0, 1000) == 1);
    b.now += DC_MS;
    assert(brings(&b, 2, 1, 0, 1000) == 1);
    b.now += 249 * DC_MS - less;
    assert(brings(&b, 3, 1, 0, 1000) == 1);
    assert(tree_count(&b, 3).packets == 1 - less && tree_count(&b, 2).packets == 1);
    assert(tree_count(&b, 1).packets == less);
    struct dc_node_counters c;
    dc_node_counters(b.node, &c);
    assert(c.trees_evicted == 1 - less && c.bytes == 2000);
    bench_close(&b);
  }
}

/* Of those that are longest unused eight are looked at for one that has more than a node gives unasked. */
static void who_has_more_gives_when_he_is_among_the_first_eight(void)
{
  for (uint32_t rich = 1; rich <= 9; rich++) {
    struct dc_node_cfg cfg = a_switch();
    cfg.trees = 16;
    cfg.cache_bytes = 1000;
    cfg.memory_bytes = 8 * 1000 + 3000;
    struct bench b = bench_of(cfg);
    for (uint32_t tree = 1; tree <= 9; tree++)
      for (uint32_t seq = 0; seq < (tree == rich ? 3 : 1); seq++)
        assert(brings(&b, tree, seq, tree == rich ? dc_cache_code(8192) : 0, 1000) == 1);
    assert(brings(&b, 10, 1, 0, 1000) == 1);
    assert(tree_count(&b, 10).packets == (rich <= 8) && tree_count(&b, rich).packets == (rich <= 8 ? 2 : 3));
    assert(tree_count(&b, rich).evicted == (rich <= 8));
    bench_close(&b);
  }
}

static struct dc_tree *only_tree(struct bench *b) { return dc_tree_next(&b->node->trees, NULL); }

/* It tells what was sent already; of a store that was empty nothing before counts. */
static void the_newest_is_the_highest_of_what_is_stored(void)
{
  struct bench b = bench_of(a_switch());
  static const uint32_t seq[] = {50, 40, 60}, newest[] = {50, 50, 60};
  for (unsigned i = 0; i < 3; i++) {
    assert(brings(&b, 1, seq[i], 0, 100) == 1);
    assert(only_tree(&b)->newest == newest[i]);
  }
  for (unsigned i = 0; i < 3; i++)
    assert(child_asks(&b, 1, 1, seq[i], DC_FLAG_NOCACHE) == 1);
  assert(tree_count(&b, 1).packets == 0 && b.node->packets == 0 && b.node->bytes == 0);
  assert(brings(&b, 1, 30, 0, 100) == 1 && only_tree(&b)->newest == 30);
  bench_close(&b);
}

/* A larger store than may be asked for, the default, and a smaller one. */
static void a_store_is_as_large_as_it_was_asked_to_be(void)
{
  struct dc_node_cfg cfg = a_switch();
  cfg.cache_bytes_max = 16384;
  struct bench b = bench_of(cfg);
  static const uint32_t asked[] = {0, 4352, 16384, 32768, 0}, got[] = {8192, 4352, 16384, 16384, 8192};
  for (unsigned i = 0; i < 5; i++) {
    struct asking a = from_child(1, 1, i);
    a.cache = dc_cache_code(asked[i]);
    assert(ask(&b, 1, &a) == 1 && only_tree(&b)->store.capacity == got[i]);
  }
  bench_close(&b);
}

int main(void)
{
  a_store_can_have_what_it_may_while_memory_is_not_scarce();
  a_packet_as_large_as_the_store_or_all_of_the_memory_is_kept();
  a_tree_stands_still_when_it_was_not_used_for_a_quarter_of_a_second();
  who_has_more_gives_when_he_is_among_the_first_eight();
  the_newest_is_the_highest_of_what_is_stored();
  a_store_is_as_large_as_it_was_asked_to_be();
  puts("node, memory: ok");
  return 0;
}
