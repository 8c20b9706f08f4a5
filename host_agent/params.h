/* Tree objects and layouts of the signalling, checked. */
#ifndef AGENT_PARAMS_H
#define AGENT_PARAMS_H

#include <jansson.h>

#include "agent_limits.h"
#include "datacast/cc.h"
#include "datacast/pieces.h"
#include "datacast/receiver.h"
#include "datapath/log.h"

struct tree_params {
  uint32_t id;
  const struct dc_cc_ops *cc;
  struct dc_cc_params rate; /* and the receivers' credits; packet_bytes: as given, or 0 */
  uint32_t burst, batch;
  dc_time rto_min;
  uint64_t cache_bytes; /* 0: the nodes' default */
  dc_time patience;     /* the source's */
};

/* An integer member in [min, max]; `otherwise` when absent. False with *why when it is something else. */
bool get_integer(const json_t *o, const char *key, uint64_t min, uint64_t max, uint64_t otherwise, uint64_t *to,
                 struct fault *why) __attribute__((nonnull));
/* A string member of at most max bytes; NULL with *why when it is absent or something else. */
const char *need_string(const json_t *o, const char *key, size_t max, struct fault *why) __attribute__((nonnull));

/* `trees` of an open request: an array of tree objects. Returns their number, or -1 with *why. */
int params_trees(const json_t *all, struct tree_params to[GROUP_TREES_MAX], struct fault *why) __attribute__((nonnull));
/* size, piece, per_block; payload_max: what one packet may carry here. */
bool params_layout(const json_t *all, uint32_t payload_max, struct dc_layout *to, struct fault *why)
    __attribute__((nonnull));

/* What a receiver asks with in this tree, of pieces of so many bytes, beside `outstanding` packets that are asked for over the
 * group's other trees, the longest of whose round trips is `trip`. */
void params_receiver(const struct tree_params *p, uint32_t piece, uint32_t outstanding, dc_time trip,
                     struct dc_receiver_cfg *to) __attribute__((nonnull));

/* Lower-case hex of n bytes into to[2n + 1], and back (exactly n bytes; false for anything else). */
void hex_write(char *to, const uint8_t *p, size_t n) __attribute__((nonnull));
bool hex_read(uint8_t *to, size_t n, const char *hex, size_t len) __attribute__((nonnull));

/* May a name (node, group) be used in file names and logs: letters, digits, "._-", not empty, no dot in front. */
bool name_ok(const char *name);

#endif
