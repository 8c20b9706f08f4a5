/* Frames and buffers for the tests of the node: buffers that count their owners, and writers of whole frames. */
#ifndef DATACAST_TESTS_FRAMES_H
#define DATACAST_TESTS_FRAMES_H

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datacast/endpoint.h"
#include "datacast/node.h"

struct dc_buf {
  int refs;
  size_t len;
  uint8_t *data; /* its own allocation, of exactly len bytes: a read past the end is seen by ASan */
};

static int live_bufs;

static inline dc_buf *buf_new(const uint8_t *bytes, size_t len)
{
  dc_buf *b = malloc(sizeof *b);
  assert(b != NULL);
  b->refs = 1;
  b->len = len;
  b->data = malloc(len > 0 ? len : 1);
  assert(b->data != NULL);
  memcpy(b->data, bytes, len);
  live_bufs++;
  return b;
}

static inline void buf_ref(dc_buf *b)
{
  assert(b->refs > 0);
  b->refs++;
}

static inline void buf_unref(dc_buf *b)
{
  assert(b->refs > 0);
  if (--b->refs > 0)
    return;
  free(b->data);
  free(b);
  live_bufs--;
}

static const struct dc_buf_ops buf_ops = {buf_ref, buf_unref};

/* ---- segments and stops ---- */

#define SEG(is_local, ...)                                                                                             \
  ((struct dc_segment){                                                                                                \
      .n = sizeof((uint16_t[]){__VA_ARGS__}) / sizeof(uint16_t), .local = is_local, .port = {__VA_ARGS__}})
#define HERE(is_local) ((struct dc_segment){.n = 0, .local = is_local})

