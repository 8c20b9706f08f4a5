#include "trees_graph.h"

#include <string.h>

#include "trees_address.h"

static size_t lay_out(struct dc_net *net, void *memory, const struct dc_net_cfg *cfg)
{
  struct dc_arena a = {memory, 0};
  (void)dc_arena_take(&a, sizeof *net);
  struct dc_net dry;
  if (net == NULL)
    net = &dry;
  size_t nodes = cfg->nodes, arcs = 2 * (size_t)cfg->links;
  size_t rows = dc_address_trees(cfg->kind, cfg->n, cfg->k);
  if (rows > cfg->trees)
    rows = 0;
  net->first = dc_arena_take(&a, (nodes + 1) * sizeof *net->first);
  net->to = dc_arena_take(&a, arcs * sizeof *net->to);
  net->rev = dc_arena_take(&a, arcs * sizeof *net->rev);
  net->base = dc_arena_take(&a, arcs);
  net->flags = dc_arena_take(&a, nodes);
  net->msd = dc_arena_take(&a, nodes * sizeof *net->msd);
  net->port = dc_arena_take(&a, rows * nodes);
  net->far = dc_arena_take(&a, rows * nodes);
  return a.used;
}

size_t dc_net_size(const struct dc_net_cfg *cfg) { return lay_out(NULL, NULL, cfg); }

/* Rows of arcs from the list of links. False when ports are not dense or used twice. */
static bool fill(struct dc_net *net, uint32_t links, const struct dc_net_link *link)
{
  memset(net->first, 0, (net->nodes + 1) * sizeof *net->first);
  for (uint32_t i = 0; i < links; i++) {
    if (link[i].u >= net->nodes || link[i].v >= net->nodes || link[i].u == link[i].v)
      return false;
    net->first[link[i].u + 1]++;
    net->first[link[i].v + 1]++;
  }
  for (uint32_t v = 0; v < net->nodes; v++)
    net->first[v + 1] += net->first[v];
  for (uint32_t a = 0; a < net->arcs; a++)
    net->to[a] = DC_NO_NODE;
  for (uint32_t i = 0; i < links; i++) {
    uint32_t a = dc_net_arc(net, link[i].u, link[i].u_port), b = dc_net_arc(net, link[i].v, link[i].v_port);
    if (a == DC_NO_ARC || b == DC_NO_ARC || net->to[a] != DC_NO_NODE || net->to[b] != DC_NO_NODE)
      return false;
    net->to[a] = link[i].v;
    net->to[b] = link[i].u;
    net->rev[a] = b;
    net->rev[b] = a;
  }
  return true;
}

struct dc_net *dc_net_init(void *memory, const struct dc_net_cfg *cfg, const struct dc_net_link *link,
                           const uint8_t *flags, const uint16_t *msd)
{
  struct dc_net *net = memory;
  memset(net, 0, sizeof *net);
  lay_out(net, memory, cfg);
  net->nodes = cfg->nodes;
  net->arcs = 2 * cfg->links;
  net->trees = cfg->trees;
  net->n = cfg->n;
  net->k = cfg->k;
  if (!fill(net, cfg->links, link))
    return NULL;
  memcpy(net->flags, flags, net->nodes);
  memcpy(net->msd, msd, net->nodes * sizeof *msd);
  for (uint32_t a = 0; a < net->arcs; a++)
    net->base[a] = (net->flags[net->to[a]] & DC_NODE_FORWARDS) != 0 ? DC_USE_FREE : DC_USE_DEAD;
  dc_address_init(net, cfg->kind);
  return net;
}

enum dc_net_kind dc_net_kind(const struct dc_net *net) { return net->kind; }

uint32_t dc_net_arc(const struct dc_net *net, uint32_t v, uint32_t port)
{
  if (v >= net->nodes || port >= net->first[v + 1] - net->first[v])
    return DC_NO_ARC;
  return net->first[v] + port;
}

void dc_net_set_up(struct dc_net *net, uint32_t arc, bool up)
{
  uint32_t both[2] = {arc, net->rev[arc]};
  if (up == dc_net_is_up(net, arc))
    return;
  net->down += up ? UINT32_MAX : 1;
  for (int i = 0; i < 2; i++)
    net->base[both[i]] = (uint8_t)(up ? net->base[both[i]] & ~DC_USE_DOWN : net->base[both[i]] | DC_USE_DOWN);
}

bool dc_net_is_up(const struct dc_net *net, uint32_t arc) { return (net->base[arc] & DC_USE_DOWN) == 0; }

void dc_net_set_cache(struct dc_net *net, uint32_t v, bool can)
{
  net->flags[v] = (uint8_t)((can ? net->flags[v] | DC_NODE_CACHE : net->flags[v] & ~DC_NODE_CACHE) | DC_NODE_BESIDE);
}
