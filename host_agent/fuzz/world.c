/* The agent under the fuzzer: virtual time, two ports that are none, a folder of its own. */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "world.h"

/* ---- time: the sources are compiled with clock_gettime as another name of this ---- */

static dc_time now_ns = 1000 * DC_SEC;

int clock_gettime(clockid_t id, struct timespec *ts)
{
  (void)id;
  ts->tv_sec = (time_t)(now_ns / DC_SEC);
  ts->tv_nsec = (long)(now_ns % DC_SEC);
  return 0;
}

/* ---- ports ---- */

struct fake {
  struct netif nif; /* first */
  struct dc_buf *in[FRAMES];
  uint32_t len[FRAMES];
  unsigned n;
};

static struct fake *ports[PORTS];

static unsigned fake_rx(struct netif *n, netif_rx_fn *fn, void *arg, unsigned budget)
{
  struct fake *f = (struct fake *)(void *)n;
  unsigned k = f->n;
  MUST(k <= budget);
  f->n = 0;
  struct dc_frame frame[FRAMES];
  for (unsigned i = 0; i < k; i++)
    frame[i] = (struct dc_frame){.buf = f->in[i], .data = f->in[i]->data, .len = f->len[i]};
  fn(arg, frame, k);
  return k;
}

static int fake_send(struct netif *n, const struct dc_tx *tx, unsigned count)
{
  for (unsigned i = 0; i < count; i++)
    MUST((uint64_t)tx[i].prefix_len + tx[i].len <= n->mtu + DC_ETHER_LEN);
  return (int)count;
}

static void fake_close(struct netif *n)
{
  close(n->fd);
  free(n);
}

static const struct netif_ops fake_ops = {.rx = fake_rx, .send = fake_send, .close = fake_close};

/* ---- the agent ---- */

struct agent a;
struct forward *const frames = &a.shards.one[0].forward;

static char folder[64];
char own[32], child_addr[32], manager_addr[32], source_path[96], dest_path[96];
uint8_t content[FILE_BYTES];
int child_listen, manager_listen;
bool kept;

static int listener(char text[32])
{
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof at;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  MUST(fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0 && listen(fd, 64) == 0 &&
       getsockname(fd, (struct sockaddr *)&at, &len) == 0);
  snprintf(text, 32, "127.0.0.1:%u", ntohs(at.sin_port));
  return fd;
}

