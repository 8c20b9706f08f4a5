#include <string.h>

#include "trees_rates.h"

static size_t lay_out(struct dc_rates *r, void *memory, const struct dc_net *net, uint32_t receivers, uint32_t most)
{
  struct dc_arena a = {memory, 0};
  (void)dc_arena_take(&a, sizeof *r);
  struct dc_rates dry;
  if (r == NULL)
    r = &dry;
  size_t nodes = net->nodes, arcs = net->arcs;
  uint32_t **per_node[] = {&r->node, &r->place, &r->queue, &r->seen, &r->via};
  uint32_t **per_arc[] = {&r->head, &r->tail, &r->cap, &r->back, &r->arc, &r->left};
  uint32_t **per_receiver[] = {&r->receiver, &r->like};
  uint32_t **per_tree[] = {&r->rate, &r->order};
  for (size_t i = 0; i < sizeof per_node / sizeof *per_node; i++)
    *per_node[i] = dc_arena_take(&a, nodes * sizeof(uint32_t));
  for (size_t i = 0; i < sizeof per_arc / sizeof *per_arc; i++)
    *per_arc[i] = dc_arena_take(&a, arcs * sizeof(uint32_t));
  for (size_t i = 0; i < sizeof per_receiver / sizeof *per_receiver; i++)
    *per_receiver[i] = dc_arena_take(&a, receivers * sizeof(uint32_t));
  for (size_t i = 0; i < sizeof per_tree / sizeof *per_tree; i++)
    *per_tree[i] = dc_arena_take(&a, most * sizeof(uint32_t));
  r->first = dc_arena_take(&a, (nodes + 1) * sizeof(uint32_t));
  r->bound = dc_arena_take(&a, (receivers + 1) * sizeof(uint64_t));
  r->saved = dc_arena_take(&a, (receivers + 1) * sizeof(uint64_t));
  r->got = dc_arena_take(&a, (receivers + 1) * sizeof(uint64_t));
  r->target = dc_arena_take(&a, (receivers + 1) * sizeof(uint32_t));
  r->up = dc_arena_take(&a, (size_t)most * nodes * sizeof(uint32_t));
  /* Splitting off needs for n nodes and T receivers (T + 3) n^2 words, the log and its trees. */
  size_t n = nodes < DC_SPLIT_NODES ? nodes : DC_SPLIT_NODES, t = receivers < n ? receivers : n;
  size_t words = (t + 3) * n * n + n * DC_SPLIT_LOG * 4 + (size_t)DC_SPLIT_TREES * (n + 1) + 16 * n + 16;
  r->work = dc_arena_take(&a, words * sizeof(uint32_t));
  return a.used;
}

size_t dc_rates_size(const struct dc_net *net, uint32_t receivers, uint32_t most)
{
  return lay_out(NULL, NULL, net, receivers, most);
}

struct dc_rates *dc_rates_init(void *memory, const struct dc_net *net, uint32_t receivers, uint32_t most)
{
  struct dc_rates *r = memory;
  memset(r, 0, sizeof *r);
  lay_out(r, memory, net, receivers, most);
  r->net = net;
  r->room = receivers;
  r->most = most;
  memset(r->seen, 0, net->nodes * sizeof *r->seen);
  return r;
}

/* What an arc of the network can carry: nothing into the source, out of what does not forward, or over a link that is
 * down. */
static uint32_t open_for(const struct dc_rates *r, const struct dc_rates_query *q, uint32_t arc)
{
  const struct dc_net *net = r->net;
  uint32_t from = net->to[arc], to = dc_owner(net, arc);
  if ((net->base[arc] & DC_USE_DOWN) != 0 || to == q->source ||
      (from != q->source && (net->flags[from] & DC_NODE_FORWARDS) == 0))
    return 0;
  return q->capacity[arc];
}