static const uint8_t ANY[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
static const uint8_t NOBODY[6];

static inline size_t write_route(uint8_t *p, size_t cap, const struct dc_stop *stop, unsigned n)
{
  size_t at = 0;
  for (unsigned i = 0; i < n; i++) {
    size_t len = dc_stop_write(p + at, cap - at, &stop[i]);
    assert(len > 0);
    at += len;
  }
  return at;
}

struct asking { /* an interest, as it reaches a waypoint */
  uint32_t tree, seq;
  uint8_t flags, lag, cache, more;
  bool pass; /* the waypoint does not store */
  struct dc_segment ret, fwd;
  struct dc_segment *next_ret; /* the source's return segment; port 9 when NULL */
};

/* From the Datacast header on: own stop, then the source's (or another waypoint's and the source's, when fwd.local). */
static inline size_t write_asking(uint8_t *p, size_t cap, const struct asking *a)
{
  struct dc_stop own = {.store = !a->pass, .ret = a->ret, .fwd = a->fwd};
  struct dc_stop source = {.ret = a->next_ret != NULL ? *a->next_ret : SEG(true, 9)};
  struct dc_header h = {.type = DC_TYPE_INTEREST,
                        .flags = a->flags,
                        .tree = a->tree,
                        .seq = a->seq,
                        .lag = a->lag,
                        .cache = a->cache,
                        .more = a->more,
                        .stops = 2};
  size_t at = DC_HEADER_LEN;
  at += dc_stop_write(p + at, cap - at, &own);
  if (a->fwd.local) {
    struct dc_stop between = {.store = true, .ret = SEG(true, 8), .fwd = SEG(false, 7)};
    at += dc_stop_write(p + at, cap - at, &between);
    h.stops++;
  }
  at += dc_stop_write(p + at, cap - at, &source);
  h.length = (uint16_t)(at - DC_HEADER_LEN);
  dc_header_write(p, &h);
  return at;
}

static inline size_t write_payload(uint8_t *p, uint32_t tree, uint32_t seq, uint8_t flags, uint16_t len)
{
  struct dc_header h = {.type = DC_TYPE_DATA, .flags = flags, .tree = tree, .seq = seq, .length = len};
  dc_header_write(p, &h);
  for (unsigned i = 0; i < len; i++)
    p[DC_HEADER_LEN + i] = (uint8_t)(seq * 31 + i);
  return DC_HEADER_LEN + (size_t)len;
}

/* ---- a node under test ---- */

struct bench {
  void *memory;
  dc_node *node;
  dc_time now;
  struct dc_tx tx[DC_NODE_TX_MAX];
  unsigned n;
};

static inline struct bench bench_of(struct dc_node_cfg cfg)
{
  const char *what;
  assert(dc_node_cfg_check(&cfg, &what) == 0);
  size_t size = dc_node_size(&cfg);
  struct bench b = {.memory = aligned_alloc(64, size), .now = DC_SEC};
  assert(b.memory != NULL);
  memset(b.memory, 0, size);
  b.node = dc_node_init(b.memory, &cfg, &buf_ops);
  assert(b.node != NULL);
  return b;
}

/* The frames of the last call are sent. */
static inline void bench_sent(struct bench *b)
{
  for (unsigned i = 0; i < b->n; i++)
    if (b->tx[i].buf != NULL)
      buf_unref(b->tx[i].buf);
  b->n = 0;
}

static inline void bench_close(struct bench *b)
{
  bench_sent(b);
  dc_node_clear(b->node);
  free(b->memory);
  assert(live_bufs == 0); /* every reference was given back */
}

static inline unsigned give(struct bench *b, uint16_t port, const uint8_t *bytes, size_t len)
{
  bench_sent(b);
  dc_buf *buf = buf_new(bytes, len);
  struct dc_frame f = {.buf = buf, .data = buf->data, .len = (uint32_t)len, .port = port};
  for (unsigned step = 0; step < DC_NODE_PREFETCH_STEPS; step++)
    dc_node_prefetch(b->node, &f, step); /* a hint: for any frame, and without effect */
  b->n = dc_node_handle(b->node, b->now, &f, b->tx, DC_NODE_TX_MAX);
  assert(b->n <= DC_NODE_TX_MAX);
  return b->n;
}

/* Ethernet and labels in front of what stands at p + front; returns the bytes in front. */
static inline size_t stack_len(unsigned labels) { return DC_ETHER_LEN + DC_LABEL_LEN * (size_t)labels; }

static inline void write_stack(uint8_t *p, const uint32_t *label, unsigned labels)
{
  dc_ether_write(p, ANY, NOBODY, labels > 0 ? DC_ETHERTYPE_MPLS : DC_ETHERTYPE_DATACAST);
  for (unsigned i = 0; i < labels; i++)
    dc_label_write(p + stack_len(i), label[i], i + 1 == labels);
}

static inline unsigned ask(struct bench *b, uint16_t port, const struct asking *a)
{
  uint8_t p[2048];
  size_t front = port == DC_PORT_HOST ? 0 : stack_len(1);
  if (front > 0)
    write_stack(p, (uint32_t[]){DC_LABEL_LOCAL}, 1);
  size_t n = write_asking(p + front, sizeof p - front, a);
  return give(b, port, p, front + n);
}

static inline unsigned answer(struct bench *b, uint16_t port, uint32_t tree, uint32_t seq, uint8_t flags, uint16_t len)
{
  static uint8_t p[70000];
  size_t front = port == DC_PORT_HOST ? 0 : stack_len(1);
  if (front > 0)
    write_stack(p, (uint32_t[]){DC_LABEL_LOCAL}, 1);
  size_t n = write_payload(p + front, tree, seq, flags, len);
  return give(b, port, p, front + n);
}

/* A frame as it would leave: prefix and the buffer's part. Returns its bytes. */
static inline size_t flatten(const struct dc_tx *tx, uint8_t *p, size_t cap)
{
  assert(tx->prefix_len <= DC_PREFIX_MAX && tx->prefix_len + (size_t)tx->len <= cap);
  memcpy(p, tx->prefix, tx->prefix_len);
  if (tx->buf != NULL) {
    assert((size_t)tx->off + tx->len <= tx->buf->len);
    memcpy(p + tx->prefix_len, tx->buf->data + tx->off, tx->len);
  }
  return tx->prefix_len + (size_t)tx->len;
}

/* A frame taken apart again. */
struct seen {
  uint16_t port;
  unsigned labels;
  uint32_t label[DC_SEG_MAX + 1];
  struct dc_header h;
  size_t rest_len;
  uint8_t rest[70000];
};

static inline void look(const struct dc_tx *tx, struct seen *s)
{
  static uint8_t p[70000];
  size_t len = flatten(tx, p, sizeof p), at = 0;
  s->port = tx->port;
  s->labels = 0;
  if (tx->port != DC_PORT_HOST) {
    bool mpls = p[12] == 0x88 && p[13] == 0x47, bottom = !mpls;
    assert(mpls || (p[12] == 0x88 && p[13] == 0xb5));
    for (at = DC_ETHER_LEN; !bottom; at += DC_LABEL_LEN)
      s->label[s->labels++] = dc_label_read(p + at, &bottom);
  }
  assert(dc_header_parse(p + at, len - at, &s->h) == DC_DROP_NONE);
  s->rest_len = s->h.length;
  memcpy(s->rest, p + at + DC_HEADER_LEN, s->rest_len);
}

static inline uint64_t dropped(const struct bench *b, enum dc_drop why)
{
  struct dc_node_counters c;
  dc_node_counters(b->node, &c);
  return c.drop[why];
}

static inline struct dc_tree_counters tree_count(const struct bench *b, uint32_t tree)
{
  struct dc_tree_counters c[64];
  unsigned n = dc_node_tree_counters(b->node, c, 64);
  for (unsigned i = 0; i < n; i++)
    if (c[i].tree == tree)
      return c[i];
  return (struct dc_tree_counters){.tree = tree};
}

#endif
