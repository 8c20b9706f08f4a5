/* The trees of one group, in plain arrays: for every tree the arc by which each node is entered. */
#ifndef DATACAST_TREES_SET_H
#define DATACAST_TREES_SET_H

#include "trees_address.h"

#define DC_ROOT (UINT32_MAX - 1) /* the source's "arc" */

/* Depths that are none: not joined to the source (yet), and: left by the tree, but still in its list. */
enum { DC_DEPTH_OPEN = UINT16_MAX, DC_DEPTH_LEFT = UINT16_MAX - 1 };

enum { DC_ROLE_RECEIVER = 1 };

/* Receivers up to which a tree that detours made deep is searched anew; with more, that takes longer than it is
 * worth. */
enum { DC_SMALL_GROUP = 512 };

/* A node that a tree still has to reach. */
struct dc_need {
  uint32_t v;
  unsigned t;
};
enum { DC_NEEDS_MAX = 2048 };

struct dc_trees {
  const struct dc_net *net;
  uint8_t *use;     /* arc -> DC_USE_* or tree + 1 */
  uint32_t *parent; /* [trees][nodes]: arc by which the tree enters, DC_NO_ARC, or DC_ROOT */
  uint16_t *depth;  /* [trees][nodes] */
  uint32_t *list;   /* [trees][nodes]: the tree's nodes without the source, parents before children */
  uint32_t length[DC_TREES_MAX];
  uint64_t held;                  /* trees that are whole */
  uint64_t detoured;              /* trees in which a walk had to leave the structured way */
  uint32_t deepest[DC_TREES_MAX]; /* a tree that is deeper for a detour deserves another look */
  uint64_t rough;                 /* trees whose list and depths must be made anew */
  uint64_t bare; /* trees of which only the parents are known, and the height: no list and no depths yet */
  uint32_t height[DC_TREES_MAX]; /* of bare trees */
  uint32_t source, receivers, most;
  const uint16_t *load;
  uint32_t seed;  /* of exchanges: 0, or another order of searches */
  bool branching; /* the source may have several children in one tree */
  uint8_t *role;
  uint32_t *receiver;
  struct dc_relative relative;
  uint32_t *relative_words;
  /* For searches: a node is marked when stamp[v] == now. */
  uint32_t *queue, *later, *next, *stamp;
  uint32_t now;
  struct dc_need need[DC_NEEDS_MAX];
  unsigned needs;
  bool needs_more; /* than there is room for: look at every receiver */
  uint8_t *taken;  /* arc -> when it was last taken from another tree */
};

static inline uint32_t *dc_parents(const struct dc_trees *s, unsigned t)
{
  return s->parent + (size_t)t * s->net->nodes;
}

static inline uint16_t *dc_depths(const struct dc_trees *s, unsigned t) { return s->depth + (size_t)t * s->net->nodes; }

static inline uint32_t *dc_list(const struct dc_trees *s, unsigned t) { return s->list + (size_t)t * s->net->nodes; }

static inline unsigned dc_load(const struct dc_trees *s, uint32_t arc) { return s->load == NULL ? 0 : s->load[arc]; }

static inline void dc_need_add(struct dc_trees *s, unsigned t, uint32_t v)
{
  if (s->needs == DC_NEEDS_MAX)
    s->needs_more = true;
  else
    s->need[s->needs++] = (struct dc_need){v, t};
}

/* Trees in a mask. (The compiler's own count calls a library where the processor has no instruction for it.) */
static inline unsigned dc_bits(uint64_t trees)
{
  unsigned n = 0;
  for (; trees != 0; trees &= trees - 1)
    n++;
  return n;
}

static inline uint32_t dc_new_stamp(struct dc_trees *s) { return ++s->now; }

/* Forget all trees, take over which links are up, and set the group. */
void dc_set_clear(struct dc_trees *s, const struct dc_trees_query *q) __attribute__((nonnull));

/* Give a bare tree its list and depths. */
static inline void dc_set_list(struct dc_trees *s, unsigned t);

/* Empty one tree: its arcs become free. */
void dc_set_release(struct dc_trees *s, unsigned t) __attribute__((nonnull));

/* Prune tree t to the paths of the receivers it reaches, make its list and depths anew. Returns the receivers it
 * misses. */
uint32_t dc_set_prune(struct dc_trees *s, unsigned t) __attribute__((nonnull));

/* Let tree t enter v by an arc, or leave it. The tree is rough afterwards. */
void dc_set_enter(struct dc_trees *s, unsigned t, uint32_t v, uint32_t arc) __attribute__((nonnull));
void dc_set_leave(struct dc_trees *s, unsigned t, uint32_t v) __attribute__((nonnull));

/* Does tree t lead from the source to v? O(depth). */
bool dc_set_joined(const struct dc_trees *s, unsigned t, uint32_t v) __attribute__((nonnull));

/* Does v have a child in tree t? O(degree). */
bool dc_set_has_child(const struct dc_trees *s, unsigned t, uint32_t v) __attribute__((nonnull));

static inline void dc_set_list(struct dc_trees *s, unsigned t)
{
  if ((s->bare >> t & 1) != 0)
    (void)dc_set_prune(s, t);
}

#endif
