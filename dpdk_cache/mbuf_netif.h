/* Frames of the switch, which are mbufs, over a netif of the data path (memory that is shared with a neighbour). */
#ifndef SWITCH_MBUF_NETIF_H
#define SWITCH_MBUF_NETIF_H

#include "datapath/netif.h"
#include "packet.h"

/* Frames that arrived, copied: they are the callee's. At most NETIF_BURST. */
typedef void mbuf_netif_rx_fn(void *arg, struct rte_mbuf **m, unsigned n);

/* Hand over some `budget` frames. Returns how many there were. */
unsigned mbuf_netif_receive(struct netif *n, struct packet_pools *pools, mbuf_netif_rx_fn *fn, void *arg,
                            unsigned budget) __attribute__((nonnull(1, 2, 3)));
/* Send frames in their order. Returns how many are gone; they were freed. *lost: of these, what the way did not take. */
unsigned mbuf_netif_send(struct netif *n, struct rte_mbuf **m, unsigned count, uint64_t *lost) __attribute__((nonnull));

#endif
