/* One worker's part of the switch: its trees of every node, its queue of every port. With one worker it is the switch.
 *
 * Worker 0 has the devices, the links and the pools; the others share them (sw_share). A frame of another worker's tree goes
 * to it over that one's ring. */
#ifndef SWITCH_SWITCH_H
#define SWITCH_SWITCH_H

#include <stdbool.h>

#include "config.h"
#include "datapath/engine.h"
#include "packet.h"
#include "ports.h"

struct member {            /* one node */
  struct engine_node node; /* first */
  const struct node_cfg *cfg;
  _Atomic uint16_t copies; /* an appliance: its switch copies to ports below this, by its last word */
};

struct sw_counters {
  uint64_t rounds, sleeps; /* of the loop: with work, and waits */
  uint64_t frames_in;
  uint64_t handed_over; /* frames of other workers' trees */
  uint64_t handed_lost; /* of them: the other's ring was full */
};

struct worker;

struct handover { /* frames for one other worker, gathered in a round */
  struct rte_mbuf *m[PORT_BURST];
  unsigned n;
};

struct sw {
  const struct config *cfg;
  unsigned index;         /* of the worker */
  struct worker *workers; /* all of them, cfg->workers; NULL: the only one */
  struct member *members;
  unsigned nmembers;
  struct dpdk_port *ports;
  unsigned nports;
  struct packet_pools pools;
  dc_time started;
  struct sw_counters counters;
  struct handover away[SW_WORKERS_MAX];
  struct engine engine;
};

/* Sizes of the packet pools that this configuration needs. */
void sw_pool_sizes(const struct config *c, uint32_t *data, uint32_t *headers) __attribute__((nonnull));

/* Pools, nodes, ports. 0, or -1 with f; then nothing is left open. DPDK runs already. */
int sw_open(struct sw *s, const struct config *c, struct loop *loop, struct fault *f) __attribute__((nonnull));
/* The part of another worker. */
int sw_share(struct sw *s, struct sw *first, unsigned index, struct loop *loop, struct fault *f)
    __attribute__((nonnull));
void sw_close(struct sw *s) __attribute__((nonnull));

/* Frames for other workers go to them: at the end of a round at the latest. */
void sw_hand_over(struct sw *s) __attribute__((nonnull));
/* Frames that other workers handed over. */
unsigned sw_take(struct sw *s, dc_time now) __attribute__((nonnull));
/* Worker 0: what other workers heard of the links. */
void sw_hear(struct sw *s) __attribute__((nonnull));

/* Forget waiting interests and content stores too (a restart), or the content stores only. */
void sw_wipe(struct member *m, bool restart) __attribute__((nonnull));

struct member *sw_member(struct sw *s, const char *name) __attribute__((nonnull)); /* NULL: unknown */

#endif
