/* Shared memory with another program of this machine, as memif has it (version 2.0): DPDK's net_memif, VPP, datacast-switch.
 *
 * Two rings of descriptors, one each way, lead to buffers; who sends copies a frame into the next one and moves an index.
 * Nothing passes the kernel but a wake-up where the other side sleeps. The memory is the client's, and new with every
 * connection. Messages on a Unix socket set it up; the socket's end is the loss of the carrier.
 *
 * A client whose frames several threads share (steering.h) is as many clients of one port, each with a connection, a memory and
 * rings of its own, which no two threads touch; what they bear in the numbers of their interfaces says which of how many. */
#include "datapath/memif.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "datacast/constants.h"
#include "datapath/accepting.h"
#include "datapath/memif_lanes.h"

#define AGAIN_MS 100 /* between two attempts to connect */
enum { REGION_MAX = 1 << 30 };

enum source { LISTENER, CONTROL, TIMER, FRAMES };

static void close_one(int *fd)
{
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
}

static bool watch(struct memif *m, int fd, enum source what, unsigned lane, uint32_t events)
{
  struct epoll_event e = {.events = events, .data.u64 = what | (uint64_t)lane << 32};
  return epoll_ctl(m->base.fd, EPOLL_CTL_ADD, fd, &e) == 0;
}

static bool watch_lane(struct memif_lane *l, int fd, enum source what, uint32_t events)
{
  return watch(l->owner, fd, what, (unsigned)(l - l->owner->lane), events);
}

/* ---- the end of a connection ---- */

/* All that there are to be. */
static bool complete(const struct memif *m)
{
  unsigned n = 0;
  while (n < m->of && m->joined[n] != NULL)
    n++;
  return n > 0 && n == m->of;
}

static bool introduced(const struct memif_lane *l) { return l->state > WAIT_INIT; }

void memif_unmap(struct memif_lane *l)
{
  for (unsigned i = 0; i < l->rings.regions; i++)
    munmap(l->rings.region[i].map, l->rings.region[i].len);
  l->rings = (struct memif_rings){.server = l->owner->cfg.server};
}

static void part(struct memif_lane *l)
{
  struct memif *m = l->owner;
  if (l->state == JOINED)
    m->joined[l->index] = NULL;
  l->state = APART;
  /* The other side may hold it still, so closing it would not end epoll's look at it. */
  if (l->wake_in >= 0)
    (void)epoll_ctl(m->base.fd, EPOLL_CTL_DEL, l->wake_in, NULL);
  close_one(&l->control);
  close_one(&l->wake_in);
  close_one(&l->wake_out);
  if (!l->lends)
    memif_unmap(l);
  bool any = false;
  for (unsigned i = 0; i < m->lanes; i++)
    any = any || introduced(&m->lane[i]);
  if (m->cfg.server && !any)
    m->of = 0;
  m->base.up = complete(m);
}

void memif_again_later(struct memif_lane *l, const char *why)
{
  struct memif *m = l->owner;
  if (!m->told || l->state == JOINED)
    log_warn("memif %s: %s; %s", m->base.name, why, m->cfg.server ? "it may connect again" : "it is tried again");
  m->told = true;
  part(l);
  struct itimerspec in = {.it_value.tv_nsec = AGAIN_MS * 1000000L};
  if (!m->cfg.server)
    (void)timerfd_settime(m->timer, 0, &in, NULL);
}

static const char *joined(struct memif_lane *l)
{
  struct memif *m = l->owner;
  l->state = JOINED;
  m->joined[l->index] = l;
  m->base.up = complete(m);
  m->told = false;
  log_info("memif %s: connected", m->base.name);
  return NULL;
}

/* ---- messages ---- */

static const char *say(const struct memif_lane *l, const struct memif_message *x, int fd)
{
  union {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
  } c = {.room = ""};
  struct iovec iov = {(void *)(uintptr_t)x, sizeof *x};
  struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
  if (fd >= 0) {
    h.msg_control = c.room;
    h.msg_controllen = sizeof c.room;
    c.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&c.head), &fd, sizeof fd);
  }
  return sendmsg(l->control, &h, MSG_NOSIGNAL) == sizeof *x ? NULL : strerror(errno);
}

