#include "trees_set.h"

#include <string.h>

static size_t lay_out(struct dc_trees *s, void *memory, const struct dc_net *net)
{
  struct dc_arena a = {memory, 0};
  struct dc_trees dry;
  (void)dc_arena_take(&a, sizeof *s);
  if (s == NULL)
    s = &dry;
  size_t nodes = net->nodes, all = nodes * net->trees;
  s->use = dc_arena_take(&a, net->arcs);
  s->parent = dc_arena_take(&a, all * sizeof *s->parent);
  s->depth = dc_arena_take(&a, all * sizeof *s->depth);
  s->list = dc_arena_take(&a, all * sizeof *s->list);
  s->role = dc_arena_take(&a, nodes);
  s->receiver = dc_arena_take(&a, nodes * sizeof *s->receiver);
  s->relative_words = dc_arena_take(&a, dc_relative_words(net) * sizeof *s->relative_words);
  s->queue = dc_arena_take(&a, nodes * sizeof *s->queue);
  s->later = dc_arena_take(&a, nodes * sizeof *s->later);
  s->next = dc_arena_take(&a, nodes * sizeof *s->next);
  s->stamp = dc_arena_take(&a, nodes * sizeof *s->stamp);
  s->taken = dc_arena_take(&a, net->arcs);
  return a.used;
}

size_t dc_trees_size(const struct dc_net *net) { return lay_out(NULL, NULL, net); }

struct dc_trees *dc_trees_init(void *memory, const struct dc_net *net)
{
  struct dc_trees *s = memory;
  memset(s, 0, sizeof *s);
  lay_out(s, memory, net);
  s->net = net;
  s->source = DC_NO_NODE;
  memset(s->role, 0, net->nodes);
  memset(s->stamp, 0, net->nodes * sizeof *s->stamp);
  memset(s->parent, 0xff, (size_t)net->nodes * net->trees * sizeof *s->parent);
  memset(s->depth, 0xff, (size_t)net->nodes * net->trees * sizeof *s->depth);
  memcpy(s->use, net->base, net->arcs);
  return s;
}

static void forget(struct dc_trees *s, unsigned t)
{
  uint32_t *parent = dc_parents(s, t), *list = dc_list(s, t);
  uint16_t *depth = dc_depths(s, t);
  for (uint32_t i = 0; i < s->length[t]; i++) {
    parent[list[i]] = DC_NO_ARC;
    depth[list[i]] = DC_DEPTH_OPEN;
  }
  s->length[t] = 0;
}

void dc_set_clear(struct dc_trees *s, const struct dc_trees_query *q)
{
  const struct dc_net *net = s->net;
  for (unsigned t = 0; t < net->trees && s->source != DC_NO_NODE; t++) {
    if ((s->bare >> t & 1) != 0)
      memset(dc_parents(s, t), 0xff, net->nodes * sizeof *s->parent);
    else
      forget(s, t);
    dc_parents(s, t)[s->source] = DC_NO_ARC;
    dc_depths(s, t)[s->source] = DC_DEPTH_OPEN;
  }
  for (uint32_t i = 0; i < s->receivers; i++)
    s->role[s->receiver[i]] = 0;
  s->held = s->rough = s->detoured = s->bare = 0;
  s->needs = 0;
  s->needs_more = false;
  s->source = q->source;
  s->receivers = q->receivers;
  s->most = q->most < net->trees ? q->most : net->trees;
  s->load = q->load;
  s->branching = (net->flags[q->source] & DC_NODE_CACHE) != 0;
  memcpy(s->receiver, q->receiver, q->receivers * sizeof *s->receiver);
  for (uint32_t i = 0; i < s->receivers; i++)
    s->role[s->receiver[i]] = DC_ROLE_RECEIVER;
  for (unsigned t = 0; t < net->trees; t++) {
    dc_parents(s, t)[s->source] = DC_ROOT;
    dc_depths(s, t)[s->source] = 0;
  }
  memcpy(s->use, net->base, net->arcs);
  /* A source that does not forward still sends. */
  if ((net->flags[s->source] & DC_NODE_FORWARDS) == 0)
    for (uint32_t a = net->first[s->source]; a < net->first[s->source + 1]; a++)
      s->use[net->rev[a]] &= DC_USE_DOWN;
}

void dc_set_release(struct dc_trees *s, unsigned t)
{
  dc_set_list(s, t);
  const uint32_t *parent = dc_parents(s, t), *list = dc_list(s, t);
  for (uint32_t i = 0; i < s->length[t]; i++)
    if (parent[list[i]] != DC_NO_ARC && s->use[parent[list[i]]] == t + 1)
      s->use[parent[list[i]]] = DC_USE_FREE;
  forget(s, t);
  s->held &= ~(UINT64_C(1) << t);
  s->rough &= ~(UINT64_C(1) << t);
}

