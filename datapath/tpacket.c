/* AF_PACKET: a TPACKET_V2 ring to receive (V3 hands frames out in blocks, later), sendmmsg to send. The queueing
 * discipline is not bypassed: the lab's shapers and a host's own stand behind it. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "datapath/limits.h"
#include "datacast/constants.h"
#include "datapath/netif.h"

#ifndef PACKET_FANOUT_FLAG_UNIQUEID
#define PACKET_FANOUT_FLAG_UNIQUEID 0x2000
#endif
#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

enum { ETH_ALL = 0x0003 };

struct slot {
  struct dc_buf buf; /* first: the buffer is the slot */
  struct tpacket2_hdr *head;
};

struct afpacket {
  struct netif base;
  uint8_t *map;
  size_t map_len;
  struct slot *slot;
  uint32_t slots, next;
  bool shares; /* the interface's frames with other sockets */
  bool told;   /* that another interface of the name is not taken */
};

static void give_back(struct dc_buf *b)
{
  struct slot *s = (struct slot *)(void *)b;
  __atomic_store_n(&s->head->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
}

/* The kernel has taken the tag off: the frame looks as if it came over the cable itself. Number 0 only gives a priority. */
static bool of_a_vlan(const struct tpacket2_hdr *h)
{
  return (h->tp_status & TP_STATUS_VLAN_VALID) != 0 && (h->tp_vlan_tci & 0xfff) != 0;
}

static unsigned rx(struct netif *n, netif_rx_fn *fn, void *arg, unsigned budget)
{
  struct afpacket *a = (struct afpacket *)(void *)n;
  struct dc_frame frame[NETIF_BURST];
  unsigned got = 0, burst = 0;
  while (got < budget) {
    struct slot *s = &a->slot[a->next];
    if (s->buf.refs > 0) /* all the way round, and this one is still being sent */
      break;
    if (!(__atomic_load_n(&s->head->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
      break;
    a->next = a->next + 1 == a->slots ? 0 : a->next + 1;
    got++;
    if (s->head->tp_snaplen < s->head->tp_len || of_a_vlan(s->head)) {
      ++*(of_a_vlan(s->head) ? &n->rx_malformed : &n->rx_truncated);
      give_back(&s->buf);
      continue;
    }
    s->buf.refs = 1;
    s->buf.data = (uint8_t *)s->head + s->head->tp_mac;
    __builtin_prefetch(s->buf.data);
    frame[burst++] = (struct dc_frame){.buf = &s->buf, .data = s->buf.data, .len = s->head->tp_snaplen};
    if (burst == NETIF_BURST) {
      fn(arg, frame, burst);
      burst = 0;
    }
  }
  if (burst > 0)
    fn(arg, frame, burst);
  return got;
}

static int send_frames(struct netif *n, const struct dc_tx *tx, unsigned count)
{
  struct mmsghdr msg[PORT_BATCH];
  struct iovec iov[2 * PORT_BATCH];
  if (count > PORT_BATCH)
    count = PORT_BATCH;
  for (unsigned i = 0; i < count; i++) {
    struct iovec *v = &iov[2 * i];
    v[0] = (struct iovec){(void *)(uintptr_t)tx[i].prefix, tx[i].prefix_len};
    v[1] = (struct iovec){tx[i].buf == NULL ? NULL : tx[i].buf->data + tx[i].off, tx[i].len};
    msg[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = v, .msg_iovlen = tx[i].buf == NULL ? 1 : 2}};
  }
  int sent = sendmmsg(n->fd, msg, count, MSG_DONTWAIT);
  return sent < 0 ? -errno : sent;
}

static void close_socket(struct netif *n)
{
  struct afpacket *a = (struct afpacket *)(void *)n;
  if (a->map != NULL)
    munmap(a->map, a->map_len);
  if (n->fd >= 0)
    close(n->fd);
  free(a->slot);
  free(a);
}

static uint64_t missed(struct netif *n)
{
  struct tpacket_stats stats = {0}; /* reading sets them to zero */
  socklen_t len = sizeof stats;
  return getsockopt(n->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len) < 0 ? 0 : stats.tp_drops;
}

/* Only the three EtherTypes of the data plane come up here. */
static int set_filter(int fd)
{
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, DC_ETHERTYPE_MPLS, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, DC_ETHERTYPE_DATACAST, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, DC_ETHERTYPE_HELLO, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0x40000),
      BPF_STMT(BPF_RET | BPF_K, 0),
  };
  struct sock_fprog prog = {.len = sizeof code / sizeof code[0], .filter = code};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof prog);
}

