/* The engine of both daemons: frames from ports through nodes to ports, in bursts, and hellos about every link.
 *
 * A daemon opens ports (port.h) and nodes, attaches them, and in its loop calls engine_receive for each port, engine_hello
 * after what arrived, and engine_flush. What only one of them needs hangs on engine_hooks. */
#ifndef DATAPATH_ENGINE_H
#define DATAPATH_ENGINE_H

#include "datacast/node.h"
#include "datapath/carrier.h"
#include "datapath/port.h"

enum {
  ENGINE_BURST = 32,                         /* frames that pass a node together */
  ENGINE_OUT = DC_NODE_TX_MAX + ENGINE_BURST /* frames that a node sends before they are handed on */
};

struct engine_node {
  const char *name;
  dc_node *core;
  void *memory;
  size_t memory_size;
  struct port *port[DC_NODE_PORTS_MAX]; /* by number; NULL where there is none */
  uint64_t no_device;                   /* frames for a port number that has no port */
};

struct engine_hooks { /* each may be NULL */
  /* Frames that arrived here. Those of other workers are taken out. Returns how many are left, in front. Where there is this hook,
   * who calls engine_heard for the worker that has the links is up to it. */
  unsigned (*steer)(void *arg, struct port *p, struct dc_frame *frame, unsigned n, dc_time now);
  /* Frames of Datacast or others before their node sees them: some are changed, or taken out, with their reference. Returns how
   * many are left, in front. */
  unsigned (*admit)(void *arg, struct port *p, struct dc_frame *frame, unsigned n, dc_time now);
  /* A frame of the node for this host's endpoints; the reference stays the engine's. */
  void (*to_host)(void *arg, const struct dc_tx *tx, dc_time now);
};

struct engine {
  struct loop *loop;
  const struct dc_buf_ops *buf;
  struct engine_hooks hooks;
  void *arg;
  void (*link_changed)(void *link_arg, struct port *p); /* p->link.up is new; NULL: nobody is told */
  void *link_arg;
  struct port **port;
  unsigned ports, room;
  struct carrier carrier;
  struct timer hello; /* wakes for the next hello or verdict; both are made in engine_hello, after what arrived */
  dc_time hello_at;   /* 0: at once */
  dc_time busy_at;    /* when the links are told next that there is traffic */
  bool traffic;       /* frames of Datacast came in since they were told */
  bool no_links;      /* another engine has the links of these ports: hellos and carrier are not looked at here */
  struct dc_tx out[ENGINE_OUT];
};

/* Room for `ports` ports. False with *why. */
bool engine_open(struct engine *e, struct loop *loop, const struct dc_buf_ops *buf, unsigned ports,
                 const struct engine_hooks *hooks, void *arg, struct fault *why)
    __attribute__((nonnull(1, 2, 3, 5, 7)));
void engine_close(struct engine *e) __attribute__((nonnull)); /* ports and nodes are their owners' to close */

bool engine_node_open(struct engine_node *n, const struct dc_node_cfg *cfg, const struct dc_buf_ops *buf,
                      struct fault *why) __attribute__((nonnull));
void engine_node_close(struct engine_node *n) __attribute__((nonnull));

/* p is filled in but for node and link. hellos: they are said and judged. */
void engine_attach(struct engine *e, struct engine_node *n, struct port *p, bool hellos, bool carrier)
    __attribute__((nonnull));
/* The carriers of kernel interfaces are watched from now on. */
bool engine_watch_carrier(struct engine *e, struct fault *why) __attribute__((nonnull));
/* Of an interface, as carrier_fn. */
void engine_carrier(void *engine, int ifindex, bool carrier, bool gone);
void engine_set_carrier(struct engine *e, struct port *p, bool carrier) __attribute__((nonnull));
/* This process is about to stop and to start again within `away`: the neighbours are told, in hellos from the next
 * engine_hello on, and do not take it for a failure. */
void engine_leave(struct engine *e, dc_time away) __attribute__((nonnull));

/* What waits at a port, through its node to the queues of others. */
unsigned engine_receive(struct engine *e, struct port *p, dc_time now, bool *more) __attribute__((nonnull));
/* For ports: frames that arrived at p. Takes over their references. */
void engine_frames(struct engine *e, struct port *p, struct dc_frame *frame, unsigned n, dc_time now)
    __attribute__((nonnull));
/* Frames of p came in until then, at another worker. */
void engine_heard(struct engine *e, struct port *p, dc_time last) __attribute__((nonnull));
/* A frame of an endpoint of this host. */
void engine_from_host(struct engine *e, struct engine_node *n, const struct dc_frame *frame, dc_time now)
    __attribute__((nonnull));
/* After everything that arrived: an arrival is proof, and the round may have come late. */
void engine_hello(struct engine *e, dc_time now) __attribute__((nonnull));
void engine_flush(struct engine *e, dc_time now) __attribute__((nonnull));

#endif
