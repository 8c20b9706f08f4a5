#include "datacast/trees_routes.h"

#include <string.h>

#include "datacast/route.h"
#include "trees_set.h"

/* What is known of a node of the tree, in s->next: what it is, its consumers, the stops of a route from it on. */
enum {
  PLAIN = 0,
  STORES = 1,
  PASSES = 2,
  KIND = 3,
  KNOWN = 4,
  STOPS_SHIFT = 3,
  STOPS_BITS = 0xff,
  CONSUMER_SHIFT = 16,
  CONSUMERS_MAX = 0xffff
};

struct routes {
  struct dc_trees *s;
  const struct dc_net *net;
  const uint32_t *parent;
  uint32_t *note;  /* s->next: see above */
  uint32_t *where; /* s->queue: the stop's record in `out`, once a route went through it */
  uint32_t *tail;  /* s->later: bytes from that record's beginning to the end of its route */
  uint8_t *out;
  size_t cap;
  size_t own; /* end of what the last route has of its own: the rest is as on one before */
  struct dc_routes_result result;
};

static bool fail(struct routes *r, enum dc_routes_error error, uint32_t node)
{
  r->result.error = error;
  r->result.node = node;
  return false;
}

static bool waypoint(const struct routes *r, uint32_t v) { return (r->note[v] & KIND) != PLAIN; }

/* Hosts that only send and receive forward for nobody, but the source's own node may merge what its own file is asked
 * for. */
static bool can_pass(const struct routes *r, uint32_t v)
{
  return v == r->s->source || (r->net->flags[v] & DC_NODE_CACHE) != 0;
}

/* A switch copies for the cache beside it where the copies are the same: to children one link away (REPLICATE,
 * docs/decisions/replication-offload.md). So whoever stands next below such a branch passes on. */
static bool one_link_below(const struct routes *r, uint32_t v)
{
  return (r->note[v] & KIND) == STORES && (r->net->flags[v] & DC_NODE_BESIDE) != 0;
}

/* Where do interests meet? Every branch node stores that can. One that cannot (a switch without its appliance) only
 * forwards: its consumers' interests meet at the next node above that can, the source's own at last. */
static bool take_notes(struct routes *r, unsigned t)
{
  struct dc_trees *s = r->s;
  const struct dc_net *net = r->net;
  const uint32_t *list = dc_list(s, t);
  uint32_t one = 1u << CONSUMER_SHIFT;
  r->note[s->source] = 0;
  for (uint32_t i = 0; i < s->length[t]; i++)
    r->note[list[i]] = (s->role[list[i]] & DC_ROLE_RECEIVER) != 0 ? one : 0;
  for (uint32_t i = s->length[t] + 1; i-- > 0;) { /* children before parents */
    uint32_t v = i == 0 ? s->source : list[i - 1], consumers = r->note[v] >> CONSUMER_SHIFT;
    if (consumers > 1 && can_pass(r, v)) {
      if (consumers > DC_CHILDREN_MAX)
        return fail(r, DC_ROUTES_CHILDREN, v);
      r->note[v] |= STORES;
      consumers = 1;
    }
    if (v != s->source) {
      uint32_t *above = &r->note[net->to[r->parent[v]]];
      uint32_t most = CONSUMERS_MAX - (*above >> CONSUMER_SHIFT);
      *above += one * (consumers < most ? consumers : most);
    }
  }
  return true;
}

/* Can node[1..n-1] handle the labels of a segment node[0] -> node[n] and back? Returns the index of one that cannot, or
 * 0. */
static unsigned too_deep(const struct routes *r, const uint32_t *node, unsigned n, bool local_up, bool local_down)
{
  for (unsigned i = 0; i <= n; i++) {
    unsigned msd = r->net->msd[node[i]];
    /* At the ends too: what a cache appliance sends comes to its switch with the label of the first port still on. */
    unsigned up = n - i + local_up, down = i + local_down;
    if (msd != 0 && (up > msd || down > msd))
      return i == 0 || i == n ? (n > 1 ? 1 : n) : i;
  }
  return 0;
}

