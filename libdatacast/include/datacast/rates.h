/* Trees with rates over links with rates of their own (docs/decisions/trees-exact.md).
 *
 * Every arc has a capacity, a whole number in a unit of the caller's. The answer is a set of trees with rates: no arc
 * carries more than its capacity, and each receiver's rate is the sum of those of the trees that it is in. Bound for one
 * receiver: its max-flow from the source; for one common rate: the least of them. Both are given with every answer, and
 * the cut that is the reason.
 *
 * Two ways to the trees: growing them one by one at the rate that the members still miss, which is exact on networks
 * without circles and quick on any; and, where that falls short and the network is small enough, splitting arcs off node
 * by node after Bang-Jensen, Frank and Jackson, which is exact for every receiver at once where no relay can send more
 * than it can receive.
 */
#ifndef DATACAST_RATES_H
#define DATACAST_RATES_H

#include "datacast/trees.h"

enum {
  /* Trees of one plan. */
  DC_RATES_TREES_MAX = 4096
};

/* The sum of the capacities on either side of a node: more cannot be counted. */
#define DC_RATES_SUM_MAX (UINT32_C(1) << 31)

struct dc_rates;

struct dc_rates_query {
  uint32_t source;
  const uint32_t *receiver; /* distinct hosts, not the source */
  uint32_t receivers;
  uint32_t most;            /* trees wanted at most: 1..DC_RATES_TREES_MAX */
  bool together;            /* one rate for all receivers; otherwise each its own */
  const uint32_t *capacity; /* per arc, what other groups leave of it; 0: closed */
  const uint32_t *wish;     /* per receiver: no more than this; or NULL */
};

enum dc_rates_error {
  DC_RATES_OK = 0,
  DC_RATES_SUM, /* the capacities around `node` exceed DC_RATES_SUM_MAX: use a larger unit */
  DC_RATES_NONE /* no receiver can be reached */
};

/* Bytes for a plan over `net` of at most `receivers` receivers and `most` trees. Most of it is only touched when arcs
 * have to be split off. O(1). */
size_t dc_rates_size(const struct dc_net *net, uint32_t receivers, uint32_t most) __attribute__((nonnull));

/* An empty plan in `memory` (aligned to 8; the caller keeps it and `net`, which must outlive it). */
struct dc_rates *dc_rates_init(void *memory, const struct dc_net *net, uint32_t receivers, uint32_t most)
    __attribute__((nonnull));

/* Plan. The query's arrays are not kept. Receivers that cannot be reached get the rate 0. Same input, same trees.
 * Growing costs O(trees (V + E)); splitting off is bounded by a number of steps. `node`: see dc_rates_error. */
enum dc_rates_error dc_rates_compute(struct dc_rates *r, const struct dc_rates_query *q, uint32_t *node)
    __attribute__((nonnull));

/* Trees of the plan, fastest first. */
uint32_t dc_rates_trees(const struct dc_rates *r) __attribute__((nonnull));
uint32_t dc_rates_tree_rate(const struct dc_rates *r, uint32_t tree) __attribute__((nonnull));

/* A tree's nodes without the source, parents before children, and the arc by which each is entered; returns their number
 * (at most V - 1). */
uint32_t dc_rates_tree(struct dc_rates *r, uint32_t tree, uint32_t *node, uint32_t *arc) __attribute__((nonnull));

/* What receiver i of the query gets, and what it could get alone (its max-flow). */
uint64_t dc_rates_got(const struct dc_rates *r, uint32_t i) __attribute__((nonnull));
uint64_t dc_rates_bound(const struct dc_rates *r, uint32_t i) __attribute__((nonnull));

/* The cut that bounds receiver i: writes 1 for every node on the source's side, 0 for the others; the capacity of the
 * arcs from the one side to the other is dc_rates_bound. O(bound E). */
void dc_rates_cut(struct dc_rates *r, uint32_t i, uint8_t *side) __attribute__((nonnull));

/* Did the trees come from splitting off? */
bool dc_rates_was_split(const struct dc_rates *r) __attribute__((nonnull));

#endif
