/* One data port's way in and out: a packet socket on a cable (tpacket.c), a tunnel (tunnel.c), memory shared with a
 * neighbour on the same machine (memif.c). */
#ifndef DATAPATH_NETIF_H
#define DATAPATH_NETIF_H

#include <net/if.h>
#include <stdbool.h>

#include "datapath/bufpool.h"
#include "datapath/log.h"

struct netif;

/* A burst of frames, NETIF_BURST at most: each buf is lent with one reference, now the callee's. `port` is the callee's to set. */
typedef void netif_rx_fn(void *arg, struct dc_frame *frame, unsigned n);
enum { NETIF_BURST = 32 };

struct netif_ops {
  /* Hand over some `budget` frames. Returns their number; less than the budget: nothing more waits. */
  unsigned (*rx)(struct netif *n, netif_rx_fn *fn, void *arg, unsigned budget);
  /* Send frames (prefix, then the buffer's bytes), in order; references stay with the caller. Returns how many the
   * kernel took (at least 1), or -errno for the first one: -EAGAIN and -ENOBUFS mean later, -ENETDOWN no link. */
  int (*send)(struct netif *n, const struct dc_tx *tx, unsigned count);
  void (*close)(struct netif *n);
  /* Its fd is readable: more than frames may be behind that. NULL: nothing to do. */
  void (*ready)(struct netif *n);
  /* The kernel's interface is gone: go on with the one that bears its name now, if its MTU is `least` or more. False: not so. NULL: it
   * has no such interface. */
  bool (*again)(struct netif *n, uint32_t least);
  /* Frames that found the receive ring or the socket full since the last call; of a tunnel, trains of them. NULL: not counted. */
  uint64_t (*missed)(struct netif *n);
  /* Who receives is awake anyway, and wants no wake-ups until further notice; or they are about to sleep, and it is true that they need
   * not: frames wait, and nobody wakes them for these. NULL: wake-ups cost the sender nothing. */
  bool (*awake)(struct netif *n, bool awake);
};

struct netif {
  const struct netif_ops *ops;
  int fd; /* for epoll: readable when frames wait, writable when frames can be sent */
  char name[64];
  int ifindex;
  uint8_t mac[6];
  uint32_t mtu;
  bool up;               /* carrier, as it was opened */
  bool tells_carrier;    /* `up` is kept current; of others the kernel tells it */
  bool full_hello;       /* hellos as long as the link's MTU: a path that carries less is no link */
  bool ipv6;             /* a tunnel's network */
  bool slot;             /* for a tunnel that is yet to come: its mtu is the most that one may have */
  uint64_t rx_truncated; /* longer than the ring's slots */
  uint64_t rx_malformed; /* datagrams that hold no frame; frames of a VLAN, which are of another link */
};

/* epoll reports an error of its socket, such as of an interface that went down: it is read off, else the socket stays ready for
 * ever. */
void netif_failed(const struct netif *n) __attribute__((nonnull));

struct sock_fprog;

struct afpacket_cfg {
  const char *name;                /* of the interface */
  bool whole;                      /* what is none of Datacast's is handed over, too */
  uint32_t ring_frames;            /* of the receive ring; 0: as many as 2 MiB hold */
  const struct sock_fprog *spread; /* of several sockets of one interface, which one gets a frame; NULL: there is one */
  int *group;                      /* of these sockets: -1 before the first is opened */
};

/* Open an interface. NULL with *why set. */
struct netif *afpacket_open(const struct afpacket_cfg *cfg, struct fault *why) __attribute__((nonnull));

#endif
