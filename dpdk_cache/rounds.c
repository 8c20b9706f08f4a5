#include "rounds.h"

#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "workers.h"

enum {
  SPIN = 50 * 1000,          /* ns of looking again before the first pause */
  PAUSE_FIRST = 5 * 1000,    /* ns; doubles from pause to pause */
  PAUSE_MOST = 1000 * 1000,  /* ns */
  SERVE_EVERY = 1000 * 1000, /* ns: connections are served at least so often under load */
  INTERRUPTS_MAX = 64,
};

/* ---- what wakes us ---- */

static void interrupt_ready(struct watch *w, uint32_t events)
{
  struct rte_epoll_event e[INTERRUPTS_MAX];
  (void)events;
  (void)rte_epoll_wait(w->fd, e, INTERRUPTS_MAX, 0); /* reads the descriptors off */
}

static void netif_ready(struct watch *w, uint32_t events)
{
  struct dpdk_port *p = (struct dpdk_port *)(void *)((char *)w - offsetof(struct dpdk_port, watch));
  if (p->nif->ops->ready != NULL)
    p->nif->ops->ready(p->nif);
  if (events & EPOLLERR)
    netif_failed(p->nif);
}

static int watch_port(struct rounds *l, struct dpdk_port *p, struct fault *f)
{
  if (p->nif != NULL && (l->wait == LOOP_EVENTS || p->nif->tells_carrier)) {
    p->watch = (struct watch){.fd = p->nif->fd, .ready = netif_ready};
    return loop_watch_packets(l->loop, &p->watch, EPOLLIN) < 0 ? fail(f, "epoll: cannot watch a port") : 0;
  }
  if (l->wait != LOOP_EVENTS)
    return 0;
  if (p->rx_interrupt && rte_eth_dev_rx_intr_ctl_q(p->dev, p->queue, l->interrupts, RTE_INTR_EVENT_ADD, p) == 0) {
    log_debug("port %u of node %s: rx interrupt", p->base.number, p->base.node->name);
    return 0;
  }
  p->rx_interrupt = false;
  l->pauses = true;
  return 0;
}

int rounds_open(struct rounds *l, struct sw *s, enum loop_wait wait, struct fault *f)
{
  *l = (struct rounds){.sw = s, .loop = s->engine.loop, .wait = wait, .interrupts = -1};
  l->interrupts = epoll_create1(EPOLL_CLOEXEC);
  l->interrupt_watch = (struct watch){.fd = l->interrupts, .ready = interrupt_ready};
  int rc = l->interrupts < 0 || loop_watch_packets(l->loop, &l->interrupt_watch, EPOLLIN) < 0
               ? fail(f, "epoll: cannot be made")
               : 0;
  if (wait == LOOP_PAUSES)
    l->pauses = true;
  for (unsigned i = 0; rc == 0 && i < s->nports; i++)
    rc = watch_port(l, &s->ports[i], f);
  if (rc < 0)
    rounds_close(l);
  return rc;
}

void rounds_close(struct rounds *l)
{
  for (unsigned i = 0; i < l->sw->nports; i++) {
    struct dpdk_port *p = &l->sw->ports[i];
    if (p->watch.ready != NULL)
      loop_unwatch(l->loop, &p->watch);
    if (l->wait == LOOP_EVENTS && p->rx_interrupt)
      (void)rte_eth_dev_rx_intr_ctl_q(p->dev, p->queue, l->interrupts, RTE_INTR_EVENT_DEL, p);
    p->watch.ready = NULL;
  }
  if (l->interrupts >= 0) {
    loop_unwatch(l->loop, &l->interrupt_watch);
    close(l->interrupts);
  }
}

/* ---- one round ---- */

static unsigned round_of_ports(struct rounds *l, dc_time now)
{
  struct engine *e = &l->sw->engine;
  unsigned frames = 0;
  bool more = false;
  for (unsigned i = 0; i < e->ports; i++)
    frames += engine_receive(e, e->port[i], now, &more);
  l->sw->counters.frames_in += frames;
  if (l->sw->workers != NULL) {
    frames += sw_take(l->sw, now);
    sw_hand_over(l->sw);
  }
  if (frames > 0)
    engine_flush(e, now);
  return frames;
}

/* Push what is due, and return when the next port is. Timers are the loop's own. */
static dc_time due(struct rounds *l, dc_time now)
{
  dc_time next = DC_NEVER;
  for (unsigned i = 0; i < l->sw->nports; i++) {
    struct dpdk_port *p = &l->sw->ports[i];
    if (p->kick_at <= now)
      port_kick(p, now);
    if (p->kick_at < next)
      next = p->kick_at;
  }
  if (l->sw->index > 0)
    return next;
  if (l->sw->workers != NULL)
    sw_hear(l->sw);
  engine_hello(&l->sw->engine, now);
  return next;
}

/* *waits: frames have come already to a port that was asked. */
static bool arm_interrupts(struct rounds *l, bool *waits)
{
  bool any = false;
  for (unsigned i = 0; i < l->sw->nports; i++) {
    struct dpdk_port *p = &l->sw->ports[i];
    bool asks = p->nif != NULL && p->nif->ops->awake != NULL;
    if (asks)
      *waits |= p->nif->ops->awake(p->nif, false);
    else if (p->rx_interrupt)
      (void)rte_eth_dev_rx_intr_enable(p->dev, p->queue);
    any |= asks || p->rx_interrupt;
  }
  return any;
}

static void disarm_interrupts(struct rounds *l)
{
  for (unsigned i = 0; i < l->sw->nports; i++) {
    struct dpdk_port *p = &l->sw->ports[i];
    if (p->nif != NULL && p->nif->ops->awake != NULL)
      (void)p->nif->ops->awake(p->nif, true);
    else if (p->rx_interrupt)
      (void)rte_eth_dev_rx_intr_disable(p->dev, p->queue);
  }
}

/* Nothing arrived in the last round. */
static void rest(struct rounds *l, dc_time now, dc_time next, dc_time last_work)
{
  dc_time until = next;
  if (l->pauses) {
    if (now - last_work < SPIN)
      return;
    l->pause = l->pause == 0 ? PAUSE_FIRST : l->pause < PAUSE_MOST / 2 ? l->pause * 2 : PAUSE_MOST;
    if (now + l->pause < until)
      until = now + l->pause;
  }
  struct worker *me = l->sw->workers != NULL ? &l->sw->workers[l->sw->index] : NULL;
  bool waits = false, armed = arm_interrupts(l, &waits);
  /* A frame that came before the interrupt was armed raises none. */
  if (waits || (armed && round_of_ports(l, now) > 0))
    until = now;
  if (me != NULL && worker_rests(me))
    until = now;
  l->sw->counters.sleeps++;
  (void)loop_serve(l->loop, until);
  if (me != NULL)
    worker_wakes(me);
  if (armed)
    disarm_interrupts(l);
}

void rounds_run(struct rounds *l)
{
  dc_time served = 0, last_work = loop_clock();
  (void)prctl(PR_SET_TIMERSLACK, 1UL); /* of this thread: sleeps end when they are due, not 50 microseconds later */
  while (!l->loop->stop) {
    dc_time now = loop_clock();
    unsigned frames = round_of_ports(l, now);
    if (frames > 0) {
      l->sw->counters.rounds++;
      l->pause = 0;
      last_work = now;
    }
    bool busy = frames > 0 || l->wait == LOOP_BUSY;
    if (busy && now - served < SERVE_EVERY)
      continue;
    dc_time next = due(l, now);
    if (busy)
      (void)loop_serve(l->loop, now);
    else
      rest(l, now, next, last_work);
    served = now;
  }
}
