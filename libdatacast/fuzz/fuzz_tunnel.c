/* libFuzzer: what comes to a host's two tunnels (datapath/tunnel.c), in datagrams of any length that the kernel joined to trains of
 * any cut, and how much of what leaves the kernel takes. The kernel's part is played here: recvmmsg and sendmmsg are these.
 *
 * The input is a script of bytes: high half what happens, low half how.
 *   0x0. 0x1.  a train of made-up frames for a port: how many, which kind, how long; low bit of what: its cut is another than it was
 *   0x2.       a train of the script's own bytes: length, cut
 *   0x3.       so many messages are taken from now on, and how the next one is refused
 *   0x4.       time goes on
 *   others     a round
 * Frames that only pass carry a pattern: it leaves as it came. What stands behind a train must not be read. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sanitizer/asan_interface.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "datacast/endpoint.h"
#include "datapath/forward.h"
#include "datapath/tunnel.h"
#include "script.h"

enum {
  PORTS = 2,
  MTU = 1500,
  WAITING = 12,
  TRAINS = 8,
  MARK = 0x7a7a7a7a,
  ENDPOINT = 1,
  DATAGRAM_MAX = 65507,
  SEGMENTS_MAX = 128
};

struct train {
  uint8_t bytes[65536];
  size_t len;
  int cut; /* INT32_MIN: the kernel says nothing of one */
};

static struct {
  struct train train[WAITING];
  unsigned first, n;
} waiting[PORTS];

static struct loop loop;
static struct forward f;
static dc_time now = 1000 * DC_SEC;
static unsigned room, most_asked;
static int refusal;
static uint32_t passed, heard;

/* ---- the kernel ---- */

int clock_gettime(clockid_t id, struct timespec *ts)
{
  (void)id;
  *ts = (struct timespec){.tv_sec = (time_t)(now / DC_SEC), .tv_nsec = (long)(now % DC_SEC)};
  return 0;
}

static void deliver(struct msghdr *m, unsigned *len, const struct train *t)
{
  uint8_t *to = m->msg_iov[0].iov_base;
  size_t all = m->msg_iov[0].iov_len;
  *len = (unsigned)(t->len < all ? t->len : all);
  ASAN_UNPOISON_MEMORY_REGION(to, all);
  memcpy(to, t->bytes, *len);
  ASAN_POISON_MEMORY_REGION(to + *len, all - *len);
  if (t->cut == INT32_MIN) {
    m->msg_controllen = 0;
    return;
  }
  struct cmsghdr *c = CMSG_FIRSTHDR(m);
  MUST(c != NULL && m->msg_controllen >= CMSG_SPACE(sizeof t->cut));
  *c = (struct cmsghdr){.cmsg_level = IPPROTO_UDP, .cmsg_type = UDP_GRO, .cmsg_len = CMSG_LEN(sizeof t->cut)};
  memcpy(CMSG_DATA(c), &t->cut, sizeof t->cut);
  m->msg_controllen = CMSG_SPACE(sizeof t->cut);
}

int recvmmsg(int fd, struct mmsghdr *msg, unsigned n, int flags, struct timespec *limit)
{
  unsigned port = 0, got = 0;
  MUST((flags & MSG_DONTWAIT) != 0 && limit == NULL);
  while (f.port[port]->nif->fd != fd)
    MUST(++port < PORTS);
  most_asked = n;
  for (; got < n && waiting[port].n > 0; got++, waiting[port].n--, waiting[port].first++)
    deliver(&msg[got].msg_hdr, &msg[got].msg_len, &waiting[port].train[waiting[port].first % WAITING]);
  errno = EAGAIN;
  return got > 0 ? (int)got : -1;
}

static uint8_t pattern(uint32_t seq, size_t at) { return (uint8_t)(seq * 31 + at * 7 + 3); }

static void left(const uint8_t *p, size_t len)
{
  bool bottom;
  MUST(len >= DC_LABEL_LEN && len <= MTU - 28);
  if (len < DC_LABEL_LEN + DC_HEADER_LEN || dc_label_read(p, &bottom) != DC_LABEL_LOCAL ||
      dc_get32(p + DC_LABEL_LEN + DC_AT_TREE) != MARK)
    return;
  p += DC_LABEL_LEN;
  uint32_t seq = dc_get32(p + DC_AT_SEQ), there = dc_get16(p + DC_AT_LENGTH);
  if (there > len - DC_LABEL_LEN - DC_HEADER_LEN)
    there = (uint32_t)(len - DC_LABEL_LEN - DC_HEADER_LEN);
  for (size_t i = 0; i < there; i++)
    MUST(p[DC_HEADER_LEN + i] == pattern(seq, i));
  passed++;
}

