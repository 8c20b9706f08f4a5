#include "links.h"

#include <rte_ethdev.h>
#include <stddef.h>

enum { ASK_EVERY = 1000 * 1000 * 1000 /* ns */ };

static void link_changed(void *arg, struct port *p) {
  struct links *k = arg;
  const char *name = p->cfg->iface[0] != '\0' ? p->cfg->iface : p->cfg->vdev;
  if (p->link.up) log_info("node %s port %u (%s) is up", p->member->cfg->name, p->number, name);
  else
    log_warn("node %s port %u (%s) is down: %s", p->member->cfg->name, p->number, name,
           linkstate_reason(&p->link));
  k->changed(k->context, p);
}

static void set(struct links *k, struct port *p, bool carrier) {
  if (p->link.carrier == carrier) return;
  if (carrier && p->afpacket && p->fd >= 0)
    p->kick_at = 0; /* frames from before it went down stand in the ring still */
  linkstate_carrier(&p->link, sw_now(), carrier);
  k->rounds->sw->hello_wanted = true;
  if (linkstate_settle(&p->link)) link_changed(k, p);
}

static void say_hello(struct timer *t, dc_time now) {
  struct links *k = (struct links *)((char *)t - offsetof(struct links, hello));
  loop_timer(&k->rounds->loop, t, sw_hello(k->rounds->sw, now, link_changed, k));
}

static void carrier(void *arg, int ifindex, bool up, bool gone) {
  struct links *k = arg;
  for (unsigned i = 0; i < k->rounds->sw->nports; i++) {
    struct port *p = &k->rounds->sw->ports[i];
    if (p->ifindex == 0 || p->ifindex != ifindex) continue;
    if (gone) log_warn("interface %s is gone", p->cfg->iface);
    set(k, p, up);
  }
}

static void ask_devices(struct timer *t, dc_time now) {
  struct links *k = (struct links *)((char *)t - offsetof(struct links, timer));
  for (unsigned i = 0; i < k->rounds->sw->nports; i++) {
    struct port *p = &k->rounds->sw->ports[i];
    struct rte_eth_link link;
    if (p->ifindex == 0 && rte_eth_link_get_nowait(p->dev, &link) == 0) set(k, p, link.link_status == RTE_ETH_LINK_UP);
  }
  loop_timer(&k->rounds->loop, t, now + ASK_EVERY);
}

int links_open(struct links *k, struct rounds *l, void (*changed)(void *, struct port *), void *context,
               struct failure *f) {
  struct fault why;
  bool ask = false;
  *k = (struct links){.rounds = l, .changed = changed, .context = context};
  if (!carrier_open(&k->carrier, &l->loop, carrier, k, &why)) return fail(f, "%s", why.text);
  for (unsigned i = 0; i < l->sw->nports; i++) ask |= l->sw->ports[i].ifindex == 0;
  k->timer = (struct timer){.fire = ask_devices};
  k->hello = (struct timer){.fire = say_hello};
  if (ask) loop_timer(&l->loop, &k->timer, 0);
  loop_timer(&l->loop, &k->hello, 0);
  l->hello = &k->hello;
  return 0;
}

void links_close(struct links *k) {
  if (k->rounds == NULL) return;
  k->rounds->hello = NULL;
  loop_timer(&k->rounds->loop, &k->timer, DC_NEVER);
  loop_timer(&k->rounds->loop, &k->hello, DC_NEVER);
  carrier_close(&k->carrier);
  k->rounds = NULL;
}
