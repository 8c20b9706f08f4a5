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
    out[n] = t->count;
    out[n].bytes = t->store.bytes;
    out[n].packets = t->store.packets;
    out[n].waiting = t->waiting.n;
    out[n].children = t->children->n;
    n++;
  }
  return n;
}
