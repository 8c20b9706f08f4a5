/* A node: forward, cache, aggregate (design.md, section 4; the paper's intermediate device, section 5.1 and 5.3).
 *
 * The same code is the DPDK switch, the appliance, the part of a host that forwards, and the simulators' node. It is
 * soft state only: dropping a dc_node at any moment loses no data.
 *
 * Memory: the caller gives one zeroed area of dc_node_size(cfg) bytes; nothing is allocated after dc_node_init. */
#ifndef DATACAST_NODE_H
#define DATACAST_NODE_H

#include "datacast/buf.h"
#include "datacast/route.h"
#include "datacast/time.h"

struct dc_node_cfg {
  uint16_t ports;           /* number of ports, numbered from 0 */
  bool endpoint;            /* a host: an empty stack and HOST segments go to its endpoints */
  bool lone_port;           /* a cache appliance: every frame leaves by port 0, the first port becomes a label too */
  uint32_t cache_bytes;     /* C, content store per tree, in payload bytes (128 KB) */
  uint32_t cache_bytes_max; /* most that an interest's cache code may ask for */
  uint64_t memory_bytes;    /* bound over all trees; the oldest idle tree goes first */
  uint32_t memory_packets;  /* the same in packets, where buffers are what is scarce (mbufs); 0: no such bound */
  uint32_t trees;           /* most trees at once */
  uint32_t store_slots;     /* per tree, a power of two: packets in the content store at most */
  /* Per tree, a power of two: waiting interests at most. Tables grow with what waits: to 2,048 whatever there is, beyond that
   * while those of all trees take an eighth of memory_bytes at most. */
  uint32_t waiting_slots;
  dc_time retx_min; /* a RETX is sent on again when the last forwarding is at least this old, and 1.5 times the
                              measured response time of the tree, or when data asked for later has come already */
  dc_time idle;     /* a tree unused for so long may be dropped for another; one that never brought data
                              goes before all others, and at once */
};

void dc_node_cfg_default(struct dc_node_cfg *cfg) __attribute__((nonnull));
/* 0 or -EINVAL with *what naming the bad field. */
int dc_node_cfg_check(const struct dc_node_cfg *cfg, const char **what) __attribute__((nonnull));
size_t dc_node_size(const struct dc_node_cfg *cfg) __attribute__((nonnull));
/* Of these the first so many lie close together and are all used when all trees are there: huge pages waste nothing. */
size_t dc_node_dense(const struct dc_node_cfg *cfg) __attribute__((nonnull));

typedef struct dc_node dc_node;

/* `memory` is zeroed, aligned to 64 and stays the caller's; `ops` must outlive the node. */
dc_node *dc_node_init(void *memory, const struct dc_node_cfg *cfg, const struct dc_buf_ops *ops)
    __attribute__((nonnull));
/* The bound of cfg.memory_packets from now on. */
void dc_node_set_packets(dc_node *node, uint32_t most) __attribute__((nonnull));
/* Give every cached packet back (before freeing the memory, or as a restart). */
void dc_node_clear(dc_node *node) __attribute__((nonnull));

/* Addresses written into frames that leave by `port`; broadcast and zero until set. */
void dc_node_set_port(dc_node *node, uint16_t port, const uint8_t own[6], const uint8_t neighbour[6])
    __attribute__((nonnull));

/* An appliance whose switch copies (REPLICATE) to its ports 0 to ports-1: from now on children whose segments differ in the
 * first port alone get one frame together. More than DC_REPLICATE_PORTS is taken for that; 0: the switch does not copy. */
void dc_node_set_copies(dc_node *node, uint16_t ports) __attribute__((nonnull));

/* One frame arrived (or, with port DC_PORT_HOST, an endpoint of this host sends: data starts at the Datacast header and
 * is handled as if it had arrived under LOCAL). Takes over the caller's reference to frame->buf. Writes at most
 * DC_NODE_TX_MAX frames to out (cap must be at least that) and returns their number. */
unsigned dc_node_handle(dc_node *node, dc_time now, const struct dc_frame *frame, struct dc_tx *out, unsigned cap)
    __attribute__((nonnull));

/* Frames that arrived together, handled in their order; what each will touch is fetched while those before it are at hand.
 * Stops before a frame for which out may have no room any more (cap is at least DC_NODE_TX_MAX). Returns how many frames
 * were handled; *sent: how many were written to out. */
unsigned dc_node_handle_burst(dc_node *node, dc_time now, const struct dc_frame *frame, unsigned n, struct dc_tx *out,
                              unsigned cap, unsigned *sent) __attribute__((nonnull));

/* A hint for callers with bursts of their own: this frame will be handled soon. Fetches what that will touch, in
 * DC_NODE_PREFETCH_STEPS steps: call them in order, each some frames after the one before, which has to be there by
 * then. Changes nothing and may be left out. */
enum { DC_NODE_PREFETCH_STEPS = 5 };
void dc_node_prefetch(const dc_node *node, const struct dc_frame *frame, unsigned step) __attribute__((nonnull));

/* ---- counters ---- */
struct dc_port_counters {
  uint64_t rx_frames, rx_bytes, tx_frames, tx_bytes;
  uint64_t tx_data, tx_data_payload; /* data packets and their payload bytes leaving by this port */
};

struct dc_tree_counters {
  uint32_t tree;
  uint64_t interests, hits, misses, aggregated, retx_forwarded;
  uint64_t data, stored, evicted, replicated, dup_data;
  uint64_t bytes;   /* in the content store now */
  uint32_t packets; /* in the content store now */
  uint32_t waiting; /* interests waiting now */
  uint32_t children;
};

struct dc_node_counters {
  uint64_t forwarded; /* popped and sent on */
  uint64_t interests, hits, data, to_endpoint;
  uint64_t trees_evicted;
  uint64_t drop[DC_DROP_MAX];
  uint32_t trees;
  uint64_t bytes; /* in all content stores now */
};

void dc_node_counters(const dc_node *node, struct dc_node_counters *out) __attribute__((nonnull));
void dc_node_port_counters(const dc_node *node, uint16_t port, struct dc_port_counters *out) __attribute__((nonnull));
/* Fills up to cap trees, most recently used first not guaranteed; returns how many. */
unsigned dc_node_tree_counters(const dc_node *node, struct dc_tree_counters *out, unsigned cap)
    __attribute__((nonnull));
/* Drop the content store of every tree (test means and fault campaigns); waiting interests stay. */
void dc_node_wipe(dc_node *node) __attribute__((nonnull));

#endif
