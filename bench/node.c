/* How many frames per second one core's node takes, by kind of work. Numbers to read, nothing is asserted. What it maps goes with it.
 * usage: node [SECONDS PER CASE] */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "datacast/endpoint.h"
#include "datacast/node.h"

enum { PAYLOAD = 1400, RING = 4096, FRAME = 2048, PORTS = 32, FEW = 1024, MANY = 32768, LONG_RING = 4 * MANY };

/* Buffers come round again; those that the content stores (of half of them at most) still hold are passed over. */
struct dc_buf {
  unsigned refs;
  uint32_t len;
  uint8_t data[FRAME];
};

static struct dc_buf *ring;
static unsigned ring_length, next_buf;

static void ref(dc_buf *b) { b->refs++; }
static void unref(dc_buf *b) { b->refs--; }
static const struct dc_buf_ops ops = {ref, unref};

static dc_buf *take(void)
{
  while (ring[next_buf % ring_length].refs != 0)
    next_buf++;
  dc_buf *b = &ring[next_buf++ % ring_length];
  b->refs = 1;
  return b;
}

static double now_s(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static dc_node *node;
static struct dc_tx tx[DC_NODE_TX_MAX];
static dc_time clock_ns = DC_SEC;
static uint64_t sent;

static unsigned give(dc_buf *b, uint16_t port)
{
  struct dc_frame f = {.buf = b, .data = b->data, .len = b->len, .port = port};
  clock_ns += 100;
  unsigned n = dc_node_handle(node, clock_ns, &f, tx, DC_NODE_TX_MAX);
  for (unsigned i = 0; i < n; i++)
    unref(tx[i].buf);
  sent += n;
  return n;
}

static const uint8_t ANY[6] = {255, 255, 255, 255, 255, 255}, NOBODY[6];

/* An interest of child `port`, under LOCAL. */
static dc_buf *interest(uint16_t port, uint32_t tree, uint32_t seq)
{
  dc_buf *b = take();
  uint8_t *p = b->data;
  dc_ether_write(p, ANY, NOBODY, DC_ETHERTYPE_MPLS);
  dc_label_write(p + 14, DC_LABEL_LOCAL, true);
  struct dc_stop own = {
      .store = true, .ret = {.n = 3, .local = true, .port = {port, 1, 2}}, .fwd = {.n = 3, .port = {PORTS - 1, 3, 4}}};
  struct dc_stop source = {.ret = {.n = 3, .local = true, .port = {1, 2, 3}}};
  size_t at = 18 + DC_HEADER_LEN;
  at += dc_stop_write(p + at, FRAME - at, &own);
  at += dc_stop_write(p + at, FRAME - at, &source);
  struct dc_header h = {
      .type = DC_TYPE_INTEREST, .tree = tree, .seq = seq, .stops = 2, .length = (uint16_t)(at - 18 - DC_HEADER_LEN)};
  dc_header_write(p + 18, &h);
  b->len = (uint32_t)at;
  return b;
}

static dc_buf *data(uint32_t label, bool more, uint32_t tree, uint32_t seq)
{
  dc_buf *b = take();
  uint8_t *p = b->data;
  size_t at = 18;
  dc_ether_write(p, ANY, NOBODY, DC_ETHERTYPE_MPLS);
  dc_label_write(p + 14, label, !more);
  if (more) {
    dc_label_write(p + 18, DC_LABEL_LOCAL, true);
    at += 4;
  }
  struct dc_header h = {.type = DC_TYPE_DATA, .tree = tree, .seq = seq, .length = PAYLOAD};
  dc_header_write(p + at, &h);
  b->len = (uint32_t)(at + DC_HEADER_LEN + PAYLOAD);
  return b;
}

static uint32_t seq;

static unsigned forward(void)
{
  give(data(DC_LABEL_ADJ + seq % PORTS, true, 1, seq), (uint16_t)((seq + 1) % PORTS));
  seq++;
  return 1;
}

static unsigned hit(void)
{
  give(interest((uint16_t)(seq % 16), 1, seq % 64), (uint16_t)(seq % 16));
  seq++;
  return 1;
}

/* One packet for a single child: interest on, data back, stored. */
static unsigned miss(void)
{
  give(interest(0, 1, seq), 0);
  give(data(DC_LABEL_LOCAL, false, 1, seq), PORTS - 1);
  seq++;
  return 2;
}

/* One packet for sixteen children: one interest on, fifteen aggregated, sixteen copies. */
static unsigned aggregate(void)
{
  for (uint16_t child = 0; child < 16; child++)
    give(interest(child, 1, seq), child);
  give(data(DC_LABEL_LOCAL, false, 1, seq), PORTS - 1);
  seq++;
  return 17;
}

/* The same as miss, over 1,000 trees in turn. */
static unsigned trees(void)
{
  uint32_t tree = seq % 1000;
  give(interest(0, tree, seq), 0);
  give(data(DC_LABEL_LOCAL, false, tree, seq), PORTS - 1);
  seq++;
  return 2;
}

/* Of so many trees: a power of two. */
static uint32_t spread;

/* The same in bursts of 32 frames, as a switch gets them, of trees in no order. */
static unsigned trees_in_bursts(void)
{
  enum { BURST = 32 };
  static struct dc_tx out[BURST + DC_NODE_TX_MAX];
  for (unsigned back = 0; back < 2; back++) {
    struct dc_frame f[BURST];
    for (uint32_t i = 0; i < BURST; i++) {
      uint32_t s = seq + i, tree = s * 2654435761u & (spread - 1), of_tree = s / spread;
      dc_buf *b = back ? data(DC_LABEL_LOCAL, false, tree, of_tree) : interest(0, tree, of_tree);
      f[i] = (struct dc_frame){.buf = b, .data = b->data, .len = b->len, .port = back ? PORTS - 1 : 0};
    }
    unsigned n;
    clock_ns += 100 * BURST;
    for (unsigned done = 0; done < BURST;) {
      done += dc_node_handle_burst(node, clock_ns, f + done, BURST - done, out, BURST + DC_NODE_TX_MAX, &n);
      for (unsigned i = 0; i < n; i++)
        unref(out[i].buf);
      sent += n;
    }
  }
  seq += BURST;
  return 2 * BURST;
}

static void run(const char *name, unsigned (*step)(void), double seconds)
{
  uint64_t frames = 0, first = sent;
  double begin = now_s(), took;
  do {
    for (unsigned i = 0; i < 1000; i++)
      frames += step();
    took = now_s() - begin;
  } while (took < seconds);
  printf("%-10s %8.2f M frames/s in, %8.2f M frames/s out, %6.0f ns a frame\n", name, 1e-6 * (double)frames / took,
         1e-6 * (double)(sent - first) / took, 1e9 * took / (double)frames);
}

/* Memory as the daemons'. */
static void *map(size_t size, size_t huge)
{
  void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    perror("node");
    exit(1);
  }
  if (huge > 0 && madvise(memory, huge, MADV_HUGEPAGE) < 0)
    perror("huge pages");
  return memory;
}

