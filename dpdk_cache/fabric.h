/* The connection to the fabric manager (docs/signalling.md): registers every node, beats, reports links. One
 * connection, made again with growing pauses when it breaks. The switch forwards with or without it. */
#ifndef SWITCH_FABRIC_H
#define SWITCH_FABRIC_H

#include "datapath/addresses.h"
#include "datapath/conn.h"
#include "rounds.h"

struct fabric {
  struct conn *conn; /* NULL: none */
  size_t budget;
  struct timer timer;
  struct rounds *rounds;
  const struct security *security;
  struct addresses managers;
  const char *control; /* path of the control socket */
  unsigned registered; /* nodes that were accepted; the next one is being asked for */
  bool complained;     /* said once that it does not answer */
  dc_time heartbeat, pause;
  uint64_t links_sent; /* numbers of link messages */
};

/* address, security: as config.c checked them. */
void fabric_open(struct fabric *fm, struct rounds *l, const char *address, const char *control,
                 const struct security *security) __attribute__((nonnull));
void fabric_close(struct fabric *fm) __attribute__((nonnull));
/* A port's link changed. */
void fabric_link(struct fabric *fm, struct port *p) __attribute__((nonnull));

#endif
