/* A tree from its members up: each receiver's path by the structured construction, with detours round what is
 * broken. */
#ifndef DATACAST_TREES_WALK_H
#define DATACAST_TREES_WALK_H

#include "trees_set.h"

/* Trees 0..wanted-1 of an empty set from the structured trees whose first link is up. When there are more of those than
 * are wanted, a tree follows several: each node takes the nearest way, which makes the tree shallower and is a way
 * round failures. Receivers that a walk could not join become needs. */
void dc_walk_structured(struct dc_trees *s, unsigned wanted) __attribute__((nonnull));

/* Fattree: the one tree, over the cores and links with the least load. False, and the set empty, when a link of it is
 * down. */
bool dc_walk_fattree(struct dc_trees *s) __attribute__((nonnull));

#endif
