/* Carrier of network interfaces, told by the kernel the moment it changes (netlink). */
#ifndef DATAPATH_CARRIER_H
#define DATAPATH_CARRIER_H

#include "datapath/log.h"
#include "datapath/loop.h"

/* Told of every interface of the namespace, also when nothing changed. gone: the interface was deleted. */
typedef void carrier_fn(void *arg, int ifindex, bool up, bool gone);

struct carrier {
  struct watch watch;
  struct loop *loop;
  carrier_fn *tell;
  void *arg;
};

/* Asks for the present state of all as well. False with *why. */
bool carrier_open(struct carrier *c, struct loop *loop, carrier_fn *tell, void *arg, struct fault *why)
    __attribute__((nonnull(1, 2, 3, 5)));
void carrier_close(struct carrier *c) __attribute__((nonnull));

#endif
