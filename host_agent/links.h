/* Carrier of the data ports, told by the kernel the moment it changes (netlink). */
#ifndef AGENT_LINKS_H
#define AGENT_LINKS_H

#include "forward.h"

struct links {
  struct watch watch;
  struct forward *forward;
  void (*changed)(void *arg, uint16_t port, bool up);
  void *arg;
};

bool links_open(struct links *l, struct forward *f, void (*changed)(void *arg, uint16_t port, bool up), void *arg,
                struct fault *why) __attribute__((nonnull(1, 2, 3, 5)));
void links_close(struct links *l) __attribute__((nonnull));

#endif
