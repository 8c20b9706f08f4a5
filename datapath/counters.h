/* What a node, its ports and its trees have counted, as JSON: the keys are the same for a host and a switch. */
#ifndef DATAPATH_COUNTERS_H
#define DATAPATH_COUNTERS_H

#include <jansson.h>

#include "datapath/engine.h"

void counters_put(json_t *o, const char *key, uint64_t n) __attribute__((nonnull));
/* Of the node itself: all but its ports. Every reason to drop a frame is a key of `drop`, which is returned (borrowed). */
json_t *counters_node(const struct engine_node *n, json_t *to) __attribute__((nonnull));
/* "carried": of each port whose neighbour says hello, how long a frame came whole from there. */
void counters_carried(const struct engine_node *n, json_t *to) __attribute__((nonnull));
/* Frames of a port. */
void counters_port(const struct port *p, json_t *to) __attribute__((nonnull));
/* Its link: what it is now, and hellos. */
void counters_link(const struct port *p, json_t *to) __attribute__((nonnull));
/* Numbers of `from` are added, lists joined; what else there is stays as it is in `to`. */
void counters_add(json_t *to, const json_t *from) __attribute__((nonnull));
/* Of `most` trees at most. */
json_t *counters_trees(const struct engine_node *n, unsigned most) __attribute__((nonnull));

#endif