static bool ask_interface(struct netif *n, struct fault *why)
{
  struct ifreq r;
  memset(&r, 0, sizeof r);
  memcpy(r.ifr_name, n->name, sizeof r.ifr_name - 1);
  n->ifindex = (int)if_nametoindex(n->name);
  if (n->ifindex == 0)
    return fault_set(why, "not_found", "interface %s does not exist", n->name);
  if (ioctl(n->fd, SIOCGIFHWADDR, &r) < 0)
    return fault_set(why, "io", "interface %s: %s", n->name, strerror(errno));
  if (r.ifr_hwaddr.sa_family != ARPHRD_ETHER)
    return fault_set(why, "bad_request", "interface %s is not Ethernet", n->name);
  memcpy(n->mac, r.ifr_hwaddr.sa_data, 6);
  if (ioctl(n->fd, SIOCGIFMTU, &r) < 0)
    return fault_set(why, "io", "interface %s: %s", n->name, strerror(errno));
  n->mtu = (uint32_t)r.ifr_mtu;
  if (n->mtu < 576)
    return fault_set(why, "bad_request", "interface %s: an MTU of %u is too small", n->name, n->mtu);
  if (ioctl(n->fd, SIOCGIFFLAGS, &r) == 0)
    n->up = (r.ifr_flags & IFF_UP) != 0 && (r.ifr_flags & IFF_RUNNING) != 0;
  return true;
}

static bool map_ring(struct afpacket *a, uint32_t frames, struct fault *why)
{
  struct netif *n = &a->base;
  int version = TPACKET_V2;
  uint32_t frame = ((uint32_t)sizeof(struct tpacket2_hdr) + (uint32_t)sizeof(struct sockaddr_ll) + 64u + DC_ETHER_LEN +
                    n->mtu + 15u) /
                   16u * 16u;
  uint32_t block = 64u << 10;
  while (block < frame)
    block *= 2;
  uint32_t per_block = block / frame, blocks = frames > 0 ? (frames + per_block - 1) / per_block : RING_BYTES / block;
  struct tpacket_req req = {
      .tp_block_size = block, .tp_block_nr = blocks, .tp_frame_size = frame, .tp_frame_nr = per_block * blocks};
  if (setsockopt(n->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) < 0 ||
      setsockopt(n->fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof req) < 0)
    return fault_set(why, "io", "interface %s: no receive ring: %s", n->name, strerror(errno));
  a->map_len = (size_t)block * blocks;
  void *map = mmap(NULL, a->map_len, PROT_READ | PROT_WRITE, MAP_SHARED, n->fd, 0);
  if (map == MAP_FAILED)
    return fault_set(why, "io", "interface %s: the receive ring cannot be mapped: %s", n->name, strerror(errno));
  a->map = map;
  a->slots = req.tp_frame_nr;
  a->slot = calloc(a->slots, sizeof *a->slot);
  if (a->slot == NULL)
    return fault_set(why, "io", "out of memory");
  for (uint32_t i = 0; i < a->slots; i++) {
    a->slot[i].head =
        (struct tpacket2_hdr *)(void *)(a->map + (size_t)(i / per_block) * block + (size_t)(i % per_block) * frame);
    a->slot[i].buf.give_back = give_back;
    a->slot[i].buf.cap = frame;
  }
  return true;
}

