/* A port that is a tunnel: MPLS in UDP (RFC 7510). Its neighbour is another node anywhere in an IP network; everything
 * above knows a port like any other.
 *
 * On the wire a datagram is a label stack and what follows it; the Ethernet header stays here. A frame without labels
 * goes under one label that says so, a hello under another one: no node forwards what bears them (docs/wire.md).
 *
 * Frames of one length leave together with one system call (GSO) and arrive together (GRO). A frame of the link's MTU
 * fills the path's MTU: DF is set, nothing is fragmented, and hellos have full size (RFC 9764), so that a path which
 * carries less is a link that is down. Only datagrams of the neighbour's address reach the socket. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "datacast/wire.h"
#include "datapath/limits.h"
#include "datapath/tunnel.h"

enum {
  TRAINS = 8,        /* datagrams that the kernel joined, of one call */
  TRAIN_FRAMES = 64, /* at most, in one; both ways */
  TRAIN_BYTES = 65536,
  HEAD = 64,              /* in front of a train: room for an Ethernet header */
  SEND_BYTES_MAX = 65000, /* of one system call's train */
  SEND_TRAINS = 16,
  ENTROPY_FIRST = 49152, /* RFC 7510, section 3: source ports */
  ENTROPY_TRIES = 64
};

struct train;

struct car {         /* one frame of a train */
  struct dc_buf buf; /* first: the buffer is the car */
  struct train *train;
};

struct train {
  uint8_t *bytes;
  unsigned refs; /* cars whose buffers have an owner */
  struct car car[TRAIN_FRAMES];
};

struct tunnel {
  struct netif base;
  int tx;
  bool no_gso;      /* the way out cannot cut trains */
  bool narrow;      /* said already that the path carries less */
  uint32_t dropped; /* datagrams that the socket had no room for, until they were asked for last */
  struct tunnel_cfg cfg;
  struct netif *slot;
  struct train train[TRAINS];
};

static struct tunnel *of(struct netif *n) { return (struct tunnel *)(void *)n; }

/* ---- in ---- */

static void give_back(struct dc_buf *b) { ((struct car *)(void *)b)->train->refs--; }

/* Frames on their way to who takes them. */
struct burst {
  netif_rx_fn *fn;
  void *arg;
  unsigned n;
  struct dc_frame frame[NETIF_BURST];
};

static void hand_over(struct burst *b)
{
  if (b->n > 0)
    b->fn(b->arg, b->frame, b->n);
  b->n = 0;
}

/* What the frame would be on a cable. The bytes in front of it, where its Ethernet header would be, are the end of the one before.
 * False: none of ours. */
static bool take_frame(struct burst *b, struct car *car, uint8_t *p, uint32_t len)
{
  bool bottom;
  if (len < DC_LABEL_LEN)
    return false;
  uint32_t label = dc_label_read(p, &bottom);
  uint16_t type = label == DC_LABEL_UNLABELLED ? DC_ETHERTYPE_DATACAST
                  : label == DC_LABEL_HELLO    ? DC_ETHERTYPE_HELLO
                                               : DC_ETHERTYPE_MPLS;
  if (type != DC_ETHERTYPE_MPLS && !bottom)
    return false;
  uint8_t *frame = p + (type == DC_ETHERTYPE_MPLS ? 0 : DC_LABEL_LEN) - DC_ETHER_LEN;
  car->buf.refs = 1;
  car->buf.data = frame;
  car->train->refs++;
  b->frame[b->n++] =
      (struct dc_frame){.buf = &car->buf, .data = frame, .len = (uint32_t)(p + len - frame), .ethertype = type};
  if (b->n == NETIF_BURST)
    hand_over(b);
  return true;
}

/* Bytes of each datagram in a train; the last may have fewer. */
static uint32_t cut_at(struct msghdr *m, uint32_t len)
{
  for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c))
    if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
      int each;
      memcpy(&each, CMSG_DATA(c), sizeof each);
      return each > 0 ? (uint32_t)each : len;
    }
  return len;
}

