/* Trees with rates: the part of the network that counts, in arrays of its own. */
#ifndef DATACAST_TREES_RATES_H
#define DATACAST_TREES_RATES_H

#include "datacast/rates.h"
#include "trees_graph.h"

enum {
  /* Splitting off: nodes at most (flows of every receiver over every pair of nodes are kept), steps. */
  DC_SPLIT_NODES = 200,
  DC_SPLIT_CELLS = 48 << 20,
  DC_SPLIT_LOG = 64, /* entries per node, on the average */
  DC_SPLIT_TREES = 1024,
  /* Max-flows for the bounds: steps at most. Beyond, degrees bound. */
  DC_FLOW_STEPS = 32 << 20
};

/* Node 0 is the source, 1..terminals the receivers (one for all that are joined in the same way), then the relays. Arcs
 * lie in rows of the node where they begin. */
struct dc_rates {
  const struct dc_net *net;
  uint32_t most, room; /* trees at most, receivers at most */
  uint32_t n, m, terminals;
  uint32_t *node;                           /* -> the network's */
  uint32_t *place;                          /* network's node -> here, or DC_NO_NODE */
  uint32_t *first;                          /* n + 1 */
  uint32_t *head, *tail, *cap, *back, *arc; /* back: the opposite arc, or DC_NO_ARC; arc: the network's */
  uint32_t receivers;
  uint32_t *receiver;    /* of the query */
  uint32_t *like;        /* receiver -> the terminal that stands for it, 0: cut off */
  uint64_t *bound;       /* per terminal: max-flow */
  uint32_t *target;      /* per terminal: the rate to be reached */
  uint64_t *got, *saved; /* per terminal */
  uint32_t count;        /* trees */
  uint32_t *rate;        /* per tree */
  uint32_t *order;       /* trees, fastest first */
  uint32_t *up;          /* [most][nodes]: arc by which the tree enters, or DC_NO_ARC */
  uint32_t *left;        /* arcs: capacity left, or a flow's residual */
  uint32_t *queue, *seen, *via;
  uint32_t now;
  uint64_t steps;
  bool tree_shaped, was_split, together;
  bool spanning;  /* no tree may leave out a receiver that still misses something */
  uint32_t *work; /* for splitting off */
};

static inline uint32_t *dc_rates_up(const struct dc_rates *r, uint32_t t) { return r->up + (size_t)t * r->net->nodes; }

/* Max-flow from the source to v, at most `enough`; leaves its residual in r->left, and marks in r->seen == r->now what
 * the source still reaches when it ends below `enough`. */
uint64_t dc_rates_flow(struct dc_rates *r, uint32_t v, uint64_t enough) __attribute__((nonnull));

/* Grow trees until every terminal has its target or nothing can be reached; `common_first`: trees with all receivers as
 * long as there are any. Sets trees, rates and got. */
void dc_rates_peel(struct dc_rates *r, bool common_first) __attribute__((nonnull));

/* Is what a gives the terminals better (1) than b, the same (0) or worse (-1), from the one that gets least on? More than
 * the target does not count. */
int dc_rates_compare(const struct dc_rates *r, const uint64_t *a, const uint64_t *b) __attribute__((nonnull));

/* Trees by splitting off; replaces those there are if it is better for the receivers, from the least on. */
void dc_rates_split(struct dc_rates *r) __attribute__((nonnull));

/* Drop what leads to no terminal with a target from an `up` of n nodes. */
void dc_rates_prune(struct dc_rates *r, uint32_t *up, const uint32_t *wanted) __attribute__((nonnull));

#endif