/* The sockets of one interface share its frames, as a program of the kernel's says. The kernel chooses the group's number. */
static bool join_group(const struct netif *n, const struct afpacket_cfg *cfg, struct fault *why)
{
  uint32_t how = (uint32_t)PACKET_FANOUT_CBPF << 16;
  socklen_t len = sizeof how;
  how |= *cfg->group >= 0 ? (uint32_t)*cfg->group : (uint32_t)PACKET_FANOUT_FLAG_UNIQUEID << 16;
  if (setsockopt(n->fd, SOL_PACKET, PACKET_FANOUT, &how, sizeof how) < 0 ||
      getsockopt(n->fd, SOL_PACKET, PACKET_FANOUT, &how, &len) < 0 ||
      setsockopt(n->fd, SOL_PACKET, PACKET_FANOUT_DATA, cfg->spread, sizeof *cfg->spread) < 0)
    return fault_set(why, "io", "interface %s: no fan-out group: %s", n->name, strerror(errno));
  *cfg->group = (int)(how & 0xffff);
  return true;
}

static int bind_to(const struct netif *n, int ifindex)
{
  struct sockaddr_ll sll = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_ALL), .sll_ifindex = ifindex};
  return bind(n->fd, (struct sockaddr *)&sll, sizeof sll);
}

/* The socket stays, and with it the ring: to open another one takes a right that a daemon has given up. Of sockets that share frames
 * the kernel binds none anew. */
static bool again(struct netif *n, uint32_t least)
{
  struct afpacket *a = (struct afpacket *)(void *)n;
  struct netif now = *n;
  struct fault why;
  if (!ask_interface(&now, &why))
    return false; /* not yet */
  if (a->shares || now.mtu < least || bind_to(n, now.ifindex) < 0) {
    if (!a->told)
      log_warn("interface %s is there again, and is not used: %s", n->name,
               a->shares         ? "several workers share it, so this program is to be started again"
               : now.mtu < least ? "its MTU is smaller than it was"
                                 : strerror(errno));
    a->told = true;
    return false;
  }
  a->told = false;
  n->ifindex = now.ifindex;
  memcpy(n->mac, now.mac, sizeof n->mac);
  return true;
}

static const struct netif_ops afpacket_ops = {
    .rx = rx, .send = send_frames, .close = close_socket, .missed = missed, .again = again};

static bool open_socket(struct afpacket *a, const struct afpacket_cfg *cfg, struct fault *why)
{
  struct netif *n = &a->base;
  int on = 1, bytes = SOCKET_SEND_BYTES;
  /* Protocol 0: nothing arrives before filter and ring stand. */
  n->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (n->fd < 0)
    return fault_set(why, "denied", "interface %s: no packet socket: %s (needs root or CAP_NET_RAW)", n->name,
                     strerror(errno));
  if (!ask_interface(n, why))
    return false;
  if (!cfg->whole && set_filter(n->fd) < 0)
    return fault_set(why, "io", "interface %s: packet filter: %s", n->name, strerror(errno));
  if (setsockopt(n->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) < 0)
    return fault_set(why, "io", "interface %s: PACKET_IGNORE_OUTGOING: %s", n->name, strerror(errno));
  /* The queueing discipline is to be the bound, not the socket: its 100 frames of 9,000 bytes must fit. */
  if (setsockopt(n->fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) < 0 &&
      setsockopt(n->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) < 0)
    return fault_set(why, "io", "interface %s: send buffer: %s", n->name, strerror(errno));
  if (!map_ring(a, cfg->ring_frames, why))
    return false;
  if (bind_to(n, n->ifindex) < 0)
    return fault_set(why, "io", "interface %s: %s", n->name, strerror(errno));
  a->shares = cfg->spread != NULL;
  return !a->shares || join_group(n, cfg, why);
}

struct netif *afpacket_open(const struct afpacket_cfg *cfg, struct fault *why)
{
  struct afpacket *a = calloc(1, sizeof *a);
  if (a == NULL) {
    fault_set(why, "io", "out of memory");
    return NULL;
  }
  a->base.ops = &afpacket_ops;
  a->base.fd = -1;
  snprintf(a->base.name, sizeof a->base.name, "%s", cfg->name);
  if (!open_socket(a, cfg, why)) {
    close_socket(&a->base);
    return NULL;
  }
  return &a->base;
}
