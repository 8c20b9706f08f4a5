/* Joining nodes to trees over free arcs, or over arcs that other trees then replace. */
#ifndef DATACAST_TREES_ATTACH_H
#define DATACAST_TREES_ATTACH_H

#include "trees_set.h"

/* Meet the set's needs (s->need; all receivers of trees in `trees` where there are more than it holds), taking arcs
 * from trees of `may_lose` where no free path is; what those lose is joined again in the same way. Such searches are
 * bounded in number. Returns a bit per tree that still misses something; those trees may hold pieces that do not lead
 * to the source. Trees it touched are pruned. No needs are left. */
uint64_t dc_attach_exchange(struct dc_trees *s, uint64_t trees, uint64_t may_lose) __attribute__((nonnull));

#endif
