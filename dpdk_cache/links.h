/* Carrier of the ports: kernel interfaces by netlink, other devices by asking DPDK once a second. */
#ifndef SWITCH_LINKS_H
#define SWITCH_LINKS_H

#include "datapath/carrier.h"
#include "rounds.h"

struct links {
  struct carrier carrier; /* kernel interfaces */
  struct timer timer; /* asks devices that do not tell */
  struct timer hello;
  struct rounds *rounds;
  void (*changed)(void *context, struct port *p); /* p->link.up is new */
  void *context;
};

int links_open(struct links *k, struct rounds *l, void (*changed)(void *, struct port *), void *context,
               struct failure *f) __attribute__((nonnull(1, 2, 3, 5)));
void links_close(struct links *k) __attribute__((nonnull));

#endif
