/* Edge-disjoint Steiner trees (paper, section 4): the network, and the trees of one group over it.
 *
 * Sizes: V nodes, E links (cables), T trees. A link is full duplex: two arcs. An arc is named by its place in the row
 * of the node where it ENDS: arc a of node v is the direction `to[a]` -> v, and its number within the row is v's port.
 * So the arc by which a tree enters v is also v's port towards its parent.
 *
 * A network and a set of trees each live in one block of memory given by the caller; nothing else is allocated. A set
 * reads its network and does not change it; a network may have many sets. Neither is safe to use from two threads at a
 * time.
 */
#ifndef DATACAST_TREES_H
#define DATACAST_TREES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DC_NO_ARC UINT32_MAX
#define DC_NO_NODE UINT32_MAX

/* Trees of one set. */
enum { DC_TREES_MAX = 64 };

/* Networks whose trees follow from the address (section 4.1.1). The order of nodes and ports is that of
 * topologies/structured.py; dc_net_init checks it and takes DC_NET_ANY where it differs. */
enum dc_net_kind { DC_NET_ANY, DC_NET_BCUBE, DC_NET_TORUS, DC_NET_HYPERCUBE, DC_NET_FATTREE };

enum {
  DC_NODE_HOST = 1,     /* may be a member */
  DC_NODE_FORWARDS = 2, /* passes on what is for others; otherwise it is a leaf in every tree */
  DC_NODE_CACHE = 4,    /* can be a waypoint */
  DC_NODE_BESIDE = 8    /* a switch whose cache stands beside it: it is said of it that it has one, or has none */
};

struct dc_net_link {
  uint32_t u, v;
  uint32_t u_port, v_port; /* dense from 0 on at every node */
};

struct dc_net_cfg {
  uint32_t nodes, links;
  uint32_t trees; /* most trees of a set: 1..DC_TREES_MAX */
  enum dc_net_kind kind;
  uint32_t n, k; /* of BCube, Torus, Fattree; k alone: the hypercube's dimensions */
};

struct dc_net;
struct dc_trees;

/* Bytes of a network. O(1). */
size_t dc_net_size(const struct dc_net_cfg *cfg) __attribute__((nonnull));

/* Make a network in `memory` (aligned to 8, dc_net_size bytes; the caller keeps it). `flags` per node; `msd` per node:
 * labels it can handle, 0: any number. All links are up. Returns NULL when a port number is out of its node's range or
 * used twice. O(V + E), and O(T V) for a structured one. */
struct dc_net *dc_net_init(void *memory, const struct dc_net_cfg *cfg, const struct dc_net_link *link,
                           const uint8_t *flags, const uint16_t *msd) __attribute__((nonnull));

/* What the network was recognised as. */
enum dc_net_kind dc_net_kind(const struct dc_net *net) __attribute__((nonnull));

/* The arc that enters v by its port, or DC_NO_ARC. */
uint32_t dc_net_arc(const struct dc_net *net, uint32_t v, uint32_t port) __attribute__((nonnull));

/* Take a link up or down, both directions; `arc` is either of its arcs. O(1). */
void dc_net_set_up(struct dc_net *net, uint32_t arc, bool up) __attribute__((nonnull));
bool dc_net_is_up(const struct dc_net *net, uint32_t arc) __attribute__((nonnull));

/* Can v be a waypoint from now on (a switch's cache appliance comes or goes)? Trees stay, routes are to be written
 * anew. */
void dc_net_set_cache(struct dc_net *net, uint32_t v, bool can) __attribute__((nonnull));

/* A breadth-first search from `source` over links that are up, until every node is seen; `times` times over. The floor
 * that measurements are compared with. Returns the nodes seen. O(times (V + E)). */
uint32_t dc_trees_floor(struct dc_trees *s, uint32_t source, unsigned times) __attribute__((nonnull));

/* Bytes of a set, and an empty one in `memory` (aligned to 8; the caller keeps it and `net`, which must outlive it). */
size_t dc_trees_size(const struct dc_net *net) __attribute__((nonnull));
struct dc_trees *dc_trees_init(void *memory, const struct dc_net *net) __attribute__((nonnull));

