/* Carrier of the ports: kernel interfaces by netlink, other devices by asking DPDK once a second. */
#ifndef SWITCH_LINKS_H
#define SWITCH_LINKS_H

#include "loop.h"

struct links {
  struct watch watch; /* first: the callback casts back */
  struct timer timer; /* asks devices that do not tell */
  struct timer hello;
  struct loop *loop;
  void (*changed)(void *context, struct port *p); /* p->link.up is new */
  void *context;
};

int links_open(struct links *k, struct loop *l, void (*changed)(void *, struct port *), void *context, struct failure *f)
    __attribute__((nonnull(1, 2, 3, 5)));
void links_close(struct links *k) __attribute__((nonnull));

#endif
