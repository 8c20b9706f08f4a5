#include "node_tree.h"

#include <string.h>

#include "batch.h"

/* A child counts for so many of its own gaps of silence, and at least so long: a host that stands still for a moment is silent,
 * and wants what comes here; a slow one goes on in its own time. Who has all of it, is done, or has gone is silent for
 * longer. */
#define LAG_GAPS 16u
#define LAG_STILL (150 * DC_MS)
#define LAG_CHILDREN 8u
_Static_assert(DC_CHILDREN_MAX / LAG_CHILDREN + 1 <= UINT8_MAX, "slowest_due holds it");

uint32_t dc_tree_buckets(uint32_t trees)
{
  uint32_t n = 2;
  while (n < 2 * trees)
    n *= 2;
  return n;
}

static uint32_t home(const struct dc_tree_table *t, uint32_t id)
{
  return (uint32_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 32) & t->bucket_mask;
}

/* Bucket that holds this tree, or the empty one where it would go. */
static uint32_t bucket_of(const struct dc_tree_table *t, uint32_t id)
{
  uint32_t b = home(t, id);
  while (t->bucket[b] != 0 && t->tree[t->bucket[b] - 1].id != id)
    b = (b + 1) & t->bucket_mask;
  return b;
}

struct dc_tree *dc_tree_find(const struct dc_tree_table *t, uint32_t id)
{
  uint32_t b = bucket_of(t, id);
  return t->bucket[b] == 0 ? NULL : &t->tree[t->bucket[b] - 1];
}

void dc_tree_prefetch(const struct dc_tree_table *t, uint32_t id) { __builtin_prefetch(&t->bucket[home(t, id)]); }

const struct dc_tree *dc_tree_likely(const struct dc_tree_table *t, uint32_t id)
{
  uint32_t i = t->bucket[home(t, id)];
  return i == 0 ? NULL : &t->tree[i - 1];
}

void dc_tree_prefetch_move(const struct dc_tree_table *t, const struct dc_tree *tree)
{
  if (tree->newer == DC_TREE_NONE || t->clock - tree->moved < DC_TREE_MOVES)
    return;
  __builtin_prefetch(&t->tree[tree->newer], 1);
  if (tree->older != DC_TREE_NONE)
    __builtin_prefetch(&t->tree[tree->older], 1);
}

void dc_tree_lists_init(struct dc_tree_table *t)
{
  for (uint32_t i = 0; i < t->lists; i++)
    t->list[i] = (struct dc_tree_list){DC_TREE_NONE, DC_TREE_NONE, 0};
}

static void unlink_tree(struct dc_tree_table *t, struct dc_tree *tree)
{
  struct dc_tree_list *l = &t->list[tree->list];
  if (tree->newer == DC_TREE_NONE)
    l->newest = tree->older;
  else
    t->tree[tree->newer].older = tree->older;
  if (tree->older == DC_TREE_NONE)
    l->oldest = tree->newer;
  else
    t->tree[tree->older].newer = tree->newer;
  tree->list = DC_TREE_NONE;
  l->n--;
}

static void link_newest(struct dc_tree_table *t, struct dc_tree *tree, uint32_t list)
{
  uint32_t i = (uint32_t)(tree - t->tree);
  struct dc_tree_list *l = &t->list[list];
  tree->list = list;
  tree->newer = DC_TREE_NONE;
  tree->older = l->newest;
  if (l->newest == DC_TREE_NONE)
    l->oldest = i;
  else
    t->tree[l->newest].newer = i;
  l->newest = i;
  l->n++;
}

struct dc_tree *dc_tree_next(const struct dc_tree_table *t, const struct dc_tree *tree)
{
  for (uint32_t i = tree == NULL ? 0 : (uint32_t)(tree - t->tree) + 1; i < t->used; i++)
    if (t->tree[i].list != DC_TREE_NONE)
      return &t->tree[i];
  return NULL;
}

static struct dc_tree *oldest_of(const struct dc_tree_table *t, uint32_t list)
{
  return t->list[list].oldest == DC_TREE_NONE ? NULL : &t->tree[t->list[list].oldest];
}

struct dc_tree *dc_tree_oldest(const struct dc_tree_table *t) { return oldest_of(t, DC_TREES_PROVEN); }

struct dc_tree *dc_tree_newer(const struct dc_tree_table *t, const struct dc_tree *tree)
{
  return tree->newer == DC_TREE_NONE ? NULL : &t->tree[tree->newer];
}

struct dc_tree *dc_tree_unproven(const struct dc_tree_table *t)
{
  uint32_t most = DC_TREES_OF_HOST;
  for (uint32_t i = most + 1; i < t->lists; i++)
    if (t->list[i].n > t->list[most].n)
      most = i;
  return oldest_of(t, most);
}