struct dc_trees_query {
  uint32_t source;
  const uint32_t *receiver; /* distinct hosts, not the source */
  uint32_t receivers;
  uint32_t most;        /* trees wanted at most: 1..DC_TREES_MAX */
  const uint16_t *load; /* per arc: trees of other groups on it; or NULL */
};

/* CalcSteinerTrees (Figure 3): structured spanning trees where the network has them, pruned to the members; what is
 * broken is mended over free arcs, or with arcs that other trees can spare. Replaces what the set held. Returns the
 * number of trees (0: some receiver is cut off: dc_trees_reachable tells which). Every tree holds every receiver. An
 * unbroken group costs O(its members' paths); a broken one O(T (V + E)) and what the exchange of arcs takes, which is
 * bounded. */
unsigned dc_trees_compute(struct dc_trees *s, const struct dc_trees_query *q) __attribute__((nonnull));

/* Where dc_trees_compute fell short of `wanted` (the max-flow bound): further attempts with the exchanges in other
 * orders, a fixed number by the network's size. Returns the number of trees, never less than the set held. Same input,
 * same trees. What is known about reaching the bound: docs/decisions/trees-exact.md. */
unsigned dc_trees_exact(struct dc_trees *s, const struct dc_trees_query *q, unsigned wanted) __attribute__((nonnull));

/* Links went down or came up (dc_net_set_up was called for each): mend the trees that lost an arc, leave the others
 * untouched, and add trees where there is room again (not above the query's `most`). `arc`: both kinds, either
 * direction. Sets bits: `changed` trees that differ, `lost` trees that are no more (their numbers stay empty), `added`
 * new ones. */
struct dc_trees_repaired {
  uint64_t changed, lost, added;
};
struct dc_trees_repaired dc_trees_repair(struct dc_trees *s, const uint32_t *arc, uint32_t arcs)
    __attribute__((nonnull));

/* Put a tree of somebody else's into an empty place of the set, by the arcs that enter its nodes, in any order. Returns
 * the receivers that it does not lead to. */
uint32_t dc_trees_load(struct dc_trees *s, unsigned tree, const uint32_t *arc, uint32_t arcs) __attribute__((nonnull));

/* Forget all trees and set another group. */
void dc_trees_reset(struct dc_trees *s, const struct dc_trees_query *q) __attribute__((nonnull));

/* The arcs that the set takes for down, which may be others than the network's: it knows what it was told by a repair.
 * `arc` has room for all of the network's arcs. Returns their number. */
uint32_t dc_trees_down(const struct dc_trees *s, uint32_t *arc) __attribute__((nonnull));

/* These arcs are down for the set, and no others; after a reset, before trees are loaded. With dc_trees_nodes and
 * dc_trees_load a set can so be put away and be taken up again. */
void dc_trees_take_down(struct dc_trees *s, const uint32_t *arc, uint32_t arcs) __attribute__((nonnull(1)));

/* Bit per tree that is there. */
uint64_t dc_trees_held(const struct dc_trees *s) __attribute__((nonnull));
/* In links; 65,535 where there are more. */
uint32_t dc_trees_depth(const struct dc_trees *s, unsigned tree) __attribute__((nonnull));

/* The tree's nodes without the source, parents before children, and the arc by which each is entered. Writes both
 * (either may be NULL) and returns their number (at most V - 1). */
uint32_t dc_trees_nodes(struct dc_trees *s, unsigned tree, uint32_t *node, uint32_t *arc);

/* The arc by which the tree enters v; DC_NO_ARC for the source and for what is not in it. */
uint32_t dc_trees_parent(const struct dc_trees *s, unsigned tree, uint32_t v) __attribute__((nonnull));

/* Least of the source's links up and each receiver's links up to what forwards: the paper's bound (section 6.1.2). */
uint32_t dc_trees_bound_degree(const struct dc_trees *s) __attribute__((nonnull));

/* Least max-flow from the source to a receiver. O(receivers bound E) at worst; at once where the set holds as many
 * trees as the degrees allow. */
uint32_t dc_trees_bound_maxflow(struct dc_trees *s) __attribute__((nonnull));

/* Which of the query's receivers can be reached at all: writes 0 or 1 for each, returns how many cannot. O(V + E). */
uint32_t dc_trees_reachable(struct dc_trees *s, uint8_t *reached) __attribute__((nonnull));

#endif
