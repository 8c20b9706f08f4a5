/* The operations of docs/signalling.md, on this host alone. */
#ifndef AGENT_OPS_H
#define AGENT_OPS_H

#include "group.h"

/* Whom to tell a result that takes its time; takes over the result's reference. */
struct later {
  void (*answer)(void *arg, json_t *result);
  void *arg;
};

/* One request's part for this host. Returns the result object (a new reference), or NULL: it comes `later`.
 * `whole` (the message's `all`) and `part` (`b`) may be NULL. `epoch`: of the master that asks. */
json_t *ops_run(struct groups *groups, const char *op, const char *group, uint64_t epoch, const json_t *whole,
                const json_t *part, struct conn *from, struct later later) __attribute__((nonnull(1, 2)));

/* {"ok":false,"code":…,"error":…} */
json_t *ops_refusal(const struct fault *why) __attribute__((nonnull));

#endif
