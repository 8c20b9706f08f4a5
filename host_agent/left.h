/* What this agent leaves of receivers' files when it is stopped (--keep-partial). A note in the first folder for received files
 * names it for the agent that starts next. What no master has opened again within ten leases goes, as where an agent hears of a
 * group no more: whether a group is over only its master knows, and that asks every member while it is not. */
#ifndef AGENT_LEFT_H
#define AGENT_LEFT_H

#include "datapath/loop.h"

struct host;
struct left_part;

struct left {
  struct host *host;
  struct left_part *first;
  struct timer over;
};

void left_init(struct left *l, struct host *host) __attribute__((nonnull));
/* Reads the note. */
void left_open(struct left *l) __attribute__((nonnull));
/* One more part is left; `dest` as its master named it. */
void left_add(struct left *l, const char *group, const char *dest, uint64_t lease_ms) __attribute__((nonnull));
/* A master has spoken of it: with `keep` the file stays for who opens the group, else it goes. */
void left_settle(struct left *l, const char *group, bool keep) __attribute__((nonnull));
/* Writes the note of what is left now. */
void left_close(struct left *l) __attribute__((nonnull));

#endif
