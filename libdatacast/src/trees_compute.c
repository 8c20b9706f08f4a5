#include "trees_attach.h"
#include "trees_bfs.h"
#include "trees_maxflow.h"
#include "trees_walk.h"

/* Searches that an exchange of arcs may take before a tree is given up. */
enum { BUDGET = 600 };

static uint64_t low_bits(unsigned n)
{
  return n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
}

/* The generic construction: one tree after the other, each a breadth-first search over what is left. */
static uint64_t search_all(struct dc_trees *s, unsigned wanted)
{
  const struct dc_net *net = s->net;
  uint64_t missing = 0;
  uint32_t out = 0;
  for (uint32_t a = net->first[s->source]; a < net->first[s->source + 1]; a++)
    out += s->use[net->rev[a]] == DC_USE_FREE;
  for (unsigned t = 0; t < wanted; t++) {
    if (!dc_bfs_tree(s, t, wanted == 1 ? 1 : 0))
      missing |= UINT64_C(1) << t;
    else
      dc_set_prune(s, t);
  }
  return missing;
}

/* Empty the tree that misses most. */
static void give_up_one(struct dc_trees *s, uint64_t trees)
{
  unsigned worst = 0;
  uint32_t least = UINT32_MAX;
  for (unsigned t = 0; t < s->net->trees; t++)
    if ((trees >> t & 1) != 0 && s->length[t] < least) {
      least = s->length[t];
      worst = t;
    }
  dc_set_release(s, worst);
}

unsigned dc_trees_compute(struct dc_trees *s, const struct dc_trees_query *q)
{
  dc_set_clear(s, q);
  unsigned wanted = dc_trees_bound_degree(s);
  if (wanted > s->most)
    wanted = s->most;
  if (wanted == 0 || s->receivers == 0)
    return 0;

  uint64_t all = low_bits(wanted), missing;
  if (s->net->kind == DC_NET_FATTREE)
    missing = dc_walk_fattree(s);
  else if (s->net->structured != 0)
    missing = dc_walk_structured(s, wanted);
  else
    missing = search_all(s, wanted);
  while (missing != 0) {
    missing = dc_attach_exchange(s, missing, all, BUDGET);
    if (missing == 0)
      break;
    uint64_t before = all;
    give_up_one(s, missing);
    for (unsigned t = 0; t < s->net->trees; t++)
      if ((before >> t & 1) != 0 && s->length[t] == 0)
        all &= ~(UINT64_C(1) << t), missing &= ~(UINT64_C(1) << t);
  }
  s->held = all;
  return (unsigned)__builtin_popcountll(all);
}
