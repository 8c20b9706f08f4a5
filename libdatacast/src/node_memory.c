#include "node_state.h"

/* A tree not used for so long lends its part of the memory to others. */
#define LEND_AFTER (100 * DC_MS)

static void pop(struct dc_node *node, struct dc_tree *tree)
{
  uint64_t bytes = tree->store.bytes;
  if (!dc_store_pop(&tree->store, &node->ops))
    return;
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

void dc_node_resize(struct dc_node *node, struct dc_tree *tree, uint64_t capacity)
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

static bool make_room(struct dc_node *node, struct dc_tree *tree, dc_time now, uint32_t len)
{
  struct dc_tree *idle = dc_tree_oldest(&node->trees);
  while (!fits(node, len)) {
    while (idle != NULL && (idle == tree || idle->store.packets == 0) && now - idle->used >= LEND_AFTER)
      idle = dc_tree_newer(&node->trees, idle);
    bool lends = idle != NULL && now - idle->used >= LEND_AFTER;
    struct dc_tree *from = lends ? idle : tree;
    if (from->store.packets == 0)
      return false;
    pop(node, from);
  }
  return true;
}

void dc_node_store(struct dc_node *node, struct dc_tree *tree, dc_time now, uint32_t seq, dc_buf *buf, uint32_t off,
                   uint32_t len)
{
  dc_node_unstore(node, tree, seq); /* a newer copy takes its place, or none does */
  if (len > tree->store.capacity || !make_room(node, tree, now, len))
    return;

  uint64_t bytes = tree->store.bytes, evicted;
  uint32_t packets = tree->store.packets;
  if (!dc_store_put(&tree->store, &node->ops, seq, buf, off, len, &evicted))
    return;
  node->bytes += tree->store.bytes - bytes; /* may be less than before: unsigned arithmetic comes out right */
  node->packets += (uint64_t)tree->store.packets - packets;
  tree->count.evicted += evicted;
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

struct dc_tree *dc_node_tree(struct dc_node *node, dc_time now, uint32_t id)
{
  struct dc_tree *tree = dc_tree_find(&node->trees, id);
  if (tree == NULL) {
    tree = dc_tree_add(&node->trees, &node->cfg, id, now);
    struct dc_tree *oldest = dc_tree_oldest(&node->trees);
    if (tree == NULL && oldest != NULL && now - oldest->used >= node->cfg.idle) {
      dc_node_empty(node, oldest);
      dc_tree_remove(&node->trees, oldest);
      node->count.trees_evicted++;
      tree = dc_tree_add(&node->trees, &node->cfg, id, now);
    }
  }
  if (tree != NULL)
    dc_tree_touch(&node->trees, tree, now);
  return tree;
}