/* From the stop node[0] up to the next one: fills node[1..n], makes a node pass on where that is needed, returns n. */
static unsigned next_stop(struct routes *r, uint32_t *node, bool from_endpoint)
{
  unsigned n = 0;
  uint32_t guilty = DC_NO_NODE;
  for (;;) {
    uint32_t v = node[n];
    if (n > 0 && (v == r->s->source || waypoint(r, v))) {
      bool local = waypoint(r, v);
      unsigned bad = n > DC_SEG_MAX ? n : too_deep(r, node, n, local, !from_endpoint);
      if (bad == 0 && n > 1 && one_link_below(r, v) && can_pass(r, node[n - 1]))
        r->note[node[--n]] |= PASSES;
      if (bad == 0)
        return n;
      guilty = node[bad];
      break;
    }
    if (n == DC_SEG_MAX + 1)
      break;
    node[n + 1] = r->net->to[r->parent[v]];
    n++;
  }
  unsigned fit = n - 1;
  while (fit > 0 && !(can_pass(r, node[fit]) && too_deep(r, node, fit, true, !from_endpoint) == 0))
    fit--;
  if (fit == 0) {
    (void)fail(r, guilty == DC_NO_NODE || n > DC_SEG_MAX ? DC_ROUTES_LONG : DC_ROUTES_MSD,
               guilty == DC_NO_NODE ? node[1] : guilty);
    return 0;
  }
  r->note[node[fit]] |= PASSES;
  return fit;
}

static void up_ports(const struct routes *r, const uint32_t *node, unsigned n, struct dc_segment *seg)
{
  seg->n = (uint8_t)n;
  for (unsigned i = 0; i < n; i++)
    seg->port[i] = (uint16_t)(r->parent[node[i]] - r->net->first[node[i]]);
}

static void down_ports(const struct routes *r, const uint32_t *node, unsigned n, struct dc_segment *seg)
{
  seg->n = (uint8_t)n;
  for (unsigned i = 0; i < n; i++)
    seg->port[i] = (uint16_t)(r->net->rev[r->parent[node[n - 1 - i]]] - r->net->first[node[n - i]]);
}

static void longest(struct routes *r, const struct dc_stop *stop, size_t rest)
{
  uint32_t down = stop->ret.n == 0 ? 0 : stop->ret.n - 1u + stop->ret.local;
  uint32_t up = stop->fwd.n == 0 ? 0 : stop->fwd.n - 1u + stop->fwd.local;
  uint32_t interest = stop->fwd.n == 0 ? 0 : (uint32_t)(DC_LABEL_LEN * up + DC_HEADER_LEN + rest);
  if (down > r->result.labels)
    r->result.labels = down;
  if (interest > r->result.interest)
    r->result.interest = interest;
}

static bool put(struct routes *r, size_t *at, const struct dc_stop *stop)
{
  size_t n = dc_stop_write(r->out + *at, r->cap - *at, stop);
  if (n == 0)
    return fail(r, DC_ROUTES_SPACE, DC_NO_NODE);
  *at += n;
  return true;
}