static void open_ring(unsigned length, bool huge)
{
  ring = map(length * sizeof *ring, huge ? length * sizeof *ring : 0);
  ring_length = length;
}

/* The content stores of few and of many trees hold the same number of packets, so the buffers are as cold. */
static dc_node *open_spread(uint32_t trees, bool huge)
{
  struct dc_node_cfg cfg;
  dc_node_cfg_default(&cfg);
  cfg.ports = PORTS;
  cfg.trees = spread = trees;
  cfg.cache_bytes = cfg.cache_bytes_max = PAYLOAD * (MANY / trees);
  cfg.memory_bytes = (uint64_t)PAYLOAD * MANY;
  cfg.store_slots = cfg.waiting_slots = 64;
  size_t size = dc_node_size(&cfg);
  node = dc_node_init(map(size, huge ? size : dc_node_dense(&cfg)), &cfg, &ops);
  for (seq = 0; seq < 2 * MANY;) /* every tree is there, and its store full */
    (void)trees_in_bursts();
  return node;
}

static int compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Few and many trees by turns: nanoseconds a frame, the middle of the turns and the best. */
static void few_and_many(double seconds, bool huge)
{
  enum { TURNS = 9 };
  double took[2][TURNS];
  open_ring(LONG_RING, huge);
  dc_node *both[] = {open_spread(FEW, huge), open_spread(MANY, huge)};
  for (unsigned turn = 0; turn < TURNS; turn++)
    for (unsigned many = 0; many < 2; many++) {
      node = both[many];
      spread = many ? MANY : FEW;
      double begin = now_s(), ns = 0;
      unsigned frames = 0;
      for (; ns < 1e9 * seconds / TURNS; ns = 1e9 * (now_s() - begin))
        for (unsigned i = 0; i < 100; i++)
          frames += trees_in_bursts();
      took[many][turn] = ns / frames;
    }
  for (unsigned many = 0; many < 2; many++)
    qsort(took[many], TURNS, sizeof took[many][0], compare);
  printf("in bursts, %s pages: %u trees %.0f ns a frame (best %.0f), %u trees %.0f (best %.0f), %.2f times (%.2f)\n",
         huge ? "huge" : "small", FEW, took[0][TURNS / 2], took[0][0], MANY, took[1][TURNS / 2], took[1][0],
         took[1][TURNS / 2] / took[0][TURNS / 2], took[1][0] / took[0][0]);
}

int main(int argc, char **argv)
{
  double seconds = argc > 1 ? atof(argv[1]) : 1;
  if (seconds <= 0) {
    fprintf(stderr, "usage: node [SECONDS PER CASE]\n");
    return 2;
  }
  struct dc_node_cfg cfg;
  dc_node_cfg_default(&cfg);
  cfg.ports = PORTS;
  cfg.trees = 1024;
  cfg.memory_packets = RING / 4;
  open_ring(RING, false);
  node = dc_node_init(map(dc_node_size(&cfg), dc_node_dense(&cfg)), &cfg, &ops);

  printf("one core, payload %d bytes; the cost of writing the frame is in it, I/O is not\n", PAYLOAD);
  run("forward", forward, seconds);
  for (uint32_t i = 0; i < 64; i++) { /* what the hits need */
    give(interest(0, 1, i), 0);
    give(data(DC_LABEL_LOCAL, false, 1, i), PORTS - 1);
  }
  seq = 0;
  run("hit", hit, seconds);
  seq = 1000;
  run("miss", miss, seconds);
  run("aggregate", aggregate, seconds);
  run("1000 trees", trees, seconds);
  few_and_many(seconds, false);
  few_and_many(seconds, true);
  return 0;
}
