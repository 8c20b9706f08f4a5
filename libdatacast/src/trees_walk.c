#include "trees_walk.h"

#include <string.h>

/* Structured trees that one of the set's trees may follow. */
enum { ROWS_MAX = DC_TREES_MAX };

/* A walk in tree t, which follows the structured trees row[first], row[first + wanted], … of all that can be used. */
struct walk {
  struct dc_trees *s;
  unsigned t, wanted, rows, own;                 /* own: how many of the rows are this tree's */
  const uint8_t *port[ROWS_MAX], *far[ROWS_MAX]; /* of all rows; this tree's first */
  uint32_t *parent;
  uint16_t *depth;
};

/* A node, and its address relative to the source. */
struct place {
  uint32_t v, x;
};

static inline struct place move(const struct dc_net *net, struct place p, uint32_t arc, uint32_t relative_port)
{
  return (struct place){net->to[arc], net->to[net->first[p.x] + relative_port]};
}

static inline uint32_t arc_at(const struct dc_trees *s, struct place p, uint32_t relative_port)
{
  const struct dc_net *net = s->net;
  if (net->kind == DC_NET_BCUBE && p.v >= net->hosts)
    relative_port = dc_actual_port(net, &s->relative, (p.v - net->hosts) / net->per_level, relative_port);
  return net->first[p.v] + relative_port;
}

/* On the present path, which does not lead to the source yet. */
static inline bool under_way(const struct walk *w, uint32_t v)
{
  return w->parent[v] != DC_NO_ARC && w->depth[v] == DC_DEPTH_OPEN;
}

/* The arc into p of the nearest of the tree's rows that is free, or DC_NO_ARC. As long as each node takes its nearest
 * row, a path comes nearer with every step; after a detour it could come round to itself. */
static uint32_t straight(const struct walk *w, struct place p, bool *detoured, uint32_t *relative_port)
{
  const struct dc_trees *s = w->s;
  uint32_t best = DC_NO_ARC, least = DC_FAR, blocked = DC_FAR;
  for (unsigned i = 0; i < w->own; i++) {
    uint32_t far = w->far[i][p.x];
    if (far >= least)
      continue;
    uint32_t arc = arc_at(s, p, w->port[i][p.x]);
    if (s->use[arc] != DC_USE_FREE || (*detoured && under_way(w, s->net->to[arc]))) {
      blocked = blocked < far ? blocked : far;
      continue;
    }
    least = far;
    best = arc;
    *relative_port = w->port[i][p.x];
  }
  bool before = *detoured;
  *detoured |= blocked < least || best == DC_NO_ARC;
  if (!before && best != DC_NO_ARC && *detoured && under_way(w, s->net->to[best]))
    return straight(w, p, detoured, relative_port);
  return best;
}

/* Will a tree that is still to be walked want the arc into p by this port? */
static bool wanted_later(const struct walk *w, struct place p, uint32_t relative_port)
{
  for (unsigned i = w->own; i < w->rows; i++)
    if (w->port[i][p.x] == relative_port)
      return true;
  return false;
}

/* Another arc into p where the straight ones are taken or down: from a neighbour that is in the tree already, or else
 * is near the source in it; not one that a later tree counts on, if that can be helped. */
static uint32_t detour(const struct walk *w, struct place p, uint32_t *relative_port)
{
  const struct dc_trees *s = w->s;
  const struct dc_net *net = s->net;
  uint32_t best = DC_NO_ARC, least = UINT32_MAX;
  for (uint32_t a = net->first[p.v]; a < net->first[p.v + 1]; a++) {
    uint32_t u = net->to[a];
    if (s->use[a] != DC_USE_FREE || under_way(w, u))
      continue;
    if (u == s->source && !s->branching && s->length[w->t] != 0)
      continue;
    uint32_t rp = dc_relative_port(net, &s->relative, p.v, a - net->first[p.v]), cost = DC_FAR;
    if (w->parent[u] != DC_NO_ARC) {
      cost = 2u * w->depth[u];
    } else {
      uint32_t x = net->to[net->first[p.x] + rp];
      for (unsigned i = 0; i < w->own; i++)
        cost = w->far[i][x] < cost ? w->far[i][x] : cost;
      cost = 2 * cost + 3;
    }
    if (wanted_later(w, p, rp)) {
      if (u == s->source)
        continue; /* the only way that tree leaves the source */
      cost += 8;
    }
    cost = cost * 256 + (dc_load(s, a) < 255 ? dc_load(s, a) : 255);
    if (cost < least) {
      least = cost;
      best = a;
      *relative_port = rp;
    }
  }
  return best;
}

