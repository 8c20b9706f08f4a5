/* The network in plain arrays. */
#ifndef DATACAST_TREES_GRAPH_H
#define DATACAST_TREES_GRAPH_H

#include "datacast/trees.h"

/* What an arc is used for: 0 free, tree + 1, or what keeps every tree off it. */
enum {
  DC_USE_FREE = 0,
  DC_USE_DEAD = 0x7f, /* comes from a node that does not forward */
  DC_USE_DOWN = 0x80
};

/* In the structured tables: no parent there. */
enum { DC_NO_PORT = 255, DC_FAR = 255 };

struct dc_net {
  uint32_t nodes, arcs;
  uint32_t trees;
  uint32_t down; /* links that are */
  enum dc_net_kind kind;
  uint32_t n, k;
  uint32_t hosts;      /* structured: they come first */
  uint32_t per_level;  /* BCube: switches of one level */
  uint32_t structured; /* trees of the structured construction */
  uint32_t wide, high; /* structured: the diameter, and the height of the trees */
  uint32_t fold;       /* BCube, Torus: n^(half of the digits), see trees_address.c */
  uint32_t *first;     /* nodes + 1 */
  uint32_t *to;        /* arc -> where it comes from */
  uint32_t *rev;       /* arc -> the other direction of its cable */
  uint8_t *base;       /* arc -> DC_USE_* of an empty set */
  uint8_t *flags;
  uint16_t *msd;
  uint8_t *port; /* [structured][nodes]: the port to the parent in the tree of source 0 */
  uint8_t *far;  /* [structured][nodes]: the depth there */
};

/* A block of memory that is given away from its start; with base NULL it only counts. */
struct dc_arena {
  uint8_t *base;
  size_t used;
};

static inline void *dc_arena_take(struct dc_arena *a, size_t bytes)
{
  void *p = a->base == NULL ? NULL : a->base + a->used;
  a->used += (bytes + 7) & ~(size_t)7;
  return p;
}

static inline uint32_t dc_owner(const struct dc_net *net, uint32_t arc) { return net->to[net->rev[arc]]; }

#endif
