/* Of groups that are not open here any more: what a master of an earlier epoch still says must not open them anew, nor an
 * `open` that was late on its way. A group's epoch counts its masters (docs/signalling.md). */
#ifndef AGENT_EPOCHS_H
#define AGENT_EPOCHS_H

#include "host.h"

/* The oldest is forgotten: its masters are gone by then, or have been told. */
enum { EPOCHS_MAX = 1024 };

struct epochs {
  struct {
    char group[NAME_MAX_LEN + 1];
    uint64_t epoch, routed_n; /* the highest; of that epoch the last `open` or `reroute`, or what `close` named */
  } row[EPOCHS_MAX];
  uint32_t n, next;
};

/* The highest that were noted for a group; 0: none. */
uint64_t epochs_last(const struct epochs *e, const char *group) __attribute__((nonnull));
uint64_t epochs_routed(const struct epochs *e, const char *group) __attribute__((nonnull));
void epochs_note(struct epochs *e, const char *group, uint64_t epoch, uint64_t routed_n) __attribute__((nonnull));

#endif
