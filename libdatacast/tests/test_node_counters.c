/* The node's counters beside a count of one's own; and what a frame that leaves says of where it came from. */
#include "nodes.h"

enum { PORTS = 8 };
static struct dc_port_counters port[PORTS];

/* As give, and what came and went is counted here as well. */
static unsigned counted(struct bench *b, uint16_t by, const uint8_t *p, size_t len)
{
  static struct seen seen;
  unsigned n = give(b, by, p, len);
  if (by < PORTS) {
    port[by].rx_frames++;
    port[by].rx_bytes += len;
  }
  for (unsigned i = 0; i < n; i++) {
    if (b->tx[i].port == DC_PORT_HOST)
      continue;
    struct dc_port_counters *c = &port[b->tx[i].port];
    look(&b->tx[i], &seen);
    c->tx_frames++;
    c->tx_bytes += b->tx[i].prefix_len + b->tx[i].len;
    c->tx_data += seen.h.type == DC_TYPE_DATA;
    c->tx_data_payload += seen.h.type == DC_TYPE_DATA ? seen.rest_len : 0;
    assert(b->tx[i].from == DC_PORT_HOST);
  }
  for (uint16_t i = 0; i < PORTS; i++) {
    struct dc_port_counters c;
    dc_node_port_counters(b->node, i, &c);
    assert(memcmp(&c, &port[i], sizeof c) == 0);
  }
  return n;
}

static unsigned asks(struct bench *b, uint16_t k, uint32_t seq, uint8_t more, uint8_t flags)
{
  uint8_t p[500];
  struct asking a = from_child(k, 1, seq);
  a.more = more;
  a.flags = flags;
  write_stack(p, (uint32_t[]){DC_LABEL_LOCAL}, 1);
  return counted(b, k, p, stack_len(1) + write_asking(p + stack_len(1), sizeof p - stack_len(1), &a));
}

static unsigned comes(struct bench *b, uint32_t seq, uint8_t flags, uint16_t len)
{
  uint8_t p[2000];
  write_stack(p, (uint32_t[]){DC_LABEL_LOCAL}, 1);
  return counted(b, 7, p, stack_len(1) + write_payload(p + stack_len(1), 1, seq, flags, len));
}

static void all_that_a_node_does_is_counted_once(void)
{
  struct dc_node_cfg cfg = a_switch();
  struct bench b = bench_of(cfg);
  memset(port, 0, sizeof port);
  assert(asks(&b, 1, 0, 3, 0) == 1 && asks(&b, 2, 0, 0, 0) == 0);
  b.now += cfg.retx_min;
  assert(asks(&b, 1, 0, 0, DC_FLAG_RETX) == 1);
  assert(comes(&b, 0, 0, 1000) == 2 && comes(&b, 1, DC_FLAG_DUP, 500) == 1);
  assert(asks(&b, 2, 0, 0, 0) == 1 && asks(&b, 1, 0, 0, 0) == 1); /* hits */
  for (uint32_t seq = 10; seq < 19; seq++)
    assert(asks(&b, 1, seq, 0, 0) == 1 && comes(&b, seq, 0, 1000) == 1);
  uint8_t p[200];
  write_stack(p, (uint32_t[]){DC_LABEL_ADJ + 3, DC_LABEL_LOCAL}, 2);
  size_t len = stack_len(2) + write_payload(p + stack_len(2), 9, 5, 0, 60);
  assert(counted(&b, 1, p, len) == 1 && counted(&b, 2, p, len) == 1);
  assert(counted(&b, 3, p, len) == 0); /* back to where it came from */
  assert(comes(&b, 77, 0, 100) == 0);

  struct dc_node_counters n;
  dc_node_counters(b.node, &n);
  assert(n.forwarded == 2 && n.interests == 17 && n.hits == 2 && n.data == 11 && n.to_endpoint == 0);
  assert(n.trees_evicted == 0 && n.trees == 1 && n.bytes == 8000);
  for (unsigned why = 0; why < DC_DROP_MAX; why++)
    assert(n.drop[why] == (why == DC_DROP_UTURN || why == DC_DROP_UNWANTED));
  struct dc_tree_counters t = tree_count(&b, 1);
  assert(t.interests == 17 && t.hits == 2 && t.misses == 13 && t.aggregated == 1 && t.retx_forwarded == 1);
  assert(t.data == 11 && t.dup_data == 1 && t.stored == 10 && t.evicted == 2 && t.replicated == 12);
  assert(t.bytes == 8000 && t.packets == 8 && t.waiting == 2 && t.children == 2);
  bench_close(&b);
}

/* What goes to an endpoint names the port by which it came, and has nothing in front, whatever the frame before had. */
static void an_endpoint_is_told_by_which_port_a_frame_came(void)
{
  struct bench b = bench_of(a_host());
  uint8_t p[400], q[400];
  struct dc_node_counters n;
  write_stack(q, (uint32_t[]){DC_LABEL_ADJ, DC_LABEL_LOCAL}, 2);
  size_t passing = stack_len(2) + write_payload(q + stack_len(2), 9, 5, 0, 60);
  for (unsigned labels = 0; labels < 2; labels++) { /* for it alone; past its node */
    write_stack(p, (uint32_t[]){DC_LABEL_LOCAL}, labels);
    size_t len = stack_len(labels) + write_payload(p + stack_len(labels), 1, 5, 0, 200);
    assert(give(&b, 1, q, passing) == 1 && b.tx[0].prefix_len == DC_ETHER_LEN && b.tx[0].from == DC_PORT_HOST);
    assert(give(&b, 1, p, len) == 1);
    const struct dc_tx *tx = &b.tx[0];
    assert(tx->port == DC_PORT_HOST && tx->from == 1 && tx->prefix_len == 0);
    assert(tx->off == stack_len(labels) && tx->len == DC_HEADER_LEN + 200);
    dc_node_counters(b.node, &n);
    assert(n.to_endpoint == labels + 1 && n.forwarded == labels + 1);
  }
  bench_close(&b);
}

/* Whoever has no room for what a frame may cause is answered nothing, and keeps nothing. */
static void a_frame_needs_room_for_all_that_it_may_cause(void)
{
  struct bench b = bench_of(a_switch());
  uint8_t p[200];
  write_stack(p, (uint32_t[]){DC_LABEL_ADJ + 3, DC_LABEL_LOCAL}, 2);
  size_t len = stack_len(2) + write_payload(p + stack_len(2), 9, 5, 0, 60);
  dc_buf *buf = buf_new(p, len);
  struct dc_frame f = {.buf = buf, .data = buf->data, .len = (uint32_t)len, .port = 1};
  assert(dc_node_handle(b.node, b.now, &f, b.tx, DC_NODE_TX_MAX - 1) == 0);
  assert(live_bufs == 0 && dropped(&b, DC_DROP_QUEUE) == 1);
  assert(give(&b, 1, p, len) == 1 && dropped(&b, DC_DROP_QUEUE) == 1);
  bench_close(&b);
}

int main(void)
{
  all_that_a_node_does_is_counted_once();
  an_endpoint_is_told_by_which_port_a_frame_came();
  a_frame_needs_room_for_all_that_it_may_cause();
  puts("node, counters: ok");
  return 0;
}
