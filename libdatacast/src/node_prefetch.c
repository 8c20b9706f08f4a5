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
    if (dc_frame_ethertype(f) == DC_ETHERTYPE_MPLS && dc_label_read(f->data + at, &bottom) == DC_LABEL_LOCAL)
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
      f->port == DC_PORT_HOST || f->len < DC_ETHER_LEN + DC_LABEL_LEN || dc_frame_ethertype(f) != DC_ETHERTYPE_MPLS
          ? DC_LABEL_LOCAL
          : dc_label_read(f->data + DC_ETHER_LEN, &bottom);
  return label < DC_LABEL_ADJ ? DC_PORT_HOST : (uint16_t)(label - DC_LABEL_ADJ);
}

static void fetch_port(const struct dc_node *node, uint16_t port)
{
  if (port < node->cfg.ports)
    fetch(&node->port[port], sizeof node->port[0]);
}

/* A frame that is going to be handled, as far as it was looked at. */
struct ahead {
  const uint8_t *header; /* NULL: nothing of a tree is needed */
  const struct dc_tree *tree;
  uint32_t id, seq;
};

static void look(const struct dc_node *node, const struct dc_frame *frame, struct ahead *a)
{
  a->header = header_of(node, frame);
  a->tree = NULL;
  if (a->header != NULL) {
    a->id = dc_get32(a->header + DC_AT_TREE);
    a->seq = dc_get32(a->header + DC_AT_SEQ);
  }
}

static void fetch_tree(const struct dc_node *node, struct ahead *a)
{
  a->tree = dc_tree_likely(&node->trees, a->id);
  if (a->tree != NULL)
    fetch(a->tree, DC_TREE_HOT);
}

static void fetch_slots(const struct dc_node *node, struct ahead *a)
{
  if (a->tree == NULL)
    return;
  if (a->tree->id != a->id)
    a->tree = dc_tree_find(&node->trees, a->id);
  if (a->tree == NULL)
    return;
  const struct dc_store *store = &a->tree->store;
  fetch(&store->slot[a->seq & store->mask], 1);
  if (store->oldest != DC_STORE_NONE)
    fetch(&store->slot[store->oldest], 1);
  dc_tree_prefetch_move(&node->trees, a->tree);
  dc_waiting_prefetch(&a->tree->waiting, a->seq);
  fetch(a->tree->children, 1);
  fetch(dc_child_at(a->tree->children, 0), 1);
  fetch(dc_child_at(a->tree->children, 1), 1);
}

/* What is answered from, and what gives way: who owns a buffer stands in its first line. */
static void fetch_packets(const struct ahead *a)
{
  if (a->tree == NULL)
    return;
  const struct dc_store *store = &a->tree->store;
  fetch(store->slot[a->seq & store->mask].buf, 1);
  if (store->oldest != DC_STORE_NONE)
    fetch(store->slot[store->oldest].buf, 1);
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
  struct ahead a;
  look(node, frame, &a);
  if (a.header == NULL)
    return;
  if (step == 1) {
    dc_tree_prefetch(&node->trees, a.id);
  } else if (step == 2) {
    fetch_tree(node, &a);
  } else {
    a.tree = dc_tree_find(&node->trees, a.id);
    if (step == 3)
      fetch_slots(node, &a);
    else
      fetch_packets(&a);
  }
}

/* Frames between two steps of the same frame: as long as memory takes. What few trees touch is in the processor's caches, and
 * fetching it costs more than it brings. */
enum { APART = 2, AHEAD = (DC_NODE_PREFETCH_STEPS - 1) * APART, FEW_TREES = 64, PLACES = 8 };
_Static_assert(PLACES >= AHEAD && (PLACES & (PLACES - 1)) == 0, "who is fetched for has a place until it is handled");

/* The steps of a burst's frames that come after `i` frames: each frame is looked at once. Node and ports are touched by all. */
static void fetch_ahead(const struct dc_node *node, const struct dc_frame *frame, unsigned n, unsigned i,
                        struct ahead ahead[PLACES])
{
  if (i < n) {
    struct ahead *a = &ahead[i % PLACES];
    look(node, &frame[i], a);
    if (a->header != NULL)
      dc_tree_prefetch(&node->trees, a->id);
  }
  unsigned second = i - APART, third = i - 2 * APART, fourth = i - 3 * APART; /* below 0: beyond n */
  if (second < n && ahead[second % PLACES].header != NULL)
    fetch_tree(node, &ahead[second % PLACES]);
  if (third < n)
    fetch_slots(node, &ahead[third % PLACES]);
  if (fourth < n)
    fetch_packets(&ahead[fourth % PLACES]);
}

unsigned dc_node_handle_burst(dc_node *node, dc_time now, const struct dc_frame *frame, unsigned n, struct dc_tx *out,
                              unsigned cap, unsigned *sent)
{
  if (node->trees.n <= FEW_TREES)
    return dc_node_handle_each(node, now, frame, n, out, cap, sent);
  unsigned done = 0;
  struct ahead ahead[PLACES] = {0};
  *sent = 0;
  for (unsigned i = 0; done < n && cap - *sent >= DC_NODE_TX_MAX; i++) {
    fetch_ahead(node, frame, n, i, ahead);
    if (i >= AHEAD) {
      *sent += dc_node_handle(node, now, &frame[done], out + *sent, cap - *sent);
      done++;
    }
  }
  return done;
}