static const char *const not_its_turn = "the other side said what was not its turn to say";

/* ---- a client ---- */

/* The number of its interface, and of several clients of one port: which it is, and how many they are. */
static uint32_t lane_id(const struct memif_cfg *c)
{
  return c->of > 1 ? c->id | (uint32_t)c->lane << 16 | (c->of - 1u) << 24 : c->id;
}

static void connect_to(struct memif_lane *l)
{
  struct memif *m = l->owner;
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  _Static_assert(sizeof a.sun_path == MEMIF_PATH_MAX, "a path fits");
  memcpy(a.sun_path, m->cfg.path, sizeof a.sun_path);
  l->control = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (l->control < 0 || connect(l->control, (struct sockaddr *)&a, sizeof a) < 0 ||
      !watch_lane(l, l->control, CONTROL, EPOLLIN))
    memif_again_later(l, strerror(errno));
  else
    l->state = WAIT_HELLO;
}

/* Its memory, told to the server. Sealed: nobody can make it shorter under the other's feet. */
static const char *say_memory(struct memif_lane *l)
{
  struct memif_message x = {.type = MEMIF_ADD_REGION};
  size_t bytes = memif_rings_bytes(l->owner->slot);
  int fd = memfd_create("datacast-memif", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  l->wake_in = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  l->wake_out = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  void *map = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 &&
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const char *why =
      map == MAP_FAILED || l->wake_in < 0 || l->wake_out < 0 || !watch_lane(l, l->wake_in, FRAMES, EPOLLIN | EPOLLET)
          ? strerror(errno)
          : NULL;
  if (map != MAP_FAILED) {
    l->rings.region[l->rings.regions++] = (struct memif_region){.map = map, .len = bytes};
    memif_rings_make(&l->rings, l->owner->slot);
  }
  x.region.size = bytes;
  if (why == NULL)
    why = say(l, &x, fd);
  close_one(&fd);
  return why;
}

static const char *say_ring(const struct memif_lane *l, bool to_server)
{
  struct memif_message x = {.type = MEMIF_ADD_RING};
  x.ring.flags = to_server ? MEMIF_RING_TO_SERVER : 0;
  x.ring.offset = memif_ring_offset(to_server);
  x.ring.log2 = MEMIF_LOG2;
  return say(l, &x, to_server ? l->wake_out : l->wake_in);
}

/* What a client says to what the server said. NULL, or why the connection ends. */
static const char *answer_server(struct memif_lane *l, const struct memif_message *got)
{
  enum memif_state was = l->state;
  struct memif_message x = {.type = 0};
  if (was == JOINED || got->type != (was == WAIT_HELLO       ? MEMIF_HELLO
                                     : was == WAIT_CONNECTED ? MEMIF_CONNECTED
                                                             : MEMIF_ACK))
    return not_its_turn;
  l->state++;
  switch (was) {
  case WAIT_HELLO:
    if (got->hello.min_version > MEMIF_VERSION || got->hello.max_version < MEMIF_VERSION ||
        got->hello.max_log2 < MEMIF_LOG2)
      return "the other side speaks no memif 2.0, or has rings of less than 256";
    x.type = MEMIF_INIT;
    x.init.version = MEMIF_VERSION;
    x.init.id = lane_id(&l->owner->cfg);
    snprintf(x.init.name, sizeof x.init.name, "datacast");
    return say(l, &x, -1);
  case WAIT_INIT:
    return say_memory(l);
  case WAIT_REGION:
    return say_ring(l, true);
  case WAIT_RING_OUT:
    return say_ring(l, false);
  case WAIT_RING_IN:
    x.type = MEMIF_CONNECT;
    snprintf(x.name, sizeof x.name, "datacast");
    return say(l, &x, -1);
  case WAIT_CONNECTED:
    memif_rings_begin(&l->rings); /* not before: the server begins with empty rings */
    return joined(l);
  case APART:
  case JOINED:
    break;
  }
  return not_its_turn;
}

/* ---- a server ---- */

/* A lane for each client there may be at a time. */
static void accept_one(struct memif *m)
{
  struct memif_message x = {.type = MEMIF_HELLO};
  struct memif_lane *l = m->lane;
  int fd = accept_or_refuse(m->listener, &m->spare, NULL, NULL);
  if (fd < 0)
    return;
  while (l < m->lane + m->lanes && l->state != APART)
    l++;
  if (l == m->lane + m->lanes) {
    x.type = MEMIF_DISCONNECT;
    snprintf(x.disconnect.why, sizeof x.disconnect.why, "Already connected");
    (void)send(fd, &x, sizeof x, MSG_NOSIGNAL);
    close(fd);
    return;
  }
  l->control = fd;
  l->state = WAIT_INIT;
  snprintf(x.hello.name, sizeof x.hello.name, "datacast");
  x.hello.min_version = x.hello.max_version = MEMIF_VERSION;
  x.hello.max_region = MEMIF_REGIONS - 1;
  x.hello.max_log2 = MEMIF_LOG2_MAX;
  const char *why = watch_lane(l, fd, CONTROL, EPOLLIN) ? say(l, &x, -1) : strerror(errno);
  if (why != NULL)
    memif_again_later(l, why);
}

static const char *hear_init(struct memif_lane *l, const struct memif_message *got)
{
  struct memif *m = l->owner;
  unsigned index = got->init.id >> 16 & 0xff, n = (got->init.id >> 24) + 1;
  if (got->init.version != MEMIF_VERSION || (got->init.id & MEMIF_ID_MAX) != m->cfg.id || got->init.mode != 0 ||
      index >= n || n > m->lanes)
    return "it wants another version, interface or kind of frames";
  for (unsigned i = 0; i < m->lanes; i++)
    if (introduced(&m->lane[i]) && (m->of != n || m->lane[i].index == index))
      return "another program is connected";
  l->index = index;
  m->of = n;
  l->state = WAIT_REGION;
  return NULL;
}

static const char *hear_region(struct memif_lane *l, const struct memif_message *got, int fd)
{
  struct memif_rings *r = &l->rings;
  struct stat s;
  uint64_t size = got->region.size;
  if (r->regions == MEMIF_REGIONS || got->region.index != r->regions)
    return "a region out of turn, or one too many";
  int seals = fcntl(fd, F_GET_SEALS); /* below 0: of a file that cannot be sealed */
  if (size == 0 || size > REGION_MAX || fstat(fd, &s) < 0 || s.st_size < 0 || (uint64_t)s.st_size < size || seals < 0 ||
      (seals & F_SEAL_SHRINK) == 0)
    return "a region that is too large, shorter than said or not sealed against becoming so";
  void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED)
    return strerror(errno);
  r->region[r->regions++] = (struct memif_region){.map = map, .len = size};
  return NULL;
}

