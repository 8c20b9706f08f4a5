/* How much a tree carries, window by window: one that carries less than half of what it did is worth a look at who holds it
 * up. The master looks seldom, and until it does all wait. */
#ifndef AGENT_WINDOW_H
#define AGENT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "datacast/time.h"

struct window {
  dc_time since;
  uint32_t from, before; /* where it began; pieces in WINDOW_MAX at the rate of those before, 0: unknown */
  uint32_t bore;         /* how often it bore its slowness, at the last look */
};

/* Has the tree slowed down, now that it has sent the numbers below `sent`? True once for each fall, and once for each time that it
 * bore (`bore` of dc_source_bore): it would be slow, and goes on for a moment all the same, long enough for other trees, if they
 * are planned now. `dry`: it has nothing left to send, and begins anew. */
bool window_slowed(struct window *w, dc_time now, uint32_t sent, bool dry, uint32_t bore) __attribute__((nonnull));

#endif
