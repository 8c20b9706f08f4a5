/* Memory shared by two programs: a server and a client of ours in one process, and neighbours that say or write what they must not. */
#include "datapath/memif.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "datacast/bytes.h"
#include "datacast/constants.h"
#include "datacast/wire.h"
#include "datapath/memif_ring.h"
#include "datapath/tests/check.h"

enum { MTU = 9000 };

static char path[64];
static struct fault why;

static struct netif *open_as(struct memif_cfg c)
{
  c.mtu = MTU;
  c.id = 7;
  snprintf(c.path, sizeof c.path, "%s", path);
  return memif_open(&c, &why);
}

static struct netif *open_side(bool server, bool raw)
{
  return open_as((struct memif_cfg){.server = server, .raw = raw});
}

static void shut(struct netif *n) { n->ops->close(n); }

/* Let a side hear what waits for it. */
static void serve(struct netif *n)
{
  struct pollfd p = {.fd = n->fd, .events = POLLIN};
  if (poll(&p, 1, 1) > 0)
    n->ops->ready(n);
}

static void join(struct netif *a, struct netif *b)
{
  for (unsigned i = 0; i < 2000 && !(a->up && b->up); i++) {
    serve(a);
    serve(b);
  }
  CHECK(a->up && b->up);
}

static void until_down(struct netif *n)
{
  for (unsigned i = 0; i < 2000 && n->up; i++)
    serve(n);
  CHECK(!n->up);
}

/* ---- frames ---- */

static unsigned frames, bytes;
static uint8_t last;

static void got(void *arg, struct dc_frame *frame, unsigned n)
{
  (void)arg;
  for (unsigned i = 0; i < n; i++) {
    frames++;
    bytes += frame[i].len;
    CHECK(frame[i].data[0] == 0xaa && frame[i].data[DC_ETHER_LEN - 1] == 0xaa);
    last = frame[i].data[frame[i].len - 1];
    buf_unref(frame[i].buf);
  }
}

static int send_one(struct netif *n, uint32_t len, uint8_t mark)
{
  static uint8_t payload[2 * MTU];
  struct dc_buf b = {.data = payload};
  struct dc_tx tx = {.buf = &b, .len = len - DC_ETHER_LEN, .prefix_len = DC_ETHER_LEN};
  memset(tx.prefix, 0xaa, DC_ETHER_LEN);
  memset(payload, mark, len);
  return n->ops->send(n, &tx, 1);
}

static unsigned receive(struct netif *n, unsigned budget)
{
  frames = bytes = 0;
  (void)n->ops->rx(n, got, NULL, budget);
  return frames;
}

static void test_frames_go_both_ways_and_around_the_ring(bool raw)
{
  struct netif *server = open_side(true, raw), *client = open_side(false, false);
  CHECK(server != NULL && client != NULL);
  join(server, client);
  for (unsigned i = 0; i < 3 * MEMIF_SLOTS; i++) {
    uint32_t len = 60 + (i * 37) % (MTU + DC_ETHER_LEN - 60);
    CHECK(send_one(client, len, (uint8_t)i) == 1 && receive(server, 64) == 1 && bytes == len && last == (uint8_t)i);
    CHECK(send_one(server, len, (uint8_t)~i) == 1 && receive(client, 64) == 1 && bytes == len && last == (uint8_t)~i);
  }
  CHECK(send_one(client, MTU + DC_ETHER_LEN, 1) == 1 && receive(server, 64) == 1 && server->rx_truncated == 0);
  shut(client);
  shut(server);
}

static void test_a_full_ring_takes_no_more_and_loses_nothing(void)
{
  struct netif *server = open_side(true, true), *client = open_side(false, false);
  join(server, client);
  struct netif *side[] = {client, server};
  for (unsigned s = 0; s < 2; s++) {
    for (unsigned i = 0; i < MEMIF_SLOTS; i++)
      CHECK(send_one(side[s], 100, (uint8_t)i) == 1);
    CHECK(send_one(side[s], 100, 0) == -EAGAIN);
    CHECK(receive(side[1 - s], 32) == 32 && last == 31); /* a budget ends a round */
    CHECK(send_one(side[s], 100, 99) == 1);
    CHECK(receive(side[1 - s], 2 * MEMIF_SLOTS) == MEMIF_SLOTS - 31 && last == 99);
  }
  shut(client);
  shut(server);
}

