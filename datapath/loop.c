#include "datapath/loop.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* The kernel may put wake-ups that lie so near together into one. */
#define TIMER_SLACK_NS 20000ul

static dc_time read_clock(clockid_t id)
{
  struct timespec ts;
  clock_gettime(id, &ts);
  return (dc_time)ts.tv_sec * DC_SEC + (dc_time)ts.tv_nsec;
}

dc_time loop_clock(void) { return read_clock(CLOCK_MONOTONIC); }
uint64_t loop_realtime_ns(void) { return read_clock(CLOCK_REALTIME); }

/* ---- descriptors: ports beside one epoll that holds all others ---- */

/* A real-time process that never waits keeps others of its priority away for a whole round-robin slice (100 ms in Linux),
 * long enough for neighbours to take them for dead. */
#define TURN (2 * DC_MS)
#define WAITED (50 * DC_US)

static void share(struct loop *l, dc_time since)
{
  l->now = loop_clock();
  if (l->now - since >= WAITED) {
    l->turn = l->now;
  } else if (l->now - l->turn >= TURN) {
    int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
    if (policy == SCHED_RR || policy == SCHED_FIFO)
      sched_yield();
    l->turn = l->now = loop_clock();
  }
}

/* A handshake of TLS takes a processor 0.5 to 1 ms, a receive ring is full of jumbo frames after 2 ms at 10 Gbit/s: after so much
 * of anything else the packets' hook has its turn. What was ready stays so, but the kernel names it in the same order again; so one
 * at a time is asked for then, which goes round. */
#define SIGNALLING_TURN (200 * DC_US)

static bool is_late(struct loop *l, dc_time since) { return l->late = loop_clock() - since >= SIGNALLING_TURN; }

static unsigned take(struct loop *l, int epoll, const struct timespec *limit)
{
  struct epoll_event ev[64];
  dc_time since = loop_clock();
  bool prompt = epoll == l->prompt;
  int n = epoll_pwait2(epoll, ev, prompt && l->late ? 1 : sizeof ev / sizeof ev[0], limit, NULL);
  share(l, since);
  since = l->now;
  for (int i = 0; i < n; i++) {
    struct watch *w = ev[i].data.ptr;
    if (w->ready != NULL)
      w->ready(w, ev[i].events);
    if (prompt && is_late(l, since))
      break;
  }
  return n > 0 ? (unsigned)n : 0;
}

static void prompt_ready(struct watch *w, uint32_t events)
{
  static const struct timespec now = {0, 0};
  (void)events;
  struct loop *l = (struct loop *)(void *)((char *)w - offsetof(struct loop, prompt_watch));
  (void)take(l, l->prompt, &now);
}

int loop_open(struct loop *l)
{
  memset(l, 0, sizeof *l);
  l->epoll = epoll_create1(EPOLL_CLOEXEC);
  l->prompt = epoll_create1(EPOLL_CLOEXEC);
  l->prompt_watch = (struct watch){.fd = l->prompt, .ready = prompt_ready};
  if (l->epoll < 0 || l->prompt < 0 || loop_watch_packets(l, &l->prompt_watch, EPOLLIN) < 0) {
    int error = errno;
    loop_close(l);
    return -error;
  }
  l->now = loop_clock();
  (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0); /* without it timers are 30 us later, nothing worse */
  return 0;
}

static void dig(struct loop *l)
{
  for (uint32_t i = 0; i < l->graves; i++)
    free(l->grave[i]);
  l->graves = 0;
}

void loop_close(struct loop *l)
{
  dig(l);
  free(l->grave);
  free(l->heap);
  if (l->prompt >= 0)
    close(l->prompt);
  if (l->epoll >= 0)
    close(l->epoll);
  *l = (struct loop){.epoll = -1, .prompt = -1}; /* whoever opened it closes it, too, when that failed */
}

static int add(int epoll, struct watch *w, uint32_t events)
{
  struct epoll_event ev = {.events = events, .data.ptr = w};
  return epoll_ctl(epoll, EPOLL_CTL_ADD, w->fd, &ev) < 0 ? -errno : 0;
}

int loop_watch(struct loop *l, struct watch *w, uint32_t events)
{
  w->packets = false;
  return add(l->prompt, w, events);
}

int loop_watch_packets(struct loop *l, struct watch *w, uint32_t events)
{
  w->packets = true;
  return add(l->epoll, w, events);
}

static int home(const struct loop *l, const struct watch *w) { return w->packets ? l->epoll : l->prompt; }

void loop_rewatch(struct loop *l, struct watch *w, uint32_t events)
{
  struct epoll_event ev = {.events = events, .data.ptr = w};
  (void)epoll_ctl(home(l, w), EPOLL_CTL_MOD, w->fd, &ev); /* fails only for one that is not there: our own bug */
}

void loop_unwatch(struct loop *l, struct watch *w)
{
  if (w->fd >= 0)
    (void)epoll_ctl(home(l, w), EPOLL_CTL_DEL, w->fd, NULL);
  w->ready = NULL;
}

/* ---- timers: a binary heap ---- */

static void put(struct loop *l, uint32_t i, struct timer *t)
{
  l->heap[i] = t;
  t->pos = i + 1;
}

