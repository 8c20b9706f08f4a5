#include "trees_walk.h"

#include <string.h>

/* A walk in tree t, which follows the structured tree `row`. `x` is the address relative to the source of node `v`. */
struct walk {
  struct dc_trees *s;
  unsigned t, row;
  const uint8_t *port, *far;
  const unsigned *rows;
  unsigned wanted;
  uint32_t *parent;
  uint16_t *depth;
};

struct place {
  uint32_t v, x;
};

static inline struct place move(const struct walk *w, struct place p, uint32_t arc, uint32_t relative_port)
{
  const struct dc_net *net = w->s->net;
  return (struct place){net->to[arc], net->to[net->first[p.x] + relative_port]};
}

/* The structured tree's arc into p, or DC_NO_ARC. */
static inline uint32_t straight(const struct walk *w, struct place p, uint32_t *relative_port)
{
  const struct dc_net *net = w->s->net;
  uint32_t port = w->port[p.x];
  *relative_port = port;
  if (port == DC_NO_PORT)
    return DC_NO_ARC;
  if (net->kind == DC_NET_BCUBE && p.v >= net->hosts)
    port = dc_actual_port(net, &w->s->relative, (p.v - net->hosts) / net->per_level, port);
  return net->first[p.v] + port;
}

/* Will a tree that is still to be walked want the arc into p by this port? */
static bool wanted_later(const struct walk *w, struct place p, uint32_t relative_port)
{
  for (unsigned t = w->t + 1; t < w->wanted; t++)
    if (w->s->net->port[(size_t)w->rows[t] * w->s->net->nodes + p.x] == relative_port)
      return true;
  return false;
}

/* Another arc into p where the straight one is taken or down: from a neighbour that is in the tree already, or else is
 * near the source in it; not one that a later tree counts on, if that can be helped. */
static uint32_t detour(const struct walk *w, struct place p, uint32_t *relative_port)
{
  const struct dc_trees *s = w->s;
  const struct dc_net *net = s->net;
  uint32_t best = DC_NO_ARC, least = UINT32_MAX;
  for (uint32_t a = net->first[p.v]; a < net->first[p.v + 1]; a++) {
    uint32_t u = net->to[a];
    if (s->use[a] != DC_USE_FREE || (w->parent[u] != DC_NO_ARC && w->depth[u] == DC_DEPTH_OPEN))
      continue;
    if (u == s->source && !s->branching && s->length[w->t] != 0)
      continue;
    uint32_t rp = dc_relative_port(net, &s->relative, p.v, a - net->first[p.v]);
    uint32_t cost;
    if (w->parent[u] != DC_NO_ARC)
      cost = 2u * w->depth[u];
    else
      cost = 2u * w->far[net->to[net->first[p.x] + rp]] + 3;
    if (wanted_later(w, p, rp))
      cost += 8;
    cost = cost * 256 + (dc_load(s, a) < 255 ? dc_load(s, a) : 255);
    if (cost < least) {
      least = cost;
      best = a;
      *relative_port = rp;
    }
  }
  return best;
}

