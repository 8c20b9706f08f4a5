/* What the control socket answers, as JSON. README, "Control socket", lists the keys. */
#ifndef SWITCH_ANSWERS_H
#define SWITCH_ANSWERS_H

#include <jansson.h>

#include "switch.h"

/* One request object to one answer object ({"ok": true, …} or {"ok": false, "error": …}); the caller owns it. Sets
 * *stop when the request was "shutdown". */
json_t *answer_request(struct sw *s, const json_t *request, bool *stop) __attribute__((nonnull));
/* Does the answer of each worker count? Else worker 0 speaks for all. */
bool answer_adds_up(const json_t *request) __attribute__((nonnull));
json_t *answer_error(const char *fmt, ...) __attribute__((format(printf, 1, 2), nonnull));

#endif
