/* The loop: take what arrived, send, sleep when there is nothing to do.
 *
 * Ports whose driver can wake us (af_packet's socket, an rx interrupt) cost nothing while idle. The others are looked at
 * after growing pauses, up to a millisecond. docs/decisions/ has the measurements. */
#ifndef SWITCH_LOOP_H
#define SWITCH_LOOP_H

#include <stdbool.h>

#include "switch.h"
#include "watch.h"

/* Something that wants to be called at a time, such as a heartbeat. */
struct timer {
  dc_time at; /* DC_NEVER: not at all */
  void (*due)(struct timer *t, dc_time now); /* sets `at` anew */
  struct timer *next;
};

enum loop_wait { LOOP_EVENTS, LOOP_PAUSES, LOOP_BUSY };

struct loop {
  struct sw *sw;
  struct watcher watcher;
  enum loop_wait wait;
  struct timer *timers;
  struct timer *hello;    /* one of them: due at once when the switch asks for it */
  int interrupts;         /* DPDK's epoll, for drivers with rx interrupts; -1: none */
  struct watch interrupt_watch;
  bool pauses;            /* some port cannot wake us */
  dc_time pause;
  dc_time busy_at;        /* when the hellos are told next that there is traffic */
  bool stop;
};

int loop_open(struct loop *l, struct sw *s, enum loop_wait wait, struct failure *f) __attribute__((nonnull));
void loop_close(struct loop *l) __attribute__((nonnull));
void loop_add_timer(struct loop *l, struct timer *t) __attribute__((nonnull));
void loop_run(struct loop *l) __attribute__((nonnull)); /* until l->stop */

#endif