/* Without the wait that TCP keeps after a close: thousands of connections a second. */
void hang_up(int *fd)
{
  struct linger at_once = {1, 0};
  if (*fd < 0)
    return;
  (void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(*fd);
  *fd = -1;
}

static void leave(void)
{
  (void)unlink(source_path);
  (void)rmdir(folder);
}

void set_up(void)
{
  if (folder[0] != '\0')
    return;
  struct fault why;
  struct netif *nif[PORTS];
  static const uint8_t neighbour[PORTS][6];
  const struct forward_cfg cfg = {
      .name = "me", .of = 1, .cache_bytes = 12000, .cache_memory = 1 << 20, .cache_trees = 4, .no_hello = true};
  log_open("fuzz", LOG_ERROR);
  snprintf(folder, sizeof folder, "%s/datacast-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  MUST(mkdtemp(folder) != NULL);
  (void)atexit(leave);
  snprintf(source_path, sizeof source_path, "%s/source", folder);
  snprintf(dest_path, sizeof dest_path, "%s/dest", folder);
  for (size_t i = 0; i < sizeof content; i++)
    content[i] = (uint8_t)(i * 7 + i / 256);
  int fd = open(source_path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
  MUST(fd >= 0 && write(fd, content, sizeof content) == sizeof content);
  close(fd);
  child_listen = listener(child_addr);
  manager_listen = listener(manager_addr);
  MUST(loop_open(&a.loop) == 0 && worker_open(&a.worker, &a.loop, 2, 2) == 0 &&
       worker_open(&a.disk, &a.loop, 1, 1) == 0 && shards_open(&a.shards, 1, &a.loop) == 0);
  a.host = (struct host){.name = "me",
                         .loop = &a.loop,
                         .shards = &a.shards,
                         .registration = &a.registration,
                         .worker = &a.worker,
                         .disk = &a.disk};
  stages_open(&a.host.stages);
  MUST(walks_open(&a.host.walks, &a.host));
  MUST(roots_add(&a.host.dest_roots, folder, &why) && roots_add(&a.host.source_roots, folder, &why));
  for (unsigned i = 0; i < PORTS; i++) {
    ports[i] = calloc(1, sizeof *ports[i]);
    ports[i]->nif =
        (struct netif){.ops = &fake_ops, .fd = eventfd(0, 0), .ifindex = (int)i + 1, .mtu = MTU, .up = true};
    nif[i] = &ports[i]->nif;
  }
  MUST(forward_open(frames, &a.shards.one[0].loop, &cfg, nif, neighbour, PORTS, &why));
}

void clean_folder(void)
{
  DIR *d = opendir(folder);
  for (struct dirent *e; (e = readdir(d)) != NULL;)
    if (strcmp(e->d_name, "source") != 0 && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
      MUST(kept || strstr(e->d_name, ".datacast-") == NULL); /* no temporary file stays */
      (void)unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
      (void)unlinkat(dirfd(d), e->d_name, 0);
    }
  closedir(d);
  kept = false;
}

/* A round of each loop, and everything that they hand to the worker. */
void turn(void)
{
  struct loop *shard = frames->loop;
  for (unsigned i = 0; i < 4 || a.worker.owned != NULL || a.disk.owned != NULL; i++) {
    (void)loop_serve(shard, shard->now);
    shard->round(shard->arg, shard->now);
    a.loop.round(a.loop.arg, a.loop.now);
    (void)loop_serve(&a.loop, a.loop.now);
    if (i >= 4)
      usleep(20);
  }
}

static dc_time first_timer(const struct loop *l) { return l->n > 0 ? l->heap[0]->at : DC_NEVER; }

/* Time goes on, and every timer on the way comes at its own moment. */
void pass(dc_time how_long)
{
  dc_time until = now_ns + how_long;
  for (unsigned i = 0; i < 200; i++) {
    dc_time home = first_timer(&a.loop), shard = first_timer(frames->loop), at = home < shard ? home : shard;
    if (at >= until)
      break;
    now_ns = at > now_ns ? at : now_ns + DC_US;
    turn();
  }
  now_ns = until;
  turn();
}

/* ---- what arrives on the ports ---- */

void arrive(unsigned port, const uint8_t *p, size_t len)
{
  struct fake *f = ports[port % PORTS];
  struct dc_buf *b = f->n == FRAMES ? NULL : bufpool_get(&frames->pool, (uint32_t)len);
  if (b == NULL)
    return;
  memcpy(b->data, p, len);
  f->in[f->n] = b;
  f->len[f->n++] = (uint32_t)len;
}

void data_packet(struct script *s, uint8_t op)
{
  static const uint8_t mac[6];
  uint8_t p[MTU + DC_ETHER_LEN] = {0};
  uint8_t seq = next(s), piece = next(s);
  struct dc_header h = {.type = DC_TYPE_DATA, .tree = 1u + (op & 1), .seq = seq, .length = PIECE};
  uint32_t at = piece % 21 * PIECE;
  if (at + PIECE > FILE_BYTES)
    h.length = FILE_BYTES % PIECE;
  if (op & 8)
    h.length = next16(s) % 1200;
  dc_ether_write(p, mac, mac, DC_ETHERTYPE_DATACAST);
  dc_header_write(p + DC_ETHER_LEN, &h);
  for (unsigned i = 0; i < h.length; i++)
    p[DC_ETHER_LEN + DC_HEADER_LEN + i] = content[(at + i) % FILE_BYTES];
  arrive(op >> 1, p, (size_t)DC_ETHER_LEN + DC_HEADER_LEN + h.length);
}

void interest(struct script *s, uint8_t op)
{
  static const uint8_t mac[6];
  uint8_t p[256];
  struct dc_stop source = {.ret = {.n = 1, .port = {(uint16_t)(op & 3)}}};
  struct dc_header h = {.type = DC_TYPE_INTEREST, .tree = 1u + (op >> 2 & 1), .seq = next(s), .stops = 1};
  h.flags = next(s) & (DC_FLAG_RETX | DC_FLAG_NOCACHE);
  h.length = (uint16_t)dc_stop_write(p + DC_ETHER_LEN + DC_HEADER_LEN, 200, &source);
  dc_ether_write(p, mac, mac, DC_ETHERTYPE_DATACAST);
  dc_header_write(p + DC_ETHER_LEN, &h);
  arrive(op, p, (size_t)DC_ETHER_LEN + DC_HEADER_LEN + h.length);
}