static unsigned rx(struct netif *n, netif_rx_fn *fn, void *arg, unsigned budget)
{
  struct tunnel *t = of(n);
  struct mmsghdr msg[TRAINS];
  struct iovec iov[TRAINS];
  struct train *train[TRAINS];
  union {
    char space[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control[TRAINS];
  unsigned free_trains = 0, got = 0;
  struct burst burst = {.fn = fn, .arg = arg};
  if (n->fd < 0) /* another's: here it only sends */
    return 0;
  for (unsigned i = 0; i < TRAINS; i++) {
    if (t->train[i].refs > 0) /* a frame of it still waits to be sent */
      continue;
    unsigned k = free_trains++;
    train[k] = &t->train[i];
    iov[k] = (struct iovec){train[k]->bytes + HEAD, TRAIN_BYTES};
    msg[k] = (struct mmsghdr){
        .msg_hdr = {
            .msg_iov = &iov[k], .msg_iovlen = 1, .msg_control = &control[k], .msg_controllen = sizeof control[k]}};
  }
  int came = free_trains == 0 ? 0 : recvmmsg(n->fd, msg, free_trains, MSG_DONTWAIT, NULL);
  for (int i = 0; i < came; i++) {
    uint32_t len = msg[i].msg_len, each = cut_at(&msg[i].msg_hdr, len);
    uint8_t *p = train[i]->bytes + HEAD;
    for (unsigned k = 0; len > 0; k++) {
      uint32_t part = each < len ? each : len;
      if (k == TRAIN_FRAMES) {
        n->rx_malformed++; /* very many very short ones: none of ours */
        break;
      }
      if (!take_frame(&burst, &train[i]->car[k], p, part))
        n->rx_malformed++;
      p += part;
      len -= part;
      got++;
    }
  }
  hand_over(&burst);
  return came == (int)free_trains && came > 0 ? (got > budget ? got : budget) : got; /* more may wait */
}

/* ---- out ---- */

/* A frame without its Ethernet header, in up to three parts; what is no MPLS goes under a label of ours. */
static unsigned parts_of(const struct dc_tx *tx, uint8_t label[DC_LABEL_LEN], struct iovec *v, uint32_t *len)
{
  uint8_t *body = tx->buf == NULL ? NULL : tx->buf->data + tx->off;
  const uint8_t *front = tx->prefix_len > 0 ? tx->prefix : body;
  assert(front != NULL); /* a frame without a body is all prefix */
  uint32_t type = (uint32_t)front[12] << 8 | front[13];
  unsigned n = 0;
  *len = tx->prefix_len + tx->len - DC_ETHER_LEN;
  if (type != DC_ETHERTYPE_MPLS) {
    dc_label_write(label, type == DC_ETHERTYPE_HELLO ? DC_LABEL_HELLO : DC_LABEL_UNLABELLED, true);
    v[n++] = (struct iovec){label, DC_LABEL_LEN};
    *len += DC_LABEL_LEN;
  }
  if (tx->prefix_len > DC_ETHER_LEN)
    v[n++] = (struct iovec){(void *)(uintptr_t)(tx->prefix + DC_ETHER_LEN), tx->prefix_len - DC_ETHER_LEN};
  uint32_t skip = tx->prefix_len == 0 ? DC_ETHER_LEN : 0;
  if (tx->len > skip)
    v[n++] = (struct iovec){body + skip, tx->len - skip};
  return n;
}

struct outgoing {
  struct mmsghdr msg[SEND_TRAINS];
  struct iovec iov[3 * PORT_QUEUE];
  uint8_t label[PORT_QUEUE][DC_LABEL_LEN];
  unsigned frames[SEND_TRAINS], trains;
  union {
    char space[CMSG_SPACE(sizeof(uint16_t))];
    struct cmsghdr align;
  } control[SEND_TRAINS];
};

/* Put frames of one length together; one that is shorter ends its train. */
static void couple(struct outgoing *o, const struct dc_tx *tx, unsigned count, unsigned most)
{
  uint32_t each = 0, bytes = 0;
  unsigned used = 0;
  bool ended = true;
  for (unsigned i = 0; i < count; i++) {
    uint32_t len;
    unsigned n = parts_of(&tx[i], o->label[i], &o->iov[used], &len);
    unsigned last = o->trains - 1;
    if (ended || len > each || o->frames[last] == most || bytes + len > SEND_BYTES_MAX) {
      if (o->trains == SEND_TRAINS)
        return;
      last = o->trains++;
      o->msg[last] = (struct mmsghdr){.msg_hdr = {.msg_iov = &o->iov[used]}};
      o->frames[last] = 0;
      each = len;
      bytes = 0;
    }
    struct msghdr *m = &o->msg[last].msg_hdr;
    m->msg_iovlen += n;
    used += n;
    bytes += len;
    ended = len < each;
    if (++o->frames[last] == 2) {
      uint16_t size = (uint16_t)each;
      m->msg_control = &o->control[last];
      m->msg_controllen = sizeof o->control[last].space;
      struct cmsghdr *c = CMSG_FIRSTHDR(m);
      *c = (struct cmsghdr){.cmsg_level = IPPROTO_UDP, .cmsg_type = UDP_SEGMENT, .cmsg_len = CMSG_LEN(sizeof size)};
      memcpy(CMSG_DATA(c), &size, sizeof size);
    }
  }
}

static void complain(struct tunnel *t)
{
  int mtu = 0;
  socklen_t len = sizeof mtu;
  if (t->narrow ||
      getsockopt(t->tx, t->base.ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, t->base.ipv6 ? IPV6_MTU : IP_MTU, &mtu, &len) < 0)
    return;
  t->narrow = true;
  log_warn("%s: the path carries %d bytes, %u are needed: lower the tunnel's MTU, or mend the path", t->base.name, mtu,
           t->base.mtu + tunnel_overhead(t->base.ipv6));
}

static int send_frames(struct netif *n, const struct dc_tx *tx, unsigned count)
{
  struct tunnel *t = of(n);
  struct outgoing o;
  for (unsigned tries = 0; tries < 4; tries++) {
    o.trains = 0;
    couple(&o, tx, count < PORT_QUEUE ? count : PORT_QUEUE, t->no_gso ? 1 : TRAIN_FRAMES);
    int sent = sendmmsg(t->tx, o.msg, o.trains, MSG_DONTWAIT);
    if (sent > 0) {
      int frames = 0;
      for (int i = 0; i < sent; i++)
        frames += (int)o.frames[i];
      return frames;
    }
    if (errno == EMSGSIZE) {
      complain(t);
      return -EMSGSIZE;
    }
    if (errno == EIO && o.frames[0] > 1)
      t->no_gso = true;
    else if (errno != ECONNREFUSED) /* what an earlier datagram met: the neighbour was not there */
      return -errno;
  }
  return -EAGAIN;
}

/* ---- open, close ---- */

static void close_tunnel(struct netif *n)
{
  struct tunnel *t = of(n);
  for (unsigned i = 0; i < TRAINS; i++)
    free(t->train[i].bytes);
  if (n->fd >= 0)
    close(n->fd);
  if (t->tx >= 0)
    close(t->tx);
  free(t);
}

static uint64_t missed(struct netif *n)
{
  uint32_t is[SK_MEMINFO_VARS] = {0}, before = of(n)->dropped;
  socklen_t len = sizeof is;
  if (n->fd < 0 || getsockopt(n->fd, SOL_SOCKET, SO_MEMINFO, is, &len) < 0)
    return 0;
  of(n)->dropped = is[SK_MEMINFO_DROPS];
  return is[SK_MEMINFO_DROPS] - before;
}

static const struct netif_ops tunnel_ops = {.rx = rx, .send = send_frames, .close = close_tunnel, .missed = missed};

static void large(int fd, int force, int plain)
{
  int bytes = SOCKET_SEND_BYTES;
  if (setsockopt(fd, SOL_SOCKET, force, &bytes, sizeof bytes) < 0)
    (void)setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof bytes);
}

static bool sockets(bool ipv6, int fd[2])
{
  for (unsigned i = 0; i < 2; i++) {
    fd[i] = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd[i] < 0) {
      if (i == 1)
        close(fd[0]);
      return false;
    }
  }
  large(fd[0], SO_RCVBUFFORCE, SO_RCVBUF);
  large(fd[1], SO_SNDBUFFORCE, SO_SNDBUF);
  return true;
}

