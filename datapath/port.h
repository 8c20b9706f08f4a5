/* A data port as the engine sees it: a way to the wire behind four functions, and its link's state. Who opens one puts this
 * first in a struct of its own (netport.h; dpdk_cache/ports.h). */
#ifndef DATAPATH_PORT_H
#define DATAPATH_PORT_H

#include "datacast/buf.h"
#include "datapath/linkstate.h"

struct engine;
struct netif;
struct port;

struct port_ops {
  /* Hand what waits to engine_frames, a burst at a time. Returns the frames; `more`: others may still wait. */
  unsigned (*rx)(struct port *p, struct engine *e, dc_time now, bool *more);
  /* Queue n frames, in their order; takes over their references. What is too long or too much is counted and dropped. */
  void (*push)(struct port *p, const struct dc_tx *tx, unsigned n, dc_time now);
  /* Send what is queued. */
  void (*flush)(struct port *p, dc_time now);
  /* Queue a hello: the prefix and `zeros` bytes after it. */
  void (*hello)(struct port *p, struct dc_tx *tx, unsigned zeros, dc_time now);
  void (*carrier)(struct port *p);      /* it came back; NULL: nothing to do */
  struct netif *(*way)(struct port *p); /* what it goes over, or NULL; NULL: always so */
};

struct port {
  const struct port_ops *ops;
  struct engine_node *node;
  const char *name;
  uint16_t number; /* at its node */
  uint8_t mac[6], neighbour[6];
  uint32_t mtu;
  int ifindex; /* of the kernel's interface; 0: none */
  bool gone;   /* that is no more */
  struct linkstate link;
};

#endif
