#include "trees_shorten.h"

enum { TRIES = 3 };

/* A way into a node: over arc `last`, and `before` it unless that is DC_NO_ARC. */
struct way {
  uint32_t last, before, depth;
};

static bool in_tree(const struct dc_trees *s, unsigned t, uint32_t u)
{
  return u == s->source ? s->branching : dc_parents(s, t)[u] != DC_NO_ARC;
}

/* Is `above` on the way from u to the source? */
static bool passes(const struct dc_trees *s, unsigned t, uint32_t u, uint32_t above)
{
  const uint32_t *parent = dc_parents(s, t);
  for (; u != s->source; u = s->net->to[parent[u]])
    if (u == above)
      return true;
  return false;
}

/* The best way into v of less than `least` links from the source. Depths are right or too large. */
static struct way better(const struct dc_trees *s, unsigned t, uint32_t v, uint32_t least)
{
  const struct dc_net *net = s->net;
  const uint16_t *depth = dc_depths(s, t);
  struct way best = {DC_NO_ARC, DC_NO_ARC, least};
  for (uint32_t a = net->first[v]; a < net->first[v + 1]; a++) {
    uint32_t u = net->to[a];
    if (s->use[a] != DC_USE_FREE)
      continue;
    if (in_tree(s, t, u)) {
      if (depth[u] + 1u < best.depth && !passes(s, t, u, v))
        best = (struct way){a, DC_NO_ARC, depth[u] + 1u};
      continue;
    }
    if (u == s->source)
      continue;
    for (uint32_t b = net->first[u]; b < net->first[u + 1]; b++) {
      uint32_t w = net->to[b];
      if (s->use[b] == DC_USE_FREE && w != v && in_tree(s, t, w) && depth[w] + 2u < best.depth && !passes(s, t, w, v))
        best = (struct way){a, b, depth[w] + 2u};
    }
  }
  return best;
}

static bool shorten_path(struct dc_trees *s, unsigned t, uint32_t receiver)
{
  const struct dc_net *net = s->net;
  const uint32_t *parent = dc_parents(s, t);
  uint16_t *depth = dc_depths(s, t);
  struct way best = {DC_NO_ARC, DC_NO_ARC, 0};
  uint32_t at = DC_NO_NODE, gain = 0, enough = depth[receiver] - s->deepest[t];
  for (uint32_t v = receiver; v != s->source && gain < enough && depth[v] > gain + 1; v = net->to[parent[v]]) {
    struct way w = better(s, t, v, depth[v] - gain);
    if (w.last != DC_NO_ARC) {
      gain = depth[v] - w.depth;
      best = w;
      at = v;
    }
  }
  if (at == DC_NO_NODE)
    return false;
  if (best.before != DC_NO_ARC) {
    uint32_t u = net->to[best.last];
    dc_set_enter(s, t, u, best.before);
    depth[u] = (uint16_t)(best.depth - 1);
  }
  dc_set_enter(s, t, at, best.last);
  for (uint32_t v = receiver; v != at; v = net->to[parent[v]])
    depth[v] = (uint16_t)(depth[v] - gain);
  depth[at] = (uint16_t)best.depth;
  return true;
}

void dc_shorten(struct dc_trees *s, unsigned t)
{
  const uint16_t *depth = dc_depths(s, t);
  bool touched = false;
  dc_set_list(s, t);
  for (uint32_t i = 0; i < s->receivers; i++)
    for (unsigned tries = 0;
         tries < TRIES && depth[s->receiver[i]] > s->deepest[t] && shorten_path(s, t, s->receiver[i]); tries++)
      touched = true;
  if (touched)
    (void)dc_set_prune(s, t);
}
