/* From trees to routes: each receiver's list of stops (route.h), with waypoints at the branch nodes and where a label
 * stack would get too deep (design.md, section 3). */
#ifndef DATACAST_TREES_ROUTES_H
#define DATACAST_TREES_ROUTES_H

#include "datacast/trees.h"

enum dc_routes_error {
  DC_ROUTES_OK = 0,
  DC_ROUTES_SPACE,   /* the buffer is too small */
  DC_ROUTES_MISSING, /* `node`, a receiver, is not in the tree */
  DC_ROUTES_MSD,     /* `node` cannot handle the labels, and no waypoint can be put where it would help */
  DC_ROUTES_LONG,    /* more than DC_SEG_MAX links without a place for a waypoint; `node` is where it gave up */
  DC_ROUTES_STOPS,   /* the route of `node` has more stops or bytes than an interest can carry */
  DC_ROUTES_CHILDREN /* `node` would have more than DC_CHILDREN_MAX children */
};

struct dc_routes_result {
  enum dc_routes_error error;
  uint32_t node;
  size_t bytes;      /* of all blobs */
  uint32_t labels;   /* deepest stack of a data frame */
  uint32_t interest; /* longest interest behind Ethernet's header: labels, header, and the stops still to come */
};

/* The routes of all receivers of a tree, one blob after the other, in the order of the query: blob i is
 * out[at[i]..at[i+1]); `at` has one place more than there are receivers. O(bytes written). */
struct dc_routes_result dc_trees_routes(struct dc_trees *s, unsigned tree, uint8_t *out, size_t cap, uint32_t *at)
    __attribute__((nonnull));

#endif
