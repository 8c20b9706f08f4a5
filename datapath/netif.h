/* One data port's way in and out. AF_PACKET is behind it now; another one (AF_XDP) needs these three functions. */
#ifndef DATAPATH_NETIF_H
#define DATAPATH_NETIF_H

#include <net/if.h>
#include <stdbool.h>

#include "datapath/bufpool.h"
#include "datapath/log.h"

struct netif;

/* A frame arrived: buf (lent, one reference, now the callee's) with data at buf->data. */
typedef void netif_rx_fn(void *arg, struct dc_buf *buf, uint32_t len);

struct netif_ops {
  /* Hand over up to `budget` frames. Returns their number. */
  unsigned (*rx)(struct netif *n, netif_rx_fn *fn, void *arg, unsigned budget);
  /* Send frames (prefix, then the buffer's bytes), in order; references stay with the caller. Returns how many the
   * kernel took (at least 1), or -errno for the first one: -EAGAIN and -ENOBUFS mean later, -ENETDOWN no link. */
  int (*send)(struct netif *n, const struct dc_tx *tx, unsigned count);
  void (*close)(struct netif *n);
};

struct netif {
  const struct netif_ops *ops;
  int fd; /* for epoll: readable when frames wait, writable when frames can be sent */
  char name[IF_NAMESIZE];
  int ifindex;
  uint8_t mac[6];
  uint32_t mtu;
  bool up; /* carrier, as it was opened */
  uint64_t rx_truncated; /* longer than the ring's slots */
};

/* Open an interface. NULL with *why set. */
struct netif *afpacket_open(const char *name, struct fault *why) __attribute__((nonnull));

#endif
