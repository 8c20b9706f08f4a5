/* Workers: lcores that each run their part of the switch to completion. Worker 0 is the main thread; it has the links, the
 * connections and the timers too.
 *
 * They meet in two places only: the ring of each worker, on which others put frames of its trees, and a request of the control
 * socket, which each answers for its part between two rounds. */
#ifndef SWITCH_WORKERS_H
#define SWITCH_WORKERS_H

#include <jansson.h>
#include <rte_ring.h>

#include "rounds.h"

enum { HANDED_FRAMES = 1024 /* that may wait in a worker's ring; a power of two */ };

struct question;

struct worker {
  struct watch wake; /* first; an eventfd */
  struct sw sw;
  struct loop loop;
  struct rounds rounds;
  struct rte_ring *in; /* NULL: there is one worker only */
  _Atomic bool asleep;
  struct question *_Atomic question;
  bool running;
} __attribute__((aligned(128))); /* two of them share no line of the caches */

struct workers {
  unsigned n;
  struct worker *worker;
};

/* Parts of the switch and rings for c->workers workers. 0, or -1 with f; then nothing is left open. */
int workers_open(struct workers *w, const struct config *c, enum loop_wait wait, struct fault *f)
    __attribute__((nonnull));
/* All but worker 0 begin; the caller runs worker 0's rounds. */
int workers_start(struct workers *w, struct fault *f) __attribute__((nonnull));
void workers_close(struct workers *w) __attribute__((nonnull)); /* stops them first */

/* Put frames into the ring of their worker, and wake it. Returns how many there was room for. */
unsigned worker_hand(struct worker *w, struct rte_mbuf **m, unsigned n) __attribute__((nonnull));
unsigned worker_take(struct worker *w, struct rte_mbuf **m, unsigned most) __attribute__((nonnull));
/* Before it sleeps: true when something is there to be done after all. */
bool worker_rests(struct worker *w) __attribute__((nonnull));
void worker_wakes(struct worker *w) __attribute__((nonnull));

/* The answers of all workers in one: numbers are added, lists joined, what else there is stays worker 0's. A request with
 * "worker" is that one's alone. */
json_t *workers_answer(struct workers *w, const json_t *request, bool *stop) __attribute__((nonnull));

#endif
