/* Memory that a frame is going to need: the node, its place in the table of trees, the tree, the packet's slots, stored packets. */
#include "datacast/bytes.h"
#include "node_state.h"

enum { LINE = 64 };

static void fetch(const void *p, size_t bytes)
{
  for (size_t at = 0; at < bytes; at += LINE)
    __builtin_prefetch((const char *)p + at, 1);
}

/* The Datacast header of a frame that this node is to process itself, or NULL. */
static const uint8_t *header_of(const struct dc_node *node, const struct dc_frame *f)
{
  uint32_t at = 0;
  if (f->port != DC_PORT_HOST) {
    if (f->len < DC_ETHER_LEN + DC_LABEL_LEN)
      return NULL;
    bool bottom;
    at = DC_ETHER_LEN;
    if (dc_get16(f->data + 12) == DC_ETHERTYPE_MPLS && dc_label_read(f->data + at, &bottom) == DC_LABEL_LOCAL)
      at += DC_LABEL_LEN;
    else if (!node->cfg.lone_port)
      return NULL;
  }
  return f->len - at < DC_HEADER_LEN ? NULL : f->data + at;
}

/* The port that the next label names. */
static uint16_t next_port(const struct dc_frame *f)
{
  bool bottom;
  uint32_t label =
      f->port == DC_PORT_HOST || f->len < DC_ETHER_LEN + DC_LABEL_LEN || dc_get16(f->data + 12) != DC_ETHERTYPE_MPLS
          ? DC_LABEL_LOCAL
          : dc_label_read(f->data + DC_ETHER_LEN, &bottom);
  return label < DC_LABEL_ADJ ? DC_PORT_HOST : (uint16_t)(label - DC_LABEL_ADJ);
}

static void fetch_port(const struct dc_node *node, uint16_t port)
{
  if (port < node->cfg.ports)
    fetch(&node->port[port], sizeof node->port[0]);
}

void dc_node_prefetch(const dc_node *node, const struct dc_frame *frame, unsigned step)
{
  if (step == 0) {
    fetch(node, sizeof *node);
    return;
  }
  if (step == 1) {
    fetch_port(node, frame->port);
    fetch_port(node, next_port(frame));
  }
  const uint8_t *h = header_of(node, frame);
  if (h == NULL)
    return;
  uint32_t id = dc_get32(h + DC_AT_TREE), seq = dc_get32(h + DC_AT_SEQ);
  if (step == 1) {
    dc_tree_prefetch(&node->trees, id);
    return;
  }
  if (step == 2) {
    const struct dc_tree *likely = dc_tree_likely(&node->trees, id);
    if (likely != NULL) {
      fetch(likely, DC_TREE_HOT);
    }
    return;
  }
  const struct dc_tree *tree = dc_tree_find(&node->trees, id);
  if (tree == NULL)
    return;
  const struct dc_store *store = &tree->store;
  if (step == 4) { /* what is answered from, and what gives way: who owns a buffer stands in its first line */
    fetch(store->slot[seq & store->mask].buf, 1);
    if (store->oldest != DC_STORE_NONE)
      fetch(store->slot[store->oldest].buf, 1);
    return;
  }
  fetch(&store->slot[seq & store->mask], 1);
  if (store->oldest != DC_STORE_NONE)
    fetch(&store->slot[store->oldest], 1);
  dc_tree_prefetch_move(&node->trees, tree);
  dc_waiting_prefetch(&tree->waiting, seq);
  fetch(tree->children, 1);
  fetch(dc_child_at(tree->children, 0), 1);
  fetch(dc_child_at(tree->children, 1), 1);
}

/* Frames between two steps of the same frame: as long as memory takes. What few trees touch is in the processor's caches, and
 * fetching it costs more than it brings. */
enum { APART = 2, AHEAD = (DC_NODE_PREFETCH_STEPS - 1) * APART, FEW_TREES = 64 };

unsigned dc_node_handle_burst(dc_node *node, dc_time now, const struct dc_frame *frame, unsigned n, struct dc_tx *out,
                              unsigned cap, unsigned *sent)
{
  unsigned done = 0;
  *sent = 0;
  if (node->trees.n <= FEW_TREES) {
    for (; done < n && cap - *sent >= DC_NODE_TX_MAX; done++)
      *sent += dc_node_handle(node, now, &frame[done], out + *sent, cap - *sent);
    return done;
  }
  dc_node_prefetch(node, frame, 0);
  for (unsigned i = 0; done < n && cap - *sent >= DC_NODE_TX_MAX; i++) {
    for (unsigned step = 1; step < DC_NODE_PREFETCH_STEPS; step++) {
      unsigned behind = (step - 1) * APART;
      if (i >= behind && i - behind < n)
        dc_node_prefetch(node, &frame[i - behind], step);
    }
    if (i >= AHEAD) {
      *sent += dc_node_handle(node, now, &frame[done], out + *sent, cap - *sent);
      done++;
    }
  }
  return done;
}
