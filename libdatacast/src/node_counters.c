#include <string.h>

#include "node_state.h"

void dc_node_counters(const dc_node *node, struct dc_node_counters *out)
{
  *out = node->count;
  out->trees = node->trees.n;
  out->bytes = node->bytes;
}

void dc_node_port_counters(const dc_node *node, uint16_t port, struct dc_port_counters *out)
{
  if (port < node->cfg.ports)
    *out = node->port[port].count;
  else
    memset(out, 0, sizeof *out);
}

unsigned dc_node_tree_counters(const dc_node *node, struct dc_tree_counters *out, unsigned cap)
{
  unsigned n = 0;
  for (const struct dc_tree *t = NULL; n < cap && (t = dc_tree_next(&node->trees, t)) != NULL;) {
    const struct dc_tree_events *c = &t->count;
    out[n++] = (struct dc_tree_counters){.tree = t->id,
                                         .interests = c->interests,
                                         .hits = c->hits,
                                         .misses = c->misses,
                                         .aggregated = c->aggregated,
                                         .retx_forwarded = c->retx_forwarded,
                                         .data = c->data,
                                         .stored = c->stored,
                                         .evicted = c->evicted,
                                         .replicated = c->replicated,
                                         .dup_data = c->dup_data,
                                         .bytes = t->store.bytes,
                                         .packets = t->store.packets,
                                         .waiting = t->waiting.n,
                                         .children = t->children->n};
  }
  return n;
}
