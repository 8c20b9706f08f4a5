/* Random and half-right frames at nodes of every kind: nothing crashes, nothing leaks, every frame that leaves is
 * whole. usage: test_garbage [SEED [FRAMES]] */
#include "frames.h"

static uint64_t state;

static uint32_t rnd(uint32_t below)
{
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)(state >> 32) % below;
}

static struct dc_segment some_segment(uint16_t ports)
{
  struct dc_segment s = {.n = (uint8_t)rnd(4), .local = rnd(2) != 0};
  if (rnd(20) == 0)
    s.n = (uint8_t)rnd(DC_SEG_MAX + 1);
  for (unsigned i = 0; i < s.n; i++)
    s.port[i] = (uint16_t)rnd(rnd(10) == 0 ? 0xffff : ports);
  return s;
}

/* A frame that is right, mostly. */
static size_t some_frame(uint8_t *p, size_t cap, uint16_t port, uint16_t ports)
{
  size_t front = 0;
  if (port != DC_PORT_HOST) {
    uint32_t label[4];
    unsigned labels = rnd(3) == 0 ? rnd(5) : 1;
    for (unsigned i = 0; i < labels; i++)
      label[i] = i + 1 == labels && rnd(4) != 0 ? DC_LABEL_LOCAL : DC_LABEL_ADJ + rnd(ports + 1u);
    write_stack(p, label, labels);
    front = stack_len(labels);
  }
  /* Few names, so that interests and data meet. */
  uint32_t tree = rnd(6), seq = rnd(40);
  if (rnd(2) == 0)
    return front + write_payload(p + front, tree, seq, (uint8_t)(rnd(8) == 0 ? DC_FLAG_DUP : 0), (uint16_t)rnd(700));
  struct asking a = {.tree = tree,
                     .seq = seq,
                     .flags = (uint8_t)(rnd(3) == 0 ? rnd(16) : 0),
                     .pass = rnd(4) == 0,
                     .lag = (uint8_t)rnd(256),
                     .cache = (uint8_t)(rnd(8) == 0 ? rnd(256) : 0),
                     .ret = some_segment(ports),
                     .fwd = some_segment(ports)};
  return front + write_asking(p + front, cap - front, &a);
}

static size_t spoil(uint8_t *p, size_t len, size_t cap)
{
  switch (rnd(6)) {
  case 0: /* some bytes */
    for (unsigned k = 1 + rnd(4); k > 0 && len > 0; k--)
      p[rnd((uint32_t)len)] = (uint8_t)rnd(256);
    return len;
  case 1: /* one bit */
    if (len > 0)
      p[rnd((uint32_t)len)] ^= (uint8_t)(1u << rnd(8));
    return len;
  case 2: /* cut */
    return rnd((uint32_t)len + 1);
  case 3: /* longer */
    len = len + rnd(100) < cap ? len + rnd(50) : len;
    return len;
  case 4: /* nothing of it is right */
    len = rnd(200);
    for (size_t i = 0; i < len; i++)
      p[i] = (uint8_t)rnd(256);
    return len;
  default:
    return len;
  }
}

static void check_sent(const struct bench *b, const struct dc_node_cfg *cfg)
{
  for (unsigned i = 0; i < b->n; i++) {
    const struct dc_tx *tx = &b->tx[i];
    assert(tx->port < cfg->ports || (tx->port == DC_PORT_HOST && cfg->endpoint));
    assert(tx->prefix_len <= DC_PREFIX_MAX && tx->buf != NULL);
    assert((size_t)tx->off + tx->len <= tx->buf->len);
    assert(tx->port == DC_PORT_HOST ? tx->prefix_len == 0 || tx->prefix_len == DC_HEADER_LEN
                                    : tx->prefix_len >= DC_ETHER_LEN);
  }
}

static void check_bounds(const struct bench *b, const struct dc_node_cfg *cfg)
{
  struct dc_node_counters c;
  struct dc_tree_counters t[16];
  dc_node_counters(b->node, &c);
  unsigned n = dc_node_tree_counters(b->node, t, 16);
  uint64_t bytes = 0, packets = 0;
  for (unsigned i = 0; i < n; i++) {
    assert(t[i].bytes <= cfg->cache_bytes_max && t[i].packets <= cfg->store_slots);
    assert(t[i].waiting <= cfg->waiting_slots && t[i].children <= DC_CHILDREN_MAX);
    bytes += t[i].bytes;
    packets += t[i].packets;
  }
  assert(n == c.trees && n <= cfg->trees && bytes == c.bytes && bytes <= cfg->memory_bytes);
  assert(cfg->memory_packets == 0 || packets <= cfg->memory_packets);
  assert((uint64_t)live_bufs == packets); /* every other buffer was given back */
}

static void storm(unsigned kind, uint32_t frames)
{
  struct dc_node_cfg cfg;
  dc_node_cfg_default(&cfg);
  cfg.ports = kind == 2 ? 1 : 4;
  cfg.endpoint = kind == 1;
  cfg.lone_port = kind == 2;
  cfg.trees = 4;
  cfg.store_slots = 16;
  cfg.waiting_slots = 16;
  cfg.cache_bytes = 2000;
  cfg.cache_bytes_max = 5000;
  cfg.memory_bytes = 6000;
  cfg.memory_packets = kind == 0 ? 12 : 0;
  cfg.idle = 20 * DC_MS;
  struct bench b = bench_of(cfg);

  static uint8_t p[4096];
  for (uint32_t i = 0; i < frames; i++) {
    b.now += rnd(50) == 0 ? rnd(200000000) : rnd(100000);
    uint16_t port = (uint16_t)rnd(cfg.ports);
    if (rnd(8) == 0)
      port = DC_PORT_HOST;
    else if (rnd(100) == 0)
      port = (uint16_t)rnd(0x10000);
    size_t len = some_frame(p, sizeof p, port, 4);
    if (rnd(3) == 0)
      len = spoil(p, len, sizeof p);
    give(&b, port, p, len);
    check_sent(&b, &cfg);
    if (i % 64 == 0) {
      bench_sent(&b);
      check_bounds(&b, &cfg);
    }
    if (rnd(5000) == 0)
      dc_node_wipe(b.node);
    if (rnd(20000) == 0) {
      bench_sent(&b);
      dc_node_clear(b.node);
      assert(live_bufs == 0);
    }
  }

  struct dc_node_counters c;
  dc_node_counters(b.node, &c);
  assert(c.interests > 0 && c.hits > 0 && c.data > 0); /* the storm got through, not only bounced */
  bench_close(&b);
}

int main(int argc, char **argv)
{
  state = argc > 1 ? strtoull(argv[1], NULL, 0) : 0x9e3779b97f4a7c15u;
  uint32_t frames = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : 100000;
  printf("garbage: seed 0x%llx, %u frames per kind of node\n", (unsigned long long)state, frames);
  if (state == 0)
    state = 1;
  for (unsigned kind = 0; kind < 3; kind++)
    storm(kind, frames);
  puts("garbage: ok");
  return 0;
}
