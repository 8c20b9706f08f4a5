/* What an agent leaves of receivers' files, when it is killed, or stopped with --keep-partial. A note in the first folder for received
 * files names, at any time, what this agent receives, for the agent that starts next. What no master has opened again within ten leases
 * goes, as where an agent hears of a group no more: whether a group is over only its master knows, and that asks every member while it
 * is not. */
#ifndef AGENT_LEFT_H
#define AGENT_LEFT_H

#include "datapath/loop.h"

struct groups;
struct left_part;

struct left {
  struct groups *groups;   /* NULL: the agent ends, and the note stays as it is */
  struct left_part *first; /* of agents before this one */
  struct timer over;
  struct lane *lane;  /* of what writes the note */
  bool saving, again; /* it is being written; what it says is another by now */
};

void left_init(struct left *l, struct groups *groups) __attribute__((nonnull));
/* Reads the note. */
void left_open(struct left *l) __attribute__((nonnull));
/* Has it written, in a thread: this agent receives something more, or less. */
void left_save(struct left *l) __attribute__((nonnull));
/* A master has spoken of it: with `keep` the file stays for who opens the group, else it goes. */
void left_settle(struct left *l, const char *group, bool keep) __attribute__((nonnull));
/* Has the note written for the last time. */
void left_close(struct left *l) __attribute__((nonnull));

#endif
