/* Carrier of the data ports, told by the kernel the moment it changes (netlink). */
#ifndef AGENT_LINKS_H
#define AGENT_LINKS_H

#include "forward.h"

struct links {
  struct watch watch;
  struct forward *forward;
};

bool links_open(struct links *l, struct forward *f, struct fault *why) __attribute__((nonnull));
void links_close(struct links *l) __attribute__((nonnull));

#endif
