#include <errno.h>
#include <string.h>

#include "node_state.h"

#define ALIGN 64u

void dc_node_cfg_default(struct dc_node_cfg *cfg)
{
  *cfg = (struct dc_node_cfg){
      .ports = 1,
      .cache_bytes = 128 * 1024,
      .cache_bytes_max = 16 * 1024 * 1024,
      .memory_bytes = 256 * 1024 * 1024,
      .trees = 256,
      .store_slots = 8192,
      .waiting_slots = 32768,
      .retx_min = 1 * DC_MS,
      .idle = 10 * DC_SEC,
  };
}

static bool power_of_two(uint32_t n) { return n != 0 && (n & (n - 1)) == 0; }

int dc_node_cfg_check(const struct dc_node_cfg *cfg, const char **what)
{
  *what = NULL;
  if (cfg->ports == 0 || cfg->ports > DC_NODE_PORTS_MAX)
    *what = "ports";
  else if (cfg->lone_port && cfg->endpoint)
    *what = "lone_port";
  else if (cfg->cache_bytes == 0)
    *what = "cache_bytes";
  else if (cfg->cache_bytes_max < cfg->cache_bytes)
    *what = "cache_bytes_max";
  else if (cfg->memory_bytes == 0)
    *what = "memory_bytes";
  else if (cfg->trees == 0 || cfg->trees > DC_NODE_TREES_MAX)
    *what = "trees";
  else if (!power_of_two(cfg->store_slots) || cfg->store_slots > DC_NODE_SLOTS_MAX)
    *what = "store_slots";
  else if (!power_of_two(cfg->waiting_slots) || cfg->waiting_slots < DC_WAITING_WAYS ||
           cfg->waiting_slots > DC_NODE_SLOTS_MAX)
    *what = "waiting_slots";
  else if (cfg->retx_min == 0 || cfg->retx_min > 60 * DC_SEC)
    *what = "retx_min";
  else if (cfg->idle == 0)
    *what = "idle";
  return *what == NULL ? 0 : -EINVAL;
}

/* Where the parts of a node stand in its memory: first what every tree fills, then what most fill a little of. */
struct layout {
  size_t port, tree, list, bucket, children, dense, slots, sets, more, far, size;
};

static size_t place(size_t *at, size_t n, size_t each)
{
  size_t here = *at;
  *at += (n * each + ALIGN - 1) / ALIGN * ALIGN;
  return here;
}

static struct layout lay_out(const struct dc_node_cfg *cfg)
{
  struct layout l;
  size_t at = 0;
  place(&at, 1, sizeof(struct dc_node));
  l.port = place(&at, cfg->ports, sizeof(struct dc_port));
  l.tree = place(&at, cfg->trees, sizeof(struct dc_tree));
  l.list = place(&at, (size_t)DC_TREES_OF_PORT + cfg->ports, sizeof(struct dc_tree_list));
  l.bucket = place(&at, dc_tree_buckets(cfg->trees), sizeof(uint32_t));
  l.children = place(&at, cfg->trees, sizeof(struct dc_children));
  l.dense = at;
  l.slots = place(&at, (size_t)cfg->trees * cfg->store_slots, sizeof(struct dc_store_slot));
  l.sets = place(&at, (size_t)cfg->trees * dc_waiting_sets(cfg->waiting_slots), sizeof(struct dc_waiting_set));
  l.more = place(&at, (size_t)cfg->trees * dc_waiting_more(cfg->waiting_slots), sizeof(struct dc_waiting_entry));
  l.far = place(&at, (size_t)cfg->trees * DC_CHILDREN_FAR, sizeof(struct dc_child));
  l.size = at;
  return l;
}

size_t dc_node_size(const struct dc_node_cfg *cfg) { return lay_out(cfg).size; }
size_t dc_node_dense(const struct dc_node_cfg *cfg) { return lay_out(cfg).dense; }

dc_node *dc_node_init(void *memory, const struct dc_node_cfg *cfg, const struct dc_buf_ops *ops)
{
  const char *what;
  if (dc_node_cfg_check(cfg, &what) != 0)
    return NULL;

  /* The trees' slots are not touched: memory of trees that never come is never really used. */
  struct layout l = lay_out(cfg);
  uint8_t *base = memory;
  struct dc_node *node = memory;
  node->cfg = *cfg;
  node->ops = *ops;
  node->port = (struct dc_port *)(void *)(base + l.port);
  node->trees = (struct dc_tree_table){
      .tree = (struct dc_tree *)(void *)(base + l.tree),
      .bucket = (uint32_t *)(void *)(base + l.bucket),
      .bucket_mask = dc_tree_buckets(cfg->trees) - 1,
      .cap = cfg->trees,
      .free = DC_TREE_NONE,
      .list = (struct dc_tree_list *)(void *)(base + l.list),
      .lists = (uint32_t)DC_TREES_OF_PORT + cfg->ports,
      .slots = (struct dc_store_slot *)(void *)(base + l.slots),
      .sets = (struct dc_waiting_set *)(void *)(base + l.sets),
      .more = (struct dc_waiting_entry *)(void *)(base + l.more),
      .children = (struct dc_children *)(void *)(base + l.children),
      .far = (struct dc_child *)(void *)(base + l.far),
  };
  dc_tree_lists_init(&node->trees);
  for (unsigned i = 0; i < cfg->ports; i++)
    memset(node->port[i].addresses, 0xff, 6);
  return node;
}

void dc_node_set_port(dc_node *node, uint16_t port, const uint8_t own[6], const uint8_t neighbour[6])
{
  if (port >= node->cfg.ports)
    return;
  struct dc_port *p = &node->port[port];
  if (memcmp(p->addresses, neighbour, 6) == 0 && memcmp(p->addresses + 6, own, 6) == 0)
    return;
  memcpy(p->addresses, neighbour, 6);
  memcpy(p->addresses + 6, own, 6);
  for (struct dc_tree *t = NULL; (t = dc_tree_next(&node->trees, t)) != NULL;)
    dc_children_forget_fronts(t->children);
}

void dc_node_set_copies(dc_node *node, uint16_t ports)
{
  if (node->cfg.lone_port)
    node->copies = ports < DC_REPLICATE_PORTS ? ports : DC_REPLICATE_PORTS;
}

void dc_node_set_packets(dc_node *node, uint32_t most) { node->cfg.memory_packets = most; }

void dc_node_wipe(dc_node *node)
{
  for (struct dc_tree *t = NULL; (t = dc_tree_next(&node->trees, t)) != NULL;)
    dc_node_empty(node, t);
}

void dc_node_clear(dc_node *node)
{
  for (struct dc_tree *t = NULL; (t = dc_tree_next(&node->trees, t)) != NULL;) {
    dc_node_empty(node, t);
    dc_tree_remove(&node->trees, t);
  }
}
