/* The loop: take what arrived, send, sleep when there is nothing to do.
 *
 * Ports that can wake us (a socket, an rx interrupt, a neighbour in shared memory) cost nothing while idle. The others are looked
 * at after growing pauses, up to a millisecond. docs/decisions/ has the measurements. */
#ifndef SWITCH_ROUNDS_H
#define SWITCH_ROUNDS_H

#include <stdbool.h>

#include "datapath/loop.h"
#include "switch.h"

enum loop_wait { LOOP_EVENTS, LOOP_PAUSES, LOOP_BUSY };

struct rounds {
  struct sw *sw;
  struct loop *loop; /* descriptors and timers */
  enum loop_wait wait;
  int interrupts; /* DPDK's epoll, for drivers with rx interrupts; -1: none */
  struct watch interrupt_watch;
  bool pauses; /* some port cannot wake us */
  dc_time pause;
};

int rounds_open(struct rounds *l, struct sw *s, enum loop_wait wait, struct fault *f) __attribute__((nonnull));
void rounds_close(struct rounds *l) __attribute__((nonnull));
void rounds_run(struct rounds *l) __attribute__((nonnull)); /* until l->loop->stop */

#endif
