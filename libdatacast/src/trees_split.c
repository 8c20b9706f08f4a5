/* Splitting off (Bang-Jensen, Frank, Jackson 1995), with capacities: a node's arcs in and out are joined to arcs that
 * pass it by, in pairs and by as much as every receiver's max-flow allows, until nothing is left of the node but the
 * source. trees_lift.c goes the way back and makes the trees.
 *
 * A flow of its target's size is kept for every receiver. Most splits only move some of it from u -> x -> v to u -> v; a
 * search is needed where a flow uses one of the two arcs and not the other. When it finds no other way for d of it, the
 * split is d too large.
 */
#include "trees_split.h"

#include <string.h>

static inline uint32_t *at(uint32_t *m, uint32_t n, uint32_t u, uint32_t v) { return m + (size_t)u * n + v; }

static uint32_t min2(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* What the flow leaves from u to v. */
static uint32_t rest(const struct dc_split *s, const uint32_t *f, uint32_t u, uint32_t v)
{
  size_t uv = (size_t)u * s->n + v, vu = (size_t)v * s->n + u;
  return (s->cap[uv] > f[uv] ? s->cap[uv] - f[uv] : 0) + f[vu];
}

/* The same for a search of terminal y's. */
static uint32_t step_room(const struct dc_split *s, const uint32_t *f, const uint32_t *extra, uint32_t y, uint32_t x,
                          uint32_t z)
{
  if (x == y && z == 0)
    return UINT32_MAX;
  uint32_t room = rest(s, f, x, z);
  return extra != NULL && room == 0 && x == 0 && z == y ? *extra : room;
}

/* Find `need` more ways from a to b in what flow f leaves. From terminal y back to the source they may go as they like,
 * which makes y's flow larger, and the other way as far as it is larger than its target. Returns how much was not
 * found. */
static uint32_t reroute(struct dc_split *s, uint32_t *f, uint32_t a, uint32_t b, uint32_t y, uint32_t need)
{
  uint32_t *extra = y == DC_NO_NODE ? NULL : &s->extra[y - 1];
  uint32_t n = s->n;
  while (need > 0) {
    uint32_t count = 0, now = ++s->now;
    s->queue[count++] = a;
    s->seen[a] = now;
    for (uint32_t i = 0; i < count && s->seen[b] != now; i++) {
      uint32_t x = s->queue[i];
      s->cells += n;
      for (uint32_t k = 0; k < s->alive_nodes; k++) {
        uint32_t z = s->alive[k];
        if (s->seen[z] == now || step_room(s, f, extra, y, x, z) == 0)
          continue;
        s->seen[z] = now;
        s->via[z] = x;
        s->queue[count++] = z;
      }
    }
    if (s->seen[b] != now)
      return need;
    uint32_t push = need;
    for (uint32_t z = b; z != a; z = s->via[z])
      push = min2(push, step_room(s, f, extra, y, s->via[z], z));
    for (uint32_t z = b; z != a; z = s->via[z]) {
      uint32_t x = s->via[z];
      if (x == y && z == 0) {
        *extra += push;
        continue;
      }
      if (extra != NULL && x == 0 && z == y && rest(s, f, x, z) == 0) {
        *extra -= push;
        continue;
      }
      uint32_t back = min2(*at(f, n, z, x), push);
      *at(f, n, z, x) -= back;
      *at(f, n, x, z) += push - back;
    }
    need -= push;
  }
  return 0;
}

/* Make f, the flow of terminal y, fit after `amount` of u -> x and x -> v was taken away and given to u -> v. Returns by
 * how much it cannot; f is spoilt then. */
static uint32_t fit(struct dc_split *s, uint32_t *f, uint32_t y, uint32_t u, uint32_t x, uint32_t v)
{
  uint32_t n = s->n;
  uint32_t *in = at(f, n, u, x), *out = at(f, n, x, v), in_cap = *at(s->cap, n, u, x), out_cap = *at(s->cap, n, x, v);
  uint32_t over_in = *in > in_cap ? *in - in_cap : 0, over_out = *out > out_cap ? *out - out_cap : 0;
  uint32_t over = over_in > over_out ? over_in : over_out;
  if (over == 0)
    return 0;
  uint32_t move = min2(over, min2(*in, *out));
  if (u != v) {
    *in -= move;
    *out -= move;
    *at(f, n, u, v) += move;
  } else {
    /* A loop u -> x -> u carries nothing that is needed. */
    *in -= move;
    *out -= move;
  }
  if (*in > in_cap) {
    uint32_t need = *in - in_cap;
    *in = in_cap;
    return reroute(s, f, u, x, y, need);
  }
  if (*out > out_cap) {
    uint32_t need = *out - out_cap;
    *out = out_cap;
    return reroute(s, f, x, v, y, need);
  }
  return 0;
}

static void shift(struct dc_split *s, uint32_t u, uint32_t x, uint32_t v, uint32_t amount, bool back)
{
  uint32_t *in = at(s->cap, s->n, u, x), *out = at(s->cap, s->n, x, v), *over = at(s->cap, s->n, u, v);
  *in = back ? *in + amount : *in - amount;
  *out = back ? *out + amount : *out - amount;
  if (u != v)
    *over = back ? *over - amount : *over + amount;
}

/* Split u -> x -> v off by as much as every terminal allows. */
static uint32_t split_pair(struct dc_split *s, uint32_t u, uint32_t x, uint32_t v)
{
  uint32_t n = s->n, amount = min2(*at(s->cap, n, u, x), *at(s->cap, n, x, v));
  shift(s, u, x, v, amount, false);
  for (uint32_t i = 0; i < s->terminals && amount > 0; i++) {
    if (s->done[i])
      continue;
    uint32_t *f = s->flow + (size_t)i * n * n;
    if (*at(f, n, u, x) <= *at(s->cap, n, u, x) && *at(f, n, x, v) <= *at(s->cap, n, x, v))
      continue;
    for (;;) {
      uint32_t extra = s->extra[i];
      memcpy(s->spare, f, (size_t)n * n * sizeof *f);
      s->cells += n;
      uint32_t less = fit(s, f, i + 1, u, x, v);
      if (less == 0)
        break;
      memcpy(f, s->spare, (size_t)n * n * sizeof *f);
      s->extra[i] = extra;
      less = min2(less, amount);
      shift(s, u, x, v, less, true);
      amount -= less;
      /* Those before may use more of u -> v than there is now: back through x. */
      for (uint32_t k = 0; u != v && k < i; k++) {
        uint32_t *g = s->flow + (size_t)k * n * n, *over = at(g, n, u, v), cap = *at(s->cap, n, u, v);
        if (s->done[k] || *over <= cap)
          continue;
        *at(g, n, u, x) += *over - cap;
        *at(g, n, x, v) += *over - cap;
        *over = cap;
      }
      if (amount == 0)
        break;
    }
  }
  return amount;
}

/* Terminal i's flow anew, as large as it can be; its target falls to that. */
static void flow_anew(struct dc_split *s, uint32_t i)
{
  uint32_t *f = s->flow + (size_t)i * s->n * s->n;
  memset(f, 0, (size_t)s->n * s->n * sizeof *f);
  s->extra[i] = 0;
  s->target[i] -= reroute(s, f, 0, i + 1, DC_NO_NODE, s->target[i]);
}

/* Nothing of x can be split off any more, and it still has arcs in and out: some receiver has to lose. */
static void give_up(struct dc_split *s, uint32_t x)
{
  uint32_t n = s->n;
  bool lost = false;
  for (uint32_t k = 0; k < s->alive_nodes; k++) {
    uint32_t v = s->alive[k];
    lost |= *at(s->cap, n, x, v) != 0;
    *at(s->cap, n, x, v) = 0;
    *at(s->cap, n, v, x) = 0;
  }
  for (uint32_t i = 0; lost && i < s->terminals; i++)
    if (!s->done[i])
      flow_anew(s, i);
}

static bool eliminate(struct dc_split *s, uint32_t x)
{
  uint32_t n = s->n;
  struct dc_split_step *step = &s->step[s->steps++];
  step->node = x;
  step->first = s->logged;
  for (uint32_t i = 0; i < s->alive_nodes; i++)
    *at(s->enter, n, x, s->alive[i]) = *at(s->cap, n, s->alive[i], x);
  for (uint32_t loops = 0; loops < 2; loops++)
    for (uint32_t j = 0; j < s->alive_nodes; j++) {
      uint32_t v = s->alive[j];
      for (uint32_t i = 0; *at(s->cap, n, x, v) != 0 && i < s->alive_nodes; i++) {
        uint32_t u = s->alive[i], plain = *at(s->cap, n, u, v);
        if (*at(s->cap, n, u, x) == 0 || (u == v) != (loops == 1))
          continue;
        uint32_t amount = split_pair(s, u, x, v);
        if (amount == 0 || u == v)
          continue;
        if (s->logged == s->log_max)
          return false;
        s->log[s->logged++] = (struct dc_split_entry){u, v, amount, plain};
      }
      if (s->cells > DC_SPLIT_CELLS)
        return false;
    }
  step->last = s->logged;
  give_up(s, x);
  uint32_t k = 0;
  while (s->alive[k] != x)
    k++;
  s->alive[k] = s->alive[--s->alive_nodes];
  return true;
}

/* Relays first, those with the fewest arcs before the others; then the terminals, from the slowest on. */
static uint32_t next_node(const struct dc_split *s)
{
  uint32_t best = DC_NO_NODE, least = UINT32_MAX;
  for (uint32_t k = 0; k < s->alive_nodes; k++) {
    uint32_t x = s->alive[k], arcs = 0;
    if (x <= s->terminals)
      continue;
    for (uint32_t i = 0; i < s->alive_nodes; i++)
      arcs += (*at(s->cap, s->n, x, s->alive[i]) != 0 ? 1U : 0) + (*at(s->cap, s->n, s->alive[i], x) != 0 ? 1U : 0);
    if (arcs < least || (arcs == least && x < best)) {
      least = arcs;
      best = x;
    }
  }
  if (best != DC_NO_NODE)
    return best;
  for (uint32_t i = 0; i < s->terminals; i++)
    if (!s->done[i] && (best == DC_NO_NODE || s->target[i] < s->target[best - 1]))
      best = i + 1;
  return best;
}

bool dc_split_run(struct dc_split *s)
{
  s->alive_nodes = s->n;
  for (uint32_t x = 0; x < s->n; x++)
    s->alive[x] = x;
  for (uint32_t i = 0; i < s->terminals; i++) {
    s->done[i] = false;
    flow_anew(s, i);
  }
  while (s->alive_nodes > 1) {
    uint32_t x = next_node(s);
    if (x <= s->terminals)
      s->done[x - 1] = true;
    if (s->cells > DC_SPLIT_CELLS || !eliminate(s, x))
      return false;
  }
  return true;
}
