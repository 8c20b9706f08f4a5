/* A host that is the waypoint of what it sends itself: an interest goes through its node to its own source, and the answer back
 * through the node to who asked. */
#include "datapath/forward.h"

#include <string.h>

#include "datapath/tests/check.h"

enum { TREE = 7, SEQ = 3, PAYLOAD = 10 /* as a last piece may be: shorter than a header */ };

static struct loop loop;
static struct forward f;
static uint8_t in[256], out[2048];
static const uint8_t *in_whole; /* the frame stands there, and its head alone in `in` */
static uint32_t in_len, out_len;
static unsigned asked, sent;
static struct dc_segment back;

static void given(struct dc_buf *b) { (void)b; }

static unsigned arrive(struct netif *n, netif_rx_fn *fn, void *arg, unsigned budget)
{
  static struct dc_buf buf = {.give_back = given};
  struct dc_frame one = {.buf = &buf, .data = in, .len = in_len};
  (void)n, (void)budget;
  if (in_len == 0)
    return 0;
  in_len = 0;
  buf.refs = 1;
  buf.data = in;
  buf.whole = in_whole;
  fn(arg, &one, 1);
  return 1;
}

static int leave(struct netif *n, const struct dc_tx *tx, unsigned count)
{
  (void)n;
  CHECK(count == 1 && tx->buf != NULL);
  memcpy(out, tx->prefix, tx->prefix_len);
  memcpy(out + tx->prefix_len, tx->buf->data + tx->off, tx->len);
  out_len = tx->prefix_len + tx->len;
  sent++;
  return 1;
}

static void closed(struct netif *n) { (void)n; }

static void interest(struct endpoint *e, dc_time now, const struct dc_header *h, const struct dc_segment *ret)
{
  (void)now;
  CHECK(h->tree == TREE && h->seq == SEQ);
  back = *ret;
  asked++;
  forward_mark(e);
}

static bool answer(struct endpoint *e, dc_time now)
{
  const struct dc_header h = {.type = DC_TYPE_DATA, .tree = TREE, .seq = SEQ, .length = PAYLOAD};
  struct dc_buf *b = bufpool_get(&f.pool, DC_PREFIX_MAX + PAYLOAD);
  (void)e;
  CHECK(b != NULL);
  for (unsigned i = 0; i < PAYLOAD; i++)
    b->data[DC_PREFIX_MAX + i] = (uint8_t)i;
  CHECK(forward_data(&f, now, &back, &h, b, DC_PREFIX_MAX));
  return false;
}

static const struct endpoint_ops source = {.interest = interest, .poll = answer};

/* From the neighbour at port 0, with two stops: this host's node, which keeps what passes, and its endpoint. */
static void ask(void)
{
  static const uint8_t none[6];
  const struct dc_stop node = {.store = true, .ret = {.n = 1, .port = {0}}, .fwd = {.n = 0}},
                       end = {.ret = {.local = true}};
  uint8_t *route = in + DC_ETHER_LEN + DC_LABEL_LEN + DC_HEADER_LEN;
  size_t n = dc_stop_write(route, 64, &node);
  n += dc_stop_write(route + n, 64, &end);
  const struct dc_header h = {.type = DC_TYPE_INTEREST, .tree = TREE, .seq = SEQ, .stops = 2, .length = (uint16_t)n};
  dc_ether_write(in, none, none, DC_ETHERTYPE_MPLS);
  dc_label_write(in + DC_ETHER_LEN, DC_LABEL_LOCAL, true);
  dc_header_write(in + DC_ETHER_LEN + DC_LABEL_LEN, &h);
  in_len = (uint32_t)(DC_ETHER_LEN + DC_LABEL_LEN + DC_HEADER_LEN + n);
}

static void check_answer(void)
{
  struct dc_header h;
  CHECK(dc_header_parse(out + DC_ETHER_LEN, out_len - DC_ETHER_LEN, &h) == DC_DROP_NONE);
  CHECK(h.type == DC_TYPE_DATA && h.tree == TREE && h.seq == SEQ && h.length == PAYLOAD);
  CHECK(out_len == DC_ETHER_LEN + DC_HEADER_LEN + PAYLOAD);
  for (unsigned i = 0; i < PAYLOAD; i++)
    CHECK(out[DC_ETHER_LEN + DC_HEADER_LEN + i] == (uint8_t)i);
}

static void an_answer_goes_through_the_own_node_which_keeps_it(void)
{
  ask();
  forward_round(&f, loop.now);
  CHECK(asked == 1 && sent == 1);
  check_answer();
  out_len = 0;
  ask();
  forward_round(&f, loop.now);
  CHECK(asked == 1 && sent == 2);
  check_answer();
}

static unsigned taken;

static bool take(struct endpoint *e, dc_time now, const struct dc_header *h, const uint8_t *payload, uint16_t from)
{
  (void)e, (void)now;
  CHECK(h->tree == TREE && h->seq == SEQ && from == 0);
  for (unsigned i = 0; i < h->length; i++)
    CHECK(payload[i] == 0x5a);
  taken++;
  return true;
}

/* Its header is the copy's: the other side may have changed that in its memory meanwhile. */
static void a_payload_is_read_where_it_stands(void)
{
  static uint8_t theirs[DC_ETHER_LEN + DC_HEADER_LEN + 200];
  static const uint8_t none[6];
  struct dc_header h = {.type = DC_TYPE_DATA, .tree = TREE, .seq = SEQ, .length = 200};
  memset(in, 0, sizeof in);
  memset(theirs, 0x5a, sizeof theirs);
  dc_ether_write(in, none, none, DC_ETHERTYPE_DATACAST);
  dc_header_write(in + DC_ETHER_LEN, &h);
  in_whole = theirs;
  in_len = sizeof theirs;
  forward_round(&f, loop.now);
  CHECK(taken == 1);
  in_whole = NULL;
}