static bool set(int fd, int level, int name, int value)
{
  return setsockopt(fd, level, name, &value, sizeof value) == 0;
}

static void set_port(struct sockaddr_storage *a, uint16_t port)
{
  if (a->ss_family == AF_INET6)
    ((struct sockaddr_in6 *)(void *)a)->sin6_port = htons(port);
  else
    ((struct sockaddr_in *)(void *)a)->sin_port = htons(port);
}

static bool tunnel_fault(struct fault *why, const struct tunnel *t, const char *what)
{
  return fault_set(why, "io", "%s: %s: %s", t->base.name, what, strerror(errno));
}

/* Until the socket is bound to its neighbour, nothing may come in. */
static bool open_in(struct tunnel *t, const struct tunnel_cfg *cfg, struct fault *why)
{
  struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  struct sock_fprog prog = {.len = 1, .filter = &nothing};
  struct sockaddr_storage from = cfg->remote, at = cfg->local;
  int fd = t->base.fd, off = 0;
  set_port(&at, DC_UDP_PORT);
  set_port(&from, 0); /* any: it is the sender's entropy */
  if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof prog) < 0 || !set(fd, SOL_SOCKET, SO_REUSEADDR, 1))
    return tunnel_fault(why, t, "socket");
  if (bind(fd, (struct sockaddr *)&at, cfg->len) < 0)
    return tunnel_fault(why, t, errno == EADDRNOTAVAIL ? "the local address is not this machine's" : "bind");
  if (connect(fd, (struct sockaddr *)&from, cfg->len) < 0)
    return tunnel_fault(why, t, "no way to the neighbour");
  (void)set(fd, IPPROTO_UDP, UDP_GRO, 1); /* without it datagrams come one by one */
  if (setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &off, sizeof off) < 0)
    return tunnel_fault(why, t, "filter");
  return true;
}

