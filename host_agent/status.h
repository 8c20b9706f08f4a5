/* Counters of this host's node and ports, as JSON, under the names a switch uses too. What the host's own endpoints
 * send directly by a port counts as the port's, so that the sums over all nodes are what the links carried. */
#ifndef AGENT_STATUS_H
#define AGENT_STATUS_H

#include "group.h"

void status_node(struct groups *groups, json_t *to) __attribute__((nonnull));

#endif
