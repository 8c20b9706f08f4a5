#include "datapath/carrier.h"

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

static void ask_all(struct carrier *c)
{
  struct {
    struct nlmsghdr head;
    struct ifinfomsg info;
  } m = {.head = {.nlmsg_len = sizeof m, .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP}};
  (void)send(c->watch.fd, &m, sizeof m, 0); /* the next change asks again */
}

static void ready(struct watch *w, uint32_t events)
{
  (void)events;
  struct carrier *c = (struct carrier *)(void *)((char *)w - offsetof(struct carrier, watch));
  _Alignas(struct nlmsghdr) char buffer[32 << 10];
  for (;;) {
    ssize_t got = recv(w->fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (got < 0 && errno == ENOBUFS) { /* changes were lost: look at all */
      ask_all(c);
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
      if (info->ifi_family != AF_UNSPEC) /* a bridge has taken the interface in, or lets it go */
        continue;
      bool up = h->nlmsg_type == RTM_NEWLINK && (info->ifi_flags & IFF_UP) && (info->ifi_flags & IFF_LOWER_UP);
      c->tell(c->arg, info->ifi_index, up, h->nlmsg_type == RTM_DELLINK);
    }
  }
}

bool carrier_open(struct carrier *c, struct loop *loop, carrier_fn *tell, void *arg, struct fault *why)
{
  *c = (struct carrier){.loop = loop, .tell = tell, .arg = arg};
  struct sockaddr_nl to = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
  c->watch =
      (struct watch){.fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE), .ready = ready};
  if (c->watch.fd < 0 || bind(c->watch.fd, (struct sockaddr *)&to, sizeof to) < 0 ||
      loop_watch(loop, &c->watch, EPOLLIN) < 0) {
    fault_set(why, "io", "netlink: %s", strerror(errno));
    carrier_close(c);
    return false;
  }
  ask_all(c);
  return true;
}

void carrier_close(struct carrier *c)
{
  if (c->watch.fd >= 0) {
    loop_unwatch(c->loop, &c->watch);
    close(c->watch.fd);
  }
  c->watch.fd = -1;
}
