/* The node itself, for the files that make it up. */
#ifndef DATACAST_NODE_STATE_H
#define DATACAST_NODE_STATE_H

#include "node_tree.h"

struct dc_port {
  uint8_t addresses[DC_ETHER_LEN - 2]; /* the neighbour's and the port's own, as they stand in a frame */
  struct dc_port_counters count;
} __attribute__((aligned(64)));

struct dc_node {
  struct dc_node_cfg cfg;
  struct dc_buf_ops ops;
  struct dc_port *port;
  struct dc_tree_table trees;
  uint16_t copies;  /* an appliance: its switch copies to ports below this (REPLICATE); 0: it does not */
  uint64_t bytes;   /* in all content stores */
  uint64_t packets; /* in all content stores */
  uint64_t waiting; /* bytes of all waiting tables beyond what each has whatever there is */
  struct dc_node_counters count;
};

/* As dc_node_handle_burst, and nothing is fetched. */
unsigned dc_node_handle_each(struct dc_node *node, dc_time now, const struct dc_frame *frame, unsigned n,
                             struct dc_tx *out, unsigned cap, unsigned *sent) __attribute__((nonnull));

/* ---- content stores and waiting tables under the node's bound on memory (node_memory.c) ---- */

/* Let the tree have `capacity` bytes from now on. */
void dc_node_resize(struct dc_node *node, struct dc_tree *tree, uint32_t capacity) __attribute__((nonnull));
/* Bytes that the tree's store can have: what it may and has slots for, but where memory is scarce no more than it has, or
 * than a node gives unasked. */
uint64_t dc_node_room(const struct dc_node *node, const struct dc_tree *tree) __attribute__((nonnull));
/* Store a data packet's payload, making room: trees that stand still go first, the one idle longest before the others,
 * then the oldest packets of trees that have more than a node gives unasked, for one that has less, then the tree's own.
 * Not stored when that is not enough. */
void dc_node_store(struct dc_node *node, struct dc_tree *tree, dc_time now, uint32_t seq, dc_buf *buf, uint32_t off,
                   uint32_t len) __attribute__((nonnull(1, 2)));
void dc_node_unstore(struct dc_node *node, struct dc_tree *tree, uint32_t seq) __attribute__((nonnull));
/* More waits for this tree's data: its waiting table grows, to WAITING_SETS whatever there is, beyond that while those of all trees take at
 * most an eighth of the node's memory. */
void dc_node_widen(struct dc_node *node, struct dc_tree *tree) __attribute__((nonnull));
/* Give back every packet of a tree. */
void dc_node_empty(struct dc_node *node, struct dc_tree *tree) __attribute__((nonnull));
/* The tree of an interest that came in by this port: found, or made, if need be in place of one that never brought data,
 * or of the one that is idle longest; NULL: none is idle. */
struct dc_tree *dc_node_tree(struct dc_node *node, dc_time now, uint32_t id, uint16_t port) __attribute__((nonnull));

#endif
