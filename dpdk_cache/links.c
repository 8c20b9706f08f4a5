#include "links.h"

#include <rte_ethdev.h>
#include <stddef.h>

enum { ASK_EVERY = 1000 * 1000 * 1000 /* ns */ };

static void ask_devices(struct timer *t, dc_time now)
{
  struct links *k = (struct links *)((char *)t - offsetof(struct links, timer));
  bool any = false;
  for (unsigned i = 0; i < k->sw->nports; i++) {
    struct dpdk_port *p = &k->sw->ports[i];
    struct rte_eth_link link;
    if (p->base.ifindex != 0)
      continue;
    any = true;
    if (rte_eth_link_get_nowait(p->dev, &link) == 0)
      engine_set_carrier(&k->sw->engine, &p->base, link.link_status == RTE_ETH_LINK_UP);
  }
  if (any)
    loop_timer(k->sw->engine.loop, t, now + ASK_EVERY);
}

void links_open(struct links *k, struct sw *s)
{
  *k = (struct links){.timer = {.fire = ask_devices}, .sw = s};
  loop_timer(s->engine.loop, &k->timer, 0);
}

void links_close(struct links *k)
{
  if (k->sw != NULL)
    loop_timer(k->sw->engine.loop, &k->timer, DC_NEVER);
}
