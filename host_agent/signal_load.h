/* What each caller has under way here: requests that wait for members, which keep their messages, and calls to children for them.
 * A caller is who its certificate names, over however many connections, also those that it has closed; without certificates all
 * are one. Its bounds leave room for others, so that one host that was taken over does not stop the signalling of the rest. */
#ifndef AGENT_SIGNAL_LOAD_H
#define AGENT_SIGNAL_LOAD_H

#include "datapath/conn.h"
#include "datapath/log.h"

struct load {
  char who[TLS_IDENTITY_MAX];
  unsigned requests, calls;
  size_t bytes; /* of the messages */
  struct load *next;
};

/* A request more of this caller, whose message has so many bytes. NULL with *why: that would be too much, or there is no memory. */
struct load *load_add(struct load **all, const struct conn *caller, size_t bytes, struct fault *why)
    __attribute__((nonnull));
/* The request is over, and its calls are. */
void load_remove(struct load **all, struct load *l, size_t bytes) __attribute__((nonnull));
/* Whether it may have one call more. */
bool load_has_room(const struct load *l) __attribute__((nonnull));
void load_close(struct load **all) __attribute__((nonnull));

#endif
