/* Whom of a group each child was handed (docs/signalling.md): a child tells events of these, and of nobody else. */
#ifndef AGENT_BELOW_H
#define AGENT_BELOW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent_limits.h"

/* More are not kept: it begins anew, and the next requests fill it. */
enum { BELOW_MAX = 4 * TREE_MEMBERS_MAX };

struct below {
  uint64_t *pair; /* a hash of child and member, ascending */
  uint32_t n, room;
};

/* `tree`, whose names are checked, was given to `child`. Without memory nothing is noted. */
void below_note(struct below *h, const char *child, const json_t *tree) __attribute__((nonnull));
bool below_has(const struct below *h, const char *child, const char *member) __attribute__((nonnull));
void below_clear(struct below *h) __attribute__((nonnull));

#endif
