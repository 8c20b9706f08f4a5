/* Frames between the ports, this host's node and its endpoints.
 *
 * No call here leads back into itself: a frame that reaches an endpoint only marks it, and marked endpoints are polled
 * one after another at the end of the round. What they send goes to a port's queue or once through the node, whose
 * output marks endpoints again. A round has a budget; what is left is done in the next one. */
#ifndef DATAPATH_FORWARD_H
#define DATAPATH_FORWARD_H

#include "datacast/endpoint.h"
#include "datapath/engine.h"
#include "datapath/handover.h"
#include "datapath/netport.h"

struct endpoint;

struct endpoint_ops {
  /* Of this endpoint's tree. `payload` is h->length bytes, valid during the call; it came by the port `from`, or out of
   * this host's own node (DC_PORT_HOST). False: it is not from where it was asked for, or was not asked for. */
  bool (*data)(struct endpoint *e, dc_time now, const struct dc_header *h, const uint8_t *payload, uint16_t from);
  void (*interest)(struct endpoint *e, dc_time now, const struct dc_header *h, const struct dc_segment *ret);
  /* Send what may be sent (at most a batch; true: more is ready) and set the timer. */
  bool (*poll)(struct endpoint *e, dc_time now);
};

/* One side of one tree on this host. */
struct endpoint {
  uint32_t tree;
  const struct endpoint_ops *ops;
  struct forward *forward;
  struct timer timer; /* marks it */
  struct endpoint *next_marked, *hash_next;
  bool marked;
};

enum { ENDPOINT_BUCKETS = 1024 };

struct forward_counters {
  uint64_t drop[DC_DROP_MAX]; /* frames for endpoints that were refused */
  uint64_t not_forwarded;     /* --no-forward: frames that do not ask a source of this host */
};

struct forward {
  struct loop *loop;
  struct forward **all; /* `of` that share the ports' frames, by tree; this one is number `index` */
  unsigned index, of;
  struct handover
      *from; /* what each of the others hands over, in their order, as it came in there and the tree is this one's */
  unsigned ways;   /* of them that are open */
  uint32_t handed; /* bits: to whom there was something to be handed over in this round */
  struct bufpool pool;
  struct engine engine;
  struct engine_node node;
  struct netport **port;
  uint16_t ports;
  bool no_forward;
  struct endpoint *bucket[ENDPOINT_BUCKETS];
  struct endpoint *first_marked, *last_marked;
  uint32_t endpoints;
  struct forward_counters count;
  uint32_t asked; /* numbers of ranges beyond the first, in this round */
};

struct forward_cfg {
  const char *name;      /* of this node */
  uint32_t cache_bytes;  /* C when an interest names none */
  uint32_t cache_memory; /* all content stores together */
  uint32_t cache_trees;
  bool no_forward, no_hello;
  unsigned index, of; /* several, 32 at most, share the ports' frames and the memory; of the first are the links */
};

/* `ports` interfaces, owned from now on also on failure. False with *why. */
bool forward_open(struct forward *f, struct loop *loop, const struct forward_cfg *cfg, struct netif **nif,
                  const uint8_t (*neighbour)[6], uint16_t ports, struct fault *why)
    __attribute__((nonnull(1, 2, 3, 4, 7)));
void forward_close(struct forward *f) __attribute__((nonnull));

/* These share the frames of their ports from now on, `n` of them, in the order of cfg.index; the first has the links. The list
 * stays the caller's. False with *why. */
bool forward_share(struct forward **all, unsigned n, struct fault *why) __attribute__((nonnull));

/* The loop's hooks. */
bool forward_sleeps(void *forward, bool sleeps);
void forward_round(void *forward, dc_time now);

/* This port leads elsewhere from now on: a slot becomes a tunnel, or the other way round. The old way is closed unless it
 * is the slot that the new one fills. */
void forward_replace(struct forward *f, uint16_t port, struct netif *nif) __attribute__((nonnull));

/* Endpoints. False when the tree id is taken on this host. */
bool forward_add(struct forward *f, struct endpoint *e, uint32_t tree, const struct endpoint_ops *ops)
    __attribute__((nonnull));
void forward_remove(struct endpoint *e) __attribute__((nonnull));
void forward_mark(struct endpoint *e) __attribute__((nonnull));
/* Come back to this endpoint at `at`. */
void forward_wake(struct endpoint *e, dc_time at) __attribute__((nonnull));

/* A data packet of an endpoint: buf holds `h->length` payload bytes at data + off (takes over the reference). Where `ret`
 * stays on this host, the header is written in front of them, so they have DC_PREFIX_MAX bytes before them that are
 * nobody's. False when the segment leads nowhere here. */
bool forward_data(struct forward *f, dc_time now, const struct dc_segment *ret, const struct dc_header *h,
                  struct dc_buf *buf, uint32_t off) __attribute__((nonnull));
/* An interest of an endpoint. False when the route leads nowhere here, or no buffer is free. */
bool forward_interest(struct forward *f, dc_time now, const struct dc_path *path, const struct dc_header *h)
    __attribute__((nonnull));
/* Is the way out over this segment congested here? */
bool forward_crowded(const struct forward *f, const struct dc_segment *seg) __attribute__((nonnull));

#endif