/* The route of receiver `v` at out[begin..]; returns its end, or 0. */
static size_t one_route(struct routes *r, uint32_t v, size_t begin)
{
  struct dc_trees *s = r->s;
  uint32_t node[DC_SEG_MAX + 3];
  uint32_t fresh[DC_STOPS_MAX + 1];
  size_t record[DC_STOPS_MAX + 1];
  unsigned freshes = 0, stops = 1, shared = 0;
  size_t at = begin;
  struct dc_stop stop;
  bool endpoint = true; /* the present stop is the receiver's or the source's own */

  stop.store = false;
  stop.ret.n = 0;
  stop.ret.local = false;
  node[0] = v;
  for (;;) {
    /* `stop` has its ret; find the next stop, and with it fwd. */
    uint32_t lower = node[0];
    unsigned n = 0;
    bool was_endpoint = endpoint;
    if (was_endpoint && waypoint(r, lower)) {
      stop.fwd.local = true; /* into this host's own node */
      stop.fwd.n = 0;
      endpoint = false;
    } else if (!was_endpoint && lower == s->source) {
      stop.fwd.local = false; /* out of the source's own node */
      stop.fwd.n = 0;
      endpoint = true;
    } else {
      n = next_stop(r, node, was_endpoint);
      if (n == 0)
        return 0;
      endpoint = !waypoint(r, node[n]);
      stop.fwd.local = !endpoint;
      up_ports(r, node, n, &stop.fwd);
    }
    if (!was_endpoint) {
      fresh[freshes] = lower;
      record[freshes++] = at;
    }
    if (!put(r, &at, &stop))
      return 0;
    if (++stops > DC_STOPS_MAX) {
      fail(r, DC_ROUTES_STOPS, v);
      return 0;
    }
    stop.ret.local = !was_endpoint;
    down_ports(r, node, n, &stop.ret);
    uint32_t upper = node[n];
    if (endpoint) { /* the source: its record ends the route */
      stop.store = false;
      stop.fwd.n = 0;
      stop.fwd.local = false;
      if (!put(r, &at, &stop))
        return 0;
      r->own = at;
      break;
    }
    stop.store = (r->note[upper] & KIND) == STORES;
    node[0] = upper;
    if ((r->note[upper] & KNOWN) == 0)
      continue;
    /* From here on as on a route before: only the way back differs. */
    struct dc_stop old;
    size_t n_old = dc_stop_parse(r->out + r->where[upper], r->tail[upper], &old), rest = r->tail[upper] - n_old;
    stop.fwd = old.fwd;
    size_t from = r->where[upper] + n_old;
    if (!put(r, &at, &stop))
      return 0;
    if (r->cap - at < rest) {
      fail(r, DC_ROUTES_SPACE, DC_NO_NODE);
      return 0;
    }
    memcpy(r->out + at, r->out + from, rest);
    r->own = at;
    at += rest;
    shared = (r->note[upper] >> STOPS_SHIFT & STOPS_BITS);
    stops += shared - 1;
    break;
  }
  if (at - begin > DC_ROUTE_MAX || stops > DC_STOPS_MAX) {
    fail(r, DC_ROUTES_STOPS, v);
    return 0;
  }
  for (unsigned i = 0; i < freshes; i++) {
    uint32_t w = fresh[i];
    r->where[w] = (uint32_t)record[i];
    r->tail[w] = (uint32_t)(at - record[i]);
    r->note[w] |= KNOWN;
    r->note[w] = (r->note[w] & ~((uint32_t)STOPS_BITS << STOPS_SHIFT)) | ((freshes - i) + (shared != 0 ? shared : 1u))
                                                                             << STOPS_SHIFT;
  }
  return at;
}

/* The longest label stack and interest of a route, from its own bytes. */
static void measure(struct routes *r, size_t begin, size_t end)
{
  struct dc_stop stop;
  while (begin < r->own) {
    begin += dc_stop_parse(r->out + begin, end - begin, &stop);
    longest(r, &stop, end - begin);
  }
}

struct dc_routes_result dc_trees_routes(struct dc_trees *s, unsigned tree, uint8_t *out, size_t cap, uint32_t *at)
{
  struct routes r = {.s = s,
                     .net = s->net,
                     .parent = dc_parents(s, tree),
                     .note = s->next,
                     .where = s->queue,
                     .tail = s->later,
                     .out = out,
                     .cap = cap};
  r.result = (struct dc_routes_result){.error = DC_ROUTES_OK, .node = DC_NO_NODE};
  size_t end = 0;
  dc_set_list(s, tree);
  if (!take_notes(&r, tree))
    return r.result;
  for (uint32_t i = 0; i < s->receivers; i++) {
    at[i] = (uint32_t)end;
    if (r.parent[s->receiver[i]] == DC_NO_ARC) {
      fail(&r, DC_ROUTES_MISSING, s->receiver[i]);
      return r.result;
    }
    size_t begin = end;
    end = one_route(&r, s->receiver[i], begin);
    if (end == 0)
      return r.result;
    measure(&r, begin, end);
  }
  at[s->receivers] = (uint32_t)end;
  r.result.bytes = end;
  return r.result;
}
