#include "trees_attach.h"

#include <string.h>

/* A search goes backwards from v, over arcs INTO what it has seen, until it meets the tree. next[u] is the arc by which
 * u leads on towards v. Free arcs cost nothing, arcs of other trees (when they may be taken) cost one: a breadth-first
 * search with two queues. */
struct search {
  struct dc_trees *s;
  unsigned t;
  uint32_t v;
  uint64_t may_lose;    /* trees whose arcs may be taken */
  unsigned tick;        /* arcs taken in the last LOCK ticks may not be taken back; 0: all may */
  uint32_t found, cost; /* where it met the tree */
};

/* A place where the search may end: the source (when it may have another child), or a node of the tree. */
static bool meets(const struct search *q, uint32_t u)
{
  const struct dc_trees *s = q->s;
  if (u == s->source)
    return s->branching || !dc_set_has_child(s, q->t, u);
  if (dc_parents(s, q->t)[u] == DC_NO_ARC)
    return false;
  /* With steps above it that are right it is joined; where trees are rough, look. */
  return dc_set_joined(s, q->t, u);
}

/* BUDGET: searches that an exchange of arcs may take before a tree is given up. */
enum { LEVELS_BEYOND = 2, LOCK = 4, SEARCHES_PER_TICK = 8, BUDGET = 600 };

/* xorshift: the seed moves on, the order stays the same for the same seed. */
static uint32_t random_below(struct dc_trees *s, uint32_t n)
{
  s->seed ^= s->seed << 13;
  s->seed ^= s->seed >> 17;
  s->seed ^= s->seed << 5;
  return s->seed % n;
}

static bool locked(const struct search *q, uint32_t arc)
{
  unsigned when = q->s->taken[arc];
  return q->tick != 0 && when != 0 && q->tick - when < LOCK;
}

static bool look(struct search *q)
{
  struct dc_trees *s = q->s;
  const struct dc_net *net = s->net;
  uint32_t *near = s->queue, *far = s->later, *next = s->next;
  uint32_t nears = 0, fars = 0, now = dc_new_stamp(s), visited = now, seen;
  uint8_t own = (uint8_t)(q->t + 1);
  const uint16_t *depth = dc_depths(s, q->t);

  /* Two stamps: seen at the present cost, and finished. A node is put into `far` without a stamp, so that a cheaper way
   * can still claim it. */
  seen = visited;
  q->found = DC_NO_NODE;
  near[nears++] = q->v;
  s->stamp[q->v] = seen;
  next[q->v] = DC_NO_ARC;
  for (q->cost = 0;; q->cost++) {
    uint32_t best = UINT32_MAX, level_end = nears, level = 0, stop = UINT32_MAX;
    for (uint32_t i = 0; i < nears; i++) {
      if (i == level_end) {
        if (++level > stop)
          break;
        level_end = nears;
      }
      uint32_t v = near[i], row = net->first[v], degree = net->first[v + 1] - row;
      uint32_t turn = s->seed == 0 ? 0 : random_below(s, degree);
      for (uint32_t j = 0; j < degree; j++) {
        uint32_t a = row + (j + turn < degree ? j + turn : j + turn - degree), u = net->to[a];
        uint8_t use = s->use[a];
        if (s->stamp[u] == seen)
          continue;
        if (use == DC_USE_FREE || use == own) {
          if (meets(q, u)) {
            uint32_t d = u == s->source ? 0 : depth[u];
            d = (d >= DC_DEPTH_LEFT ? 1000u : d) + level;
            if (d * 256 + dc_load(s, a) < best) {
              best = d * 256 + dc_load(s, a);
              q->found = u;
              next[u] = a;
              if (stop == UINT32_MAX)
                stop = level + LEVELS_BEYOND;
            }
            continue;
          }
          if (u == s->source)
            continue;
          s->stamp[u] = seen;
          next[u] = a;
          near[nears++] = u;
        } else if (use <= DC_TREES_MAX && (q->may_lose >> (use - 1) & 1) != 0 && !locked(q, a) && fars < net->nodes) {
          far[fars++] = a;
        }
      }
    }
    if (q->found != DC_NO_NODE)
      return true;
    /* The next cost: across the arcs of other trees. */
    nears = 0;
    for (uint32_t i = 0; i < fars; i++) {
      uint32_t a = far[i], u = net->to[a];
      if (s->stamp[u] == seen)
        continue;
      if (meets(q, u)) {
        q->found = u;
        next[u] = a;
        return true;
      }
      if (u == s->source)
        continue;
      s->stamp[u] = seen;
      next[u] = a;
      near[nears++] = u;
    }
    if (nears == 0)
      return false;
    fars = 0;
  }
}

