#include "trees_attach.h"
#include "trees_bfs.h"
#include "trees_maxflow.h"
#include "trees_shorten.h"
#include "trees_walk.h"

static uint64_t low_bits(unsigned n) { return n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1; }

/* All receivers that tree t does not reach. */
static void need_rest(struct dc_trees *s, unsigned t)
{
  for (uint32_t i = 0; i < s->receivers; i++)
    if (dc_parents(s, t)[s->receiver[i]] == DC_NO_ARC)
      dc_need_add(s, t, s->receiver[i]);
}

/* The generic construction: one tree after the other, each a breadth-first search over what is left. */
static void search_all(struct dc_trees *s, unsigned wanted)
{
  for (unsigned t = 0; t < wanted; t++)
    if (!dc_bfs_tree(s, t, wanted == 1 ? 1 : 0))
      need_rest(s, t);
}

/* Empty the tree that misses most; returns its bit. */
static uint64_t give_up_one(struct dc_trees *s, uint64_t trees)
{
  unsigned worst = 0;
  uint32_t least = UINT32_MAX;
  for (unsigned t = 0; t < s->net->trees; t++)
    if ((trees >> t & 1) != 0 && s->length[t] < least) {
      least = s->length[t];
      worst = t;
    }
  dc_set_release(s, worst);
  return UINT64_C(1) << worst;
}

static unsigned compute(struct dc_trees *s, const struct dc_trees_query *q, uint32_t seed, bool branching)
{
  dc_set_clear(s, q);
  s->seed = seed;
  s->branching |= branching;
  unsigned wanted = dc_trees_bound_degree(s);
  if (wanted > s->most)
    wanted = s->most;
  if (wanted == 0 || s->receivers == 0)
    return 0;

  uint64_t all = low_bits(wanted), missing;
  if (s->net->kind == DC_NET_FATTREE ? !dc_walk_fattree(s) : s->net->structured == 0)
    search_all(s, wanted);
  else if (s->net->structured != 0)
    dc_walk_structured(s, wanted);
  while (s->needs != 0 || s->needs_more) {
    for (unsigned t = 0; t < s->net->trees; t++)
      dc_set_list(s, t);
    missing = dc_attach_exchange(s, all, all);
    if (missing == 0)
      break;
    all &= ~give_up_one(s, missing);
    for (unsigned t = 0; t < s->net->trees; t++)
      if ((missing & all) >> t & 1)
        need_rest(s, t);
  }
  for (unsigned t = 0; t < s->net->trees; t++)
    if (((s->detoured & all) >> t & 1) != 0 && dc_trees_depth(s, t) > s->deepest[t]) {
      if (s->receivers <= DC_SMALL_GROUP)
        dc_bfs_shallow(s, t);
      else
        dc_shorten(s, t);
    }
  s->held = all;
  return dc_bits(all);
}

unsigned dc_trees_compute(struct dc_trees *s, const struct dc_trees_query *q)
{
  unsigned trees = compute(s, q, 0, false);
  /* A source that does not forward leaves merging to others: one child per tree; but better two children than no
   * tree. */
  return trees != 0 || s->branching ? trees : compute(s, q, 0, true);
}

/* Work for further attempts, in arcs; one attempt looks at some of them many times. */
enum { ATTEMPTS_MIN = 8, ATTEMPTS_MAX = 256, ATTEMPT_ARCS = 1 << 20 };

unsigned dc_trees_exact(struct dc_trees *s, const struct dc_trees_query *q, unsigned wanted)
{
  if (s->branching && (s->net->flags[s->source] & DC_NODE_CACHE) == 0)
    return dc_bits(s->held);
  unsigned best = dc_bits(s->held), attempts = ATTEMPT_ARCS / (s->net->arcs + 1);
  uint32_t best_seed = 0, last = 0;
  if (wanted > q->most)
    wanted = q->most;
  attempts = attempts < ATTEMPTS_MIN ? ATTEMPTS_MIN : attempts > ATTEMPTS_MAX ? ATTEMPTS_MAX : attempts;
  for (uint32_t i = 1; i <= attempts && best < wanted; i++) {
    last = i * 2654435761u;
    unsigned trees = compute(s, q, last, false);
    if (trees > best) {
      best = trees;
      best_seed = last;
    }
  }
  if (last != best_seed)
    (void)compute(s, q, best_seed, false);
  return best;
}