int sendmmsg(int fd, struct mmsghdr *msg, unsigned n, int flags)
{
  static uint8_t bytes[DATAGRAM_MAX];
  unsigned sent = 0;
  MUST(fd >= 0 && (flags & MSG_DONTWAIT) != 0 && n > 0);
  for (; sent < n && room > 0; sent++, room--) {
    const struct msghdr *m = &msg[sent].msg_hdr;
    uint16_t cut = 0;
    size_t len = 0;
    for (size_t i = 0; i < m->msg_iovlen; i++) {
      MUST(m->msg_iov[i].iov_len <= sizeof bytes - len);
      memcpy(bytes + len, m->msg_iov[i].iov_base, m->msg_iov[i].iov_len);
      len += m->msg_iov[i].iov_len;
    }
    if (m->msg_controllen > 0) {
      const struct cmsghdr *c = CMSG_FIRSTHDR(m);
      MUST(c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_SEGMENT);
      memcpy(&cut, CMSG_DATA(c), sizeof cut);
      MUST(cut > 0 && cut < len && (len + cut - 1) / cut <= SEGMENTS_MAX);
    }
    for (size_t at = 0, part; at < len; at += part) {
      part = cut == 0 || len - at < cut ? len - at : cut;
      left(bytes + at, part);
    }
  }
  errno = refusal;
  if (refusal == EINTR) /* not for ever */
    refusal = EAGAIN;
  return sent > 0 ? (int)sent : -1;
}

/* ---- an endpoint ---- */

static bool data(struct endpoint *e, dc_time at, const struct dc_header *h, const uint8_t *payload, uint16_t from)
{
  (void)e, (void)at, (void)from;
  for (uint32_t i = 0; i < h->length; i++)
    heard += payload[i];
  return (h->seq & 1) == 0;
}

static void interest(struct endpoint *e, dc_time at, const struct dc_header *h, const struct dc_segment *ret)
{
  (void)e, (void)at, (void)h, (void)ret;
}

static bool poll_it(struct endpoint *e, dc_time at)
{
  (void)e, (void)at;
  return false;
}

/* ---- what comes ---- */

static struct dc_segment one_port(unsigned port)
{
  return (struct dc_segment){.n = 1, .local = true, .port = {(uint16_t)port}};
}

/* A datagram as a tunnel carries it. Returns its bytes. */
static size_t made_up(uint8_t *p, unsigned port, unsigned kind, uint32_t seq, unsigned payload)
{
  struct dc_header h = {.type = DC_TYPE_DATA, .tree = kind & 4 ? ENDPOINT : 2, .seq = seq, .length = (uint16_t)payload};
  size_t at = 0;
  switch (kind & 3) {
  case 0: /* it only passes */
    dc_label_write(p, DC_LABEL_ADJ + (kind & 4 ? port : 1 - port), false);
    at += DC_LABEL_LEN;
    h.tree = MARK;
    break;
  case 1: { /* asks */
    const struct dc_stop own = {.store = true, .ret = one_port(port), .fwd = one_port(1 - port)},
                         source = {.ret = one_port(0)};
    uint8_t *route = p + DC_LABEL_LEN + DC_HEADER_LEN;
    size_t n = dc_stop_write(route, 256, &own);
    n += dc_stop_write(route + n, 256 - n, &source);
    dc_label_write(p, DC_LABEL_LOCAL, true);
    h = (struct dc_header){.type = DC_TYPE_INTEREST, .tree = h.tree, .seq = seq, .stops = 2, .length = (uint16_t)n};
    dc_header_write(p + DC_LABEL_LEN, &h);
    return DC_LABEL_LEN + DC_HEADER_LEN + n;
  }
  case 2:
    break;
  default: /* between neighbours */
    dc_label_write(p, kind & 4 ? DC_LABEL_HELLO : DC_LABEL_UNLABELLED, (kind & 8) == 0);
    at += DC_LABEL_LEN;
    h.type = kind & 4 ? DC_TYPE_HELLO : DC_TYPE_DATA;
    dc_header_write(p + at, &h);
    memset(p + at + DC_HEADER_LEN, (int)seq, payload);
    return at + DC_HEADER_LEN + payload;
  }
  dc_label_write(p + at, DC_LABEL_LOCAL, true);
  at += DC_LABEL_LEN;
  dc_header_write(p + at, &h);
  at += DC_HEADER_LEN;
  for (unsigned i = 0; i < payload; i++)
    p[at++] = pattern(seq, i);
  return at;
}

