#include "workers.h"

#include <rte_errno.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "answers.h"
#include "datapath/counters.h"
#include "datapath/privileges.h"

/* A worker answers between two rounds, which last microseconds. One that has not within this is stuck. */
#define ANSWER_WITHIN (1 * DC_SEC)

/* Who asks may have gone by the time the worker gets to it: the last of the two frees it. */
struct question {
  json_t *request; /* NULL: stop */
  json_t *answer;
  _Atomic bool done;
  _Atomic unsigned owners;
};

/* ---- frames of others ---- */

static void ring_the_bell(struct worker *w)
{
  uint64_t one = 1;
  if (write(w->wake.fd, &one, sizeof one) < 0)
    return; /* it is full of rings: awake it will be */
}

unsigned worker_hand(struct worker *w, struct rte_mbuf **m, unsigned n)
{
  unsigned there = rte_ring_mp_enqueue_burst(w->in, (void **)m, n, NULL);
  atomic_thread_fence(memory_order_seq_cst); /* the frames stand before it is looked whether anybody sleeps */
  if (atomic_load_explicit(&w->asleep, memory_order_relaxed) &&
      atomic_exchange_explicit(&w->asleep, false, memory_order_relaxed))
    ring_the_bell(w);
  return there;
}

unsigned worker_take(struct worker *w, struct rte_mbuf **m, unsigned most)
{
  return rte_ring_sc_dequeue_burst(w->in, (void **)m, most, NULL);
}

bool worker_rests(struct worker *w)
{
  atomic_store_explicit(&w->asleep, true, memory_order_relaxed);
  atomic_thread_fence(memory_order_seq_cst);
  return !rte_ring_empty(w->in);
}

void worker_wakes(struct worker *w) { atomic_store_explicit(&w->asleep, false, memory_order_relaxed); }

/* ---- questions ---- */

static struct question *question_new(const json_t *request)
{
  struct question *q = calloc(1, sizeof *q);
  if (q == NULL)
    return NULL;
  q->request = request == NULL ? NULL : json_deep_copy(request); /* counts of owners are no thread's but one */
  atomic_store(&q->owners, 2);
  return q;
}

static void question_drop(struct question *q)
{
  if (q == NULL || atomic_fetch_sub(&q->owners, 1) > 1)
    return;
  json_decref(q->request);
  json_decref(q->answer);
  free(q);
}

static void bell(struct watch *watch, uint32_t events)
{
  struct worker *w = (struct worker *)watch;
  uint64_t times;
  bool stop = false;
  (void)events;
  if (read(watch->fd, &times, sizeof times) < 0)
    return;
  struct question *q = atomic_exchange(&w->question, NULL);
  if (q == NULL)
    return;
  if (q->request == NULL)
    w->loop.stop = true;
  else
    q->answer = answer_request(&w->sw, q->request, &stop);
  atomic_store(&q->done, true);
  question_drop(q);
}

/* The worker's answer, or NULL: it does not answer. A question that nobody waits for any more makes room for the next. */
static json_t *ask(struct worker *w, const json_t *request)
{
  struct question *q = question_new(request);
  if (q == NULL)
    return NULL;
  question_drop(atomic_exchange(&w->question, q));
  ring_the_bell(w);
  dc_time until = loop_clock() + ANSWER_WITHIN;
  while (!atomic_load(&q->done) && loop_clock() < until)
    usleep(20);
  json_t *answer = NULL;
  if (atomic_load(&q->done)) {
    answer = q->answer;
    q->answer = NULL;
  }
  question_drop(q);
  return answer;
}

/* It ends when it gets to it: its memory is still in use until then, so there is no bound. */
static void stop(struct worker *w)
{
  struct question *q = question_new(NULL);
  if (q == NULL)
    abort(); /* some bytes: the machine is at its end */
  question_drop(atomic_exchange(&w->question, q));
  ring_the_bell(w);
  question_drop(q);
}

static json_t *answer_of_one(struct workers *w, const json_t *request, bool *stop)
{
  const json_t *which = json_object_get(request, "worker");
  json_int_t i = json_integer_value(which);
  if (!json_is_integer(which) || i < 0 || i >= (json_int_t)w->n)
    return answer_error("'worker' must be a number from 0 to %u", w->n - 1);
  if (!answer_adds_up(request))
    return answer_error("workers answer counters, totals, trees, wipe and fault one by one");
  json_t *answer = i == 0 ? answer_request(&w->worker[0].sw, request, stop) : ask(&w->worker[i], request);
  return answer != NULL ? answer : answer_error("worker %d does not answer", (int)i);
}

