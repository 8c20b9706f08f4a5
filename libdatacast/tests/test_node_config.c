/* The node's configuration: what is usual, and both ends of what may be. */
#include "nodes.h"

static void what_is_usual(void)
{
  struct dc_node_cfg cfg;
  dc_node_cfg_default(&cfg);
  assert(cfg.ports == 1 && !cfg.endpoint && !cfg.lone_port);
  assert(cfg.cache_bytes == 131072 && cfg.cache_bytes_max == 16777216 && cfg.memory_bytes == 268435456);
  assert(cfg.memory_packets == 0 && cfg.trees == 256 && cfg.store_slots == 8192 && cfg.waiting_slots == 32768);
  assert(cfg.retx_min == DC_MS && cfg.idle == 10 * DC_SEC);
}

static void the_most_and_the_least_of_all_may_be(void)
{
  struct dc_node_cfg cfg;
  const char *what;
#define TAKEN(field, value)                                                                                            \
  do {                                                                                                                 \
    dc_node_cfg_default(&cfg);                                                                                         \
    cfg.field = value;                                                                                                 \
    assert(dc_node_cfg_check(&cfg, &what) == 0 && what == NULL);                                                       \
  } while (0)
  TAKEN(ports, 1);
  TAKEN(ports, DC_NODE_PORTS_MAX);
  TAKEN(cache_bytes, 1);
  TAKEN(cache_bytes_max, 131072);
  TAKEN(memory_bytes, 1);
  TAKEN(trees, 1);
  TAKEN(trees, DC_NODE_TREES_MAX);
  TAKEN(store_slots, 1);
  TAKEN(store_slots, DC_NODE_SLOTS_MAX);
  TAKEN(waiting_slots, DC_WAITING_WAYS);
  TAKEN(waiting_slots, DC_NODE_SLOTS_MAX);
  TAKEN(retx_min, 1);
  TAKEN(retx_min, 60 * DC_SEC);
  TAKEN(idle, 1);
  TAKEN(endpoint, true);
  TAKEN(lone_port, true);
  dc_node_cfg_default(&cfg);
  cfg.cache_bytes_max = 131071;
  assert(dc_node_cfg_check(&cfg, &what) < 0 && strcmp(what, "cache_bytes_max") == 0);
}

/* The parts of a node: each begins at a line of the processor's caches, behind the one before it. */
static void a_node_has_room_for_all_that_it_may_hold(void)
{
  struct dc_node_cfg cfg;
  dc_node_cfg_default(&cfg);
  cfg.trees = 3;
  cfg.store_slots = 8;
  cfg.waiting_slots = 16;
  for (cfg.ports = 1; cfg.ports < 70; cfg.ports++) {
    size_t before = dc_node_size(&cfg);
    assert(before % 64 == 0 && dc_node_dense(&cfg) % 64 == 0 && dc_node_dense(&cfg) < before);
    cfg.ports++;
    assert(dc_node_size(&cfg) > before);
    cfg.ports--;
  }
}

/* Until it is told, a frame goes to whoever is there, from nobody. */
static void frames_have_the_addresses_that_were_set(void)
{
  struct bench b = bench_of(a_switch());
  static const uint8_t own[6] = {2, 0, 0, 0, 0, 1}, other[6] = {2, 0, 0, 0, 0, 9}, neighbour[6] = {2, 0, 0, 0, 0, 2};
  uint8_t p[200], out[200];
  write_stack(p, (uint32_t[]){DC_LABEL_ADJ + 7, DC_LABEL_LOCAL}, 2);
  size_t len = stack_len(2) + write_payload(p + stack_len(2), 1, 5, 0, 60);
  assert(give(&b, 1, p, len) == 1);
  flatten(&b.tx[0], out, sizeof out);
  assert(memcmp(out, ANY, 6) == 0 && memcmp(out + 6, NOBODY, 6) == 0);
  const uint8_t *const from[] = {own, other};
  for (unsigned i = 0; i < 2; i++) {
    dc_node_set_port(b.node, 7, from[i], neighbour);
    assert(give(&b, 1, p, len) == 1);
    flatten(&b.tx[0], out, sizeof out);
    assert(memcmp(out, neighbour, 6) == 0 && memcmp(out + 6, from[i], 6) == 0);
  }
  bench_close(&b);
}

int main(void)
{
  what_is_usual();
  the_most_and_the_least_of_all_may_be();
  a_node_has_room_for_all_that_it_may_hold();
  frames_have_the_addresses_that_were_set();
  puts("node, config: ok");
  return 0;
}