/* Is this side woken within so many milliseconds? */
static bool woken(struct netif *n, int ms)
{
  struct pollfd p = {.fd = n->fd, .events = POLLIN};
  bool is = poll(&p, 1, ms) > 0;
  n->ops->ready(n);
  return is;
}

static void test_who_sleeps_is_woken_and_who_is_awake_is_not(void)
{
  struct netif *server = open_side(true, true), *client = open_side(false, false);
  join(server, client);
  (void)woken(server, 0), (void)woken(client, 0);
  CHECK(send_one(client, 100, 1) == 1 && woken(server, 1000) && !woken(server, 0));
  CHECK(!server->ops->awake(server, true));
  CHECK(send_one(client, 100, 2) == 1 && !woken(server, 20));
  CHECK(server->ops->awake(server, false)); /* what came before it asked to be woken wakes nobody, but is there */
  CHECK(receive(server, 64) == 2 && last == 2 && !server->ops->awake(server, false));
  CHECK(send_one(client, 100, 3) == 1 && woken(server, 1000));
  CHECK(send_one(server, 100, 3) == 1 && woken(client, 1000));
  shut(client);
  shut(server);
}

static void test_the_carrier_follows_the_other_side(void)
{
  struct netif *client = open_side(false, false); /* nobody listens yet */
  CHECK(client != NULL && !client->up && send_one(client, 100, 1) == -ENETDOWN);
  struct netif *server = open_side(true, true);
  join(server, client);
  struct netif *second = open_side(false, false), *twin = open_side(true, true);
  CHECK(twin == NULL && strstr(why.text, "another program listens") != NULL);
  for (unsigned i = 0; i < 20; i++)
    serve(server), serve(second);
  CHECK(!second->up && server->up && client->up); /* one client at a time */
  shut(second);
  shut(client);
  until_down(server);
  client = open_side(false, false);
  join(server, client);
  shut(server);
  until_down(client);
  CHECK(access(path, F_OK) != 0);
  server = open_side(true, false);
  join(server, client); /* by itself */
  CHECK(send_one(client, 100, 5) == 1 && receive(server, 64) == 1 && last == 5);
  shut(client);
  shut(server);
}

/* ---- several clients of one port ---- */

static struct netif *open_lane(unsigned lane, unsigned of)
{
  return open_as((struct memif_cfg){.lane = (uint8_t)lane, .of = (uint8_t)of});
}

static unsigned order;
static uint8_t seen[64];

static void got_tree(void *arg, struct dc_frame *frame, unsigned n)
{
  (void)arg;
  for (unsigned i = 0; i < n; i++) {
    if (order < sizeof seen)
      seen[order] = (uint8_t)dc_get32(frame[i].data + DC_ETHER_LEN + DC_LABEL_LEN + DC_AT_TREE);
    order++;
    buf_unref(frame[i].buf);
  }
}

static unsigned trees_at(struct netif *n)
{
  order = 0;
  (void)n->ops->rx(n, got_tree, NULL, 4 * MEMIF_SLOTS);
  return order;
}

/* A frame of a tree; a part of its head may stand in the buffer. */
static void frame_of_tree(struct dc_tx *tx, struct dc_buf *b, uint32_t tree, unsigned prefix)
{
  uint8_t *p = b->data;
  memset(p, 0, 100);
  p[12] = DC_ETHERTYPE_MPLS >> 8;
  p[13] = DC_ETHERTYPE_MPLS & 0xff;
  uint32_t label = DC_LABEL_LOCAL << 12 | 0x100;
  for (unsigned i = 0; i < 4; i++) {
    p[DC_ETHER_LEN + i] = (uint8_t)(label >> (24 - 8 * i));
    p[DC_ETHER_LEN + DC_LABEL_LEN + DC_AT_TREE + i] = (uint8_t)(tree >> (24 - 8 * i));
  }
  *tx = (struct dc_tx){.buf = b, .off = prefix, .len = 100 - prefix, .prefix_len = (uint16_t)prefix};
  memcpy(tx->prefix, p, prefix);
}

