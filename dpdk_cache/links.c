#include "links.h"

#include <errno.h>
#include <linux/if.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <rte_ethdev.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ASK_EVERY = 1000 * 1000 * 1000 /* ns */, BUFFER = 32768 };

static void link_changed(void *arg, struct port *p) {
  struct links *k = arg;
  const char *name = p->cfg->iface[0] != '\0' ? p->cfg->iface : p->cfg->vdev;
  if (p->link.up) sw_log(SW_INFO, "node %s port %u (%s) is up", p->member->cfg->name, p->number, name);
  else
    sw_log(SW_WARN, "node %s port %u (%s) is down: %s", p->member->cfg->name, p->number, name,
           linkstate_reason(&p->link));
  k->changed(k->context, p);
}

static void set(struct links *k, struct port *p, bool carrier) {
  if (p->link.carrier == carrier) return;
  if (carrier && p->afpacket && p->fd >= 0) p->kick_at = 0; /* frames from before it went down stand in the ring still */
  linkstate_carrier(&p->link, sw_now(), carrier);
  k->loop->sw->hello_wanted = true;
  if (linkstate_settle(&p->link)) link_changed(k, p);
}

static void say_hello(struct timer *t, dc_time now) {
  struct links *k = (struct links *)((char *)t - offsetof(struct links, hello));
  t->at = sw_hello(k->loop->sw, now, link_changed, k);
}

static void message(struct links *k, const struct nlmsghdr *h) {
  if (h->nlmsg_type != RTM_NEWLINK && h->nlmsg_type != RTM_DELLINK) return;
  const struct ifinfomsg *info = NLMSG_DATA(h);
  for (unsigned i = 0; i < k->loop->sw->nports; i++) {
    struct port *p = &k->loop->sw->ports[i];
    if (p->ifindex == 0 || p->ifindex != info->ifi_index) continue;
    if (h->nlmsg_type == RTM_DELLINK) sw_log(SW_WARN, "interface %s is gone", p->cfg->iface);
    set(k, p, h->nlmsg_type == RTM_NEWLINK && (info->ifi_flags & IFF_RUNNING) != 0);
  }
}

static void ask_for_all(int fd) {
  struct {
    struct nlmsghdr h;
    struct ifinfomsg info;
  } ask = {.h = {.nlmsg_len = sizeof ask, .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
           .info = {.ifi_family = AF_UNSPEC}};
  (void)send(fd, &ask, sizeof ask, 0);
}

static void ready(struct watch *w, uint32_t events) {
  static _Alignas(struct nlmsghdr) char buf[BUFFER];
  struct links *k = (struct links *)w;
  (void)events;
  for (;;) {
    ssize_t n = recv(w->fd, buf, sizeof buf, MSG_DONTWAIT);
    if (n < 0 && errno == ENOBUFS) {
      ask_for_all(w->fd); /* messages were lost: the whole state again */
      continue;
    }
    if (n <= 0) return;
    for (struct nlmsghdr *h = (struct nlmsghdr *)buf; NLMSG_OK(h, (unsigned)n); h = NLMSG_NEXT(h, n)) message(k, h);
  }
}

static void ask_devices(struct timer *t, dc_time now) {
  struct links *k = (struct links *)((char *)t - offsetof(struct links, timer));
  for (unsigned i = 0; i < k->loop->sw->nports; i++) {
    struct port *p = &k->loop->sw->ports[i];
    struct rte_eth_link link;
    if (p->ifindex == 0 && rte_eth_link_get_nowait(p->dev, &link) == 0) set(k, p, link.link_status == RTE_ETH_LINK_UP);
  }
  t->at = now + ASK_EVERY;
}

int links_open(struct links *k, struct loop *l, void (*changed)(void *, struct port *), void *context,
               struct failure *f) {
  bool ask = false;
  *k = (struct links){.loop = l, .changed = changed, .context = context, .watch = {.ready = ready}};
  struct sockaddr_nl addr = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
  k->watch.fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (k->watch.fd < 0 || bind(k->watch.fd, (struct sockaddr *)&addr, sizeof addr) < 0) {
    fail(f, "netlink: %s", strerror(errno));
    links_close(k);
    return -1;
  }
  if (watch_add(&l->watcher, &k->watch, EPOLLIN, f) < 0) {
    links_close(k);
    return -1;
  }
  ask_for_all(k->watch.fd); /* what changed since the ports were opened */
  for (unsigned i = 0; i < l->sw->nports; i++) ask |= l->sw->ports[i].ifindex == 0;
  k->timer = (struct timer){.at = ask ? 0 : DC_NEVER, .due = ask_devices};
  loop_add_timer(l, &k->timer);
  k->hello = (struct timer){.at = 0, .due = say_hello};
  loop_add_timer(l, &k->hello);
  l->hello = &k->hello;
  return 0;
}

void links_close(struct links *k) {
  if (k->watch.fd < 0) return;
  watch_remove(&k->loop->watcher, &k->watch);
  close(k->watch.fd);
  k->watch.fd = -1;
}