static bool frames_wait;
static unsigned told_awake, told_asleep;

static bool awake(struct netif *n, bool is)
{
  (void)n;
  *(is ? &told_awake : &told_asleep) += 1;
  return !is && frames_wait;
}

static void a_loop_that_sleeps_tells_its_ports(void)
{
  CHECK(!loop.sleeps(loop.arg, true) && told_asleep == 1 && told_awake == 0);
  CHECK(!loop.sleeps(loop.arg, false) && told_awake == 1);
  frames_wait = true;
  CHECK(loop.sleeps(loop.arg, true) && told_asleep == 2);
}

/* Short ones, of numbers 0 to n-1, asked for by port 0 and brought by port 1; those that are kept. */
static uint64_t keep(struct forward *at, unsigned n)
{
  static const uint8_t none[6];
  static struct dc_tx tx[DC_NODE_TX_MAX];
  const struct dc_stop node = {.store = true, .ret = {.n = 1, .port = {0}}, .fwd = {.n = 1, .port = {1}}},
                       end = {.ret = {.local = true}};
  struct dc_header h = {.type = DC_TYPE_INTEREST, .tree = TREE, .stops = 2};
  uint8_t *header = in + DC_ETHER_LEN + DC_LABEL_LEN;
  for (unsigned i = 0; i < 2 * n; i++) {
    struct dc_buf *b = bufpool_get(&at->pool, sizeof in);
    CHECK(b != NULL);
    dc_ether_write(in, none, none, DC_ETHERTYPE_MPLS);
    dc_label_write(in + DC_ETHER_LEN, DC_LABEL_LOCAL, true);
    h = (struct dc_header){.type = DC_TYPE_DATA, .tree = TREE, .seq = i / 2, .length = 100};
    if (i % 2 == 0) {
      size_t len = dc_stop_write(header + DC_HEADER_LEN, 64, &node);
      len += dc_stop_write(header + DC_HEADER_LEN + len, 64, &end);
      h = (struct dc_header){.type = DC_TYPE_INTEREST, .tree = TREE, .seq = i / 2, .stops = 2, .length = (uint16_t)len};
    }
    dc_header_write(header, &h);
    memcpy(b->data, in, sizeof in);
    struct dc_frame one = {.buf = b,
                           .data = b->data,
                           .len = (uint32_t)DC_ETHER_LEN + DC_LABEL_LEN + DC_HEADER_LEN + h.length,
                           .port = (uint16_t)(i % 2)};
    unsigned out_n = dc_node_handle(at->node.core, 1 + i, &one, tx, DC_NODE_TX_MAX);
    CHECK(out_n == 1);
    buf_unref(tx[0].buf);
  }
  struct dc_node_counters c;
  dc_node_counters(at->node.core, &c);
  return c.bytes / 100;
}

/* A tunnel that is yet to come may be one for long frames; while there is none, no memory is kept for these. */
static void a_cache_holds_as_many_packets_as_the_ports_there_are_may_bring(const struct netif_ops *ops)
{
  static struct netif slot = {.fd = -1, .mtu = 9216, .slot = true, .name = "slot"};
  static struct netif way[2] = {{.fd = -1, .mtu = 1400, .up = true}, {.fd = -1, .mtu = 1400, .up = true}};
  static struct netif jumbo = {.fd = -1, .mtu = 9000, .up = true};
  static const uint8_t neighbour[3][6];
  static struct forward at;
  const struct forward_cfg cfg = {
      .name = "at", .of = 1, .cache_bytes = 1 << 20, .cache_memory = 1 << 20, .cache_trees = 4, .no_hello = true};
  struct netif *ways[] = {&way[0], &way[1], &slot};
  struct fault why;
  slot.ops = way[0].ops = way[1].ops = jumbo.ops = ops;
  CHECK(forward_open(&at, &loop, &cfg, ways, neighbour, 3, &why));
  CHECK(keep(&at, 2000) == 2000);
  dc_node_wipe(at.node.core);
  forward_replace(&at, 2, &jumbo);
  uint64_t kept = keep(&at, 2000);
  CHECK(kept > 400 && kept < 600);
  forward_close(&at);
}

int main(void)
{
  static const struct netif_ops ops = {.rx = arrive, .send = leave, .close = closed, .awake = awake};
  static const struct endpoint_ops receiver = {.data = take};
  static struct netif way = {.ops = &ops, .fd = -1, .mtu = 1500, .up = true, .name = "way"};
  static const uint8_t neighbour[1][6];
  const struct forward_cfg cfg = {
      .name = "me", .of = 1, .cache_bytes = 1 << 16, .cache_memory = 1 << 20, .cache_trees = 4, .no_hello = true};
  struct netif *ways[] = {&way};
  struct endpoint end;
  struct fault why;
  CHECK(loop_open(&loop) == 0);
  CHECK(forward_open(&f, &loop, &cfg, ways, neighbour, 1, &why) && forward_add(&f, &end, TREE, &source));
  an_answer_goes_through_the_own_node_which_keeps_it();
  forward_remove(&end);
  CHECK(forward_add(&f, &end, TREE, &receiver));
  a_payload_is_read_where_it_stands();
  a_loop_that_sleeps_tells_its_ports();
  forward_remove(&end);
  forward_close(&f);
  a_cache_holds_as_many_packets_as_the_ports_there_are_may_bring(&ops);
  loop_close(&loop);
  puts("a host's own source: ok");
  return 0;
}
