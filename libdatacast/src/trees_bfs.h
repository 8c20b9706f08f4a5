/* Breadth-first search forwards from the source. */
#ifndef DATACAST_TREES_BFS_H
#define DATACAST_TREES_BFS_H

#include "trees_set.h"

/* Tree t (empty) over free arcs, all receivers in one search; keeps to one link of the source while `spare` is 0, so
 * that as many trees as it has links can start. Returns whether all receivers are in it. O(V + E). */
bool dc_bfs_tree(struct dc_trees *s, unsigned t, uint32_t spare) __attribute__((nonnull));

/* Make tree t, which is whole, as shallow as free arcs and its own allow. Does nothing when its source may have only
 * one child. O(V + E). */
void dc_bfs_shallow(struct dc_trees *s, unsigned t) __attribute__((nonnull));

#endif