static struct train *arrives(unsigned port)
{
  if (waiting[port].n == WAITING)
    return NULL;
  struct train *t = &waiting[port].train[(waiting[port].first + waiting[port].n++) % WAITING];
  t->len = 0;
  t->cut = INT32_MIN;
  return t;
}

static void train_of(struct script *s, uint8_t op)
{
  static uint32_t seq;
  unsigned port = op & 1, many = next(s) % 70 + 1u, kind = next(s), payload = next16(s) % MTU;
  int cut = 0;
  struct train *t = arrives(port);
  for (unsigned i = 0; t != NULL && i < many && t->len + 2 * MTU < sizeof t->bytes; i++) {
    size_t n = made_up(t->bytes + t->len, port, kind, seq++, payload);
    t->len += n;
    cut = (int)n;
  }
  if (op & 0x10)
    cut = (int16_t)next16(s);
  if (t != NULL)
    t->cut = cut;
}

static void train_as_it_is(struct script *s, uint8_t op)
{
  unsigned n = next16(s) % 4096;
  int cut = (int16_t)next16(s);
  struct train *t = arrives(op & 1);
  for (unsigned i = 0; i < n && (s->p < s->end || (op & 4)); i++) {
    uint8_t byte = next(s);
    if (t != NULL)
      t->bytes[t->len++] = byte;
  }
  if (t != NULL && (op & 2))
    t->cut = cut;
}

static void turn(void)
{
  loop.now = now;
  while (loop.n > 0 && loop.heap[0]->at <= now) {
    struct timer *t = loop.heap[0];
    loop_timer(&loop, t, DC_NEVER);
    t->fire(t, now);
  }
  forward_round(&f, now);
}

/* ---- from nothing to nothing ---- */

static void open_once(void)
{
  static const uint8_t neighbour[PORTS][6];
  static const struct forward_cfg cfg = {
      .name = "me", .of = 1, .cache_bytes = 12000, .cache_memory = 1 << 18, .cache_trees = 4};
  struct netif *nif[PORTS];
  struct fault why;
  unsigned id = (unsigned)getpid();
  if (f.loop != NULL)
    return;
  log_threshold = LOG_ERROR + 1;
  MUST(loop_open(&loop) == 0);
  for (unsigned i = 0; i < PORTS; i++) {
    struct tunnel_cfg to;
    char here[16], there[16];
    snprintf(here, sizeof here, "127.%u.%u.1", id >> 8 & 0xff, id & 0xff);
    snprintf(there, sizeof there, "127.%u.%u.%u", id >> 8 & 0xff, id & 0xff, i + 2);
    MUST(tunnel_parse(here, there, MTU, &to));
    nif[i] = tunnel_open(&to, &why);
    MUST(nif[i] != NULL);
  }
  MUST(forward_open(&f, &loop, &cfg, nif, neighbour, PORTS, &why));
}

/* Whatever came: nothing is lent any more when all has left. */
static void end(void)
{
  room = UINT32_MAX;
  for (unsigned i = 0; i < 4; i++) {
    now += 10 * DC_MS;
    turn();
  }
  dc_node_clear(f.node.core);
  for (unsigned i = 0; i < PORTS; i++)
    MUST(waiting[i].n == 0 && backlog_empty(&f.port[i]->backlog));
  MUST(most_asked == TRAINS && f.pool.in_use == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
  static const struct endpoint_ops ops = {.data = data, .interest = interest, .poll = poll_it};
  static const int refusals[] = {EAGAIN, ENOBUFS, ECONNREFUSED, EMSGSIZE, EIO, ENOMEM, EINTR, ENETUNREACH};
  struct script s = {p, p + len};
  struct endpoint here;
  open_once();
  room = UINT32_MAX;
  refusal = EAGAIN;
  MUST(forward_add(&f, &here, ENDPOINT, &ops));
  for (unsigned steps = 0; s.p < s.end && steps < 400; steps++) {
    uint8_t op = next(&s);
    switch (op >> 4) {
    case 0:
    case 1:
      train_of(&s, op);
      break;
    case 2:
      train_as_it_is(&s, op);
      break;
    case 3:
      room = op & 8 ? UINT32_MAX : next(&s);
      refusal = refusals[op & 7];
      break;
    case 4:
      now += span(&s);
      break;
    default:
      turn();
    }
  }
  end();
  forward_remove(&here);
  return 0;
}
