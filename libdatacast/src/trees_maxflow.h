/* The least max-flow from the source to a receiver. */
#ifndef DATACAST_TREES_MAXFLOW_H
#define DATACAST_TREES_MAXFLOW_H

#include "trees_set.h"

/* Arc-disjoint paths from the source to v over links that are up, through nodes that forward; stops at `enough`.
 * O(enough E). */
uint32_t dc_maxflow(struct dc_trees *s, uint32_t v, uint32_t enough) __attribute__((nonnull));

#endif
