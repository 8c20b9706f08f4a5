#include "afpacket.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "steering.h"

/* In front of a frame in the ring: tpacket2_hdr, sockaddr_ll and alignment; behind: a VLAN tag the kernel may give. */
enum { FRAME_OVERHEAD = 66 + ETH_HLEN + 4, FRAME_ALIGN = 1024, PAGE = 4096, BLOCK_MAX = 1 << 17 };

struct afpacket_geometry afpacket_geometry(uint32_t mtu, uint32_t frames)
{
  uint32_t frame = (mtu + FRAME_OVERHEAD + FRAME_ALIGN - 1) / FRAME_ALIGN * FRAME_ALIGN;
  uint32_t best = PAGE / FRAME_ALIGN; /* whole pages in any case */
  double best_use = 0;
  /* The kernel takes a power of two of pages per block: choose the number of frames that fills one best. */
  for (uint32_t n = 1; n * frame <= BLOCK_MAX; n++) {
    if (n * frame % PAGE != 0)
      continue;
    uint32_t taken = PAGE;
    while (taken < n * frame)
      taken *= 2;
    double use = (double)(n * frame) / taken;
    if (use > best_use) {
      best = n;
      best_use = use;
    }
  }
  return (struct afpacket_geometry){.frame = frame, .block = best * frame, .count = (frames + best - 1) / best * best};
}

/* Of the interface that is being opened: how many queues, and the group that they join. */
static struct {
  unsigned queues;
  bool joined;
  uint16_t id;
} fanout;

void afpacket_arguments(char *out, size_t cap, const char *iface, const struct afpacket_geometry *g, unsigned queues)
{
  fanout.queues = queues;
  fanout.joined = false;
  snprintf(out, cap, "iface=%s,blocksz=%u,framesz=%u,framecnt=%u,qpairs=%u,qdisc_bypass=0", iface, g->block, g->frame,
           g->count, queues);
}

static bool may_open_raw(void)
{
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[2] = {0};
  return syscall(SYS_capget, &head, data) == 0 && (data[0].effective & (1u << CAP_NET_RAW)) != 0;
}

int afpacket_check(const char *iface, uint32_t mtu, int *ifindex, bool *up, struct fault *f)
{
  struct ifreq ifr = {0};
  int rc = 0;
  int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (s < 0)
    return fail(f, "cannot open a socket: %s", strerror(errno));
  snprintf(ifr.ifr_name, sizeof ifr.ifr_name, "%s", iface);
  if (ioctl(s, SIOCGIFINDEX, &ifr) < 0) {
    rc = errno == ENODEV ? fail(f, "interface %s does not exist", iface)
                         : fail(f, "interface %s: %s", iface, strerror(errno));
  } else if (*ifindex = ifr.ifr_ifindex, ioctl(s, SIOCGIFMTU, &ifr) < 0) {
    rc = fail(f, "interface %s: %s", iface, strerror(errno));
  } else if ((uint32_t)ifr.ifr_mtu < mtu) {
    rc = fail(f, "interface %s has an MTU of %d, the configuration says %u: `ip link set dev %s mtu %u`, or lower mtu",
              iface, ifr.ifr_mtu, mtu, iface, mtu);
  } else if (ioctl(s, SIOCGIFFLAGS, &ifr) < 0) {
    rc = fail(f, "interface %s: %s", iface, strerror(errno));
  } else if (*up = (ifr.ifr_flags & IFF_RUNNING) != 0, !may_open_raw()) {
    rc = fail(f, "opening interface %s needs root or CAP_NET_RAW", iface);
  }
  close(s);
  return rc;
}

static bool is_drivers(int fd, int ifindex)
{
  int domain = 0;
  socklen_t len = sizeof domain;
  struct sockaddr_ll sll = {0};
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) < 0 || domain != AF_PACKET)
    return false;
  len = sizeof sll;
  return getsockname(fd, (struct sockaddr *)&sll, &len) == 0 && sll.sll_ifindex == ifindex;
}

/* Frames that this machine's own stack sends out of the interface (neighbour discovery and the like) are none of
 * ours. */
