/* The node: lag told up, restart, configuration. */
#include "nodes.h"

static struct seen seen;

static void the_lag_of_the_slowest_child_travels_up(void)
{
  struct bench b = bench_of(a_switch());
  child_asks(&b, 3, 1, 50, 0); /* heard of once: a damaged interest, perhaps */
  child_asks(&b, 2, 1, 0, 0);  /* this one asks twice and stays behind */
  b.now += DC_US;
  child_asks(&b, 2, 1, 0, 0);
  for (uint32_t seq = 0; seq < 200; seq++) {
    b.now += 10 * DC_US;
    if (child_asks(&b, 1, 1, seq, 0) > 0) {
      look(&b.tx[0], &seen);
      if (seq == 0)
        assert(seen.h.lag == 0);
      if (seq == 199)
        assert(seen.h.lag == dc_lag_code(199));
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

  for (uint32_t seq = 238; seq < 240; seq++, b.now += DC_US)
    child_asks(&b, 3, 1, seq, 0);
  struct asking a = from_child(3, 1, 240); /* what is told from below is passed on at once, and kept */
  a.lag = dc_lag_code(20);
  ask(&b, 3, &a);
  look(&b.tx[0], &seen);
  assert(seen.h.lag == 20);
  for (uint32_t seq = 241; seq < 260; seq++) {
    b.now += DC_US;
    child_asks(&b, 1, 1, seq, 0);
    look(&b.tx[0], &seen);
    assert(seen.h.lag == dc_lag_code(seq - 220));
  }
  bench_close(&b);
}

static void a_tree_in_the_place_of_one_of_many_children_tells_of_none_that_is_behind(void)
{
  struct dc_node_cfg cfg = a_switch();
  cfg.trees = 1;
  struct bench b = bench_of(cfg);
  child_asks(&b, 1, 1, 0, 0);
  for (uint16_t k = 4; k < 20; k++) {
    struct asking a = from_child(1, 1, 0);
    a.ret = SEG(false, 1, k);
    ask(&b, 1, &a);
  }
  assert(child_asks(&b, 1, 1, 1, 0) == 1); /* and all others are behind it */
  b.now += cfg.idle + DC_SEC;
  assert(child_asks(&b, 1, 2, 100, 0) == 1);
  look(&b.tx[0], &seen);
  assert(seen.h.tree == 2 && seen.h.lag == 0);
  bench_close(&b);
}

/* Whoever asks is behind nobody of whom it is the last, of however many. */
static void the_slowest_child_tells_of_no_lag(void)
{
  for (uint16_t others = 1; others < 40; others += 30) {
    struct dc_node_cfg cfg = a_switch();
    cfg.waiting_slots = 256;
    struct bench b = bench_of(cfg);
    for (uint16_t other = 0; other < others; other++)
      for (uint32_t seq = 50; seq < 54; seq++, b.now += 10 * DC_US) {
        struct asking a = from_child(1, 1, seq + 4 * other);
        a.ret = SEG(false, 1, other);
        assert(ask(&b, 1, &a) == 1);
      }
    for (uint32_t seq = 10; seq < 24; seq++) {
      b.now += 10 * DC_US;
      assert(child_asks(&b, 2, 1, seq, 0) == 1);
      look(&b.tx[0], &seen);
      assert(seen.h.seq == seq && seen.h.lag == 0);
    }
    bench_close(&b);
  }
}

/* The store that goes on in an interest when 256 KB were asked for, after a hundred packets of 1,000 bytes. */
static uint64_t store_told(const struct dc_node_cfg *cfg)
{
  struct bench b = bench_of(*cfg);
  struct asking a = from_child(1, 1, 0);
  a.cache = dc_cache_code(256 * 1024);
  for (a.seq = 0; a.seq < 100; a.seq++) {
    b.now += 10 * DC_US;
    ask(&b, 1, &a);
    look(&b.tx[0], &seen);
    answer(&b, 7, 1, a.seq, 0, 1000);
  }
  bench_close(&b);
  return dc_cache_bytes(seen.h.cache);
}

/* A source that believed in more than there is would brake too late. */
static void an_interest_says_what_store_there_really_is(void)
{
  struct dc_node_cfg cfg = a_switch();
  cfg.cache_bytes_max = 256 * 1024;
  cfg.store_slots = 1024;
  assert(store_told(&cfg) == 256 * 1024);
  cfg.cache_bytes_max = 64 * 1024;
  assert(store_told(&cfg) == 64 * 1024);
  cfg.cache_bytes_max = 256 * 1024;
  cfg.store_slots = 32; /* so many packets at most */
  assert(store_told(&cfg) == dc_cache_bytes(dc_cache_code(32000)));
  cfg.store_slots = 1024;
  cfg.memory_bytes = 30000; /* of all trees */
  assert(store_told(&cfg) == dc_cache_bytes(dc_cache_code(30000)));
  cfg.memory_bytes = 1 << 20;
  cfg.memory_packets = 30;
  assert(store_told(&cfg) == dc_cache_bytes(dc_cache_code(30000)));
}

/* A host that stands still for a moment is silent, and wants what goes by: it counts until it must be taken for gone. */
static void a_child_that_falls_silent_counts_for_a_moment(void)
{
  struct bench b = bench_of(a_switch());
  for (uint32_t seq = 0; seq < 300; seq++) {
    if (seq < 20) {
      child_asks(&b, 2, 1, seq, 0);
      child_asks(&b, 1, 1, seq, 0);
    } else {
      assert(child_asks(&b, 1, 1, seq, 0) == 1);
      look(&b.tx[0], &seen);
      assert(seq > 150 || seen.h.lag == dc_lag_code(seq - 19));
      assert(seq < 180 || seen.h.lag == 0);
    }
    b.now += DC_MS;
    answer(&b, 7, 1, seq, 0, 1000);
  }
  bench_close(&b);
}

/* Who has asked for all that it wants is silent, too, and nobody waits for it. That goes on up when no child is left. */
static void a_child_that_asks_for_nothing_more_counts_no_longer(void)
{
  struct bench b = bench_of(a_switch());
  for (uint32_t seq = 0; seq < 20; seq++) {
    struct asking first = from_child(2, 1, seq);
    first.flags = seq == 19 ? DC_FLAG_LAST : 0;
    assert(ask(&b, 2, &first) == 1);
    look(&b.tx[0], &seen);
    assert(seen.h.flags == 0); /* the other goes on */
    child_asks(&b, 1, 1, seq, 0);
    b.now += DC_MS;
    answer(&b, 7, 1, seq, 0, 1000);
  }
  for (uint32_t seq = 20; seq < 100; seq++) {
    struct asking other = from_child(1, 1, seq);
    other.flags = seq == 99 ? DC_FLAG_LAST : 0;
    assert(ask(&b, 1, &other) == 1);
    look(&b.tx[0], &seen);
    assert(seen.h.lag == 0 && seen.h.flags == other.flags);
    b.now += DC_MS;
    answer(&b, 7, 1, seq, 0, 1000);
  }
  child_asks(&b, 2, 1, 100, 0); /* it wants more after all */
  for (uint32_t seq = 101; seq < 140; seq++) {
    child_asks(&b, 1, 1, seq, 0);
    look(&b.tx[0], &seen);
    b.now += DC_MS;
    answer(&b, 7, 1, seq, 0, 1000);
  }
  assert(seen.h.lag == dc_lag_code(39));
  bench_close(&b);
}

/* What made trees crawl (CRAWLED in simulation/build.mk): slowest children that nobody is, or that wait for the source. */
static uint8_t told_by(struct bench *b, uint32_t seq)
{
  child_asks(b, 1, 1, seq, 0);
  look(&b->tx[0], &seen);
  answer(b, 7, 1, seq, 0, 1000);
  return seen.h.lag;
}

static void damaged_interests_make_no_slowest_child(void)
{
  struct bench b = bench_of(a_switch());
  struct asking ghost = from_child(3, 1, 900); /* a way back with a wrong bit, of one that is out of a store below */
  ghost.lag = 255;
  for (; ghost.seq < 902; ghost.seq++, b.now += DC_US) /* the same bit twice (seeds 92784, 102471) */
    ask(&b, 3, &ghost);
  for (uint32_t seq = 0; seq < 40; seq++)
    assert(told_by(&b, seq) == 0);
  bench_close(&b);
}

static void a_child_that_told_of_a_slow_one_and_fell_silent_counts_for_a_moment(void)
{
  struct bench b = bench_of(a_switch());
  struct asking below = from_child(3, 1, 39);
  below.lag = dc_lag_code(30);
  for (; below.seq < 42; below.seq++, b.now += 5 * DC_MS)
    ask(&b, 3, &below);
  assert(told_by(&b, 42) == 31);
  b.now += 100 * DC_MS;
  assert(told_by(&b, 43) == 32);
  b.now += 50 * DC_MS;
  assert(told_by(&b, 44) == 0);
  bench_close(&b);
}

static void what_is_asked_for_again_says_where_a_child_is(void)
{
  struct bench b = bench_of(a_switch());
  for (uint32_t seq = 100; seq < 140; seq++) { /* this node was restarted: child 2 waits, and only asks again */
    struct asking again = from_child(2, 1, 141);
    again.flags = DC_FLAG_RETX;
    ask(&b, 2, &again);
    assert(told_by(&b, seq) == 0);
  }
  bench_close(&b);
}

/* A child that asked for a damaged number far ahead is where its others say; two of them are no damage. */
static void one_damaged_number_hides_no_slow_child(void)
{
  struct bench b = bench_of(a_switch());
  for (uint32_t seq = 0; seq < 10; seq++)
    child_asks(&b, 2, 1, seq, 0);
  child_asks(&b, 2, 1, 55 | 64, 0);
  child_asks(&b, 2, 1, 10, 0);
  for (uint32_t seq = 11; seq < 60; seq++)
    assert(told_by(&b, seq) == dc_lag_code(seq - 10));
  child_asks(&b, 2, 1, 119, 0);
  child_asks(&b, 2, 1, 120, 0);
  for (uint32_t seq = 60; seq < 70; seq++)
    assert(told_by(&b, seq) == 0);
  bench_close(&b);
}

static void a_restart_gives_every_packet_back(void)
{
  struct bench b = bench_of(a_switch());
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
#define REFUSED(field, value)                                                                                          \
  do {                                                                                                                 \
    dc_node_cfg_default(&cfg);                                                                                         \
    cfg.field = value;                                                                                                 \
    assert(dc_node_cfg_check(&cfg, &what) < 0 && strcmp(what, #field) == 0);                                           \
  } while (0)
  REFUSED(ports, 0);
  REFUSED(ports, DC_NODE_PORTS_MAX + 1);
  REFUSED(cache_bytes, 0);
  REFUSED(cache_bytes_max, 1);
  REFUSED(memory_bytes, 0);
  REFUSED(trees, 0);
  REFUSED(trees, DC_NODE_TREES_MAX + 1);
  REFUSED(store_slots, 0);
  REFUSED(store_slots, 100);
  REFUSED(store_slots, 2 * DC_NODE_SLOTS_MAX);
  REFUSED(waiting_slots, 2);
  REFUSED(waiting_slots, 100);
  REFUSED(waiting_slots, 2 * DC_NODE_SLOTS_MAX);
  REFUSED(retx_min, 0);
  REFUSED(retx_min, 60 * DC_SEC + 1);
  REFUSED(idle, 0);
  cfg = a_host();
  cfg.lone_port = true; /* behind one port is the network, and no endpoint */
  assert(dc_node_cfg_check(&cfg, &what) < 0 && strcmp(what, "lone_port") == 0);
  uint64_t no_memory;
  assert(dc_node_init(&no_memory, &cfg, &(struct dc_buf_ops){0}) == NULL);
}

static void what_trees_use_a_little_of_stands_behind_what_all_of_them_fill(void)
{
  struct dc_node_cfg cfg;
  dc_node_cfg_default(&cfg);
  size_t dense = dc_node_dense(&cfg), size = dc_node_size(&cfg);
  assert(dense < (size_t)4096 * cfg.trees);
  cfg.store_slots *= 2;
  cfg.waiting_slots *= 2;
  assert(dc_node_dense(&cfg) == dense && dc_node_size(&cfg) > size);
  cfg.trees *= 2;
  assert(dc_node_dense(&cfg) > 2 * dense - 4096);
}

static void of_ports_that_it_does_not_have_nothing_is_known(void)
{
  struct bench b = bench_of(a_switch());
  static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
  dc_node_set_port(b.node, 8, mac, mac);
  struct dc_port_counters none, c;
  memset(&none, 0, sizeof none);
  memset(&c, 0xff, sizeof c);
  dc_node_port_counters(b.node, 8, &c);
  assert(memcmp(&c, &none, sizeof c) == 0);
  dc_node_set_copies(b.node, 4); /* its ports are not the network's: it makes its copies itself */
  child_asks(&b, 1, 3, 0, 0);
  child_asks(&b, 2, 3, 0, 0);
  assert(answer(&b, 7, 3, 0, 0, 100) == 2);
  bench_close(&b);
}

int main(void)
{
  the_lag_of_the_slowest_child_travels_up();
  a_tree_in_the_place_of_one_of_many_children_tells_of_none_that_is_behind();
  the_slowest_child_tells_of_no_lag();
  an_interest_says_what_store_there_really_is();
  a_child_that_asks_for_nothing_more_counts_no_longer();
  a_child_that_falls_silent_counts_for_a_moment();
  damaged_interests_make_no_slowest_child();
  a_child_that_told_of_a_slow_one_and_fell_silent_counts_for_a_moment();
  what_is_asked_for_again_says_where_a_child_is();
  one_damaged_number_hides_no_slow_child();
  a_restart_gives_every_packet_back();
  a_wrong_configuration_is_named();
  what_trees_use_a_little_of_stands_behind_what_all_of_them_fill();
  of_ports_that_it_does_not_have_nothing_is_known();
  puts("node, life: ok");
  return 0;
}