/* From p up to the tree. False when it got stuck (nothing is left of it then). */
static bool walk_up(const struct walk *w, struct place p)
{
  struct dc_trees *s = w->s;
  const struct dc_net *net = s->net;
  uint32_t *path = dc_list(s, w->t) + s->length[w->t], top = 0, most = net->nodes - 1 - s->length[w->t];
  uint8_t tag = (uint8_t)(w->t + 1);
  bool stuck = false, detoured = false;

  while (w->parent[p.v] == DC_NO_ARC) {
    uint32_t relative_port = 0, arc = straight(w, p, &detoured, &relative_port);
    if (arc == DC_NO_ARC) {
      arc = detour(w, p, &relative_port);
      if (arc == DC_NO_ARC || top == most) {
        stuck = true;
        break;
      }
    }
    w->parent[p.v] = arc;
    s->use[arc] = tag;
    path[top++] = p.v;
    p = move(net, p, arc, relative_port);
  }
  if (stuck) {
    while (top-- > 0) {
      s->use[w->parent[path[top]]] = DC_USE_FREE;
      w->parent[path[top]] = DC_NO_ARC;
    }
    return false;
  }
  s->detoured |= (uint64_t)detoured << w->t;
  unsigned d = w->depth[p.v];
  for (uint32_t j = top; j-- > 0;)
    w->depth[path[j]] = (uint16_t)++d;
  for (uint32_t l = 0, r = top; l + 1 < r; l++) {
    uint32_t x = path[--r];
    path[r] = path[l];
    path[l] = x;
  }
  s->length[w->t] += top;
  return true;
}

/* ---- nothing is down ---- */

/* All receivers one step up at a time: a node's arc follows from its address, so nodes that are met twice get the same
 * one again, and there is nothing to wait for and little to guess. `v` and `x` are the nodes and their relative
 * addresses, and become those of the next step. Both return the entries of the next step. */
static uint32_t step_up(const struct walk *w, uint32_t *v, uint32_t *x, uint32_t n)
{
  struct dc_trees *s = w->s;
  const uint32_t *to = s->net->to;
  const uint8_t *ports = w->port[0];
  uint32_t *parent = w->parent, degree = s->net->first[1], m = 0;
  uint8_t *use = s->use, tag = (uint8_t)(w->t + 1);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t port = ports[x[i]], at = v[i], arc = at * degree + port, up = to[arc], up_x = to[x[i] * degree + port];
    bool fresh = parent[at] == DC_NO_ARC;
    parent[at] = arc;
    use[arc] = tag;
    v[m] = up;
    x[m] = up_x;
    m += fresh & (parent[up] == DC_NO_ARC);
  }
  return m;
}

/* BCube: from a host to a switch and on to the next host. */
static uint32_t step_over(const struct walk *w, uint32_t *v, uint32_t *x, uint32_t n)
{
  struct dc_trees *s = w->s;
  const struct dc_net *net = s->net;
  const uint32_t *to = net->to, *digit = s->relative.digit;
  const uint8_t *ports = w->port[0];
  uint32_t *parent = w->parent, m = 0;
  uint32_t wide = net->n, levels = net->k + 1, back = net->hosts * (wide - levels);
  uint8_t *use = s->use, tag = (uint8_t)(w->t + 1);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t level = ports[x[i]], at = v[i], arc = at * levels + level, sw = to[arc], sw_x = to[x[i] * levels + level];
    bool fresh = (parent[at] == DC_NO_ARC) & (parent[sw] == DC_NO_ARC);
    parent[at] = arc;
    use[arc] = tag;
    uint32_t port = ports[sw_x], moved = port + digit[level];
    moved -= moved >= wide ? wide : 0;
    /* The rows of the switches begin after the hosts'. */
    uint32_t over = sw * wide - back + moved, up = to[over];
    parent[sw] = over;
    use[over] = tag;
    v[m] = up;
    x[m] = to[sw_x * wide - back + port];
    m += fresh & (parent[up] == DC_NO_ARC);
  }
  return m;
}

static void walk_together(const struct walk *w, const uint32_t *relative)
{
  struct dc_trees *s = w->s;
  uint32_t n = s->receivers, *v = s->queue, *x = s->next, high = 0;
  memcpy(v, s->receiver, n * sizeof *v);
  memcpy(x, relative, n * sizeof *x);
  for (uint32_t i = 0; i < n; i++)
    high = w->far[0][x[i]] > high ? w->far[0][x[i]] : high;
  while (n > 0)
    n = s->net->kind == DC_NET_BCUBE ? step_over(w, v, x, n) : step_up(w, v, x, n);
  s->bare |= UINT64_C(1) << w->t;
  s->height[w->t] = high;
}

/* What speaks against a structured tree: load on its first link (tree i leaves the source by port i), and links that
 * are down where it starts. */
static uint32_t drawback(const struct dc_trees *s, unsigned row)
{
  const struct dc_net *net = s->net;
  uint32_t out = net->first[s->source] + row, y = net->to[out], down = 0;
  for (uint32_t a = net->first[y]; a < net->first[y + 1]; a++)
    down += (net->base[a] & DC_USE_DOWN) != 0;
  return dc_load(s, net->rev[out]) * 256u + down;
}

