#include "mbuf_netif.h"

#include <errno.h>
#include <string.h>

struct arrival {
  struct packet_pools *pools;
  mbuf_netif_rx_fn *fn;
  void *arg;
};

static void copy_in(void *arg, struct dc_frame *frame, unsigned n)
{
  struct arrival *a = arg;
  struct rte_mbuf *m[NETIF_BURST];
  unsigned kept = 0;
  for (unsigned i = 0; i < n; i++) {
    struct rte_mbuf *x = rte_pktmbuf_alloc(a->pools->data);
    if (x != NULL && frame[i].len <= rte_pktmbuf_tailroom(x)) {
      memcpy(rte_pktmbuf_mtod(x, void *), frame[i].data, frame[i].len);
      x->data_len = (uint16_t)frame[i].len;
      x->pkt_len = frame[i].len;
      m[kept++] = x;
    } else {
      a->pools->counters.no_mbuf++;
      rte_pktmbuf_free(x);
    }
    buf_unref(frame[i].buf);
  }
  if (kept > 0)
    a->fn(a->arg, m, kept);
}

unsigned mbuf_netif_receive(struct netif *n, struct packet_pools *pools, mbuf_netif_rx_fn *fn, void *arg,
                            unsigned budget)
{
  struct arrival a = {.pools = pools, .fn = fn, .arg = arg};
  return n->ops->rx(n, copy_in, &a, budget);
}

/* A frame as packet_build leaves it: in one piece, or a header that fits a prefix and one piece. False: it is neither. */
static bool show(struct rte_mbuf *m, struct dc_tx *tx, struct dc_buf *shown)
{
  struct rte_mbuf *body = m;
  tx->prefix_len = 0;
  if (m->nb_segs == 2 && m->data_len <= sizeof tx->prefix) {
    memcpy(tx->prefix, rte_pktmbuf_mtod(m, void *), m->data_len);
    tx->prefix_len = m->data_len;
    body = m->next;
  } else if (m->nb_segs != 1) {
    return false;
  }
  shown->data = rte_pktmbuf_mtod(body, uint8_t *);
  tx->buf = shown;
  tx->off = 0;
  tx->len = body->data_len;
  return true;
}

unsigned mbuf_netif_send(struct netif *n, struct rte_mbuf **m, unsigned count, uint64_t *lost)
{
  struct dc_tx tx[NETIF_BURST];
  struct dc_buf shown[NETIF_BURST];
  unsigned gone = 0;
  while (gone < count) {
    unsigned k = 0;
    while (k < NETIF_BURST && gone + k < count && show(m[gone + k], &tx[k], &shown[k]))
      k++;
    int sent = k == 0 ? -EMSGSIZE : n->ops->send(n, tx, k);
    if (sent == -EINTR)
      continue;
    if (sent == -EAGAIN || sent == -ENOBUFS || sent == -ENOMEM)
      break;
    if (sent < 0) {
      ++*lost;
      sent = 1;
    }
    rte_pktmbuf_free_bulk(m + gone, (unsigned)sent);
    gone += (unsigned)sent;
  }
  return gone;
}
