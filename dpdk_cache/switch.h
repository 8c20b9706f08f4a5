/* The switch: nodes, their ports and the packet pools, and the path of a frame through them. */
#ifndef SWITCH_SWITCH_H
#define SWITCH_SWITCH_H

#include <datacast/node.h>
#include <stdbool.h>

#include "config.h"
#include "packet.h"
#include "ports.h"

struct member { /* one node */
  const struct node_cfg *cfg;
  dc_node *core;
  void *memory;
  size_t memory_size;
  struct port *port[DC_NODE_PORTS_MAX]; /* by number; NULL where there is none */
  uint64_t no_device;                   /* frames for a port number that has no device */
  uint16_t copies;                      /* an appliance: its switch copies to ports below this, by its last word */
};

struct sw_counters {
  uint64_t rounds, sleeps; /* of the loop: with work, and waits */
  uint64_t frames_in;
};

struct sw {
  const struct config *cfg;
  struct member *members;
  unsigned nmembers;
  struct port *ports;
  unsigned nports;
  struct packet_pools pools;
  uint64_t random;   /* state of the fault injector */
  dc_time started;
  struct sw_counters counters;
  bool hello_wanted; /* a hello came or traffic began: the hellos are to be looked at now */
  bool traffic;      /* frames of Datacast came since the hellos were looked at */
  struct dc_tx tx[DC_NODE_TX_MAX];
};

dc_time sw_now(void);

/* Sizes of the packet pools that this configuration needs. */
void sw_pool_sizes(const struct config *c, uint32_t *data, uint32_t *headers) __attribute__((nonnull));

/* Pools, nodes, ports. 0, or -1 with f; then nothing is left open. DPDK runs already. */
int sw_open(struct sw *s, const struct config *c, struct failure *f) __attribute__((nonnull));
void sw_close(struct sw *s) __attribute__((nonnull));

/* Take one burst of frames from a port through its node; what is to be sent is queued at the ports. Returns the number
 * of frames that arrived. */
unsigned sw_receive(struct sw *s, struct port *p, dc_time now) __attribute__((nonnull));
void sw_flush(struct sw *s, dc_time now) __attribute__((nonnull));

/* Hellos: judges every link (changed: its state is new) and sends what is due. When to come back. */
dc_time sw_hello(struct sw *s, dc_time now, void (*changed)(void *context, struct port *p), void *context)
    __attribute__((nonnull(1, 3)));

/* Forget waiting interests and content stores too (a restart), or the content stores only. */
void sw_wipe(struct member *m, bool restart) __attribute__((nonnull));

struct member *sw_member(struct sw *s, const char *name) __attribute__((nonnull)); /* NULL: unknown */

#endif
