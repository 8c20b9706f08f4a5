/* Frames of the switch, which are mbufs, over a netif of the data path (memory that is shared with a neighbour). */
#ifndef SWITCH_MBUF_NETIF_H
#define SWITCH_MBUF_NETIF_H

#include "datapath/netif.h"
#include "packet.h"

/* Frames that arrived, copied: they are the callee's. At most NETIF_BURST. */
typedef void mbuf_netif_rx_fn(void *arg, struct rte_mbuf **m, unsigned n);

struct mbuf_netif_rx {
  struct packet_pools *pools;
  uint32_t longest; /* frame; longer ones are counted and dropped */
  uint64_t *oversized;
  mbuf_netif_rx_fn *fn;
  void *arg;
};

/* Hand over some `budget` frames. Returns how many there were. */
unsigned mbuf_netif_receive(struct netif *n, const struct mbuf_netif_rx *rx, unsigned budget) __attribute__((nonnull));
/* Send frames in their order. Returns how many are gone; they were freed. Of these, *full grows by data for which the way's queue had
 * no place, *lost by what the way does not take at all. */
unsigned mbuf_netif_send(struct netif *n, struct rte_mbuf **m, unsigned count, uint64_t *full, uint64_t *lost)
    __attribute__((nonnull));

#endif