static uint32_t mix(uint32_t h, const void *p, size_t n)
{
  for (size_t i = 0; i < n; i++)
    h = (h ^ ((const uint8_t *)p)[i]) * 16777619u;
  return h;
}

static bool open_out(struct tunnel *t, const struct tunnel_cfg *cfg, struct fault *why)
{
  struct sockaddr_storage to = cfg->remote, at = cfg->local;
  bool v6 = t->base.ipv6;
  int level = v6 ? IPPROTO_IPV6 : IPPROTO_IP, mtu = 0;
  socklen_t len = sizeof mtu;
  set_port(&to, DC_UDP_PORT);
  if (!set(t->tx, level, v6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, v6 ? IPV6_PMTUDISC_DO : IP_PMTUDISC_DO))
    return tunnel_fault(why, t, "path MTU");
  uint32_t entropy = mix(mix(2166136261u, &cfg->local, cfg->len), &cfg->remote, cfg->len);
  for (unsigned i = 0;; i++) { /* spread over equal paths, always over the same one */
    set_port(&at, (uint16_t)(ENTROPY_FIRST + (entropy + i) % (65536 - ENTROPY_FIRST)));
    if (bind(t->tx, (struct sockaddr *)&at, cfg->len) == 0)
      break;
    if (errno != EADDRINUSE || i == ENTROPY_TRIES)
      return tunnel_fault(why, t, errno == EADDRNOTAVAIL ? "the local address is not this machine's" : "bind");
  }
  if (connect(t->tx, (struct sockaddr *)&to, cfg->len) < 0)
    return tunnel_fault(why, t, "no way to the neighbour");
  if (getsockopt(t->tx, level, v6 ? IPV6_MTU : IP_MTU, &mtu, &len) < 0)
    return tunnel_fault(why, t, "path MTU");
  uint32_t wanted = cfg->mtu != 0 ? cfg->mtu : (uint32_t)mtu;
  if (wanted > (uint32_t)mtu)
    return fault_set(why, "bad_request", "%s: an MTU of %u is wanted, the path carries %d bytes", t->base.name, wanted,
                     mtu);
  if (wanted < TUNNEL_MTU_MIN)
    return fault_set(why, "bad_request", "%s: an MTU of %u is too small", t->base.name, wanted);
  t->base.mtu = wanted - tunnel_overhead(v6);
  return true;
}

/* Takes over the sockets, also on failure. */
static struct netif *open_with(const struct tunnel_cfg *cfg, const int fd[2], struct fault *why)
{
  struct tunnel *t = calloc(1, sizeof *t);
  char text[64] = "";
  if (t == NULL) {
    close(fd[0]);
    close(fd[1]);
    fault_set(why, "io", "out of memory");
    return NULL;
  }
  t->base = (struct netif){
      .ops = &tunnel_ops, .fd = fd[0], .up = true, .full_hello = true, .ipv6 = cfg->remote.ss_family == AF_INET6};
  t->tx = fd[1];
  t->cfg = *cfg;
  tunnel_address(text, sizeof text, &cfg->remote);
  snprintf(t->base.name, sizeof t->base.name, "tunnel to %.48s", text);
  bool ok = open_out(t, cfg, why) && open_in(t, cfg, why);
  for (unsigned i = 0; ok && i < TRAINS; i++) {
    t->train[i].bytes = malloc(HEAD + TRAIN_BYTES);
    ok = t->train[i].bytes != NULL || fault_set(why, "io", "out of memory");
    for (unsigned k = 0; k < TRAIN_FRAMES; k++) {
      t->train[i].car[k].train = &t->train[i];
      t->train[i].car[k].buf.give_back = give_back;
    }
  }
  if (ok) {
    (void)missed(&t->base); /* strangers', before it knew its neighbour */
    return &t->base;
  }
  close_tunnel(&t->base);
  return NULL;
}