/* ---- exchange ---- */

static bool needed(const struct dc_trees *s, unsigned t, uint32_t v)
{
  return (s->role[v] & DC_ROLE_RECEIVER) != 0 || dc_set_has_child(s, t, v);
}

/* Tree t lost what hung below v: what leads to nobody now goes, up to where it branches. */
static void drop_dangling(struct dc_trees *s, unsigned t, uint32_t v)
{
  const uint32_t *parent = dc_parents(s, t);
  while (v != s->source && parent[v] != DC_NO_ARC && !needed(s, t, v)) {
    uint32_t up = s->net->to[parent[v]];
    dc_set_leave(s, t, v);
    v = up;
  }
}

/* Put the path that a search found into its tree; whom it robs needs another way. */
static bool take_path(struct search *q)
{
  struct dc_trees *s = q->s;
  for (uint32_t u = q->found; u != q->v;) {
    uint32_t arc = s->next[u];
    uint8_t use = s->use[arc];
    u = dc_owner(s->net, arc);
    if (use != DC_USE_FREE && use != q->t + 1) {
      unsigned loser = use - 1u;
      uint32_t up = s->net->to[arc];
      dc_set_leave(s, loser, u);
      if (needed(s, loser, u)) {
        if (s->needs == DC_NEEDS_MAX)
          return false;
        dc_need_add(s, loser, u);
      }
      drop_dangling(s, loser, up);
      s->taken[arc] = (uint8_t)q->tick;
    }
    uint32_t before = dc_parents(s, q->t)[u];
    uint32_t up = before == DC_NO_ARC || before == arc ? DC_NO_NODE : s->net->to[before];
    dc_set_enter(s, q->t, u, arc);
    if (up != DC_NO_NODE)
      drop_dangling(s, q->t, up);
  }
  return true;
}

/* Meet the needs, those that come up on the way first. */
static uint64_t meet(struct dc_trees *s, uint64_t may_lose, unsigned *searches)
{
  uint64_t failed = 0;
  while (s->needs > 0) {
    if (s->seed != 0) {
      uint32_t pick = random_below(s, s->needs);
      struct dc_need swap = s->need[pick];
      s->need[pick] = s->need[s->needs - 1];
      s->need[s->needs - 1] = swap;
    }
    struct dc_need need = s->need[--s->needs];
    if ((failed >> need.t & 1) != 0 || dc_set_joined(s, need.t, need.v) || !needed(s, need.t, need.v))
      continue;
    struct search q = {.s = s, .t = need.t, .v = need.v};
    bool found = look(&q);
    q.may_lose = may_lose & ~(UINT64_C(1) << need.t) & ~failed;
    if (!found && q.may_lose != 0) { /* else it was no search for an exchange, and the next tree may find a way */
      q.tick = 1 + (*searches)++ / SEARCHES_PER_TICK;
      found = look(&q);
      if (!found) {
        q.tick = 0;
        found = look(&q);
      }
    }
    if (!found || *searches > BUDGET || !take_path(&q))
      failed |= UINT64_C(1) << need.t;
  }
  return failed;
}

uint64_t dc_attach_exchange(struct dc_trees *s, uint64_t trees, uint64_t may_lose)
{
  uint64_t failed = 0;
  unsigned searches = 0;
  if (may_lose != 0)
    memset(s->taken, 0, s->net->arcs);
  failed |= meet(s, may_lose, &searches);
  if (s->needs_more) {
    s->needs_more = false;
    for (unsigned t = 0; t < s->net->trees; t++)
      for (uint32_t i = 0; (trees >> t & 1) != 0 && i < s->receivers && (failed >> t & 1) == 0; i++)
        if (!dc_set_joined(s, t, s->receiver[i])) {
          dc_need_add(s, t, s->receiver[i]);
          failed |= meet(s, may_lose, &searches);
        }
  }
  for (unsigned t = 0; t < s->net->trees; t++)
    if ((s->rough >> t & 1) != 0 && dc_set_prune(s, t) != 0)
      failed |= UINT64_C(1) << t;
  return failed;
}
