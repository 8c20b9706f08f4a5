/* Making a tree shallower over free arcs, at the places where that is easy. */
#ifndef DATACAST_TREES_SHORTEN_H
#define DATACAST_TREES_SHORTEN_H

#include "trees_set.h"

/* Give receivers of tree t that are deeper than s->deepest[t] another way to the tree, of one or two free arcs, at the
 * best place of their path. The tree stays whole and pruned. O(such receivers, depth, degree squared). */
void dc_shorten(struct dc_trees *s, unsigned t) __attribute__((nonnull));

#endif
