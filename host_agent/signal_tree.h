/* Signalling over a tree that travels inside the message (docs/signalling.md; the paper's section 3).
 *
 * A request comes in with the tree of members below this host. The host applies its own part, hands every subtree to
 * its child over a kept connection, and answers once with everybody's results. A child that cannot be reached costs
 * time but nobody else's part: its own children are contacted from here. One that is slow to answer (stopped, hanging)
 * costs them 100 ms, for then they are contacted from here as well; every operation may come twice. Time is divided on
 * the way down: a child gets three quarters of what is left, the rest is for going around it. */
#ifndef AGENT_SIGNAL_TREE_H
#define AGENT_SIGNAL_TREE_H

#include "datapath/conn.h"
#include "group.h"
#include "signal_load.h"

struct call;
struct peer;
struct pending;

struct signalling {
  struct loop *loop;
  struct groups *groups;
  struct watch listen;
  int spare;          /* of the listener (datapath/accepting.h) */
  struct timer sweep; /* connections that stand idle */
  size_t budget;      /* input bytes of all connections */
  unsigned callers_n, peers_n, calls_n;
  struct caller *callers;
  struct peer *peers;
  struct pending *pending;
  struct load *loads;       /* of whom they are */
  struct reading *readings; /* for other sites (reading.h) */
  unsigned readings_n;
  uint64_t next_id, clock;
};

/* Listen on an address. False with *why. */
bool signalling_open(struct signalling *s, struct loop *loop, struct groups *groups, const char *listen,
                     struct fault *why) __attribute__((nonnull));
void signalling_close(struct signalling *s) __attribute__((nonnull));

/* For signal_callers.c: a message arrived on a connection that somebody opened to us; is one needed, for an answer or for
 * a group's events; it is gone. */
void signalling_message(struct signalling *s, struct conn *from, json_t *m) __attribute__((nonnull));
bool signalling_needs(const struct signalling *s, const struct conn *conn) __attribute__((nonnull));
void signalling_lost(struct signalling *s, const struct conn *conn) __attribute__((nonnull));

#endif
