#include "trees_maxflow.h"

#include <string.h>

/* The flow is kept in `taken`: 1 where an arc carries it. The search goes backwards from v: across an arc without flow,
 * or against one with flow, until it meets the source. */
static bool augment(struct dc_trees *s, uint32_t v)
{
  const struct dc_net *net = s->net;
  uint32_t *queue = s->queue, *next = s->next, n = 0, now = dc_new_stamp(s);
  queue[n++] = v;
  s->stamp[v] = now;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t x = queue[i];
    for (uint32_t a = net->first[x]; a < net->first[x + 1]; a++) {
      uint32_t u = net->to[a], b = net->rev[a];
      if (s->stamp[u] == now)
        continue;
      /* Either the arc u -> x is free, or x -> u carries flow that can be taken back. */
      bool free = s->taken[a] == 0 && (net->base[a] & DC_USE_DOWN) == 0 &&
                  (u == s->source || (net->flags[u] & DC_NODE_FORWARDS) != 0) && x != s->source;
      if (!free && s->taken[b] == 0)
        continue;
      s->stamp[u] = now;
      next[u] = a;
      if (u != s->source) {
        queue[n++] = u;
        continue;
      }
      while (u != v) {
        uint32_t arc = next[u], to = dc_owner(net, arc);
        if (s->taken[net->rev[arc]] != 0)
          s->taken[net->rev[arc]] = 0;
        else
          s->taken[arc] = 1;
        u = to;
      }
      return true;
    }
  }
  return false;
}

uint32_t dc_maxflow(struct dc_trees *s, uint32_t v, uint32_t enough)
{
  uint32_t flow = 0;
  memset(s->taken, 0, s->net->arcs);
  while (flow < enough && augment(s, v))
    flow++;
  return flow;
}

uint32_t dc_trees_bound_degree(const struct dc_trees *s)
{
  const struct dc_net *net = s->net;
  uint32_t least = 0;
  for (uint32_t a = net->first[s->source]; a < net->first[s->source + 1]; a++)
    least += (net->base[a] & DC_USE_DOWN) == 0;
  for (uint32_t i = 0; i < s->receivers; i++) {
    uint32_t v = s->receiver[i], in = 0;
    for (uint32_t a = net->first[v]; a < net->first[v + 1]; a++)
      in += net->base[a] == DC_USE_FREE || ((net->base[a] & DC_USE_DOWN) == 0 && net->to[a] == s->source);
    if (in < least)
      least = in;
  }
  return least;
}

uint32_t dc_trees_bound_maxflow(struct dc_trees *s)
{
  uint32_t least = dc_trees_bound_degree(s), known = dc_bits(s->held);
  /* The paths to a receiver in the trees that are there do not share an arc: none has less. */
  for (uint32_t i = 0; i < s->receivers && least > known; i++) {
    uint32_t flow = dc_maxflow(s, s->receiver[i], least);
    if (flow < least)
      least = flow;
  }
  return least;
}