/* Is receiver v joined as w is: over the same nodes, as wide, and passing nothing on? */
static bool alike(const struct dc_rates *r, const struct dc_rates_query *q, uint32_t v, uint32_t w)
{
  const struct dc_net *net = r->net;
  if (net->first[v + 1] - net->first[v] != net->first[w + 1] - net->first[w])
    return false;
  for (uint32_t i = 0; i < net->first[v + 1] - net->first[v]; i++) {
    uint32_t a = net->first[v] + i, b = net->first[w] + i;
    if (net->to[a] != net->to[b] || open_for(r, q, a) != open_for(r, q, b) || open_for(r, q, net->rev[a]) != 0 ||
        open_for(r, q, net->rev[b]) != 0)
      return false;
  }
  return true;
}

static void number(struct dc_rates *r, uint32_t v)
{
  r->place[v] = r->n;
  r->node[r->n++] = v;
}

/* Receivers that stand for others: a table of the newest ones by where their first port leads. */
static void number_receivers(struct dc_rates *r, const struct dc_rates_query *q)
{
  const struct dc_net *net = r->net;
  uint32_t *newest = r->via; /* switch -> the receiver met there last */
  memset(newest, 0xff, net->nodes * sizeof *newest);
  for (uint32_t i = 0; i < q->receivers; i++) {
    uint32_t v = q->receiver[i];
    r->receiver[i] = v;
    uint32_t next = net->first[v + 1] > net->first[v] ? net->to[net->first[v]] : DC_NO_NODE;
    uint32_t other = next == DC_NO_NODE ? DC_NO_NODE : newest[next];
    bool same =
        other != DC_NO_NODE && alike(r, q, v, q->receiver[other]) && (q->wish == NULL || q->wish[i] == q->wish[other]);
    if (same) {
      r->like[i] = r->like[other];
      continue;
    }
    number(r, v);
    r->like[i] = r->n - 1;
    if (next != DC_NO_NODE)
      newest[next] = i;
  }
  r->terminals = r->n - 1;
}

/* Are the links that the source reaches a tree? */
static bool without_circles(struct dc_rates *r)
{
  uint32_t now = ++r->now, n = 0, arcs = 0;
  r->queue[n++] = 0;
  r->seen[0] = now;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t x = r->queue[i];
    arcs += r->first[x + 1] - r->first[x];
    for (uint32_t a = r->first[x]; a < r->first[x + 1]; a++)
      if (r->seen[r->head[a]] != now) {
        r->seen[r->head[a]] = now;
        r->queue[n++] = r->head[a];
      }
  }
  return arcs == 2 * (n - 1);
}

static enum dc_rates_error set_up(struct dc_rates *r, const struct dc_rates_query *q, uint32_t *culprit)
{
  const struct dc_net *net = r->net;
  r->n = r->m = r->count = 0;
  r->receivers = q->receivers;
  r->steps = 0;
  memset(r->place, 0xff, net->nodes * sizeof *r->place);
  number(r, q->source);
  number_receivers(r, q);
  for (uint32_t v = 0; v < net->nodes; v++)
    if (r->place[v] == DC_NO_NODE && (net->flags[v] & DC_NODE_FORWARDS) != 0)
      number(r, v);
  for (uint32_t x = 0; x < r->n; x++) {
    uint32_t v = r->node[x];
    uint64_t in = 0, out = 0;
    r->first[x] = r->m;
    for (uint32_t a = net->first[v]; a < net->first[v + 1]; a++) {
      uint32_t y = r->place[net->to[a]], there = open_for(r, q, net->rev[a]), here = open_for(r, q, a);
      if (y == DC_NO_NODE || (there == 0 && here == 0))
        continue;
      r->tail[r->m] = x;
      r->head[r->m] = y;
      r->cap[r->m] = there;
      r->arc[r->m] = net->rev[a];
      in += here;
      out += there;
      r->m++;
    }
    if (in >= DC_RATES_SUM_MAX || out >= DC_RATES_SUM_MAX) {
      *culprit = v;
      return DC_RATES_SUM;
    }
  }
  r->first[r->n] = r->m;
  /* The opposite arc, by the network's number of it. */
  for (uint32_t a = 0; a < r->m; a++)
    for (uint32_t b = r->first[r->head[a]]; b < r->first[r->head[a] + 1]; b++)
      if (r->arc[b] == net->rev[r->arc[a]])
        r->back[a] = b;
  r->tree_shaped = without_circles(r);
  return DC_RATES_OK;
}

