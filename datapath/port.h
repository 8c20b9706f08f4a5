/* A port: an interface with a bounded queue of frames to send.
 *
 * Frames gather in the queue during a round and leave with few system calls at its end. When the kernel takes no more
 * (EAGAIN: socket full; ENOBUFS: the queueing discipline dropped the frame), what is left waits here and is tried
 * again, so a short burst of our own is no loss; a full queue drops the newest. */
#ifndef DATAPATH_PORT_H
#define DATAPATH_PORT_H

#include "datapath/limits.h"
#include "datapath/linkstate.h"
#include "datacast/node.h"
#include "datapath/loop.h"
#include "datapath/netif.h"

struct port_extra { /* beside the node's own counters */
  uint64_t retries;   /* sends that had to be repeated */
  uint64_t queue_full;/* frames dropped here */
  uint64_t oversized; /* longer than the interface's MTU */
  uint64_t errors;    /* frames lost to other errors, such as a link that is down */
  uint64_t no_buffer; /* arrived, but no buffer was free to keep them in */
  uint64_t calls;     /* of the send function */
};

struct port {
  struct netif *nif;
  struct loop *loop;
  struct bufpool *pool;
  uint16_t number;
  uint8_t neighbour[6];
  struct linkstate link;
  struct watch watch;
  struct timer retry;
  bool blocked;       /* the kernel said later; `retry` is set */
  struct port_extra extra;
  struct dc_port_counters own; /* frames of this host's endpoints that did not pass its node */
  uint32_t head, n;
  struct dc_tx queue[PORT_QUEUE];
};

void port_init(struct port *p, uint16_t number, struct netif *nif, struct loop *loop, struct bufpool *pool)
    __attribute__((nonnull));
/* What was queued is dropped. */
void port_replace(struct port *p, struct netif *nif) __attribute__((nonnull));
void port_close(struct port *p) __attribute__((nonnull));

/* Queue a frame; takes over its reference. A frame longer than the MTU is counted and dropped. */
void port_push(struct port *p, const struct dc_tx *tx) __attribute__((nonnull));
/* Send what is queued. Afterwards no lent buffer is left in the queue. */
void port_flush(struct port *p, dc_time now) __attribute__((nonnull));

static inline bool port_crowded(const struct port *p) { return p->n >= PORT_QUEUE / 4; }

#endif
