/* Who asks at a source: its tree's distinct return segments, and how far each has asked. */
#ifndef DATACAST_SOURCE_CHILDREN_H
#define DATACAST_SOURCE_CHILDREN_H

#include <stdbool.h>
#include <stdint.h>

#include "datacast/limits.h"
#include "datacast/route.h"
#include "datacast/time.h"
#include "datacast/wire.h"

struct source_child {
  struct dc_segment ret;
  uint32_t pending; /* what waits for it: it keeps its place meanwhile */
  uint64_t used;
  dc_time heard;
  bool far; /* the last of its interests was for numbers far ahead, and is not believed */
  uint8_t
      known; /* 2: asked for more twice, or from the first number on: damaged interests make a child that there is not */
  uint32_t end, low; /* one past the furthest number that was asked for there, and by all who ask there */
  uint32_t depth;    /* packets that the caches on its way hold */
};

struct source_children {
  unsigned n;
  uint64_t uses;
  uint32_t first; /* number of the batch that was asked for last */
  struct source_child child[DC_SOURCE_CHILDREN_MAX];
};

/* Index of the return segment, or -1 when the table is full of segments for which something waits. */
int source_children_of(struct source_children *c, const struct dc_segment *ret) __attribute__((nonnull));
/* An interest of this child came, over caches that hold `depth` packets. */
void source_child_heard(struct source_child *child, dc_time now, const struct dc_header *h, uint32_t depth)
    __attribute__((nonnull));
/* One past the last number that all of them have asked for, `end` at most. That others have a batch still to ask for is no
 * distance (dc_tree_lag). *depth falls to the least of their caches. */
uint32_t source_children_low(const struct source_children *c, dc_time now, uint32_t end, uint32_t *depth)
    __attribute__((nonnull));

#endif
