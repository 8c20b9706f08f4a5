#include "trees_bfs.h"

/* later[v]: the load on the way to v above, the distance in the low half. */
enum { DISTANCE = 0xffff, LOAD_SHIFT = 16, LOAD_MAX = 0xffff };

static inline uint32_t distance(const struct dc_trees *s, uint32_t v) { return s->later[v] & DISTANCE; }

static inline uint32_t onward(const struct dc_trees *s, uint32_t v, uint32_t arc)
{
  if (s->load == NULL)
    return s->later[v] + 1;
  uint32_t load = (s->later[v] >> LOAD_SHIFT) + dc_load(s, arc);
  return (load < LOAD_MAX ? load : LOAD_MAX) << LOAD_SHIFT | (distance(s, v) + 1);
}

/* Search over free arcs from the source, whose own arcs `from`..`end` it may use, until `wanted` receivers are seen;
 * returns how many were. next[v] is the arc by which v was reached, stamp[v] tells that it was. */
static uint32_t spread(struct dc_trees *s, uint32_t from, uint32_t end, uint32_t wanted, uint32_t *visited)
{
  const struct dc_net *net = s->net;
  uint32_t *queue = s->queue, *next = s->next, n = 1, found = 0, now = dc_new_stamp(s);
  queue[0] = s->source;
  s->later[s->source] = 0;
  s->stamp[s->source] = now;
  for (uint32_t i = 0; i < n && found < wanted; i++) {
    uint32_t v = queue[i];
    uint32_t a = i == 0 ? from : net->first[v], e = i == 0 ? end : net->first[v + 1];
    for (; a < e; a++) {
      uint32_t u = net->to[a], into = net->rev[a];
      if (s->use[into] != DC_USE_FREE)
        continue;
      if (s->stamp[u] == now) {
        /* As near by another way: the one with less load on the whole of it. */
        if (s->load != NULL && u != s->source && distance(s, u) == distance(s, v) + 1 &&
            onward(s, v, into) < s->later[u]) {
          next[u] = into;
          s->later[u] = onward(s, v, into);
        }
        continue;
      }
      s->stamp[u] = now;
      next[u] = into;
      s->later[u] = onward(s, v, into);
      queue[n++] = u;
      found += s->role[u];
    }
  }
  *visited = n;
  return found;
}

/* Put the ways to the receivers that the last search found into tree t, which is empty. */
static void gather(struct dc_trees *s, unsigned t, uint32_t visited)
{
  const struct dc_net *net = s->net;
  uint32_t *parent = dc_parents(s, t), *list = dc_list(s, t), length = 0, now = s->now;
  uint16_t *depth = dc_depths(s, t);
  for (uint32_t i = 0; i < s->receivers; i++)
    for (uint32_t v = s->receiver[i]; s->stamp[v] == now && parent[v] == DC_NO_ARC; v = net->to[parent[v]]) {
      parent[v] = s->next[v];
      depth[v] = (uint16_t)distance(s, v);
      s->use[parent[v]] = (uint8_t)(t + 1);
    }
  /* The search saw parents before children. */
  for (uint32_t i = 1; i < visited; i++)
    if (parent[s->queue[i]] != DC_NO_ARC)
      list[length++] = s->queue[i];
  s->length[t] = length;
}

/* Of the source's links that nobody uses the next one after `before` (DC_NO_ARC: the first), the least loaded first. */
static uint32_t next_link(const struct dc_trees *s, uint32_t before)
{
  const struct dc_net *net = s->net;
  uint32_t best = DC_NO_ARC;
  for (uint32_t a = net->first[s->source]; a < net->first[s->source + 1]; a++) {
    unsigned load = dc_load(s, net->rev[a]);
    if (s->use[net->rev[a]] != DC_USE_FREE)
      continue;
    if (before != DC_NO_ARC) {
      unsigned least = dc_load(s, net->rev[before]);
      if (load < least || (load == least && a <= before))
        continue;
    }
    if (best == DC_NO_ARC || load < dc_load(s, net->rev[best]))
      best = a;
  }
  return best;
}

bool dc_bfs_tree(struct dc_trees *s, unsigned t, uint32_t spare)
{
  const struct dc_net *net = s->net;
  uint32_t visited, found;
  if (spare != 0 && s->branching) {
    found = spread(s, net->first[s->source], net->first[s->source + 1], s->receivers, &visited);
  } else {
    uint32_t link = next_link(s, DC_NO_ARC);
    if (link == DC_NO_ARC)
      return false;
    found = spread(s, link, link + 1, s->receivers, &visited);
    /* One link is all it may have, but it need not be that one. */
    while (spare != 0 && found < s->receivers && (link = next_link(s, link)) != DC_NO_ARC)
      found = spread(s, link, link + 1, s->receivers, &visited);
  }
  gather(s, t, visited);
  return found == s->receivers;
}

void dc_bfs_shallow(struct dc_trees *s, unsigned t)
{
  const struct dc_net *net = s->net;
  uint32_t *parent = dc_parents(s, t), *list = dc_list(s, t), visited;
  uint16_t *depth = dc_depths(s, t);
  if (!s->branching)
    return;
  dc_set_list(s, t);
  for (uint32_t i = 0; i < s->length[t]; i++)
    s->use[parent[list[i]]] = DC_USE_FREE;
  if (spread(s, net->first[s->source], net->first[s->source + 1], s->receivers, &visited) < s->receivers) {
    for (uint32_t i = 0; i < s->length[t]; i++)
      s->use[parent[list[i]]] = (uint8_t)(t + 1);
    return;
  }
  for (uint32_t i = 0; i < s->length[t]; i++) {
    parent[list[i]] = DC_NO_ARC;
    depth[list[i]] = DC_DEPTH_OPEN;
  }
  gather(s, t, visited);
}

uint32_t dc_trees_floor(struct dc_trees *s, uint32_t source, unsigned times)
{
  const struct dc_net *net = s->net;
  uint32_t *queue = s->queue, *next = s->next, n = 0;
  for (; times > 0; times--) {
    uint32_t now = dc_new_stamp(s);
    n = 0;
    queue[n++] = source;
    s->stamp[source] = now;
    for (uint32_t i = 0; i < n; i++) {
      uint32_t v = queue[i], end = net->first[v + 1];
      for (uint32_t a = net->first[v]; a < end; a++) {
        uint32_t u = net->to[a];
        if (s->stamp[u] == now || (net->base[a] & DC_USE_DOWN) != 0)
          continue;
        s->stamp[u] = now;
        next[u] = a;
        queue[n++] = u;
      }
    }
  }
  return n;
}

uint32_t dc_trees_reachable(struct dc_trees *s, uint8_t *reached)
{
  const struct dc_net *net = s->net;
  uint32_t *queue = s->queue, n = 1, now = dc_new_stamp(s), missing = 0;
  queue[0] = s->source;
  s->stamp[s->source] = now;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t v = queue[i];
    if (i > 0 && (net->flags[v] & DC_NODE_FORWARDS) == 0)
      continue;
    for (uint32_t a = net->first[v]; a < net->first[v + 1]; a++) {
      uint32_t u = net->to[a];
      if (s->stamp[u] == now || !dc_net_is_up(net, a))
        continue;
      s->stamp[u] = now;
      queue[n++] = u;
    }
  }
  for (uint32_t i = 0; i < s->receivers; i++) {
    reached[i] = s->stamp[s->receiver[i]] == now;
    missing += !reached[i];
  }
  return missing;
}
