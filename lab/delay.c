/* datacast-delay: cables of the lab with length. What arrives at one interface of a pair leaves by the other `delay` later.
 *
 *     datacast-delay A,B,MICROSECONDS [A,B,MICROSECONDS ...]
 *
 * For kernels without netem. The interfaces are the inner ends of two veth pairs; the shapers are at their outer ends, so
 * rates and queues are in front of the delay, as on a real line. Frames keep their offload headers (GSO, checksums not yet
 * made). A direction holds at most RING_BYTES; what comes beyond that is dropped and counted.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LINES_MAX 64
#define RING_BYTES (1u << 26)
#define FRAME_MAX (sizeof(struct virtio_net_hdr) + 65536 + 64)
#define BURST 64
#define DELAY_MAX_US 10000000u
#define NS 1000000000ull

struct record {
  uint64_t due;
  uint32_t length; /* 0: nothing more before the ring's end */
  uint32_t unused;
  uint8_t frame[];
};

/* One direction of a line: from `in` to `out`. Records lie from `head` to `tail`, round the ring. */
struct direction {
  int in, out;
  uint64_t delay, drops;
  uint32_t head, tail, used;
  uint8_t *ring;
};

static uint64_t now_ns(void)
{
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * NS + (uint64_t)t.tv_nsec;
}

static _Noreturn void fail(const char *what)
{
  fprintf(stderr, "datacast-delay: %s: %s\n", what, errno ? strerror(errno) : "wrong");
  exit(1);
}

static uint32_t record_size(uint32_t length) { return (uint32_t)(sizeof(struct record) + length + 7) & ~7u; }

/* Where the next frame can be put, FRAME_MAX bytes in a row; NULL when there is no room. */
static struct record *room(struct direction *d)
{
  const uint32_t need = record_size(FRAME_MAX);

  if (RING_BYTES - d->tail < need) { /* only when tail is behind head, or both are near the end */
    uint32_t rest = RING_BYTES - d->tail;

    if (d->used + rest + need > RING_BYTES)
      return NULL;
    if (rest >= sizeof(struct record))
      ((struct record *)(d->ring + d->tail))->length = 0;
    d->used += rest;
    d->tail = 0;
  }
  return d->used + need > RING_BYTES ? NULL : (struct record *)(d->ring + d->tail);
}

static void take_in(struct direction *d, uint64_t now)
{
  for (int i = 0; i < BURST; i++) {
    struct record *r = room(d);
    static uint8_t nowhere[FRAME_MAX];
    ssize_t n = recv(d->in, r ? r->frame : nowhere, FRAME_MAX, MSG_DONTWAIT | MSG_TRUNC);

    if (n < 0)
      return;
    if (!r || (size_t)n > FRAME_MAX || n == 0) {
      d->drops++;
      continue;
    }
    r->due = now + d->delay;
    r->length = (uint32_t)n;
    d->used += record_size(r->length);
    d->tail += record_size(r->length);
  }
}

/* Send what is due. When the next is, or UINT64_MAX. */
static uint64_t let_out(struct direction *d, uint64_t now)
{
  while (d->used) {
    struct record *r = (struct record *)(d->ring + d->head);

    if (RING_BYTES - d->head < sizeof(struct record) || r->length == 0) {
      d->used -= RING_BYTES - d->head;
      d->head = 0;
      continue;
    }
    if (r->due > now)
      return r->due;
    if (send(d->out, r->frame, r->length, MSG_DONTWAIT) < 0)
      d->drops++; /* the other end is down, or full */
    d->used -= record_size(r->length);
    d->head += record_size(r->length);
  }
  d->head = d->tail = 0;
  return UINT64_MAX;
}

static int open_port(const char *name)
{
  const int one = 1, size = 1 << 24;
  struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
  struct packet_mreq all = {.mr_type = PACKET_MR_PROMISC};
  int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

  at.sll_ifindex = all.mr_ifindex = (int)if_nametoindex(name);
  if (fd < 0 || !at.sll_ifindex || setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one) ||
      setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) ||
      setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all))
    fail(name);
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
  setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
  if (bind(fd, (struct sockaddr *)&at, sizeof at))
    fail(name);
  return fd;
}

static void lay(struct direction d[2], const char *text)
{
  char a[IFNAMSIZ], b[IFNAMSIZ], rest;
  unsigned us;

  errno = 0;
  if (sscanf(text, "%15[^,],%15[^,],%8u%c", a, b, &us, &rest) != 3 || us > DELAY_MAX_US)
    fail(text);
  d[0].in = d[1].out = open_port(a);
  d[1].in = d[0].out = open_port(b);
  for (int i = 0; i < 2; i++) {
    d[i].delay = us * 1000ull;
    d[i].ring = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (d[i].ring == MAP_FAILED)
      fail("memory");
  }
}

int main(int argc, char **argv)
{
  static struct direction lines[2 * LINES_MAX];
  static struct pollfd ports[2 * LINES_MAX + 1];
  const int count = 2 * (argc - 1);
  uint64_t drops = 0;
  sigset_t stop;

  if (argc < 2 || argc > LINES_MAX + 1) {
    fprintf(stderr, "usage: datacast-delay A,B,MICROSECONDS ... (1 to %d lines)\n", LINES_MAX);
    return 2;
  }
  for (int i = 1; i < argc; i++)
    lay(&lines[2 * (i - 1)], argv[i]);
  for (int i = 0; i < count; i++)
    ports[i] = (struct pollfd){.fd = lines[i].in, .events = POLLIN};
  /* A signal is one more thing to wait for: a handler could run just before a wait without end. */
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  sigprocmask(SIG_BLOCK, &stop, NULL);
  ports[count] = (struct pollfd){.fd = signalfd(-1, &stop, SFD_CLOEXEC), .events = POLLIN};
  if (ports[count].fd < 0)
    fail("signals");
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  puts("ready");
  fflush(stdout);
  while (!ports[count].revents) {
    uint64_t next = UINT64_MAX, now = now_ns();

    for (int i = 0; i < count; i++) {
      uint64_t due = let_out(&lines[i], now);

      next = due < next ? due : next;
    }
    uint64_t wait = next <= now ? 0 : next - now;
    struct timespec t = {.tv_sec = (time_t)(wait / NS), .tv_nsec = (long)(wait % NS)};

    if (ppoll(ports, (nfds_t)count + 1, next == UINT64_MAX ? NULL : &t, NULL) <= 0)
      continue;
    now = now_ns();
    for (int i = 0; i < count; i++)
      if (ports[i].revents)
        take_in(&lines[i], now);
  }
  for (int i = 0; i < count; i++)
    drops += lines[i].drops;
  printf("dropped %" PRIu64 "\n", drops);
  return 0;
}