uint32_t dc_set_prune(struct dc_trees *s, unsigned t)
{
  const struct dc_net *net = s->net;
  uint32_t *parent = dc_parents(s, t), *list = dc_list(s, t), *fresh = s->queue;
  uint16_t *depth = dc_depths(s, t);
  uint32_t length = 0, missing = 0, now = dc_new_stamp(s);

  s->stamp[s->source] = now;
  for (uint32_t i = 0; i < s->receivers; i++) {
    uint32_t at = length, v = s->receiver[i];
    for (; s->stamp[v] != now && parent[v] != DC_NO_ARC; v = net->to[parent[v]]) {
      s->stamp[v] = now;
      depth[v] = DC_DEPTH_OPEN;
      fresh[at++] = v;
    }
    if (s->stamp[v] != now || depth[v] == DC_DEPTH_OPEN) {
      /* Does not lead to the source: leave it out. */
      missing++;
      for (uint32_t j = length; j < at; j++)
        s->stamp[fresh[j]] = now - 1;
      continue;
    }
    unsigned d = depth[v];
    for (uint32_t j = at; j-- > length;)
      depth[fresh[j]] = (uint16_t)++d;
    for (uint32_t l = length, r = at; l + 1 < r; l++) {
      uint32_t x = fresh[--r];
      fresh[r] = fresh[l];
      fresh[l] = x;
    }
    length = at;
  }
  for (uint32_t i = 0; i < s->length[t]; i++) {
    uint32_t v = list[i];
    if (s->stamp[v] == now)
      continue;
    if (parent[v] != DC_NO_ARC && s->use[parent[v]] == t + 1)
      s->use[parent[v]] = DC_USE_FREE;
    parent[v] = DC_NO_ARC;
    depth[v] = DC_DEPTH_OPEN;
  }
  memcpy(list, fresh, length * sizeof *list);
  s->length[t] = length;
  s->rough &= ~(UINT64_C(1) << t);
  s->bare &= ~(UINT64_C(1) << t);
  return missing;
}

void dc_set_enter(struct dc_trees *s, unsigned t, uint32_t v, uint32_t arc)
{
  uint32_t *parent = dc_parents(s, t);
  uint16_t *depth = dc_depths(s, t);
  if (parent[v] != DC_NO_ARC)
    dc_set_leave(s, t, v);
  if (depth[v] == DC_DEPTH_OPEN) {
    dc_list(s, t)[s->length[t]++] = v;
    depth[v] = DC_DEPTH_LEFT;
  }
  parent[v] = arc;
  s->use[arc] = (uint8_t)(t + 1);
  s->rough |= UINT64_C(1) << t;
}

void dc_set_leave(struct dc_trees *s, unsigned t, uint32_t v)
{
  uint32_t *parent = dc_parents(s, t);
  if (s->use[parent[v]] == t + 1)
    s->use[parent[v]] = DC_USE_FREE;
  parent[v] = DC_NO_ARC;
  s->rough |= UINT64_C(1) << t;
}

bool dc_set_joined(const struct dc_trees *s, unsigned t, uint32_t v)
{
  const uint32_t *parent = dc_parents(s, t);
  for (uint32_t steps = 0; steps <= s->net->nodes; steps++) {
    if (parent[v] == DC_ROOT)
      return true;
    if (parent[v] == DC_NO_ARC)
      return false;
    v = s->net->to[parent[v]];
  }
  return false;
}

bool dc_set_has_child(const struct dc_trees *s, unsigned t, uint32_t v)
{
  const struct dc_net *net = s->net;
  for (uint32_t a = net->first[v]; a < net->first[v + 1]; a++)
    if (s->use[net->rev[a]] == t + 1)
      return true;
  return false;
}

/* ---- what others see ---- */

uint64_t dc_trees_held(const struct dc_trees *s) { return s->held; }

uint32_t dc_trees_depth(const struct dc_trees *s, unsigned tree)
{
  uint32_t most = 0;
  if ((s->bare >> tree & 1) != 0)
    return s->height[tree];
  const uint16_t *depth = dc_depths(s, tree);
  const uint32_t *list = dc_list(s, tree);
  for (uint32_t i = 0; i < s->length[tree]; i++)
    if (depth[list[i]] > most)
      most = depth[list[i]];
  return most;
}

uint32_t dc_trees_nodes(struct dc_trees *s, unsigned tree, uint32_t *node, uint32_t *arc)
{
  dc_set_list(s, tree);
  const uint32_t *list = dc_list(s, tree), *parent = dc_parents(s, tree);
  for (uint32_t i = 0; i < s->length[tree]; i++) {
    if (node != NULL)
      node[i] = list[i];
    if (arc != NULL)
      arc[i] = parent[list[i]];
  }
  return s->length[tree];
}

uint32_t dc_trees_parent(const struct dc_trees *s, unsigned tree, uint32_t v)
{
  uint32_t arc = dc_parents(s, tree)[v];
  return arc == DC_ROOT ? DC_NO_ARC : arc;
}

uint32_t dc_trees_load(struct dc_trees *s, unsigned tree, const uint32_t *arc, uint32_t arcs)
{
  for (uint32_t i = 0; i < arcs; i++)
    if (arc[i] < s->net->arcs && dc_owner(s->net, arc[i]) != s->source)
      dc_set_enter(s, tree, dc_owner(s->net, arc[i]), arc[i]);
  s->held |= UINT64_C(1) << tree;
  return dc_set_prune(s, tree);
}

void dc_trees_reset(struct dc_trees *s, const struct dc_trees_query *q) { dc_set_clear(s, q); }

uint32_t dc_trees_down(const struct dc_trees *s, uint32_t *arc)
{
  uint32_t n = 0;
  for (uint32_t a = 0; a < s->net->arcs; a++)
    if ((s->use[a] & DC_USE_DOWN) != 0)
      arc[n++] = a;
  return n;
}

void dc_trees_take_down(struct dc_trees *s, const uint32_t *arc, uint32_t arcs)
{
  for (uint32_t a = 0; a < s->net->arcs; a++)
    s->use[a] &= (uint8_t)~DC_USE_DOWN;
  for (uint32_t i = 0; i < arcs; i++)
    if (arc[i] < s->net->arcs)
      s->use[arc[i]] |= DC_USE_DOWN;
}
