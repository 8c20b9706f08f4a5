#include "mbuf_netif.h"

#include <errno.h>
#include <string.h>

#include "datapath/backlog.h"

static struct rte_mbuf *copy_of(const struct mbuf_netif_rx *rx, const struct dc_frame *frame)
{
  if (frame->len > rx->longest) {
    ++*rx->oversized;
    return NULL;
  }
  struct rte_mbuf *m = rte_pktmbuf_alloc(rx->pools->data);
  char *to = m == NULL ? NULL : rte_pktmbuf_append(m, (uint16_t)frame->len);
  if (to == NULL) {
    rx->pools->counters.no_mbuf++;
    rte_pktmbuf_free(m);
    return NULL;
  }
  frame_copy((uint8_t *)to, frame);
  return m;
}

static void copy_in(void *arg, struct dc_frame *frame, unsigned n)
{
  const struct mbuf_netif_rx *rx = arg;
  struct rte_mbuf *m[NETIF_BURST];
  unsigned kept = 0;
  for (unsigned i = 0; i < n; i++) {
    m[kept] = copy_of(rx, &frame[i]);
    kept += m[kept] != NULL;
    buf_unref(frame[i].buf);
  }
  if (kept > 0)
    rx->fn(rx->arg, m, kept);
}

unsigned mbuf_netif_receive(struct netif *n, const struct mbuf_netif_rx *rx, unsigned budget)
{
  return n->ops->rx(n, copy_in, (void *)(uintptr_t)rx, budget);
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

unsigned mbuf_netif_send(struct netif *n, struct rte_mbuf **m, unsigned count, uint64_t *full, uint64_t *lost)
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
    /* Data that the queueing discipline has no place for is lost, as everybody's there (datapath/netport.h). */
    if (sent == -EAGAIN || sent == -ENOMEM || (sent == -ENOBUFS && tx_goes_first(&tx[0])))
      break;
    if (sent < 0) {
      ++*(sent == -ENOBUFS ? full : lost);
      sent = 1;
    }
    rte_pktmbuf_free_bulk(m + gone, (unsigned)sent);
    gone += (unsigned)sent;
  }
  return gone;
}
