/* The switch: nodes, their ports and the packet pools, and the path of a frame through them. */
#ifndef SWITCH_SWITCH_H
#define SWITCH_SWITCH_H

#include <stdbool.h>

#include "config.h"
#include "datapath/engine.h"
#include "packet.h"
#include "ports.h"

struct member { /* one node */
  struct engine_node node; /* first */
  const struct node_cfg *cfg;
  uint16_t copies; /* an appliance: its switch copies to ports below this, by its last word */
};

struct sw_counters {
  uint64_t rounds, sleeps; /* of the loop: with work, and waits */
  uint64_t frames_in;
};

struct sw {
  const struct config *cfg;
  struct member *members;
  unsigned nmembers;
  struct dpdk_port *ports;
  unsigned nports;
  struct packet_pools pools;
  dc_time started;
  struct sw_counters counters;
  struct engine engine;
};

/* Sizes of the packet pools that this configuration needs. */
void sw_pool_sizes(const struct config *c, uint32_t *data, uint32_t *headers) __attribute__((nonnull));

/* Pools, nodes, ports. 0, or -1 with f; then nothing is left open. DPDK runs already. */
int sw_open(struct sw *s, const struct config *c, struct loop *loop, struct fault *f) __attribute__((nonnull));
void sw_close(struct sw *s) __attribute__((nonnull));

/* Forget waiting interests and content stores too (a restart), or the content stores only. */
void sw_wipe(struct member *m, bool restart) __attribute__((nonnull));

struct member *sw_member(struct sw *s, const char *name) __attribute__((nonnull)); /* NULL: unknown */

#endif