/* A pipe that is full would hold up who writes to it. */
static bool is_eventfd(int fd)
{
  char name[32], what[32];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(name, what, sizeof what - 1);
  what[n < 0 ? 0 : n] = '\0';
  return strcmp(what, "anon_inode:[eventfd]") == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

static const char *hear_ring(struct memif_lane *l, const struct memif_message *got, int *fd)
{
  bool to_server = (got->ring.flags & MEMIF_RING_TO_SERVER) != 0;
  int *place = to_server ? &l->wake_in : &l->wake_out;
  if (*place >= 0 || got->ring.index != 0)
    return "more than one ring each way";
  if (!is_eventfd(*fd))
    return "a ring's descriptor is no eventfd";
  if (!memif_rings_find(&l->rings, to_server, got->ring.region, got->ring.offset, got->ring.log2))
    return "a ring is not within its region";
  if (to_server && !watch_lane(l, *fd, FRAMES, EPOLLIN | EPOLLET))
    return strerror(errno);
  *place = *fd;
  *fd = -1;
  return NULL;
}

/* What a server says to what its client said; *fd came along, and is set to -1 where it is kept. */
static const char *answer_client(struct memif_lane *l, const struct memif_message *got, int *fd)
{
  struct memif_message x = {.type = MEMIF_ACK};
  const char *why = NULL;
  if (l->state == WAIT_INIT) {
    if (got->type != MEMIF_INIT)
      return not_its_turn;
    why = hear_init(l, got);
  } else if (l->state == JOINED) {
    return not_its_turn;
  } else if (got->type == MEMIF_ADD_REGION && *fd >= 0) {
    why = hear_region(l, got, *fd);
  } else if (got->type == MEMIF_ADD_RING && *fd >= 0) {
    why = hear_ring(l, got, fd);
  } else if (got->type == MEMIF_CONNECT && l->wake_in >= 0 && l->wake_out >= 0) {
    x.type = MEMIF_CONNECTED;
    snprintf(x.name, sizeof x.name, "datacast");
    why = joined(l);
  } else {
    return not_its_turn;
  }
  return why == NULL ? say(l, &x, -1) : why;
}

/* ---- both ---- */

/* One message, and the descriptor that came along. There is room for no other one: padding would hold a second, which nobody
 * would close. */
static ssize_t hear_one(const struct memif_lane *l, struct memif_message *x, int *fd)
{
  union {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
  } c;
  struct iovec iov = {x, sizeof *x};
  struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = c.room, .msg_controllen = CMSG_LEN(sizeof(int))};
  ssize_t n = recvmsg(l->control, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  *fd = -1;
  const struct cmsghdr *got = n < 0 ? NULL : CMSG_FIRSTHDR(&h);
  if (got != NULL && got->cmsg_level == SOL_SOCKET && got->cmsg_type == SCM_RIGHTS &&
      got->cmsg_len == CMSG_LEN(sizeof *fd))
    memcpy(fd, CMSG_DATA(got), sizeof *fd);
  return n;
}

static void hear(struct memif_lane *l)
{
  struct memif_message x;
  int fd;
  ssize_t n = hear_one(l, &x, &fd);
  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  const char *why = n < 0                                         ? strerror(errno)
                    : n != sizeof x || x.type == MEMIF_DISCONNECT ? "the other side is gone"
                    : l->owner->cfg.server                        ? answer_client(l, &x, &fd)
                                                                  : answer_server(l, &x);
  close_one(&fd);
  if (why != NULL)
    memif_again_later(l, why);
}

static void ready(struct netif *n_if)
{
  struct memif *m = memif_of(n_if);
  struct epoll_event e[8];
  int n = epoll_wait(m->base.fd, e, 8, 0);
  for (int i = 0; i < n; i++) {
    uint64_t times;
    struct memif_lane *l = &m->lane[e[i].data.u64 >> 32];
    enum source what = (enum source)(uint32_t)e[i].data.u64;
    if (what == LISTENER)
      accept_one(m);
    else if (what == CONTROL && l->control >= 0)
      hear(l);
    else if (what == TIMER && read(m->timer, &times, sizeof times) == sizeof times && l->state == APART)
      connect_to(l);
  }
}

/* ---- open, close ---- */

static void close_memif(struct netif *n)
{
  struct memif *m = memif_of(n);
  for (unsigned i = 0; i < m->lanes; i++)
    part(&m->lane[i]);
  if (m->listener >= 0)
    (void)unlink(m->cfg.path);
  close_one(&m->listener);
  close_one(&m->spare);
  close_one(&m->timer);
  close_one(&m->base.fd);
  free(m->frames);
  free(m->lent);
  free(m);
}

static const struct netif_ops memif_ops = {
    .rx = memif_rx, .send = memif_send, .close = close_memif, .ready = ready, .awake = memif_awake};

static bool lend(struct memif *m)
{
  m->lent = calloc(MEMIF_SLOTS, sizeof *m->lent);
  m->frames = m->cfg.raw ? NULL : aligned_alloc(64, (size_t)MEMIF_SLOTS * m->slot);
  if (m->lent == NULL || (m->frames == NULL && !m->cfg.raw))
    return false;
  for (unsigned i = 0; i < MEMIF_SLOTS; i++) {
    struct memif_lent *l = &m->lent[i];
    l->owner = m;
    l->buf.data = m->frames == NULL ? NULL : m->frames + (size_t)i * m->slot;
    l->buf.cap = m->slot;
    l->buf.give_back = memif_give_back;
    memif_give_back(&l->buf);
  }
  return true;
}

/* What a server that was killed left behind goes; a socket on which somebody listens stays. */
static bool listen_on(struct memif *m, struct fault *why)
{
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  memcpy(a.sun_path, m->cfg.path, sizeof a.sun_path);
  int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  bool taken = probe >= 0 && (connect(probe, (struct sockaddr *)&a, sizeof a) == 0 || errno == EAGAIN);
  struct stat s;
  close_one(&probe);
  if (taken)
    return fault_set(why, "io", "memif %s: another program listens there", m->cfg.path);
  if (lstat(m->cfg.path, &s) == 0 && S_ISSOCK(s.st_mode))
    (void)unlink(m->cfg.path);
  m->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  mode_t before = umask(0177);
  bool ok = m->listener >= 0 && bind(m->listener, (struct sockaddr *)&a, sizeof a) == 0;
  int error = errno;
  (void)umask(before);
  if (!ok)
    close_one(&m->listener); /* the path is not ours to remove */
  else if (listen(m->listener, 4) < 0 || !watch(m, m->listener, LISTENER, 0, EPOLLIN))
    ok = false, error = errno;
  else
    m->spare = accept_spare(m->listener);
  return ok || fault_set(why, "io", "memif %s: %s", m->cfg.path, strerror(error));
}

static bool set_up(struct memif *m, struct fault *why)
{
  m->base.fd = epoll_create1(EPOLL_CLOEXEC);
  m->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (m->base.fd < 0 || m->timer < 0 || !watch(m, m->timer, TIMER, 0, EPOLLIN) || !lend(m) ||
      getrandom(m->base.mac, sizeof m->base.mac, 0) != sizeof m->base.mac)
    return fault_set(why, "io", "memif %s: %s", m->cfg.path, strerror(errno));
  m->base.mac[0] = (uint8_t)((m->base.mac[0] & 0xfc) | 2); /* one station, locally administered */
  if (m->cfg.server)
    return listen_on(m, why);
  connect_to(&m->lane[0]);
  return true;
}

struct netif *memif_open(const struct memif_cfg *cfg, struct fault *why)
{
  struct memif *m = calloc(1, sizeof *m);
  if (m == NULL) {
    fault_set(why, "io", "out of memory");
    return NULL;
  }
  m->cfg = *cfg;
  m->base.ops = &memif_ops;
  m->base.tells_carrier = true;
  m->base.mtu = cfg->mtu;
  m->slot = (cfg->mtu + DC_ETHER_LEN + 63u) / 64u * 64u;
  m->lanes = cfg->server ? MEMIF_LANES : 1;
  m->of = cfg->server ? 0 : 1;
  for (unsigned i = 0; i < m->lanes; i++)
    m->lane[i] =
        (struct memif_lane){.owner = m, .control = -1, .wake_in = -1, .wake_out = -1, .rings.server = cfg->server};
  m->listener = m->spare = m->timer = -1;
  const char *slash = strlen(cfg->path) < sizeof m->base.name ? NULL : strrchr(cfg->path, '/');
  snprintf(m->base.name, sizeof m->base.name, "%.63s", slash == NULL ? cfg->path : slash + 1);
  if (set_up(m, why))
    return &m->base;
  close_memif(&m->base);
  return NULL;
}
