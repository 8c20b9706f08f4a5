#include "links.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef IFF_LOWER_UP
#define IFF_LOWER_UP 0x10000
#endif

static void take(struct links *l, int ifindex, bool up)
{
  struct forward *f = l->forward;
  for (uint16_t i = 0; i < f->ports; i++) {
    struct netif *n = f->port[i]->nif;
    if (n->ifindex != ifindex || n->up == up)
      continue;
    forward_carrier(f, i, up);
  }
}

static void ask_all(struct links *l)
{
  struct {
    struct nlmsghdr head;
    struct ifinfomsg info;
  } m = {.head = {.nlmsg_len = sizeof m, .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP}};
  (void)send(l->watch.fd, &m, sizeof m, 0); /* the next change asks again */
}

static void ready(struct watch *w, uint32_t events)
{
  (void)events;
  struct links *l = (struct links *)(void *)((char *)w - offsetof(struct links, watch));
  _Alignas(struct nlmsghdr) char buffer[32 << 10];
  for (;;) {
    ssize_t got = recv(w->fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && errno == ENOBUFS) { /* changes were lost: look at all */
      ask_all(l);
      continue;
    }
    if (got <= 0)
      return;
    for (size_t at = 0; at + sizeof(struct nlmsghdr) <= (size_t)got;) {
      const struct nlmsghdr *h = (const struct nlmsghdr *)(const void *)(buffer + at);
      if (h->nlmsg_len < sizeof *h || h->nlmsg_len > (size_t)got - at)
        break;
      at += NLMSG_ALIGN(h->nlmsg_len);
      if ((h->nlmsg_type != RTM_NEWLINK && h->nlmsg_type != RTM_DELLINK) ||
          h->nlmsg_len < NLMSG_LENGTH(sizeof(struct ifinfomsg)))
        continue;
      const struct ifinfomsg *info = NLMSG_DATA(h);
      bool up = h->nlmsg_type == RTM_NEWLINK && (info->ifi_flags & IFF_UP) && (info->ifi_flags & IFF_LOWER_UP);
      take(l, info->ifi_index, up);
    }
  }
}

bool links_open(struct links *l, struct forward *f, struct fault *why)
{
  *l = (struct links){.forward = f};
  struct sockaddr_nl to = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
  l->watch = (struct watch){.fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE), .ready = ready};
  if (l->watch.fd < 0 || bind(l->watch.fd, (struct sockaddr *)&to, sizeof to) < 0 ||
      loop_watch(f->loop, &l->watch, EPOLLIN) < 0)
    return fault_set(why, "io", "netlink: %s", strerror(errno));
  ask_all(l); /* what changed since the ports were opened */
  return true;
}

void links_close(struct links *l)
{
  if (l->watch.fd >= 0) {
    loop_unwatch(l->forward->loop, &l->watch);
    close(l->watch.fd);
  }
}
