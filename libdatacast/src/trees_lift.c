/* From what was split off back to trees: the nodes return in the opposite order. A tree that uses an arc past the node
 * goes through it where the arc was made of its arcs; a terminal that is in too few trees yet becomes a leaf of others. */
#include <string.h>

#include "trees_split.h"

static uint32_t *tree_of(const struct dc_split *s, uint32_t t) { return s->parent + (size_t)t * s->n; }

/* Tree t keeps `weight`, which is less than it has; a copy with the rest follows. Where there is no room it is lost. */
static void divide(struct dc_split *s, uint32_t t, uint32_t weight)
{
  if (s->trees < s->trees_max) {
    memcpy(tree_of(s, s->trees), tree_of(s, t), s->n * sizeof *s->parent);
    s->weight[s->trees++] = s->weight[t] - weight;
  }
  s->weight[t] = weight;
}

/* Marks an arc of a tree that is to go through the node that comes back. */
#define THROUGH UINT32_C(0x80000000)

static bool marked(uint32_t parent) { return parent != DC_NO_NODE && (parent & THROUGH) != 0; }

static uint32_t depth(const uint32_t *parent, uint32_t x)
{
  uint32_t d = 0;
  for (; x != 0; x = parent[x] & ~THROUGH)
    d++;
  return d;
}

/* Lead the marked arcs of tree t through x, which is entered from the highest of the nodes where they begin: so none of
 * its new children is above it. */
static void through(struct dc_split *s, uint32_t t, const struct dc_split_step *step)
{
  uint32_t *parent = tree_of(s, t), x = step->node, best = DC_NO_NODE, least = UINT32_MAX;
  for (uint32_t e = step->first; e < step->last; e++) {
    if (parent[s->log[e].v] != (s->log[e].u | THROUGH))
      continue;
    uint32_t d = depth(parent, s->log[e].u);
    if (d < least) {
      least = d;
      best = s->log[e].u;
    }
  }
  if (best == DC_NO_NODE)
    return;
  for (uint32_t e = step->first; e < step->last; e++)
    if (marked(parent[s->log[e].v]))
      parent[s->log[e].v] = x;
  parent[x] = best;
  s->enter[(size_t)x * s->n + best] -= s->weight[t];
}

static void bring_back(struct dc_split *s, const struct dc_split_step *step)
{
  uint32_t x = step->node;
  /* Each arc that has more on it than was there without x sends the rest through x. */
  for (uint32_t e = step->first; e < step->last; e++) {
    const struct dc_split_entry *entry = &s->log[e];
    uint64_t used = 0;
    for (uint32_t t = 0; t < s->trees; t++)
      used += tree_of(s, t)[entry->v] == entry->u ? s->weight[t] : 0;
    uint64_t over = used > entry->plain ? used - entry->plain : 0;
    for (uint32_t t = 0; t < s->trees && over > 0; t++) {
      if (tree_of(s, t)[entry->v] != entry->u)
        continue;
      if (s->weight[t] > over)
        divide(s, t, (uint32_t)over);
      tree_of(s, t)[entry->v] |= THROUGH;
      over -= s->weight[t];
    }
  }
  for (uint32_t t = 0; t < s->trees; t++)
    through(s, t, step);
  if (x > s->terminals)
    return;
  uint64_t has = 0;
  for (uint32_t t = 0; t < s->trees; t++)
    has += tree_of(s, t)[x] != DC_NO_NODE ? s->weight[t] : 0;
  uint32_t miss = s->target[x - 1] > has ? (uint32_t)(s->target[x - 1] - has) : 0;
  /* Whole trees first: every division makes one tree more. */
  for (int whole = 1; whole >= 0; whole--)
    for (uint32_t t = 0; t < s->trees && miss > 0; t++) {
      uint32_t *parent = tree_of(s, t), best = DC_NO_NODE, least = UINT32_MAX;
      if (parent[x] != DC_NO_NODE)
        continue;
      for (uint32_t u = 0; u < s->n; u++) {
        uint32_t free = s->enter[(size_t)x * s->n + u];
        if (free == 0 || parent[u] == DC_NO_NODE || (whole != 0 && (free < s->weight[t] || miss < s->weight[t])))
          continue;
        uint32_t d = depth(parent, u);
        if (d < least) {
          least = d;
          best = u;
        }
      }
      if (best == DC_NO_NODE)
        continue;
      uint32_t *free = &s->enter[(size_t)x * s->n + best];
      uint32_t weight = *free < miss ? *free : miss;
      if (weight < s->weight[t])
        divide(s, t, weight);
      parent[x] = best;
      *free -= s->weight[t];
      miss -= s->weight[t];
    }
}

void dc_split_lift(struct dc_split *s, uint32_t rate)
{
  s->trees = 1;
  s->weight[0] = rate;
  memset(s->parent, 0xff, s->n * sizeof *s->parent);
  s->parent[0] = 0;
  for (uint32_t k = s->steps; k-- > 0;)
    bring_back(s, &s->step[k]);
}