static void up(struct loop *l, uint32_t i, struct timer *t)
{
  for (; i > 0 && l->heap[(i - 1) / 2]->at > t->at; i = (i - 1) / 2)
    put(l, i, l->heap[(i - 1) / 2]);
  put(l, i, t);
}

static void down(struct loop *l, uint32_t i, struct timer *t)
{
  for (;;) {
    uint32_t child = 2 * i + 1;
    if (child >= l->n)
      break;
    if (child + 1 < l->n && l->heap[child + 1]->at < l->heap[child]->at)
      child++;
    if (l->heap[child]->at >= t->at)
      break;
    put(l, i, l->heap[child]);
    i = child;
  }
  put(l, i, t);
}

static void place(struct loop *l, uint32_t i, struct timer *t)
{
  if (i > 0 && l->heap[(i - 1) / 2]->at > t->at)
    up(l, i, t);
  else
    down(l, i, t);
}

void loop_timer(struct loop *l, struct timer *t, dc_time at)
{
  t->at = at;
  if (at == DC_NEVER) {
    if (t->pos == 0)
      return;
    uint32_t i = t->pos - 1;
    t->pos = 0;
    struct timer *last = l->heap[--l->n];
    if (last != t)
      place(l, i, last);
    return;
  }
  if (t->pos == 0) {
    if (l->n == l->cap) {
      uint32_t cap = l->cap == 0 ? 64 : 2 * l->cap;
      struct timer **heap = realloc(l->heap, cap * sizeof *heap);
      if (heap == NULL)
        abort(); /* a few hundred bytes: the machine is at its end */
      l->heap = heap;
      l->cap = cap;
    }
    up(l, l->n++, t);
    return;
  }
  place(l, t->pos - 1, t);
}

void loop_bury(struct loop *l, void *p)
{
  if (p == NULL)
    return;
  if (l->graves == l->grave_cap) {
    uint32_t cap = l->grave_cap == 0 ? 16 : 2 * l->grave_cap;
    void **grave = realloc(l->grave, cap * sizeof *grave);
    if (grave == NULL)
      abort();
    l->grave = grave;
    l->grave_cap = cap;
  }
  l->grave[l->graves++] = p;
}

/* ---- rounds ---- */

/* Two hosts pause on every packet's way there and back. Eight each is so near to the credits of a tree that a slow pace keeps
 * itself up: 64 credits carried 0.3 to 0.4 Gb/s over one cable, with four 2.1, for less processor. */
#define GATHER_PACKETS 4
#define GATHER_FROM_PPS 500 /* slower than this, every packet is taken at once */
#define RATE_WINDOW (10 * DC_MS)

/* The pause that suits the present rate of packets. */
static void measure(struct loop *l)
{
  l->rate_packets += l->packets;
  dc_time took = l->now - l->rate_since;
  if (took < RATE_WINDOW)
    return;
  dc_time each = l->rate_packets == 0 ? DC_NEVER : took / l->rate_packets;
  if (each > DC_SEC / GATHER_FROM_PPS)
    l->gap = 0;
  else
    l->gap = GATHER_PACKETS * each < l->gather_max ? GATHER_PACKETS * each : l->gather_max;
  l->rate_since = l->now;
  l->rate_packets = 0;
}

static struct timespec span(dc_time t)
{
  return (struct timespec){.tv_sec = (time_t)(t / DC_SEC), .tv_nsec = (long)(t % DC_SEC)};
}

static void fire(struct loop *l)
{
  while (l->n > 0 && l->heap[0]->at <= l->now) {
    struct timer *t = l->heap[0];
    loop_timer(l, t, DC_NEVER);
    t->fire(t, l->now);
  }
}

unsigned loop_serve(struct loop *l, dc_time until)
{
  struct timespec ts = {0, 0};
  if (l->n > 0 && l->heap[0]->at < until)
    until = l->heap[0]->at;
  l->now = loop_clock();
  if (until != DC_NEVER && until > l->now)
    ts = span(until - l->now);
  unsigned n = take(l, l->epoll, until == DC_NEVER ? NULL : &ts);
  fire(l);
  dig(l);
  return n;
}

static void wait_for_events(struct loop *l)
{
  struct timespec ts = {0, 0}, *limit = &ts;
  if (!l->busy) {
    unsigned came = 0;
    if (l->packets > 0 && l->gap > 0) { /* let what comes one by one gather */
      struct timespec pause = span(l->gap);
      came = take(l, l->prompt, &pause);
    }
    dc_time at = came > 0 ? l->now : l->n > 0 ? l->heap[0]->at : DC_NEVER; /* the hook follows what was handled */
    if (at == DC_NEVER)
      limit = NULL;
    else if (at > l->now)
      ts = span(at - l->now);
  }
  l->packets = 0;
  bool sleeps = l->sleeps != NULL && (limit == NULL || ts.tv_sec > 0 || ts.tv_nsec > 0);
  if (sleeps && l->sleeps(l->arg, true)) {
    ts = (struct timespec){0, 0};
    limit = &ts;
  }
  (void)take(l, l->epoll, limit);
  if (sleeps)
    (void)l->sleeps(l->arg, false);
}

void loop_run(struct loop *l)
{
  while (!l->stop) {
    wait_for_events(l);
    fire(l);
    l->busy = false;
    if (l->round != NULL)
      l->round(l->arg, l->now);
    l->rounds++;
    measure(l);
    dig(l);
  }
}
