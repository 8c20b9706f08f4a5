/* Ports: DPDK devices, opened from the configuration, each belonging to one node. Frames leave in bursts. */
#ifndef SWITCH_PORTS_H
#define SWITCH_PORTS_H

#include <datapath/linkstate.h>
#include <datacast/time.h>
#include <rte_mbuf.h>
#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "datapath/loop.h"

enum { PORT_BURST = 32 };

struct port_faults { /* test means: what issue 6 asks of a link */
  bool blackhole_rx, blackhole_tx; /* what arrives, what is sent vanishes; the carrier stays */
  double corrupt;    /* part of the arriving data packets that get one bit of their payload flipped */
};

struct port_sw_counters { /* beside the node's own */
  uint64_t tx_full;      /* the device took no more: dropped */
  uint64_t oversized;    /* arrived or to be sent longer than the MTU: dropped */
  uint64_t segments;     /* arrived in more than one segment and could not be joined */
  uint64_t blackholed, corrupted;
  uint64_t rx_missed;    /* found the device's receive ring full */
  uint64_t bursts;       /* calls of the driver's send */
};

struct port {
  struct member *member; /* its node */
  const struct port_cfg *cfg;
  uint16_t number;  /* at the node */
  uint16_t dev;     /* DPDK's */
  uint8_t mac[6];
  uint32_t max_frame; /* bytes, with the Ethernet header */
  bool open;
  bool multi_seg;   /* the driver sends chains of mbufs */
  struct linkstate link;
  bool told;        /* what the fabric manager was told last: up */
  int ifindex;      /* of the kernel interface, 0 when there is none */
  int fd;           /* wakes when frames arrive: the driver's socket or interrupt; -1: must be polled */
  bool afpacket;
  bool rx_interrupt;
  dc_time kick_at;  /* af_packet: when to push the ring once more; DC_NEVER: nothing left */
  struct watch watch;
  struct rte_mbuf *out[PORT_BURST];
  unsigned nout;
  struct port_faults faults;
  struct port_sw_counters counters;
};


/* Longest frame that an mbuf must hold. */
uint32_t ports_frame_bytes(const struct config *c) __attribute__((nonnull));

/* Check what can be checked without DPDK. 0, or -1 with f. */
int port_check(const struct port_cfg *cfg, uint32_t mtu, struct failure *f) __attribute__((nonnull));

/* Open and start the device; `serial` makes its name unique. 0, or -1 with f. */
int port_open(struct port *p, const struct config *c, const struct port_cfg *cfg, unsigned serial,
              struct rte_mempool *pool, struct failure *f) __attribute__((nonnull));
void port_close(struct port *p) __attribute__((nonnull));

/* Queue m for sending (takes it over); port_flush hands the queue to the device. Never blocks: what the device does not
 * take is counted and freed. */
void port_send(struct port *p, struct rte_mbuf *m, dc_time now) __attribute__((nonnull));
void port_flush(struct port *p, dc_time now) __attribute__((nonnull));
/* Bring p->counters.rx_missed up to date. */
void port_read_missed(struct port *p) __attribute__((nonnull));
/* Frames that the shaper refused stand in af_packet's ring until the next send: push them when due. */
void port_kick(struct port *p, dc_time now) __attribute__((nonnull));

#endif
