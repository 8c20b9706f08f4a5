/* A port on a netif, with a bounded queue of frames to send.
 *
 * Frames gather in the queue during a round and leave with few system calls at its end, hellos and interests first. When the
 * kernel takes no more (EAGAIN: socket full), what is left waits here and is tried again, so a short burst of our own is no loss;
 * a full queue drops the newest. What the queueing discipline has no place for (ENOBUFS) is lost, but for hellos and interests:
 * who tried again would always find the next free place, and others that send there, such as a kernel's TCP, would lose all. */
#ifndef DATAPATH_NETPORT_H
#define DATAPATH_NETPORT_H

#include "datacast/node.h"
#include "datapath/backlog.h"
#include "datapath/limits.h"
#include "datapath/loop.h"
#include "datapath/netif.h"
#include "datapath/port.h"

struct netport_counters { /* beside the node's own */
  uint64_t retries;       /* sends that had to be repeated */
  uint64_t queue_full;    /* frames dropped here */
  uint64_t oversized;     /* longer than the interface's MTU */
  uint64_t errors;        /* frames lost to other errors, such as a link that is down */
  uint64_t no_buffer;     /* arrived, but no buffer was free to keep them in */
  uint64_t calls;         /* of the send function */
  uint64_t missed;        /* found the receive ring full, as far as that was asked (netif.h) */
};

struct netport {
  struct port base; /* first */
  struct netif *nif;
  struct loop *loop;
  struct bufpool *pool;
  struct watch watch;
  struct timer retry;
  bool blocked; /* the kernel said later; `retry` is set */
  struct netport_counters extra;
  dc_time heard, heard_told;   /* heard: atomic, when a frame came here last, where another has the link */
  struct dc_port_counters own; /* frames of this host's endpoints that did not pass its node */
  struct backlog backlog;
  struct dc_tx queue[BACKLOG_PLACES];
};

/* Owns nif from now on. False: it cannot be watched. */
bool netport_open(struct netport *p, uint16_t number, struct netif *nif, struct loop *loop, struct bufpool *pool,
                  const uint8_t neighbour[6]) __attribute__((nonnull));
void netport_close(struct netport *p) __attribute__((nonnull));
/* It leads by this netif from now on; what was queued is dropped. The old one is closed unless nif stands in its slot. */
bool netport_replace(struct netport *p, struct netif *nif) __attribute__((nonnull));

static inline bool netport_crowded(const struct netport *p) { return p->backlog.data.n >= PORT_QUEUE / 4; }

#endif