/* Structured trees whose first link is up, the best first. */
static unsigned choose_rows(const struct dc_trees *s, unsigned *rows)
{
  const struct dc_net *net = s->net;
  uint32_t cost[ROWS_MAX];
  unsigned n = 0;
  for (unsigned i = 0; i < net->structured; i++) {
    if ((net->base[net->first[s->source] + i] & DC_USE_DOWN) != 0)
      continue;
    uint32_t c = drawback(s, i);
    unsigned at = n++;
    for (; at > 0 && cost[at - 1] > c; at--) {
      rows[at] = rows[at - 1];
      cost[at] = cost[at - 1];
    }
    rows[at] = i;
    cost[at] = c;
  }
  return n;
}

void dc_walk_structured(struct dc_trees *s, unsigned wanted)
{
  const struct dc_net *net = s->net;
  unsigned row[ROWS_MAX], have = choose_rows(s, row);
  dc_relative_init(net, &s->relative, s->relative_words, s->source);
  uint32_t *relative = s->later;
  for (uint32_t i = 0; i < s->receivers; i++)
    relative[i] = dc_relative_host(net, &s->relative, s->receiver[i]);
  for (unsigned t = 0; t < wanted && t < have; t++) {
    struct walk w = {.s = s, .t = t, .wanted = wanted, .parent = dc_parents(s, t), .depth = dc_depths(s, t)};
    /* This tree's rows first, then those of the trees after it. */
    for (unsigned later = t; later < wanted; later++)
      for (unsigned i = later; i < have; i += wanted) {
        w.port[w.rows] = net->port + (size_t)row[i] * net->nodes;
        w.far[w.rows++] = net->far + (size_t)row[i] * net->nodes;
        w.own += later == t;
      }
    s->deepest[t] = w.own > 1 || (s->receivers <= DC_SMALL_GROUP && have > wanted) ? net->wide : net->high;
    if (net->down == 0 && w.own == 1) {
      walk_together(&w, relative);
      continue;
    }
    for (uint32_t i = 0; i < s->receivers; i++)
      if (w.parent[s->receiver[i]] == DC_NO_ARC && !walk_up(&w, (struct place){s->receiver[i], relative[i]}))
        dc_need_add(s, t, s->receiver[i]);
  }
}

/* ---- Fattree ---- */

/* The way up from the source, one switch per layer, and the choice taken at each. */
struct chain {
  uint32_t layers; /* that the group needs */
  uint32_t at[32], choice[32];
};

static uint64_t price(const struct dc_trees *s, uint32_t arc)
{
  return s->use[arc] == DC_USE_FREE ? 1u + 16u * dc_load(s, arc) : 1u << 20;
}

static bool enter(struct dc_trees *s, uint32_t v, uint32_t arc)
{
  if (s->use[arc] != DC_USE_FREE)
    return false;
  dc_parents(s, 0)[v] = arc;
  s->use[arc] = 1;
  dc_list(s, 0)[s->length[0]++] = v;
  return true;
}

/* One layer after the other from the hosts up: the switches that lead to receivers, and for all of them the choice of
 * the layer above whose links, up from the source and down to them, cost least. Then the way up itself. */
bool dc_walk_fattree(struct dc_trees *s)
{
  const struct dc_net *net = s->net;
  struct chain c = {.layers = 0};
  uint32_t half = net->n / 2, *at = s->queue, n = 0, now = dc_new_stamp(s);
  bool whole = true;

  uint32_t way = net->to[net->first[s->source]];
  c.at[0] = way;
  s->stamp[way] = now;
  for (uint32_t i = 0; i < s->receivers && whole; i++) {
    uint32_t v = s->receiver[i], arc = net->first[v], up = net->to[arc];
    whole = enter(s, v, arc);
    if (s->stamp[up] != now) {
      s->stamp[up] = now;
      at[n++] = up;
    }
  }
  for (uint32_t layer = 0; n > 0 && whole; layer++) {
    uint32_t best = 0, row = net->first[way] + half;
    uint64_t least = UINT64_MAX;
    for (uint32_t choice = 0; choice < half; choice++) {
      uint64_t cost = price(s, net->rev[row + choice]);
      for (uint32_t i = 0; i < n; i++)
        cost += price(s, net->first[at[i]] + half + choice);
      if (cost < least) {
        least = cost;
        best = choice;
      }
    }
    c.choice[layer] = best;
    way = net->to[row + best];
    c.at[++c.layers] = way;
    s->stamp[way] = now;
    uint32_t above = 0;
    for (uint32_t i = 0; i < n && whole; i++) {
      uint32_t arc = net->first[at[i]] + half + best, up = net->to[arc];
      whole = enter(s, at[i], arc);
      if (s->stamp[up] != now) {
        s->stamp[up] = now;
        at[above++] = up;
      }
    }
    n = above;
  }
  for (uint32_t l = 0; l <= c.layers && whole; l++) {
    uint32_t arc = net->rev[l == 0 ? net->first[s->source] : net->first[c.at[l - 1]] + half + c.choice[l - 1]];
    whole = enter(s, c.at[l], arc);
  }
  if (!whole || dc_set_prune(s, 0) != 0) {
    dc_set_release(s, 0);
    return false;
  }
  return true;
}
