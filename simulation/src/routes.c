/* Routes of a tree from its arcs: waypoints stand where it branches (design.md, section 3). */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

struct shape {
  sim *s;
  int n;
  int *parent, *up, *down; /* per vertex: its parent, its port up, the parent's port down; -1 outside the tree */
  int *ways;               /* children, and its own receiver */
  int source;
};

static int port_between(const sim *s, int a, int b)
{
  for (uint16_t p = 0; p < s->vertices[a].ports; p++)
    if (s->vertices[a].out[p] >= 0 && s->links[s->vertices[a].out[p]].to == b)
      return p;
  return -1;
}

/* The segment from `from` up to its ancestor `to`; ends at a waypoint or an endpoint. */
static bool upwards(const struct shape *t, int from, int to, bool local, struct dc_segment *seg)
{
  *seg = (struct dc_segment){.local = local};
  for (int v = from; v != to; v = t->parent[v]) {
    if (seg->n == DC_SEG_MAX)
      return false;
    seg->port[seg->n++] = (uint16_t)t->up[v];
  }
  return true;
}

static bool downwards(const struct shape *t, int from, int to, bool local, struct dc_segment *seg)
{
  struct dc_segment up;
  *seg = (struct dc_segment){.local = local};
  if (!upwards(t, to, from, local, &up))
    return false;
  int v = to;
  for (unsigned i = up.n; i > 0; i--, v = t->parent[v])
    seg->port[i - 1] = (uint16_t)t->down[v];
  seg->n = up.n;
  return true;
}

static bool branch(const struct shape *t, int v) { return t->ways[v] >= 2; }

static size_t write_route(const struct shape *t, int receiver, uint8_t *blob)
{
  size_t at = 0;
  int below = receiver; /* the last stop's vertex */
  bool at_node = false; /* it was a waypoint, not the endpoint */
  struct dc_stop stop = {0};
  for (int v = receiver;; v = t->parent[v]) {
    bool source = v == t->source;
    bool way = branch(t, v);
    if (!way && !source)
      continue;
    if (way) {
      if (!upwards(t, below, v, true, &stop.fwd))
        return 0;
      size_t n = dc_stop_write(blob + at, DC_ROUTE_MAX - at, &stop);
      if (n == 0)
        return 0;
      at += n;
      stop = (struct dc_stop){.store = true};
      if (!downwards(t, v, below, at_node, &stop.ret))
        return 0;
      below = v;
      at_node = true;
    }
    if (source) {
      if (!upwards(t, below, v, false, &stop.fwd))
        return 0;
      size_t n = dc_stop_write(blob + at, DC_ROUTE_MAX - at, &stop);
      if (n == 0)
        return 0;
      at += n;
      stop = (struct dc_stop){0};
      if (!downwards(t, v, below, at_node, &stop.ret))
        return 0;
      n = dc_stop_write(blob + at, DC_ROUTE_MAX - at, &stop);
      return n == 0 ? 0 : at + n;
    }
  }
}

int sim_routes(sim *s, int tree, const int *child, const int *parent, int arcs)
{
  if (tree < 0 || tree >= s->n_trees)
    return sim_fail(s, "no such tree");
  struct group *g = &s->groups[s->trees[tree].group];
  size_t n = (size_t)s->n_vertices;
  int *room = malloc(4 * n * sizeof *room);
  if (room == NULL)
    abort();
  struct shape t = {
      .s = s, .n = s->n_vertices, .parent = room, .up = room + n, .down = room + 2 * n, .ways = room + 3 * n};
  t.source = g->cfg.source;
  for (size_t i = 0; i < n; i++) {
    t.parent[i] = t.up[i] = t.down[i] = -1;
    t.ways[i] = 0;
  }
  int rc = 0;
  for (int i = 0; i < arcs && rc == 0; i++) {
    int c = child[i], p = parent[i];
    if (c < 0 || p < 0 || c >= s->n_vertices || p >= s->n_vertices || t.parent[c] >= 0)
      rc = sim_fail(s, "arcs do not form a tree");
    else {
      t.parent[c] = p;
      t.up[c] = port_between(s, c, p);
      t.down[c] = port_between(s, p, c);
      t.ways[p]++;
      if (t.up[c] < 0 || t.down[c] < 0)
        rc = sim_fail(s, "an arc has no cable");
    }
  }
  for (int i = 0; i < g->n; i++)
    t.ways[s->members[g->members[i]].vertex]++;
  for (int i = 0; i < g->n && rc == 0; i++) {
    int v = s->members[g->members[i]].vertex, steps = 0;
    while (v >= 0 && v != t.source && ++steps <= s->n_vertices)
      v = t.parent[v];
    uint8_t blob[DC_ROUTE_MAX];
    size_t len = v == t.source ? write_route(&t, s->members[g->members[i]].vertex, blob) : 0;
    if (len == 0)
      rc = sim_fail(s, v == t.source ? "a route is too long" : "a receiver is not in the tree");
    else
      rc = sim_route(s, tree, i, blob, len);
  }
  free(room);
  return rc;
}
