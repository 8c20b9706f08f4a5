#include "packet.h"

#include <rte_errno.h>
#include <rte_mempool.h>
#include <string.h>

enum { CACHE = 256, SPARES = 64, HEADER_ROOM = RTE_PKTMBUF_HEADROOM + RTE_ALIGN_CEIL(DC_PREFIX_MAX, 64) };
_Static_assert(sizeof(struct packet_note) <= sizeof(((struct rte_mbuf *)NULL)->hash.usr), "a note fits");

static void buf_ref(dc_buf *buf) { rte_mbuf_refcnt_update((struct rte_mbuf *)buf, 1); }

/* What had no owner any more in this thread's round, mostly interests that were answered: the headers of their answers. The way into a
 * pool and out of it again is a tenth of an answer's instructions. */
static __thread struct {
  struct rte_mbuf *m[SPARES];
  unsigned n;
} spare;

static void buf_unref(dc_buf *buf)
{
  struct rte_mbuf *m = rte_pktmbuf_prefree_seg((struct rte_mbuf *)buf);
  if (m == NULL)
    return;
  if (spare.n < SPARES)
    spare.m[spare.n++] = m;
  else
    rte_mbuf_raw_free(m);
}

void packet_round_over(void)
{
  for (unsigned i = 0, end; i < spare.n; i = end) {
    struct rte_mempool *pool = spare.m[i]->pool;
    for (end = i + 1; end < spare.n && spare.m[end]->pool == pool;)
      end++;
    rte_mempool_put_bulk(pool, (void **)&spare.m[i], end - i);
  }
  spare.n = 0;
}

const struct dc_buf_ops packet_buf_ops = {.ref = buf_ref, .unref = buf_unref};

static size_t pool_bytes(uint32_t n, uint32_t room)
{
  struct rte_mempool_objsz sz;
  rte_mempool_calc_obj_size((uint32_t)sizeof(struct rte_mbuf) + room, 0, &sz);
  return (size_t)n * sz.total_size;
}

static uint32_t data_room(uint32_t frame_bytes) { return RTE_PKTMBUF_HEADROOM + RTE_ALIGN_CEIL(frame_bytes, 64); }

size_t packet_pools_bytes(uint32_t data, uint32_t headers, uint32_t frame_bytes)
{
  return pool_bytes(data, data_room(frame_bytes)) + pool_bytes(headers, HEADER_ROOM) + ((size_t)data + headers) * 32;
}

/* A stack, not a ring: the mbufs freed last are still in the processor's cache, and memory that is never needed is
 * never touched. */
static struct rte_mempool *pool_open(const char *name, uint32_t n, uint16_t room)
{
  return rte_pktmbuf_pool_create_by_ops(name, n, CACHE, 0, room, SOCKET_ID_ANY, "stack");
}

int packet_pools_open(struct packet_pools *p, uint32_t data, uint32_t headers, uint32_t frame_bytes, struct fault *f)
{
  *p = (struct packet_pools){0};
  p->data = pool_open("data", data, (uint16_t)data_room(frame_bytes));
  if (p->data != NULL)
    p->headers = pool_open("headers", headers, HEADER_ROOM);
  if (p->headers != NULL)
    return 0;
  fail(f,
       "cannot make the packet pools (%u packets of %u bytes, %zu MB): %s; raise eal.memory_mb or lower cache.memory",
       data, frame_bytes, packet_pools_bytes(data, headers, frame_bytes) >> 20, rte_strerror(rte_errno));
  packet_pools_close(p);
  return -1;
}

void packet_pools_close(struct packet_pools *p)
{
  packet_round_over();
  rte_mempool_free(p->headers);
  rte_mempool_free(p->data);
  p->data = p->headers = NULL;
}

static struct rte_mbuf *header_new(const struct packet_pools *p)
{
  if (spare.n == 0)
    return rte_pktmbuf_alloc(p->headers);
  struct rte_mbuf *m = spare.m[--spare.n];
  rte_pktmbuf_reset(m);
  return m;
}

static struct rte_mbuf *header_of(struct packet_pools *p, const struct dc_tx *tx)
{
  struct rte_mbuf *h = header_new(p);
  if (h == NULL)
    return NULL;
  packet_prefix(rte_pktmbuf_mtod(h, void *), tx);
  h->data_len = tx->prefix_len;
  h->pkt_len = tx->prefix_len;
  return h;
}

/* Show bytes [off, off+len) and nothing else. */
static void show(struct rte_mbuf *m, uint32_t off, uint32_t len)
{
  m->data_off = (uint16_t)off;
  m->data_len = (uint16_t)len;
  m->pkt_len = len;
}

static struct rte_mbuf *build_linear(struct packet_pools *p, struct rte_mbuf *m, const struct dc_tx *tx, uint32_t at)
{
  struct rte_mbuf *copy = rte_pktmbuf_alloc(p->data);
  if (copy == NULL)
    return NULL;
  show(copy, RTE_PKTMBUF_HEADROOM, tx->prefix_len + tx->len);
  uint8_t *out = rte_pktmbuf_mtod(copy, uint8_t *);
  memcpy(out, tx->prefix, tx->prefix_len);
  memcpy(out + tx->prefix_len, (const uint8_t *)m->buf_addr + at, tx->len);
  rte_pktmbuf_free_seg(m);
  return copy;
}

/* m as a second segment behind a header; its reference goes into the chain. */
static struct rte_mbuf *build_chain(struct packet_pools *p, struct rte_mbuf *m, const struct dc_tx *tx, uint32_t at)
{
  struct packet_note *note = packet_note(m);
  struct rte_mbuf *h = header_of(p, tx), *body = m;
  if (h == NULL)
    return NULL;
  if (note->published && (m->data_off != at || m->data_len != tx->len)) {
    body = rte_pktmbuf_alloc(p->headers);
    if (body == NULL) {
      rte_pktmbuf_free(h);
      return NULL;
    }
    rte_pktmbuf_attach(body, m);
    rte_pktmbuf_free_seg(m); /* the indirect mbuf holds its own reference */
    show(body, at, tx->len);
    p->counters.cloned++;
  } else {
    show(m, at, tx->len);
    note->published = 1;
    p->counters.shared++;
  }
  h->next = body;
  h->nb_segs = 2;
  h->pkt_len += tx->len;
  return h;
}

struct rte_mbuf *packet_build_apart(struct packet_pools *p, const struct dc_tx *tx, bool linear)
{
  struct rte_mbuf *m = (struct rte_mbuf *)tx->buf, *out;
  if (m == NULL || tx->len == 0) {
    out = header_of(p, tx);
    if (m != NULL)
      rte_pktmbuf_free_seg(m);
    if (out == NULL)
      p->counters.no_mbuf++;
    else
      p->counters.bare++;
    return out;
  }
  uint32_t at = packet_note(m)->first + tx->off;
  out = linear ? build_linear(p, m, tx, at) : build_chain(p, m, tx, at);
  if (out == NULL) {
    rte_pktmbuf_free_seg(m);
    p->counters.no_mbuf++;
  } else if (linear) {
    p->counters.linear++;
    p->counters.bytes_copied += tx->len;
  } else {
    p->counters.bytes_referenced += tx->len;
  }
  return out;
}
