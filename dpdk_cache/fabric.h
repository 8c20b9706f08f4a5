/* The connection to the fabric manager (docs/signalling.md): registers every node, beats, reports links. One connection,
 * made again with growing pauses when it breaks. The switch forwards with or without it. */
#ifndef SWITCH_FABRIC_H
#define SWITCH_FABRIC_H

#include <netinet/in.h>

#include "conn.h"
#include "loop.h"

struct fabric {
  struct conn conn; /* first: callbacks cast back */
  struct timer timer;
  struct loop *loop;
  const char *name;    /* "address:port" */
  const char *control; /* path of the control socket */
  struct sockaddr_storage addr;
  socklen_t addr_len;
  unsigned registered; /* nodes that were accepted; the next one is being asked for */
  bool open;           /* there is a connection, or one is being made */
  bool complained;     /* said once that it does not answer */
  dc_time heartbeat, pause;
  uint64_t links_sent; /* numbers of link messages */
};

/* address: as config.c checked it. */
void fabric_open(struct fabric *fm, struct loop *l, const char *address, const char *control) __attribute__((nonnull));
void fabric_close(struct fabric *fm) __attribute__((nonnull));
/* A port's link changed. */
void fabric_link(struct fabric *fm, struct port *p) __attribute__((nonnull));

#endif
