/* Carrier of devices that are no kernel interfaces: DPDK is asked once a second. */
#ifndef SWITCH_LINKS_H
#define SWITCH_LINKS_H

#include "switch.h"

struct links {
  struct timer timer;
  struct sw *sw;
};

void links_open(struct links *k, struct sw *s) __attribute__((nonnull));
void links_close(struct links *k) __attribute__((nonnull));

#endif