struct dc_tree *dc_tree_add(struct dc_tree_table *t, const struct dc_node_cfg *cfg, uint32_t id, uint16_t port,
                            dc_time now)
{
  if (t->free == DC_TREE_NONE && t->used == t->cap)
    return NULL;
  uint32_t i = t->free;
  if (i != DC_TREE_NONE)
    t->free = t->tree[i].older;
  else
    i = t->used++;

  struct dc_tree *tree = &t->tree[i];
  struct dc_waiting waiting = tree->waiting; /* its epoch goes on */
  memset(tree, 0, sizeof *tree);
  tree->id = id;
  tree->used = tree->moved = now;
  tree->waiting = waiting;
  tree->children = &t->children[i];
  tree->children->n = 0;
  tree->children->slowest_due = 0;
  tree->children->far = &t->far[(size_t)i * DC_CHILDREN_FAR];
  dc_store_init(&tree->store, &t->slots[(size_t)i * cfg->store_slots], cfg->store_slots, cfg->cache_bytes);
  dc_waiting_init(&tree->waiting, &t->sets[(size_t)i * dc_waiting_sets(cfg->waiting_slots)],
                  &t->more[(size_t)i * dc_waiting_more(cfg->waiting_slots)], cfg->waiting_slots);

  t->bucket[bucket_of(t, id)] = i + 1;
  link_newest(t, tree, port == DC_PORT_HOST ? DC_TREES_OF_HOST : DC_TREES_OF_PORT + (uint32_t)port);
  t->n++;
  return tree;
}

void dc_tree_remove(struct dc_tree_table *t, struct dc_tree *tree)
{
  uint32_t hole = bucket_of(t, tree->id);
  t->bucket[hole] = 0;
  /* Close the gap: whoever was pushed past the hole moves into it. */
  for (uint32_t b = (hole + 1) & t->bucket_mask; t->bucket[b] != 0; b = (b + 1) & t->bucket_mask) {
    uint32_t h = home(t, t->tree[t->bucket[b] - 1].id);
    if (((b - h) & t->bucket_mask) >= ((b - hole) & t->bucket_mask)) {
      t->bucket[hole] = t->bucket[b];
      t->bucket[b] = 0;
      hole = b;
    }
  }
  unlink_tree(t, tree);
  tree->older = t->free;
  t->free = (uint32_t)(tree - t->tree);
  t->n--;
}

void dc_tree_touch(struct dc_tree_table *t, struct dc_tree *tree, dc_time now)
{
  t->clock = tree->used = now;
  if (tree->newer != DC_TREE_NONE && now - tree->moved >= DC_TREE_MOVES) {
    uint32_t list = tree->list;
    unlink_tree(t, tree);
    link_newest(t, tree, list);
    tree->moved = now;
  }
}

void dc_tree_prove(struct dc_tree_table *t, struct dc_tree *tree)
{
  if (tree->list == DC_TREES_PROVEN)
    return;
  unlink_tree(t, tree);
  link_newest(t, tree, DC_TREES_PROVEN);
}

void dc_tree_sample(struct dc_tree *tree, dc_time took)
{
  if (tree->shortest == 0 || took < tree->shortest)
    tree->shortest = took > 0 ? took : 1;
  if (tree->response == 0)
    tree->response = took;
  else if (took >= tree->response)
    tree->response += (took - tree->response) / 8;
  else
    tree->response -= (tree->response - took) / 8;
}

static bool counts(const struct dc_child *c, dc_time now)
{
  dc_time patience = (dc_time)c->gap * LAG_GAPS * DC_US;
  return !c->done && (c->again > 1 || c->begins) && now - c->heard <= (patience < LAG_STILL ? LAG_STILL : patience);
}

static void find_slowest(struct dc_tree *tree, dc_time now)
{
  tree->slowest_seq = UINT32_MAX;
  for (uint32_t i = 0; i < tree->children->n; i++) {
    const struct dc_child *c = dc_child_at(tree->children, i);
    if (counts(c, now) && dc_child_asked(c) < tree->slowest_seq) {
      tree->children->slowest = (uint8_t)i;
      tree->slowest_seq = dc_child_asked(c);
    }
  }
}

uint8_t dc_tree_lag(struct dc_tree *tree, dc_time now, const struct dc_child *by, uint32_t first, uint32_t last)
{
  if (tree->children->slowest_due == 0) {
    find_slowest(tree, now);
    tree->children->slowest_due = (uint8_t)(tree->children->n / LAG_CHILDREN + 1);
  }
  tree->children->slowest_due--;
  first = dc_batch_first(first, last);
  uint32_t own = counts(by, now) && last > dc_child_asked(by) ? last - dc_child_asked(by) : 0;
  uint32_t others = first > tree->slowest_seq ? first - tree->slowest_seq : 0;
  return dc_lag_code(own > others ? own : others);
}
