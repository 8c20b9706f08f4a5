/* The nodes that the tests of the node set up, and children that ask them. */
#ifndef TEST_NODES_H
#define TEST_NODES_H

#include "frames.h"

static inline struct dc_node_cfg a_switch(void)
{
  struct dc_node_cfg cfg;
  dc_node_cfg_default(&cfg);
  cfg.ports = 8;
  cfg.trees = 4;
  cfg.store_slots = 64;
  cfg.waiting_slots = 64;
  cfg.cache_bytes = 8192;
  return cfg;
}

static inline struct dc_node_cfg a_host(void)
{
  struct dc_node_cfg cfg = a_switch();
  cfg.ports = 2;
  cfg.endpoint = true;
  return cfg;
}

/* Child k is reached over port k, and the source over port 7. */
static inline struct asking from_child(uint16_t k, uint32_t tree, uint32_t seq)
{
  return (struct asking){.tree = tree, .seq = seq, .ret = SEG(false, k, 3), .fwd = SEG(false, 7, 2)};
}

static inline unsigned child_asks(struct bench *b, uint16_t k, uint32_t tree, uint32_t seq, uint8_t flags)
{
  struct asking a = from_child(k, tree, seq);
  a.flags = flags;
  return ask(b, k, &a);
}

#endif
