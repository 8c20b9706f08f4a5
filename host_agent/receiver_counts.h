/* What a receiver's trees have counted. */
#ifndef AGENT_RECEIVER_COUNTS_H
#define AGENT_RECEIVER_COUNTS_H

#include "receiver_state.h"

struct receiver_counts {
  const struct receiver *receiver;
  struct dc_receiver_counters core[GROUP_TREES_MAX];
  uint64_t bytes[GROUP_TREES_MAX], again[GROUP_TREES_MAX];
}; /* in the order of receiver->tree */

/* Taken in their shards, one after another. */
void receiver_count(const struct group *g, struct receiver_counts *c) __attribute__((nonnull));

#endif