json_t *workers_answer(struct workers *w, const json_t *request, bool *stop)
{
  if (json_object_get(request, "worker") != NULL)
    return answer_of_one(w, request, stop);
  json_t *answer = answer_request(&w->worker[0].sw, request, stop);
  if (!answer_adds_up(request))
    return answer;
  for (unsigned i = 1; i < w->n; i++) {
    json_t *more = ask(&w->worker[i], request);
    if (more == NULL) {
      json_decref(answer);
      return answer_error("worker %u does not answer", i);
    }
    counters_add(answer, more);
    json_decref(more);
  }
  return answer;
}

/* ---- beginning and end ---- */

static int run(void *arg)
{
  struct worker *w = arg;
  struct fault why;
  if (!privileges_keep(0, &why))
    log_warn("worker %u: %s", w->sw.index, why.text);
  rounds_run(&w->rounds);
  return 0;
}

int workers_start(struct workers *w, struct fault *f)
{
  for (unsigned i = 1; i < w->n; i++) {
    if (rte_eal_remote_launch(run, &w->worker[i], i) != 0)
      return fail(f, "worker %u cannot be started: %s", i, rte_strerror(rte_errno));
    w->worker[i].running = true;
  }
  return 0;
}

static int open_ring(struct worker *w, unsigned i, struct fault *f)
{
  char name[RTE_RING_NAMESIZE];
  snprintf(name, sizeof name, "worker%u", i);
  w->in = rte_ring_create(name, HANDED_FRAMES, SOCKET_ID_ANY, RING_F_SC_DEQ);
  if (w->in == NULL)
    return fail(f, "worker %u: no ring: %s", i, rte_strerror(rte_errno));
  w->wake = (struct watch){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = bell};
  return w->wake.fd >= 0 && loop_watch_packets(&w->loop, &w->wake, EPOLLIN) == 0 ? 0
                                                                                 : fail(f, "worker %u: no eventfd", i);
}

int workers_open(struct workers *w, const struct config *c, enum loop_wait wait, struct fault *f)
{
  *w = (struct workers){.worker = aligned_alloc(_Alignof(struct worker), c->workers * sizeof *w->worker)};
  if (w->worker == NULL)
    return fail(f, "out of memory");
  memset(w->worker, 0, c->workers * sizeof *w->worker);
  for (; w->n < c->workers; w->n++) {
    struct worker *x = &w->worker[w->n];
    x->wake.fd = -1;
    x->rounds.interrupts = -1;
    int rc = loop_open(&x->loop) < 0 ? fail(f, "epoll: cannot be made") : 0;
    if (rc == 0)
      rc = w->n == 0 ? sw_open(&x->sw, c, &x->loop, f) : sw_share(&x->sw, &w->worker[0].sw, w->n, &x->loop, f);
    x->sw.workers = c->workers > 1 ? w->worker : NULL;
    if (rc == 0 && c->workers > 1)
      rc = open_ring(x, w->n, f);
    if (rc == 0)
      rc = rounds_open(&x->rounds, &x->sw, wait, f);
    if (rc < 0) {
      w->n++;
      workers_close(w);
      return -1;
    }
  }
  return 0;
}

void workers_close(struct workers *w)
{
  for (unsigned i = 1; i < w->n; i++) {
    if (!w->worker[i].running)
      continue;
    stop(&w->worker[i]);
    (void)rte_eal_wait_lcore(i);
  }
  while (w->n > 0) { /* worker 0 has what the others share */
    struct worker *x = &w->worker[--w->n];
    struct rte_mbuf *m;
    while (x->in != NULL && worker_take(x, &m, 1) == 1)
      rte_pktmbuf_free(m);
    rte_ring_free(x->in);
    if (x->rounds.sw != NULL)
      rounds_close(&x->rounds);
    if (x->sw.cfg != NULL)
      sw_close(&x->sw);
    loop_close(&x->loop);
    if (x->wake.fd >= 0)
      close(x->wake.fd);
  }
  free(w->worker);
  w->worker = NULL;
}
