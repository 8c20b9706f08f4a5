#include "links.h"

#include <rte_ethdev.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "eal.h"

enum { ASK_EVERY = 1000 * 1000 * 1000 /* ns */ };

/* True when there are such devices. */
static bool ask_devices(struct links *k)
{
  bool any = false;
  for (unsigned i = 0; i < k->sw->nports; i++) {
    struct dpdk_port *p = &k->sw->ports[i];
    struct rte_eth_link link;
    if (p->base.ifindex != 0 || p->nif != NULL)
      continue;
    any = true;
    if (rte_eth_link_get_nowait(p->dev, &link) == 0)
      engine_set_carrier(&k->sw->engine, &p->base, link.link_status == RTE_ETH_LINK_UP);
  }
  return any;
}

static void look(struct timer *t, dc_time now)
{
  struct links *k = (struct links *)((char *)t - offsetof(struct links, timer));
  if (ask_devices(k))
    loop_timer(k->sw->engine.loop, t, now + ASK_EVERY);
}

static void changed(struct watch *w, uint32_t events)
{
  struct links *k = (struct links *)((char *)w - offsetof(struct links, changed));
  uint64_t times;
  (void)events;
  if (read(w->fd, &times, sizeof times) == sizeof times)
    (void)ask_devices(k);
}

/* In DPDK's interrupt thread: worker 0 looks for itself. */
static int interrupted(uint16_t dev, enum rte_eth_event_type type, void *arg, void *ret)
{
  struct links *k = arg;
  uint64_t one = 1;
  (void)type, (void)ret;
  for (unsigned i = 0; i < k->sw->nports; i++)
    if (k->sw->ports[i].nif == NULL && k->sw->ports[i].dev == dev)
      atomic_fetch_add(&k->sw->ports[i].link_interrupts, 1);
  return write(k->changed.fd, &one, sizeof one) == sizeof one ? 0 : -1;
}

int links_open(struct links *k, struct sw *s, struct fault *f)
{
  *k = (struct links){.timer = {.fire = look}, .sw = s};
  k->changed = (struct watch){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = changed};
  if (k->changed.fd < 0 || loop_watch(s->engine.loop, &k->changed, EPOLLIN) < 0)
    return fail(f, "links: no eventfd");
  for (unsigned i = 0; i < s->nports; i++) {
    struct dpdk_port *p = &s->ports[i];
    if (p->link_interrupt && rte_eth_dev_callback_register(p->dev, RTE_ETH_EVENT_INTR_LSC, interrupted, k) < 0)
      p->link_interrupt = false;
  }
  loop_timer(s->engine.loop, &k->timer, 0);
  return 0;
}

static bool told_by_interrupts(const struct links *k)
{
  for (unsigned i = 0; i < k->sw->nports; i++)
    if (k->sw->ports[i].link_interrupt)
      return true;
  return false;
}

/* A callback that is being called stays registered: so this is done between two calls. */
static void hear_no_more(void *arg)
{
  struct links *k = arg;
  for (unsigned i = 0; i < k->sw->nports; i++)
    if (k->sw->ports[i].link_interrupt)
      (void)rte_eth_dev_callback_unregister(k->sw->ports[i].dev, RTE_ETH_EVENT_INTR_LSC, interrupted, k);
}

void links_close(struct links *k)
{
  if (k->sw == NULL)
    return;
  loop_timer(k->sw->engine.loop, &k->timer, DC_NEVER);
  if (told_by_interrupts(k))
    eal_between_interrupts(hear_no_more, k);
  if (k->changed.fd >= 0) {
    loop_unwatch(k->sw->engine.loop, &k->changed);
    close(k->changed.fd);
  }
}
