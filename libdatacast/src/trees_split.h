/* Splitting off, and the trees that follow from it. */
#ifndef DATACAST_TREES_SPLIT_H
#define DATACAST_TREES_SPLIT_H

#include "trees_rates.h"

/* `amount` of u -> x and x -> v became u -> v, which had `plain` before. */
struct dc_split_entry {
  uint32_t u, v, amount, plain;
};

/* A node and its entries [first, last). */
struct dc_split_step {
  uint32_t node, first, last;
};

/* Nodes as in dc_rates: 0 the source, 1..terminals the receivers. Matrices have n x n numbers, [from][to]. */
struct dc_split {
  uint32_t n, terminals;
  uint32_t *cap;
  uint32_t *flow;   /* one matrix per terminal */
  uint32_t *spare;  /* one more */
  uint32_t *enter;  /* [node][from]: what led into a node when it was eliminated */
  uint32_t *target; /* per terminal, from 0 on */
  uint32_t *extra;  /* what a terminal's flow is larger */
  uint32_t *alive, alive_nodes;
  uint32_t *queue, *seen, *via, now;
  bool *done;
  struct dc_split_step *step;
  uint32_t steps;
  struct dc_split_entry *log;
  uint32_t logged, log_max;
  uint64_t cells;
  /* Trees: weight, and the node from which each node is entered (DC_NO_NODE: not in it). */
  uint32_t *weight, *parent;
  uint32_t trees, trees_max;
};

/* Eliminate all nodes. False when it takes more steps or room than there is. */
bool dc_split_run(struct dc_split *s) __attribute__((nonnull));

/* The way back: trees over the network that was there at first. */
void dc_split_lift(struct dc_split *s, uint32_t rate) __attribute__((nonnull));

#endif