struct netif *tunnel_open(const struct tunnel_cfg *cfg, struct fault *why)
{
  int fd[2];
  if (sockets(cfg->remote.ss_family == AF_INET6, fd))
    return open_with(cfg, fd, why);
  fault_set(why, "io", "tunnel: no socket: %s", strerror(errno));
  return NULL;
}

/* ---- slots ---- */

struct slot {
  struct netif base;
  int fd[2][2]; /* by family; -1: used */
};

static unsigned slot_rx(struct netif *n, netif_rx_fn *fn, void *arg, unsigned budget)
{
  (void)n, (void)fn, (void)arg, (void)budget;
  return 0;
}

static int slot_send(struct netif *n, const struct dc_tx *tx, unsigned count)
{
  (void)n, (void)tx, (void)count;
  return -ENETDOWN;
}

static void slot_close(struct netif *n)
{
  struct slot *s = (struct slot *)(void *)n;
  for (unsigned i = 0; i < 4; i++)
    if (s->fd[i / 2][i % 2] >= 0)
      close(s->fd[i / 2][i % 2]);
  free(s);
}

static const struct netif_ops slot_ops = {.rx = slot_rx, .send = slot_send, .close = slot_close};

static struct slot *slot_new(struct fault *why)
{
  struct slot *s = calloc(1, sizeof *s);
  if (s == NULL) {
    fault_set(why, "io", "out of memory");
    return NULL;
  }
  s->base =
      (struct netif){.ops = &slot_ops, .fd = -1, .name = "tunnel", .mtu = SLOT_MTU, .full_hello = true, .slot = true};
  for (unsigned i = 0; i < 4; i++)
    s->fd[i / 2][i % 2] = -1;
  return s;
}

struct netif *tunnel_slot_open(struct fault *why)
{
  struct slot *s = slot_new(why);
  for (unsigned i = 0; s != NULL && i < 2; i++)
    if (!sockets(i == 1, s->fd[i])) /* a machine may have one family only */
      s->fd[i][0] = s->fd[i][1] = -1;
  return s == NULL ? NULL : &s->base;
}

struct netif *tunnel_slot_fill(struct netif *slot, const struct tunnel_cfg *cfg, struct fault *why)
{
  struct slot *s = (struct slot *)(void *)slot;
  int *fd = s->fd[cfg->remote.ss_family == AF_INET6];
  if (fd[0] >= 0) { /* those of a slot are there once, and it may fail */
    struct netif *trial = tunnel_open(cfg, why);
    if (trial == NULL)
      return NULL;
    close_tunnel(trial);
  }
  struct netif *n = fd[0] >= 0 ? open_with(cfg, fd, why) : tunnel_open(cfg, why);
  fd[0] = fd[1] = -1;
  if (n == NULL)
    return NULL;
  of(n)->slot = slot;
  if (n->mtu > SLOT_MTU)
    n->mtu = SLOT_MTU;
  return n;
}

struct netif *tunnel_share(const struct netif *n, struct netif *slot, struct fault *why)
{
  const struct tunnel *t = (const struct tunnel *)(const void *)n;
  if (n->ops == &slot_ops) {
    struct slot *s = slot_new(why);
    return s == NULL ? NULL : &s->base;
  }
  struct tunnel *other = calloc(1, sizeof *other);
  int tx = other == NULL ? -1 : fcntl(t->tx, F_DUPFD_CLOEXEC, 0);
  if (tx < 0) {
    fault_set(why, "io", "%s: no socket for another thread: %s", n->name, strerror(errno));
    free(other);
    return NULL;
  }
  other->base = t->base;
  other->base.fd = -1;
  other->tx = tx;
  other->cfg = t->cfg;
  other->slot = slot;
  return &other->base;
}

struct netif *tunnel_slot(const struct netif *n)
{
  return n->ops == &tunnel_ops ? ((const struct tunnel *)(const void *)n)->slot : NULL;
}

const struct tunnel_cfg *tunnel_cfg(const struct netif *n)
{
  return n->ops == &tunnel_ops ? &((const struct tunnel *)(const void *)n)->cfg : NULL;
}