static int send_trees(struct netif *n, const uint32_t *tree, unsigned count)
{
  static uint8_t bytes_of[NETIF_BURST][100];
  struct dc_buf b[NETIF_BURST];
  struct dc_tx tx[NETIF_BURST];
  for (unsigned i = 0; i < count; i++) {
    b[i] = (struct dc_buf){.data = bytes_of[i]};
    frame_of_tree(&tx[i], &b[i], tree[i], i * 7 % 50);
  }
  return n->ops->send(n, tx, count);
}

static void test_several_clients_share_a_port_by_tree(void)
{
  struct netif *server = open_side(true, false), *one[2] = {open_lane(0, 2), NULL};
  for (unsigned i = 0; i < 2000 && !one[0]->up; i++)
    serve(server), serve(one[0]);
  CHECK(one[0]->up && !server->up); /* the other one is not there */
  struct netif *wrong[] = {open_lane(0, 2), open_lane(2, 3), open_side(false, false)};
  for (unsigned i = 0; i < 30; i++)
    for (unsigned k = 0; k < 3; k++)
      serve(server), serve(wrong[k]);
  for (unsigned k = 0; k < 3; k++) {
    CHECK(!wrong[k]->up);
    shut(wrong[k]);
  }
  one[1] = open_lane(1, 2);
  join(server, one[1]);

  static const uint32_t tree[] = {2, 4, 1, 6, 3, 5, 8, 7};
  CHECK(send_trees(server, tree, 8) == 8);
  CHECK(trees_at(one[0]) == 4 && memcmp(seen, (uint8_t[]){2, 4, 6, 8}, 4) == 0);
  CHECK(trees_at(one[1]) == 4 && memcmp(seen, (uint8_t[]){1, 3, 5, 7}, 4) == 0);
  CHECK(send_one(server, 100, 9) == 1 && receive(one[0], 64) == 1 && last == 9); /* of no tree */
  for (unsigned i = 0; i < 2; i++)                                               /* whatever a client sends */
    CHECK(send_trees(one[i], tree, 8) == 8);
  CHECK(trees_at(server) == 16);

  for (unsigned i = 0; i < MEMIF_SLOTS / 4; i++)
    CHECK(send_trees(server, (uint32_t[]){2, 4, 6, 8}, 4) == 4);
  CHECK(send_trees(server, tree, 1) == -EAGAIN && send_trees(server, (uint32_t[]){1, 3, 2, 5}, 4) == 2);
  CHECK(trees_at(one[0]) == MEMIF_SLOTS && trees_at(one[1]) == 2);

  shut(one[1]);
  until_down(server);
  CHECK(send_trees(server, (uint32_t[]){1}, 1) == -ENETDOWN && send_trees(server, (uint32_t[]){2, 1}, 2) == 1);
  one[1] = open_lane(1, 2);
  join(server, one[1]);
  shut(one[0]), shut(one[1]);
  until_down(server);
  struct netif *alone = open_side(false, false); /* how many they are is the next one's to say */
  join(server, alone);
  shut(alone);
  shut(server);
}

/* ---- neighbours by hand ---- */

static int call(void)
{
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  int s = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  memcpy(a.sun_path, path, sizeof path);
  CHECK(connect(s, (struct sockaddr *)&a, sizeof a) == 0);
  return s;
}

