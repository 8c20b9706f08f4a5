/* libFuzzer: a run of frames at a node. The input is a script: one byte chooses the kind of node, then come steps.
 *
 *   0x00..0x7f  raw frame: port, length (1 byte), that many bytes
 *   0x80..0xbf  interest under LOCAL: port, tree, seq, flags, how many more, ret port, fwd port
 *   0xc0..0xef  data under LOCAL: port, tree, seq, flags, length
 *   0xf0..0xfd  time goes on: one byte, in units of 2^(low 4 bits) times 16 us
 *   0xfe        wipe;  0xff  clear
 */
#include <string.h>

#include "datacast/endpoint.h"
#include "datacast/node.h"
#include "script.h"

struct dc_buf {
  unsigned refs;
  size_t len;
  uint8_t *data;
};

static size_t live;

static dc_buf *buf_new(const uint8_t *p, size_t len)
{
  dc_buf *b = malloc(sizeof *b);
  MUST(b != NULL);
  *b = (dc_buf){.refs = 1, .len = len, .data = malloc(len > 0 ? len : 1)};
  MUST(b->data != NULL);
  memcpy(b->data, p, len);
  live++;
  return b;
}

static void ref(dc_buf *b)
{
  MUST(b->refs > 0);
  b->refs++;
}

static void unref(dc_buf *b)
{
  MUST(b->refs > 0);
  if (--b->refs > 0)
    return;
  free(b->data);
  free(b);
  live--;
}

static const struct dc_buf_ops ops = {ref, unref};
static const uint8_t MAC[6];

static struct dc_node_cfg cfg;
static dc_node *node;
static dc_time now;

static void give(uint16_t port, const uint8_t *p, size_t len)
{
  static struct dc_tx tx[DC_NODE_TX_MAX];
  dc_buf *b = buf_new(p, len);
  struct dc_frame f = {.buf = b, .data = b->data, .len = (uint32_t)len, .port = port};
  unsigned n = dc_node_handle(node, now, &f, tx, DC_NODE_TX_MAX);
  MUST(n <= DC_NODE_TX_MAX);
  for (unsigned i = 0; i < n; i++) {
    MUST(tx[i].port < cfg.ports || (tx[i].port == DC_PORT_HOST && cfg.endpoint));
    MUST(tx[i].prefix_len <= DC_PREFIX_MAX && (size_t)tx[i].off + tx[i].len <= tx[i].buf->len);
    unref(tx[i].buf);
  }
}

static size_t local(uint8_t *p, uint16_t port)
{
  if (port == DC_PORT_HOST)
    return 0;
  dc_ether_write(p, MAC, MAC, DC_ETHERTYPE_MPLS);
  dc_label_write(p + DC_ETHER_LEN, DC_LABEL_LOCAL, true);
  return DC_ETHER_LEN + DC_LABEL_LEN;
}

static uint16_t port_of(uint8_t byte) { return byte == 0xff ? DC_PORT_HOST : byte % 6; }

static struct dc_segment segment(uint8_t byte)
{
  struct dc_segment s = {.n = byte % 4, .local = (byte & 4) != 0};
  for (unsigned i = 0; i < s.n; i++)
    s.port[i] = (uint16_t)((byte >> 3) + i) % 6;
  return s;
}

static void interest(struct script *s)
{
  uint8_t p[512];
  uint16_t port = port_of(next(s));
  size_t front = local(p, port), at = front + DC_HEADER_LEN;
  struct dc_header h = {.type = DC_TYPE_INTEREST, .stops = 2};
  h.tree = next(s);
  h.seq = next(s);
  h.flags = next(s);
  h.lag = h.flags;
  h.cache = h.flags >> 4;
  h.more = h.flags & 0x40 ? next(s) : 0;
  struct dc_stop own = {.store = (h.seq & 1) == 0}, source = {0};
  own.ret = segment(next(s));
  own.fwd = segment(next(s));
  at += dc_stop_write(p + at, sizeof p - at, &own);
  at += dc_stop_write(p + at, sizeof p - at, &source);
  h.length = (uint16_t)(at - front - DC_HEADER_LEN);
  dc_header_write(p + front, &h);
  give(port, p, at);
}

static void data(struct script *s)
{
  uint8_t p[512] = {0};
  uint16_t port = port_of(next(s));
  size_t front = local(p, port);
  struct dc_header h = {.type = DC_TYPE_DATA};
  h.tree = next(s);
  h.seq = next(s);
  h.flags = next(s);
  h.length = next(s);
  dc_header_write(p + front, &h);
  give(port, p, front + DC_HEADER_LEN + h.length);
}

static void raw(struct script *s)
{
  uint16_t port = port_of(next(s));
  size_t len = next(s), there = (size_t)(s->end - s->p);
  if (len > there)
    len = there;
  give(port, s->p, len);
  s->p += len;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
  struct script s = {p, p + len};
  uint8_t kind = next(&s);
  dc_node_cfg_default(&cfg);
  cfg.ports = kind % 3 == 2 ? 1 : 4;
  cfg.endpoint = kind % 3 == 1;
  cfg.lone_port = kind % 3 == 2;
  cfg.trees = 3;
  cfg.store_slots = 8;
  cfg.waiting_slots = 8;
  cfg.cache_bytes = 1000;
  cfg.cache_bytes_max = 6000;
  cfg.memory_bytes = 1500;
  cfg.memory_packets = (kind & 0x40) != 0 ? 6 : 0;
  cfg.idle = 20 * DC_MS;
  size_t size = dc_node_size(&cfg);
  void *memory = aligned_alloc(64, size);
  MUST(memory != NULL);
  memset(memory, 0, size);
  node = dc_node_init(memory, &cfg, &ops);
  MUST(node != NULL);
  now = DC_SEC;

  while (s.p < s.end) {
    uint8_t op = next(&s);
    if (op < 0x80)
      raw(&s);
    else if (op < 0xc0)
      interest(&s);
    else if (op < 0xf0)
      data(&s);
    else if (op < 0xfe)
      now += (dc_time)next(&s) << (op & 15) << 14;
    else if (op == 0xfe)
      dc_node_wipe(node);
    else
      dc_node_clear(node);
    struct dc_node_counters c;
    dc_node_counters(node, &c);
    MUST(c.bytes <= cfg.memory_bytes && c.trees <= cfg.trees);
  }
  dc_node_clear(node);
  MUST(live == 0);
  free(memory);
  return 0;
}
