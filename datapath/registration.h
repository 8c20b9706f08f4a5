/* The connection to the fabric manager (docs/signalling.md), the same for a host and for a process of switches: registers each
 * node, beats, and reports links, numbered and told again until they are acknowledged. Made again with growing pauses when it
 * breaks, or nothing comes; packets move with or without it. */
#ifndef DATAPATH_REGISTRATION_H
#define DATAPATH_REGISTRATION_H

#include "datapath/addresses.h"
#include "datapath/conn.h"
#include "datapath/engine.h"
#include "datapath/limits.h"

struct registrant { /* who registers */
  unsigned nodes;
  const struct engine_node *(*node)(void *arg, unsigned i);
  /* What `register` says beyond what all say: its kind, where it is found. */
  void (*describe)(void *arg, json_t *message);
  void (*registered)(void *arg, const json_t *answer); /* NULL: it has no use for the answer */
  /* What a heartbeat says beyond the time. NULL: nothing. */
  void (*beat)(void *arg, json_t *message);
  json_t *(*counted)(void *arg); /* what all nodes counted, and what their links carry, by name */
  /* Run what looks at the nodes where their frames are, and come back when it has. NULL: that is here. */
  void (*look)(void *arg, void (*run)(void *run_arg), void *run_arg);
  void *arg;
};

struct link_report {
  uint64_t n, t_ns;
  const char *node, *reason; /* why it is down; a literal */
  uint16_t port;
  bool up;
};

struct registration {
  struct loop *loop;
  const struct security *security;
  struct registrant who;
  struct addresses managers; /* none: no registration */
  struct conn *conn;
  size_t budget;
  unsigned registered; /* nodes that were accepted; the next one is being asked for */
  bool complained;     /* said once that it cannot be had */
  struct timer timer;  /* next try; or the limit for an answer; or the next heartbeat */
  dc_time backoff, heartbeat;
  unsigned silence; /* so many heartbeats of which none is heard say that nobody is there; 0: no number */
  unsigned unheard; /* heartbeats since something came */
  uint64_t last_n;
  struct link_report report[LINK_REPORTS_MAX]; /* not acknowledged yet, oldest first */
  unsigned reports;
};

/* `managers`: addresses divided by commas; NULL or empty: no registration. False with *why for a malformed one. */
bool registration_open(struct registration *r, struct loop *loop, const struct security *security,
                       const struct registrant *who, const char *managers, struct fault *why)
    __attribute__((nonnull(1, 2, 3, 4, 6)));
void registration_close(struct registration *r) __attribute__((nonnull));
/* This process is about to stop and to start again within `away`: its nodes live on meanwhile. */
void registration_away(struct registration *r, dc_time away) __attribute__((nonnull));
/* As engine's link_changed. */
void registration_link(void *registration, struct port *p);
/* The same from elsewhere; `reason`: a literal, or NULL. */
void registration_link_was(struct registration *r, const char *node, uint16_t port, bool up, const char *reason,
                           uint64_t t_ns) __attribute__((nonnull(1, 2)));

#endif