/* With `n` copies of a descriptor. */
static void tell_with(int s, const struct memif_message *x, int fd, unsigned n)
{
  union {
    struct cmsghdr head;
    char room[CMSG_SPACE(2 * sizeof(int))];
  } c = {.room = ""};
  struct iovec iov = {(void *)(uintptr_t)x, sizeof *x};
  struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
  if (n > 0) {
    h.msg_control = c.room;
    h.msg_controllen = CMSG_SPACE(n * sizeof fd);
    c.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(n * sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    for (unsigned i = 0; i < n; i++)
      memcpy(CMSG_DATA(&c.head) + i * sizeof fd, &fd, sizeof fd);
  }
  CHECK(sendmsg(s, &h, MSG_NOSIGNAL) == sizeof *x);
}

static void tell(int s, const struct memif_message *x, int fd) { tell_with(s, x, fd, fd >= 0); }

/* What the server says next, 0: it has hung up. */
static unsigned answer(int s, struct netif *server)
{
  struct memif_message x;
  serve(server);
  ssize_t n = recv(s, &x, sizeof x, 0);
  CHECK(n <= 0 || n == sizeof x);
  return n <= 0 ? 0 : x.type;
}

enum { REGION = 1 << 20 };
static uint8_t *memory;
static int memory_fd;

/* seals: -1 for a file on a disk, which takes none. */
static int region(size_t size, int seals)
{
  int fd = seals < 0 ? open("/tmp", O_TMPFILE | O_RDWR, 0600) : memfd_create("test", MFD_ALLOW_SEALING);
  CHECK(ftruncate(fd, (off_t)size) == 0 && (seals <= 0 || fcntl(fd, F_ADD_SEALS, seals) == 0));
  return fd;
}

static struct memif_ring *ring_at(uint32_t offset)
{
  struct memif_ring *r = (struct memif_ring *)(void *)(memory + offset);
  r->cookie = MEMIF_COOKIE;
  return r;
}

static int greet(struct netif *server, uint32_t id)
{
  int s = call();
  CHECK(answer(s, server) == MEMIF_HELLO);
  struct memif_message x = {.type = MEMIF_INIT};
  x.init.version = MEMIF_VERSION;
  x.init.id = id;
  tell(s, &x, -1);
  return s;
}

static unsigned add_region(int s, struct netif *server, int fd, uint64_t size)
{
  struct memif_message x = {.type = MEMIF_ADD_REGION};
  x.region.size = size;
  tell(s, &x, fd);
  return answer(s, server);
}

static unsigned add_ring(int s, struct netif *server, int fd, bool to_server, uint32_t offset, uint8_t log2,
                         uint16_t where)
{
  struct memif_message x = {.type = MEMIF_ADD_RING};
  x.ring.flags = to_server ? MEMIF_RING_TO_SERVER : 0;
  x.ring.region = where;
  x.ring.offset = offset;
  x.ring.log2 = log2;
  tell(s, &x, fd);
  return answer(s, server);
}

static void test_a_server_refuses_what_would_hurt_it(void)
{
  struct netif *server = open_side(true, true);
  struct memif_message x = {.type = MEMIF_CONNECT};
  int event = eventfd(0, 0), pipes[2], s = greet(server, 8);
  CHECK(pipe(pipes) == 0);
  CHECK(answer(s, server) == 0); /* another interface's number */
  close(s);

  s = greet(server, 7);
  CHECK(answer(s, server) == MEMIF_ACK);
  tell(s, &x, -1); /* connects without rings */
  CHECK(answer(s, server) == 0);
  close(s);

  const struct {
    size_t really;
    int seals;
    uint64_t said;
  } regions[] = {{REGION, 0, REGION},
                 {REGION, -1, REGION},
                 {4096, F_SEAL_SHRINK, REGION},
                 {REGION, F_SEAL_SHRINK, 0},
                 {REGION, F_SEAL_SHRINK, 1ULL << 40}};
  for (unsigned i = 0; i < sizeof regions / sizeof *regions; i++) {
    int fd = region(regions[i].really, regions[i].seals);
    s = greet(server, 7);
    CHECK(answer(s, server) == MEMIF_ACK && add_region(s, server, fd, regions[i].said) == 0);
    close(fd);
    close(s);
  }

  const struct {
    int fd;
    uint32_t offset;
    uint8_t log2;
    uint16_t where;
  } rings[] = {{event, REGION - 64, 8, 0},
               {event, 0xffffffc0, 8, 0},
               {event, 0, 15, 0},
               {event, 0, 255, 0},
               {event, 0, 8, 1},
               {event, 32, 8, 0},
               {event, 65536, 8, 0} /* no cookie there */,
               {pipes[1], 0, 8, 0} /* who writes there may wait */};
  for (unsigned i = 0; i < sizeof rings / sizeof *rings; i++) {
    memory_fd = region(REGION, F_SEAL_SHRINK);
    memory = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
    (void)ring_at(0), (void)ring_at(REGION - 128);
    s = greet(server, 7);
    CHECK(answer(s, server) == MEMIF_ACK && add_region(s, server, memory_fd, REGION) == MEMIF_ACK);
    CHECK(add_ring(s, server, rings[i].fd, true, rings[i].offset, rings[i].log2, rings[i].where) == 0);
    munmap(memory, REGION);
    close(memory_fd);
    close(s);
  }
  struct netif *client = open_side(false, false); /* after all that it still serves */
  join(server, client);
  shut(client);
  close(event), close(pipes[0]), close(pipes[1]);
  shut(server);
}

static unsigned descriptors(void)
{
  unsigned n = 0;
  DIR *d = opendir("/proc/self/fd");
  while (readdir(d) != NULL)
    n++;
  closedir(d);
  return n;
}

static void test_more_descriptors_than_one_stay_in_nobodys_hands(void)
{
  struct netif *server = open_side(true, true);
  unsigned before = descriptors();
  int event = eventfd(0, 0);
  for (unsigned i = 0; i < 3; i++) {
    int s = greet(server, 7);
    CHECK(answer(s, server) == MEMIF_ACK);
    struct memif_message x = {.type = MEMIF_ADD_REGION};
    tell_with(s, &x, event, 2);
    CHECK(answer(s, server) == 0);
    close(s);
  }
  close(event);
  CHECK(descriptors() == before);
  shut(server);
}

static void test_a_name_that_is_long_and_of_no_folder(void)
{
  struct memif_cfg c = {.mtu = MTU};
  memset(c.path, 'x', sizeof c.path - 1);
  struct netif *client = memif_open(&c, &why);
  CHECK(client != NULL && strlen(client->name) == sizeof client->name - 1);
  shut(client);
}

/* A client by hand, connected: rings of 256 at 0 and 65536. */
static int hand_made(struct netif *server, int *event)
{
  memory_fd = region(REGION, F_SEAL_SHRINK);
  memory = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
  (void)ring_at(0), (void)ring_at(65536);
  *event = eventfd(0, 0);
  struct memif_message x = {.type = MEMIF_CONNECT};
  int s = greet(server, 7);
  CHECK(answer(s, server) == MEMIF_ACK && add_region(s, server, memory_fd, REGION) == MEMIF_ACK);
  CHECK(add_ring(s, server, *event, true, 0, 8, 0) == MEMIF_ACK &&
        add_ring(s, server, *event, false, 65536, 8, 0) == MEMIF_ACK);
  tell(s, &x, -1);
  CHECK(answer(s, server) == MEMIF_CONNECTED && server->up);
  return s;
}

static void drop(int s, int event)
{
  munmap(memory, REGION);
  close(memory_fd);
  close(event);
  close(s);
}

static void test_descriptors_cannot_lead_out_of_the_memory(bool raw)
{
  struct netif *server = open_side(true, raw);
  int event, s = hand_made(server, &event);
  struct memif_ring *in = ring_at(0), *out = ring_at(65536);
  memset(memory + 131072, 0xaa, MTU);
  const struct memif_desc bad[] = {{.length = 100, .offset = REGION - 99}, {.length = 0xffffffff, .offset = 0},
                                   {.length = 100, .offset = 0xffffffff},  {.length = 100, .region = 1},
                                   {.length = 13, .offset = 131072},       {.length = MTU + 100, .offset = 131072}};
  enum { BAD = sizeof bad / sizeof *bad };
  for (unsigned i = 0; i < BAD; i++)
    in->desc[i] = bad[i];
  in->desc[BAD] = (struct memif_desc){.length = 100, .offset = 131072, .flags = MEMIF_DESC_NEXT};
  in->desc[BAD + 1] = (struct memif_desc){.length = 100, .offset = 131072};
  in->desc[BAD + 2] = (struct memif_desc){.length = 200, .offset = 131072};
  in->head = BAD + 3;
  CHECK(receive(server, 64) == 1 && bytes == 200 && server->rx_truncated == BAD + 1 && in->tail == BAD + 3);

  out->desc[0] = (struct memif_desc){.length = 1000, .offset = REGION - 999};
  out->head = 1;
  CHECK(send_one(server, 1000, 1) == -ENETDOWN && !server->up);
  drop(s, event);

  s = hand_made(server, &event);
  ring_at(0)->head = 257; /* more frames than there are slots */
  CHECK(receive(server, 64) == 0 && !server->up);
  drop(s, event);

  s = hand_made(server, &event);
  ring_at(65536)->head = 300;
  CHECK(send_one(server, 100, 1) == -ENETDOWN && !server->up);
  drop(s, event);
  shut(server);
}

/* A data packet that ends at this host. While it is handed over, the connection ends. */
static void of_host(void *arg, struct dc_frame *frame, unsigned n)
{
  struct netif *server = arg;
  static uint8_t copy[MTU + DC_ETHER_LEN];
  CHECK(n == 2);
  ring_at(65536)->head = 300;
  CHECK(send_one(server, 100, 1) == -ENETDOWN && !server->up);
  for (unsigned i = 0; i < n; i++) {
    CHECK((frame[i].buf->whole != NULL) == (i == 0)); /* what goes on may wait somewhere: that is a copy */
    frame_copy(copy, &frame[i]);
    for (unsigned k = DC_ETHER_LEN + DC_HEADER_LEN; k < frame[i].len; k++)
      CHECK(copy[k] == 0x51 + i);
    frames++;
    buf_unref(frame[i].buf);
  }
}

static void test_a_payload_that_ends_here_stays_where_it_is_until_it_was_handed_over(void)
{
  struct netif *server = open_side(true, false);
  int event, s = hand_made(server, &event);
  const struct dc_header h = {.type = DC_TYPE_DATA, .length = 1000, .tree = 1};
  static const uint8_t none[6];
  struct memif_ring *in = ring_at(0);
  frames = 0;
  for (unsigned i = 0; i < 2; i++) {
    uint8_t *p = memory + 131072 + i * 4096;
    dc_ether_write(p, none, none, i == 0 ? DC_ETHERTYPE_DATACAST : DC_ETHERTYPE_MPLS);
    dc_header_write(p + DC_ETHER_LEN, &h);
    memset(p + DC_ETHER_LEN + DC_HEADER_LEN, 0x51 + (int)i, h.length);
    in->desc[i] = (struct memif_desc){.length = DC_ETHER_LEN + DC_HEADER_LEN + h.length, .offset = 131072 + i * 4096};
  }
  in->head = 2;
  CHECK(server->ops->rx(server, of_host, server, 64) == 2 && frames == 2);
  drop(s, event);
  shut(server);
}

int main(void)
{
  log_open("test", LOG_ERROR);
  snprintf(path, sizeof path, "/tmp/test-memif-%d", (int)getpid());
  test_frames_go_both_ways_and_around_the_ring(true);
  test_frames_go_both_ways_and_around_the_ring(false);
  test_a_full_ring_takes_no_more_and_loses_nothing();
  test_who_sleeps_is_woken_and_who_is_awake_is_not();
  test_the_carrier_follows_the_other_side();
  test_several_clients_share_a_port_by_tree();
  test_a_server_refuses_what_would_hurt_it();
  test_more_descriptors_than_one_stay_in_nobodys_hands();
  test_a_name_that_is_long_and_of_no_folder();
  test_descriptors_cannot_lead_out_of_the_memory(true);
  test_descriptors_cannot_lead_out_of_the_memory(false);
  test_a_payload_that_ends_here_stays_where_it_is_until_it_was_handed_over();
  return 0;
}
