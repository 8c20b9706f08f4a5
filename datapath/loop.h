/* The event loop: file descriptors by epoll, timers by a heap, and one hook per round for the packets.
 *
 * A round is: wait, file descriptors, timers, hook. A wake-up costs more than a packet, so while packets come quickly
 * it pauses after each round for as long as GATHER_PACKETS take to come (at most gather_max), and no packet wakes it
 * meanwhile; signalling does, at once, and has a bound on its time in each round. When they come slowly it does not pause, and
 * with nothing to do it sleeps without any tick of its own. */
#ifndef DATAPATH_LOOP_H
#define DATAPATH_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datacast/time.h"

struct watch {
  int fd;
  void (*ready)(struct watch *w, uint32_t events); /* NULL once removed */
  bool packets;                                    /* set by loop_watch_packets */
};

struct timer {
  void (*fire)(struct timer *t, dc_time now);
  dc_time at;   /* DC_NEVER: not set */
  uint32_t pos; /* in the heap, plus one; 0: not in it */
};

struct loop {
  int epoll, prompt; /* all descriptors; those that end a pause, as one of the former */
  struct watch prompt_watch;
  struct timer **heap;
  uint32_t n, cap;
  dc_time now;             /* CLOCK_MONOTONIC, taken once per round */
  dc_time turn;            /* when this process last let others run */
  dc_time gather_max;      /* longest pause */
  dc_time gap, rate_since; /* pause after a round with packets; the rate is measured from then on */
  uint32_t rate_packets;
  bool stop;
  bool late;        /* signalling took its time in the last round, and more of it may wait */
  bool busy;        /* the hook left work behind: come back at once */
  uint32_t packets; /* that the hook took in this round, or what else came and may gather */
  void (*round)(void *arg, dc_time now);
  /* Before the loop waits for ports, and after it (NULL: not called). True: something has come to one already. */
  bool (*sleeps)(void *arg, bool sleeps);
  void *arg;
  void **grave; /* freed at the end of the round: a later event of the same round may still name them */
  uint32_t graves, grave_cap;
  uint64_t rounds;
};

dc_time loop_clock(void);
uint64_t loop_realtime_ns(void);

int loop_open(struct loop *l) __attribute__((nonnull)); /* 0 or -errno */
void loop_close(struct loop *l) __attribute__((nonnull));
void loop_run(struct loop *l) __attribute__((nonnull)); /* until `stop` */

int loop_watch(struct loop *l, struct watch *w, uint32_t events) __attribute__((nonnull)); /* 0 or -errno */
/* The same for a port: what arrives there does not end a pause. */
int loop_watch_packets(struct loop *l, struct watch *w, uint32_t events) __attribute__((nonnull));
void loop_rewatch(struct loop *l, struct watch *w, uint32_t events) __attribute__((nonnull));
void loop_unwatch(struct loop *l, struct watch *w) __attribute__((nonnull));

/* For a program with rounds of its own: wait for descriptors and timers until `until` (at most), call what is ready and
 * due. The hook is not called. Returns how many descriptors were ready. */
unsigned loop_serve(struct loop *l, dc_time until) __attribute__((nonnull));

/* Set or move a timer; DC_NEVER takes it out. */
void loop_timer(struct loop *l, struct timer *t, dc_time at) __attribute__((nonnull));

/* free(p) at the end of this round; NULL is nothing. */
void loop_bury(struct loop *l, void *p) __attribute__((nonnull(1)));

#endif
