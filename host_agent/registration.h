/* The connection to the fabric manager: kept up with back-off, heartbeats, numbered reports of links. */
#ifndef AGENT_REGISTRATION_H
#define AGENT_REGISTRATION_H

#include "datapath/addresses.h"
#include "datapath/conn.h"
#include "host.h"

struct link_report {
  uint64_t n, t_ns;
  uint16_t port;
  bool up;
  const char *reason; /* why it is down; a literal */
};

struct registration {
  struct host *host;
  struct addresses managers; /* none: no registration */
  char *addr;
  struct conn *conn;
  size_t budget;
  bool registered;
  struct timer timer; /* next try; or the limit for an answer; or the next heartbeat */
  dc_time backoff, heartbeat;
  uint64_t last_n;
  struct link_report report[LINK_REPORTS_MAX]; /* not acknowledged yet, oldest first */
  unsigned reports;
};

/* `managers`: addresses divided by commas; NULL: no registration. False with *why for a malformed one. */
bool registration_open(struct registration *r, struct host *host, const char *managers, const char *addr,
                       struct fault *why) __attribute__((nonnull(1, 2, 4, 5)));
void registration_close(struct registration *r) __attribute__((nonnull));
void registration_link(void *registration, uint16_t port, bool up, const char *reason);

#endif
