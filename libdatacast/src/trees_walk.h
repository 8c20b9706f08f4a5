/* A tree from its members up: each receiver's path by the structured construction, with detours round what is broken. */
#ifndef DATACAST_TREES_WALK_H
#define DATACAST_TREES_WALK_H

#include "trees_set.h"

/* Structured trees of the network (chosen by their number) into trees 0..wanted-1 of an empty set. Receivers that a walk
 * could not join are left out of that tree; returns a bit per tree that misses some. */
uint64_t dc_walk_structured(struct dc_trees *s, unsigned wanted) __attribute__((nonnull));

/* Fattree: the one tree, over the cores and links with the least load. */
uint64_t dc_walk_fattree(struct dc_trees *s) __attribute__((nonnull));

#endif