/* Without circles a terminal's max-flow is the narrowest arc of its only path. */
static void bounds_of_a_tree(struct dc_rates *r)
{
  uint32_t now = ++r->now, n = 0;
  uint32_t *width = r->via;
  r->queue[n++] = 0;
  r->seen[0] = now;
  width[0] = UINT32_MAX;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t x = r->queue[i];
    for (uint32_t a = r->first[x]; a < r->first[x + 1]; a++) {
      uint32_t y = r->head[a];
      if (r->cap[a] == 0 || r->seen[y] == now)
        continue;
      r->seen[y] = now;
      width[y] = r->cap[a] < width[x] ? r->cap[a] : width[x];
      r->queue[n++] = y;
    }
  }
  for (uint32_t t = 1; t <= r->terminals; t++)
    r->bound[t] = r->seen[t] == now ? width[t] : 0;
}

static uint64_t degree_bound(const struct dc_rates *r, uint32_t t)
{
  uint64_t in = 0, out = 0;
  for (uint32_t a = r->first[t]; a < r->first[t + 1]; a++)
    in += r->cap[r->back[a]];
  for (uint32_t a = r->first[0]; a < r->first[1]; a++)
    out += r->cap[a];
  return in < out ? in : out;
}

static void find_bounds(struct dc_rates *r)
{
  if (r->tree_shaped) {
    bounds_of_a_tree(r);
    return;
  }
  for (uint32_t t = 1; t <= r->terminals; t++) {
    uint64_t most = degree_bound(r, t);
    r->bound[t] = r->steps < DC_FLOW_STEPS ? dc_rates_flow(r, t, most) : most;
  }
}

static void set_targets(struct dc_rates *r, const struct dc_rates_query *q)
{
  uint64_t least = UINT64_MAX;
  for (uint32_t i = 0; i < q->receivers; i++) {
    uint32_t t = r->like[i];
    r->target[t] = (uint32_t)r->bound[t];
    if (q->wish != NULL && q->wish[i] < r->target[t])
      r->target[t] = q->wish[i];
    if (r->target[t] != 0 && r->target[t] < least)
      least = r->target[t];
  }
  for (uint32_t t = 1; q->together && t <= r->terminals; t++)
    if (r->target[t] != 0)
      r->target[t] = (uint32_t)least;
}

int dc_rates_compare(const struct dc_rates *r, const uint64_t *a, const uint64_t *b)
{
  uint64_t from_a = 0, from_b = 0;
  for (;;) { /* the next higher value in each, and how many have it */
    uint64_t low_a = UINT64_MAX, low_b = UINT64_MAX;
    uint32_t many_a = 0, many_b = 0;
    for (uint32_t t = 1; t <= r->terminals; t++) {
      uint64_t x = a[t] < r->target[t] ? a[t] : r->target[t], y = b[t] < r->target[t] ? b[t] : r->target[t];
      if (x >= from_a && x <= low_a) {
        many_a = x == low_a ? many_a + 1 : 1;
        low_a = x;
      }
      if (y >= from_b && y <= low_b) {
        many_b = y == low_b ? many_b + 1 : 1;
        low_b = y;
      }
    }
    if (low_a != low_b)
      return low_a > low_b ? 1 : -1;
    if (low_a == UINT64_MAX)
      return 0;
    if (many_a != many_b)
      return many_a < many_b ? 1 : -1;
    from_a = from_b = low_a + 1;
  }
}

static bool falls_short(const struct dc_rates *r)
{
  bool is = false;
  for (uint32_t t = 1; t <= r->terminals; t++)
    is |= r->got[t] < r->target[t];
  return is;
}

static void sort_trees(struct dc_rates *r)
{
  for (uint32_t t = 0; t < r->count; t++) {
    uint32_t i = t;
    for (; i > 0 && r->rate[r->order[i - 1]] < r->rate[t]; i--)
      r->order[i] = r->order[i - 1];
    r->order[i] = t;
  }
}