static void ignore_outgoing(int fd)
{
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
  };
  struct sock_fprog prog = {.len = sizeof code / sizeof *code, .filter = code};
  if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof prog) < 0)
    log_debug("no filter for outgoing frames: %s", strerror(errno));
}

/* The driver opens one socket after another, so its queues are in the order of their descriptors. */
static int find_socket(int ifindex, unsigned queue)
{
  int last = -1;
  for (unsigned i = 0; i <= queue; i++) {
    int next = -1;
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL)
      return -1;
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
      int fd = atoi(e->d_name);
      if (e->d_name[0] != '.' && fd > last && (next < 0 || fd < next) && is_drivers(fd, ifindex))
        next = fd;
    }
    closedir(dir);
    if (next < 0)
      return -1;
    last = next;
  }
  return last;
}

int afpacket_socket(int ifindex, unsigned queue, const struct afpacket_geometry *g)
{
  int fd = find_socket(ifindex, queue);
  if (fd < 0)
    return -1;
  /* With the usual 208 KB the kernel takes some 20 jumbo frames and leaves the rest in the ring, and the driver's send
   * waits in poll() when the ring is full. With room for the whole ring twice neither happens. */
  int room = (int)(2u * g->frame * g->count);
  if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room) < 0 &&
      setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room) < 0)
    log_warn("cannot enlarge a send buffer: %s", strerror(errno));
  ignore_outgoing(fd);
  return fd;
}

bool afpacket_kick(int fd)
{
  ssize_t n = sendto(fd, NULL, 0, MSG_DONTWAIT, NULL, 0);
  return n < 0 && (errno == ENOBUFS || errno == EAGAIN);
}

uint64_t afpacket_missed(int fd)
{
  struct tpacket_stats stats = {0}; /* reading sets them to zero */
  socklen_t len = sizeof stats;
  return getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len) < 0 ? 0 : stats.tp_drops;
}

void afpacket_clear_error(int fd)
{
  int error = 0;
  socklen_t len = sizeof error;
  (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
}

static int real_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
  return (int)syscall(SYS_setsockopt, fd, level, name, value, len);
}

/* The label carries the shard: the kernel gives each frame to the queue of the worker that has its tree (steering.h computes
 * the same). Offsets count from behind the Ethernet header. */
static int join_fanout(int fd)
{
  enum { LABELLED = DC_LABEL_LEN + DC_AT_TREE, BARE = DC_AT_TREE };
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PROTOCOL)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, DC_ETHERTYPE_DATACAST, 4, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, DC_ETHERTYPE_MPLS, 0, 7), /* neither: 0 is left when it is shifted */
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 12),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, DC_LABEL_LOCAL, 2, 5), /* another label spreads by itself */
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, BARE),
      BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, LABELLED),
      BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, STEERING_FACTOR),
      BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, STEERING_SHIFT),
      BPF_STMT(BPF_RET | BPF_A, 0),
  };
  struct sock_fprog prog = {.len = sizeof code / sizeof *code, .filter = code};
  uint32_t how = (uint32_t)PACKET_FANOUT_CBPF << 16;
  socklen_t len = sizeof how;
  /* The kernel chooses a number that nobody has; those of other processes could collide with one of ours. */
  how |= fanout.joined ? fanout.id : (uint32_t)PACKET_FANOUT_FLAG_UNIQUEID << 16;
  if (real_setsockopt(fd, SOL_PACKET, PACKET_FANOUT, &how, sizeof how) < 0 ||
      getsockopt(fd, SOL_PACKET, PACKET_FANOUT, &how, &len) < 0)
    return -1;
  fanout.id = (uint16_t)how;
  fanout.joined = true;
  return real_setsockopt(fd, SOL_PACKET, PACKET_FANOUT_DATA, &prog, sizeof prog);
}

/* The driver joins a fan-out group whose number is made of the process id and the interface's index, and spreads by a hash that
 * is the same for all frames of MPLS. This definition, which the driver's calls resolve to, does better; with one queue per
 * port there is no group at all. */
int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
  if (level != SOL_PACKET || name != PACKET_FANOUT)
    return real_setsockopt(fd, level, name, value, len);
  return fanout.queues > 1 ? join_fanout(fd) : 0;
}
