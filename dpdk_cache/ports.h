/* Ports: DPDK devices, opened from the configuration, each belonging to one node. Frames leave in bursts. */
#ifndef SWITCH_PORTS_H
#define SWITCH_PORTS_H

#include <rte_mbuf.h>
#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "packet.h"
#include "datapath/backlog.h"
#include "datapath/loop.h"
#include "datapath/netif.h"
#include "datapath/port.h"

enum { PORT_BURST = 32 };

struct port_faults {               /* test means: what issue 6 asks of a link */
  bool blackhole_rx, blackhole_tx; /* what arrives, what is sent vanishes; the carrier stays */
  double corrupt;                  /* part of the arriving data packets that get one bit of their payload flipped */
};

struct port_sw_counters { /* beside the node's own */
  uint64_t tx_full;       /* dropped: the device took no more, and the backlog is full; or a kernel's queue was */
  uint64_t waited;        /* frames that went into the backlog */
  uint64_t oversized;     /* arrived or to be sent longer than the MTU: dropped */
  uint64_t segments;      /* arrived in more than one segment and could not be joined */
  uint64_t blackholed, corrupted;
  uint64_t rx_missed; /* found the device's receive ring full */
  uint64_t bursts;    /* calls of the driver's send */
  uint64_t lost;      /* a netif did not take them */
};

struct dpdk_port {
  struct port base; /* first */
  const struct port_cfg *cfg;
  struct packet_pools *pools;
  struct netif *nif;  /* a kernel interface, or shared memory, and no device of DPDK's; else NULL */
  int group;          /* of the interface's sockets, one for each worker; -1: there is one */
  uint16_t dev;       /* DPDK's */
  uint16_t queue;     /* of the worker that this is a port of; the device is queue 0's to open and close */
  uint32_t max_frame; /* bytes, with the Ethernet header */
  bool open;
  bool multi_seg; /* the driver sends chains of mbufs */
  bool rx_interrupt;
  bool link_interrupt; /* the driver says when the link changes */
  _Atomic uint64_t link_interrupts;
  bool spreads;    /* the device gives frames to its queues by their labels */
  dc_time kick_at; /* when to send the backlog once more; DC_NEVER: it is empty */
  struct watch watch;
  struct rte_mbuf *out[PORT_BURST];
  unsigned nout;
  struct backlog backlog;
  struct rte_mbuf *waiting[BACKLOG_PLACES];
  struct port_faults faults;
  _Atomic dc_time heard; /* queue > 0: when frames of Datacast last came in, for worker 0 */
  dc_time heard_told;    /* queue 0: the newest of it that the link was told */
  uint64_t random;       /* state of the fault injector */
  struct port_sw_counters counters;
};

static inline struct dpdk_port *dpdk_port(struct port *p) { return (struct dpdk_port *)(void *)p; }

/* Longest frame that an mbuf must hold. */
uint32_t ports_frame_bytes(const struct config *c) __attribute__((nonnull));

/* Check what can be checked without DPDK; `opens`: this run is to open it. 0, or -1 with f. */
int port_check(const struct port_cfg *cfg, uint32_t mtu, bool opens, struct fault *f) __attribute__((nonnull));

/* Open and start the device; `serial` makes its name unique. *carrier: as it was found. 0, or -1 with f. */
int port_open(struct dpdk_port *p, const struct config *c, const struct port_cfg *cfg, unsigned serial,
              struct packet_pools *pools, bool *carrier, struct fault *f) __attribute__((nonnull));
/* The same device for another worker, by its queue. 0, or -1 with f. */
int port_share(struct dpdk_port *p, struct dpdk_port *first, const struct config *c, uint16_t queue,
               struct packet_pools *pools, struct fault *f) __attribute__((nonnull));
void port_close(struct dpdk_port *p) __attribute__((nonnull));

/* Queue m, no longer than a frame may be, for sending (takes it over). What is queued goes to the device at the latest with
 * the round's flush. Never blocks: what the device does not take waits in the backlog, and is counted and freed where that
 * is full. */
void port_send(struct dpdk_port *p, struct rte_mbuf *m, dc_time now) __attribute__((nonnull));
/* Bring p->counters.rx_missed up to date. */
void port_read_missed(struct dpdk_port *p) __attribute__((nonnull));
/* Send the backlog when that is due. */
void port_kick(struct dpdk_port *p, dc_time now) __attribute__((nonnull));

#endif
