#include "node_state.h"

/* A tree not used for so long goes when others need its memory: its group has ended, or stands still. */
#define STILL_AFTER (250 * DC_MS)

enum {
  SCARCE = 64,        /* memory is, when no more than such a part of it is left */
  WAITING_SETS = 512, /* of a waiting table whatever there is: it holds the 1,584 of most paths */
  WAITING_PART = 8,   /* of the memory: all waiting tables' beyond that */
  LOOKED_AT = 8       /* trees at most, for one that can give */
};

/* The oldest packet goes; there is one. */
static void pop(struct dc_node *node, struct dc_tree *tree)
{
  uint64_t bytes = tree->store.bytes;
  (void)dc_store_pop(&tree->store, &node->ops);
  node->bytes -= bytes - tree->store.bytes;
  node->packets--;
  tree->count.evicted++;
}

void dc_node_empty(struct dc_node *node, struct dc_tree *tree)
{
  node->bytes -= tree->store.bytes;
  node->packets -= tree->store.packets;
  while (dc_store_pop(&tree->store, &node->ops))
    ;
}

/* The memory that a table has grown into is its own from then on, whichever tree has it. */
void dc_node_widen(struct dc_node *node, struct dc_tree *tree)
{
  struct dc_waiting *w = &tree->waiting;
  uint32_t sets = w->mask + 1;
  uint64_t grows = sets < WAITING_SETS || sets < w->most ? 0 : sets * DC_WAITING_SET_BYTES;
  if (2 * sets > dc_waiting_sets(node->cfg.waiting_slots) ||
      node->waiting + grows > node->cfg.memory_bytes / WAITING_PART)
    return;
  dc_waiting_grow(w);
  node->waiting += grows;
}

void dc_node_resize(struct dc_node *node, struct dc_tree *tree, uint32_t capacity)
{
  tree->store.capacity = capacity;
  while (tree->store.bytes > capacity)
    pop(node, tree);
}

static bool fits(const struct dc_node *node, uint32_t len)
{
  return node->bytes + len <= node->cfg.memory_bytes &&
         (node->cfg.memory_packets == 0 || node->packets < node->cfg.memory_packets);
}

static void forget(struct dc_node *node, struct dc_tree *tree)
{
  dc_node_empty(node, tree);
  dc_tree_remove(&node->trees, tree);
  node->count.trees_evicted++;
}

uint64_t dc_node_room(const struct dc_node *node, const struct dc_tree *tree)
{
  const struct dc_node_cfg *cfg = &node->cfg;
  const struct dc_store *store = &tree->store;
  uint64_t room = store->bytes > cfg->cache_bytes ? store->bytes : cfg->cache_bytes;
  bool scarce = node->bytes >= cfg->memory_bytes - cfg->memory_bytes / SCARCE ||
                (cfg->memory_packets != 0 && node->packets >= cfg->memory_packets - cfg->memory_packets / SCARCE);
  if (!scarce || room > store->capacity)
    room = store->capacity;
  uint64_t slots =
      store->packets == 0 ? room : store->bytes / store->packets * store->slots; /* as large as what it holds */
  return room < slots ? room : slots;
}

/* One that has more than a node gives unasked; few are looked at. */
static struct dc_tree *rich(const struct dc_node *node, const struct dc_tree *but)
{
  struct dc_tree *t = dc_tree_oldest(&node->trees);
  for (unsigned i = 0; i < LOOKED_AT && t != NULL; i++) {
    if (t != but && t->store.bytes > node->cfg.cache_bytes)
      return t;
    t = dc_tree_newer(&node->trees, t);
  }
  return NULL;
}

/* Trees that stand still go whole, so that each is looked at once; then those that have more give to one that has less than a
 * node gives unasked; then the tree gives up what it holds itself. */
static bool make_room(struct dc_node *node, struct dc_tree *tree, dc_time now, uint32_t len)
{
  while (!fits(node, len)) {
    struct dc_tree *oldest = dc_tree_oldest(&node->trees), *from = tree;
    if (oldest != NULL && oldest != tree && now - oldest->used >= STILL_AFTER) {
      forget(node, oldest);
      continue;
    }
    if (tree->store.bytes < node->cfg.cache_bytes && (from = rich(node, tree)) == NULL)
      from = tree;
    if (from->store.packets == 0)
      return false;
    pop(node, from);
  }
  return true;
}

void dc_node_store(struct dc_node *node, struct dc_tree *tree, dc_time now, uint32_t seq, dc_buf *buf, uint32_t off,
                   uint32_t len)
{
  if (len > tree->store.capacity || !make_room(node, tree, now, len))
    return;

  uint64_t bytes = tree->store.bytes;
  uint32_t packets = tree->store.packets;
  tree->count.evicted += dc_store_put(&tree->store, &node->ops, seq, buf, off, len);
  node->bytes += tree->store.bytes - bytes; /* may be less than before: unsigned arithmetic comes out right */
  node->packets += (uint64_t)tree->store.packets - packets;
  tree->count.stored++;
  if (seq > tree->newest || tree->store.packets == 1)
    tree->newest = seq;
}

void dc_node_unstore(struct dc_node *node, struct dc_tree *tree, uint32_t seq)
{
  uint64_t bytes = tree->store.bytes;
  uint32_t packets = tree->store.packets;
  dc_store_drop(&tree->store, &node->ops, seq);
  node->bytes -= bytes - tree->store.bytes;
  node->packets -= packets - tree->store.packets;
}

struct dc_tree *dc_node_tree(struct dc_node *node, dc_time now, uint32_t id, uint16_t port)
{
  struct dc_tree *tree = dc_tree_find(&node->trees, id);
  if (tree == NULL) {
    tree = dc_tree_add(&node->trees, &node->cfg, id, port, now);
    if (tree == NULL) {
      struct dc_tree *gone = dc_tree_unproven(&node->trees);
      if (gone == NULL) {
        gone = dc_tree_oldest(&node->trees);
        if (gone == NULL || now - gone->used < node->cfg.idle)
          return NULL;
      }
      forget(node, gone);
      tree = dc_tree_add(&node->trees, &node->cfg, id, port, now);
    }
  }
  if (tree != NULL)
    dc_tree_touch(&node->trees, tree, now);
  return tree;
}
