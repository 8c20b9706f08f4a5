/* The node: a burst of frames does what its frames do one by one, and the store's ring grows with what is in it. */
#include "nodes.h"

enum { BURST = 48, CAP = 2 * DC_NODE_TX_MAX };

static uint32_t next_random(uint32_t *state)
{
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

/* Interests of some children and data for them, in some trees, some of it malformed. */
static size_t any_frame(uint32_t *state, uint32_t trees, uint8_t *p, size_t cap, uint16_t *port)
{
  uint32_t r = next_random(state), tree = r % trees, seq = next_random(state) % (600 / trees);
  write_stack(p, (uint32_t[]){DC_LABEL_LOCAL}, 1);
  size_t at = stack_len(1);
  if (r & 64) {
    *port = 7;
    return at + write_payload(p + at, tree, seq, 0, 300);
  }
  struct asking a = from_child((uint16_t)(r >> 8 & 3), tree, seq);
  a.more = r & 32 ? (uint8_t)(r >> 12 & 63) : 0;
  a.flags = r & 16 ? DC_FLAG_RETX : 0;
  *port = a.ret.port[0];
  at += write_asking(p + at, cap - at, &a);
  return r % 50 == 0 ? at - 5 : at;
}

/* What leaves, as one number. */
static uint64_t fold(uint64_t sum, const struct dc_tx *tx)
{
  static uint8_t p[70000];
  size_t n = flatten(tx, p, sizeof p);
  sum = sum * 31 + tx->port;
  for (size_t i = 0; i < n; i++)
    sum = sum * 1099511628211u + p[i];
  return sum;
}

/* The EtherType beside it, in place of a header. */
static void apart(struct dc_frame *f, uint8_t *data)
{
  f->ethertype = dc_get16(data + DC_ETHER_LEN - 2);
  memset(data, 0xff, DC_ETHER_LEN);
}

/* Few trees: nothing is fetched ahead; many: it is. */
static void a_burst_does_what_its_frames_do_one_by_one(uint32_t trees)
{
  const unsigned most = 1300 * trees;
  struct dc_node_cfg cfg = a_switch();
  cfg.trees = trees;
  struct bench one = bench_of(cfg), many = bench_of(cfg);
  static struct dc_tx out[CAP];
  uint8_t p[2048];
  uint32_t state = 7, burst = 1;
  uint64_t sum = 0, sum_many = 0, frames = 0;
  for (unsigned i = 0; i < most;) {
    struct dc_frame frame[BURST];
    unsigned n = 0;
    for (; n < burst; n++, i++) {
      uint16_t port;
      size_t len = any_frame(&state, trees, p, sizeof p, &port);
      dc_buf *b = buf_new(p, len);
      frame[n] = (struct dc_frame){.buf = b, .data = b->data, .len = (uint32_t)len, .port = port};
      if (i % 3 == 0 && port != DC_PORT_HOST && len >= DC_ETHER_LEN)
        apart(&frame[n], b->data);
      give(&one, port, p, len);
      for (unsigned k = 0; k < one.n; k++)
        sum = fold(sum, &one.tx[k]);
    }
    for (unsigned done = 0, sent; done < n;) { /* it may stop for want of room */
      unsigned handled = dc_node_handle_burst(many.node, many.now, frame + done, n - done, out, CAP, &sent);
      assert(handled > 0 && sent <= CAP);
      done += handled;
      frames += sent;
      for (unsigned k = 0; k < sent; k++) {
        sum_many = fold(sum_many, &out[k]);
        if (out[k].buf != NULL)
          buf_unref(out[k].buf);
      }
    }
    one.now += DC_MS;
    many.now += DC_MS;
    burst = burst % BURST + 1;
  }
  assert(frames > most / 2 && sum == sum_many);
  struct dc_node_counters a, b;
  dc_node_counters(one.node, &a);
  dc_node_counters(many.node, &b);
  assert(memcmp(&a, &b, sizeof a) == 0 && a.hits > 100 && a.data > 100 && a.trees > trees * 9 / 10);
  bench_sent(&one);
  dc_node_clear(one.node);
  free(one.memory);
  bench_close(&many);
}

/* From one packet to as many as the store may hold and back, whatever the order: what is there is found. */
static void the_ring_grows_with_what_is_in_it(void)
{
  struct dc_node_cfg cfg = a_switch();
  cfg.store_slots = 4096;
  cfg.cache_bytes = cfg.cache_bytes_max = 64 * 1024;
  struct bench b = bench_of(cfg);
  for (uint32_t seq = 0; seq < 3000; seq++) {
    uint16_t len = seq < 1000 ? 4000 : seq < 2000 ? 100 : 64;
    child_asks(&b, 1, 1, seq, 0);
    assert(answer(&b, 7, 1, seq, 0, len) == 1);
    struct dc_tree_counters t = tree_count(&b, 1);
    assert(t.packets >= 1 && t.bytes <= cfg.cache_bytes);
    if (seq < 1000)
      assert(t.packets == (seq < 16 ? seq + 1 : 16));
    if (seq % 97 == 0)
      for (uint32_t back = 0; back < t.packets; back++) { /* the newest ones, all of them, and none before */
        assert(child_asks(&b, 2, 1, seq - back, 0) == 1 && b.tx[0].port == 2);
        look(&b.tx[0], &(struct seen){0});
      }
  }
  assert(tree_count(&b, 1).packets > 600);
  bench_close(&b);
}

int main(void)
{
  a_burst_does_what_its_frames_do_one_by_one(3);
  a_burst_does_what_its_frames_do_one_by_one(100);
  the_ring_grows_with_what_is_in_it();
  puts("node, burst: ok");
  return 0;
}
