/* Carrier of devices that are no kernel interfaces: drivers that have link interrupts say when it changes. All are asked once
 * a second beside it, for there are drivers that promise interrupts and raise none (net_tap of DPDK 22.11). */
#ifndef SWITCH_LINKS_H
#define SWITCH_LINKS_H

#include "switch.h"

struct links {
  struct timer timer;
  struct watch changed; /* an eventfd: DPDK's interrupt thread rings it */
  struct sw *sw;
};

/* 0, or -1 with f. */
int links_open(struct links *k, struct sw *s, struct fault *f) __attribute__((nonnull));
void links_close(struct links *k) __attribute__((nonnull));

#endif