enum dc_rates_error dc_rates_compute(struct dc_rates *r, const struct dc_rates_query *q, uint32_t *node)
{
  enum dc_rates_error error = set_up(r, q, node);
  if (error != DC_RATES_OK)
    return error;
  r->most = q->most < r->most ? q->most : r->most;
  r->was_split = false;
  r->together = q->together;
  find_bounds(r);
  set_targets(r, q);
  uint64_t any = 0;
  for (uint32_t t = 1; t <= r->terminals; t++)
    any |= r->target[t];
  if (any == 0)
    return DC_RATES_NONE;
  dc_rates_peel(r, false);
  if (!r->tree_shaped && !r->together && falls_short(r)) {
    uint64_t *before = r->saved;
    memcpy(before, r->got, (r->terminals + 1) * sizeof *before);
    dc_rates_peel(r, true);
    if (dc_rates_compare(r, r->got, before) < 0)
      dc_rates_peel(r, false);
  }
  if (!r->tree_shaped && falls_short(r))
    dc_rates_split(r);
  sort_trees(r);
  return DC_RATES_OK;
}

void dc_rates_prune(struct dc_rates *r, uint32_t *up, const uint32_t *wanted)
{
  uint32_t now = ++r->now;
  r->seen[0] = now;
  for (uint32_t t = 1; t <= r->terminals; t++)
    if (wanted[t] != 0 && up[t] != DC_NO_ARC)
      for (uint32_t x = t; r->seen[x] != now; x = r->tail[up[x]])
        r->seen[x] = now;
  for (uint32_t x = 1; x < r->n; x++)
    if (r->seen[x] != now)
      up[x] = DC_NO_ARC;
}

uint32_t dc_rates_trees(const struct dc_rates *r) { return r->count; }

uint32_t dc_rates_tree_rate(const struct dc_rates *r, uint32_t tree) { return r->rate[r->order[tree]]; }

uint32_t dc_rates_tree(struct dc_rates *r, uint32_t tree, uint32_t *node, uint32_t *arc)
{
  const struct dc_net *net = r->net;
  const uint32_t *up = dc_rates_up(r, r->order[tree]);
  uint32_t count = 0, now = ++r->now;
  r->seen[0] = now;
  /* Parents first: walk up from each node to what is written already, then write the way down. */
  for (uint32_t x = 1; x < r->n; x++) {
    uint32_t way = 0;
    for (uint32_t y = x; up[x] != DC_NO_ARC && r->seen[y] != now; y = r->tail[up[y]])
      r->queue[way++] = y;
    while (way > 0) {
      uint32_t y = r->queue[--way];
      r->seen[y] = now;
      node[count] = r->node[y];
      arc[count++] = r->arc[up[y]];
    }
  }
  for (uint32_t i = 0; i < r->receivers; i++) {
    uint32_t t = r->like[i], v = r->receiver[i];
    if (t == 0 || r->node[t] == v || up[t] == DC_NO_ARC)
      continue;
    uint32_t port = r->arc[up[t]] - net->first[r->node[t]];
    node[count] = v;
    arc[count++] = net->first[v] + port;
  }
  return count;
}

uint64_t dc_rates_got(const struct dc_rates *r, uint32_t i) { return r->got[r->like[i]]; }

uint64_t dc_rates_bound(const struct dc_rates *r, uint32_t i) { return r->bound[r->like[i]]; }

void dc_rates_cut(struct dc_rates *r, uint32_t i, uint8_t *side)
{
  uint32_t t = r->like[i];
  /* What can pass nothing on to anybody is on the source's side. */
  for (uint32_t v = 0; v < r->net->nodes; v++)
    side[v] = r->place[v] == DC_NO_NODE;
  for (uint32_t k = 0; k < r->receivers; k++)
    side[r->receiver[k]] = 0;
  (void)dc_rates_flow(r, t, UINT64_MAX);
  for (uint32_t x = 0; x < r->n; x++)
    if (r->seen[x] == r->now)
      side[r->node[x]] = 1;
  /* Those that one stands for are where it is; those like receiver i pass nothing on either. */
  for (uint32_t k = 0; k < r->receivers; k++)
    side[r->receiver[k]] = r->seen[r->like[k]] == r->now || r->like[k] == t;
  side[r->receiver[i]] = 0;
}

bool dc_rates_was_split(const struct dc_rates *r) { return r->was_split; }