/* From v up to the tree. False when it got stuck (nothing is left of it then). */
static bool walk_up(const struct walk *w, struct place p)
{
  struct dc_trees *s = w->s;
  uint32_t *path = dc_list(s, w->t) + s->length[w->t], top = 0, most = s->net->nodes - 1 - s->length[w->t];
  uint8_t tag = (uint8_t)(w->t + 1);
  bool stuck = false;

  while (w->parent[p.v] == DC_NO_ARC) {
    uint32_t relative_port, arc = straight(w, p, &relative_port);
    if (arc == DC_NO_ARC || s->use[arc] != DC_USE_FREE) {
      arc = detour(w, p, &relative_port);
      if (arc == DC_NO_ARC || top == most) {
        stuck = true;
        break;
      }
    }
    w->parent[p.v] = arc;
    s->use[arc] = tag;
    path[top++] = p.v;
    p = move(w, p, arc, relative_port);
  }
  /* Into itself: the straight way from a detour came round. */
  if (stuck || w->depth[p.v] == DC_DEPTH_OPEN) {
    while (top-- > 0) {
      s->use[w->parent[path[top]]] = DC_USE_FREE;
      w->parent[path[top]] = DC_NO_ARC;
    }
    return false;
  }
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

/* Structured trees whose first link is up, those with the least load first. */
static unsigned choose_rows(const struct dc_trees *s, unsigned *rows)
{
  const struct dc_net *net = s->net;
  unsigned n = 0;
  for (unsigned i = 0; i < net->structured; i++) {
    /* Tree i leaves the source by port i. */
    uint32_t out = net->first[s->source] + i;
    if ((net->base[out] & DC_USE_DOWN) != 0)
      continue;
    unsigned at = n++;
    for (; at > 0 && dc_load(s, net->rev[net->first[s->source] + rows[at - 1]]) > dc_load(s, net->rev[out]); at--)
      rows[at] = rows[at - 1];
    rows[at] = i;
  }
  return n;
}

uint64_t dc_walk_structured(struct dc_trees *s, unsigned wanted)
{
  const struct dc_net *net = s->net;
  unsigned rows[DC_TREES_MAX], have = choose_rows(s, rows);
  uint64_t missing = 0;
  dc_relative_init(net, &s->relative, s->relative_words, s->source);
  uint32_t *relative = s->later;
  for (uint32_t i = 0; i < s->receivers; i++)
    relative[i] = dc_relative_host(net, &s->relative, s->receiver[i]);
  for (unsigned t = 0; t < wanted; t++) {
    if (t >= have) {
      missing |= UINT64_C(1) << t;
      continue;
    }
    struct walk w = {.s = s, .t = t, .row = rows[t], .rows = rows, .wanted = wanted};
    w.port = net->port + (size_t)w.row * net->nodes;
    w.far = net->far + (size_t)w.row * net->nodes;
    w.parent = dc_parents(s, t);
    w.depth = dc_depths(s, t);
    for (uint32_t i = 0; i < s->receivers; i++)
      if (w.parent[s->receiver[i]] == DC_NO_ARC && !walk_up(&w, (struct place){s->receiver[i], relative[i]}))
        missing |= UINT64_C(1) << t;
  }
  return missing;
}

/* ---- Fattree ---- */

/* The way up from the source, one switch per layer, and the choice taken at each. */
struct chain {
  uint32_t layers; /* that the group needs */
  uint32_t at[32], choice[32];
};

/* The layer of the lowest switch below which both hosts are. */
static uint32_t meeting_layer(const struct dc_net *net, uint32_t u, uint32_t v)
{
  uint32_t half = net->n / 2, layer = 0;
  if (net->k == 1)
    return 0;
  for (u /= half, v /= half; u != v && layer + 1 < net->k; layer++, u /= half, v /= half)
    if (layer + 2 == net->k)
      return net->k - 1;
  return layer;
}

static uint32_t price(const struct dc_trees *s, uint32_t arc)
{
  return s->use[arc] == DC_USE_FREE ? 1u + 16u * dc_load(s, arc) : 4096u;
}

/* The cheapest way up: at each layer the choice whose link up, and whose links down to what hangs below, cost least. Layers
 * are chosen one by one; the links down are counted for the layer below. */
static void choose_chain(struct dc_trees *s, struct chain *c)
{
  const struct dc_net *net = s->net;
  uint32_t half = net->n / 2;
  c->layers = 0;
  for (uint32_t i = 0; i < s->receivers; i++) {
    uint32_t layer = meeting_layer(net, s->source, s->receiver[i]);
    if (layer > c->layers)
      c->layers = layer;
  }
  c->at[0] = net->to[net->first[s->source]];
  for (uint32_t l = 0; l < c->layers; l++) {
    struct dc_fat here = dc_fat_switch(net, c->at[l]);
    uint32_t best = 0, least = UINT32_MAX;
    /* The switches of this layer that the choice would join: one per subtree that holds receivers. */
    uint32_t *below = s->queue, belows = 0, now = dc_new_stamp(s);
    for (uint32_t i = 0; i < s->receivers; i++) {
      uint32_t v = net->to[net->first[s->receiver[i]]];
      for (uint32_t j = 0; j < l; j++)
        v = dc_fat_up(net, dc_fat_switch(net, v), c->choice[j]);
      if (s->stamp[v] != now && v != c->at[l]) {
        s->stamp[v] = now;
        below[belows++] = v;
      }
    }
    for (uint32_t choice = 0; choice < half; choice++) {
      uint32_t up = dc_fat_up(net, here, choice);
      uint32_t cost = price(s, net->rev[net->first[c->at[l]] + half + choice]);
      for (uint32_t i = 0; i < belows; i++)
        cost += price(s, net->first[below[i]] + half + choice);
      if (cost < least) {
        least = cost;
        best = choice;
      }
      (void)up;
    }
    c->choice[l] = best;
    c->at[l + 1] = dc_fat_up(net, here, best);
  }
}

uint64_t dc_walk_fattree(struct dc_trees *s)
{
  const struct dc_net *net = s->net;
  struct chain c;
  choose_chain(s, &c);
  uint32_t half = net->n / 2, *parent = dc_parents(s, 0);
  uint64_t missing = 0;
  for (uint32_t i = 0; i < s->receivers; i++) {
    uint32_t v = s->receiver[i], layer = 0;
    bool host = true;
    while (parent[v] == DC_NO_ARC) {
      uint32_t arc;
      if (host)
        arc = net->first[v];
      else if (v != c.at[layer])
        arc = net->first[v] + half + c.choice[layer];
      else
        /* On the source's own way up: down again. */
        arc = layer == 0 ? net->rev[net->first[s->source]]
                         : net->rev[net->first[c.at[layer - 1]] + half + c.choice[layer - 1]];
      if (s->use[arc] != DC_USE_FREE) {
        missing |= 1;
        break;
      }
      bool up = host || v != c.at[layer];
      dc_set_enter(s, 0, v, arc);
      if (!host)
        layer = up ? layer + 1 : layer - 1;
      host = false;
      v = net->to[arc];
    }
  }
  if (missing == 0)
    dc_set_prune(s, 0);
  return missing;
}
