/* Packets per second through the switch's own path (driver call, node, packet building, driver call) on ring devices,
 * which cost next to nothing themselves. Copies by reference and copies by memcpy alternate within one run. */
#include <datacast/endpoint.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_launch.h>
#include <rte_pause.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eal.h"
#include "datapath/steering.h"
#include "workers.h"

enum {
  CHILDREN = 16,
  PORTS = CHILDREN + 1,
  BATCH = 32,
  SOURCE = 0,
  WORKERS = 2,
  FRAME_CAP = 9216,
  SPREAD_FIRST = 1000, /* trees of the scenario with many */
  SPREAD = 4096
};

struct bench {
  struct sw *sw;       /* of the worker that this measures */
  uint16_t queue;      /* its own */
  uint32_t home, away; /* trees of this worker and of the other one */
  uint32_t seq, tree;
  uint32_t random;
  size_t spread;                 /* payload that the content stores of the many trees hold; 0: none yet */
  uint64_t cycles;               /* in the path under test */
  uint64_t out;                  /* frames that left */
} __attribute__((aligned(128))); /* two of them share no line of the caches */

static const uint8_t nobody[6] = {0};

/* ---- frames ---- */

static void put(struct bench *b, unsigned port, const uint8_t *frame, size_t len)
{
  struct rte_mbuf *m = rte_pktmbuf_alloc(b->sw->pools.data);
  if (m == NULL || len > FRAME_CAP)
    exit(1);
  memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, len);
  /* A ring device is a loop: what is sent to it arrives from it. */
  if (rte_eth_tx_burst(b->sw->ports[port].dev, b->queue, &m, 1) != 1)
    exit(1);
}

static size_t data_frame(const struct bench *b, uint8_t *p, uint32_t seq, size_t payload, bool forward)
{
  struct dc_segment seg = {.n = forward ? 2 : 1, .local = true, .port = {0, 1}};
  struct dc_header h = {.type = DC_TYPE_DATA, .length = (uint16_t)payload, .tree = b->tree, .seq = seq};
  size_t n = dc_data_write(p, FRAME_CAP, &seg, &h, nobody, nobody);
  memset(p + n, 0x5a, payload);
  return n + payload;
}

static size_t interest_frame(const struct bench *b, uint8_t *p, uint32_t seq, unsigned child)
{
  struct dc_stop receiver = {.fwd = {.n = 1, .local = true}};
  struct dc_stop here = {
      .store = true, .ret = {.n = 1, .port = {(uint16_t)(child + 1)}}, .fwd = {.n = 1, .port = {SOURCE}}};
  struct dc_stop source = {.ret = {.n = 1, .local = true}};
  uint8_t blob[DC_ROUTE_MAX];
  size_t len = dc_stop_write(blob, sizeof blob, &receiver);
  len += dc_stop_write(blob + len, sizeof blob - len, &here);
  len += dc_stop_write(blob + len, sizeof blob - len, &source);
  struct dc_path path;
  struct dc_header h = {.type = DC_TYPE_INTEREST, .tree = b->tree, .seq = seq};
  if (dc_path_parse(&path, blob, len) < 0)
    exit(1);
  return dc_interest_write(p, FRAME_CAP, &path, &h, nobody, nobody);
}

/* ---- running ---- */

/* What left by the ports is looked at by nobody: give it back. Returns the frames. */
static uint64_t drain(struct bench *b)
{
  uint64_t n = 0;
  for (unsigned i = 0; i < PORTS; i++) {
    struct rte_mbuf *m[BATCH];
    for (uint16_t got; (got = rte_eth_rx_burst(b->sw->ports[i].dev, b->queue, m, BATCH)) > 0; n += got)
      for (uint16_t k = 0; k < got; k++)
        rte_pktmbuf_free(m[k]);
  }
  return n;
}

/* Everything that waits at a port goes through the switch; timed with what it takes to send and release the results. */
static void through(struct bench *b, unsigned port, bool timed)
{
  uint64_t start = rte_rdtsc();
  bool more = false;
  dc_time now = loop_clock();
  engine_receive(&b->sw->engine, &b->sw->ports[port].base, now, &more);
  (void)sw_take(b->sw, now);
  sw_hand_over(b->sw);
  engine_flush(&b->sw->engine, now);
  uint64_t n = drain(b);
  if (!timed)
    return;
  b->cycles += rte_rdtsc() - start;
  b->out += n;
}

static void forward_round(struct bench *b, size_t payload, unsigned children)
{
  uint8_t frame[FRAME_CAP];
  (void)children;
  for (unsigned i = 0; i < BATCH; i++)
    put(b, SOURCE, frame, data_frame(b, frame, b->seq++, payload, true));
  through(b, SOURCE, true);
}

/* What testpmd does with `macswap`, on the same devices: a burst in, its addresses exchanged, the burst out. No node, no clock. */
static void macswap_round(struct bench *b, size_t payload, unsigned children)
{
  uint8_t frame[FRAME_CAP];
  struct rte_mbuf *m[BATCH];
  (void)children;
  for (unsigned i = 0; i < BATCH; i++)
    put(b, SOURCE, frame, data_frame(b, frame, b->seq++, payload, true));
  uint64_t start = rte_rdtsc();
  uint16_t got = rte_eth_rx_burst(b->sw->ports[SOURCE].dev, b->queue, m, BATCH);
  for (uint16_t i = 0; i < got; i++)
    rte_prefetch0(rte_pktmbuf_mtod(m[i], void *));
  for (uint16_t i = 0; i < got; i++) {
    struct rte_ether_hdr *h = rte_pktmbuf_mtod(m[i], struct rte_ether_hdr *);
    struct rte_ether_addr to = h->dst_addr;
    h->dst_addr = h->src_addr;
    h->src_addr = to;
  }
  (void)rte_eth_tx_burst(b->sw->ports[1].dev, b->queue, m, got);
  uint64_t n = drain(b);
  b->cycles += rte_rdtsc() - start;
  b->out += n;
}

static void replicate_round(struct bench *b, size_t payload, unsigned children)
{
  uint8_t frame[FRAME_CAP];
  for (unsigned c = 0; c < children; c++) {
    for (unsigned i = 0; i < BATCH; i++)
      put(b, c + 1, frame, interest_frame(b, frame, b->seq + i, c));
    through(b, c + 1, false);
  }
  for (unsigned i = 0; i < BATCH; i++)
    put(b, SOURCE, frame, data_frame(b, frame, b->seq + i, payload, false));
  through(b, SOURCE, true);
  b->seq += BATCH;
}

static void hit_round(struct bench *b, size_t payload, unsigned children)
{
  uint8_t frame[FRAME_CAP];
  uint64_t cycles = b->cycles, out = b->out;
  replicate_round(b, payload, 1); /* fills the content store; not counted */
  b->cycles = cycles;
  b->out = out;
  for (unsigned c = 0; c < children; c++) {
    for (unsigned i = 0; i < BATCH; i++)
      put(b, c + 1, frame, interest_frame(b, frame, b->seq - BATCH + i, c));
    through(b, c + 1, true);
  }
}

/* Trees of this worker only, so that none of its frames is another's. */
static uint32_t spread_tree(const struct bench *b, uint32_t i)
{
  uint32_t tree = SPREAD_FIRST + i * WORKERS * 2;
  while (steering_of_tree(tree, WORKERS) != b->sw->index)
    tree++;
  return tree;
}

/* Interests for one stored packet each, of trees in no order: what they touch is in no cache of the processor. */
static void spread_round(struct bench *b, size_t payload, unsigned children)
{
  uint8_t frame[FRAME_CAP];
  (void)children;
  if (b->spread != payload)
    sw_wipe(b->sw->members, true);
  for (unsigned i = 0; b->spread != payload && i < SPREAD; i++) {
    b->tree = spread_tree(b, i);
    put(b, 1, frame, interest_frame(b, frame, (uint32_t)payload, 0));
    through(b, 1, false);
    put(b, SOURCE, frame, data_frame(b, frame, (uint32_t)payload, payload, false));
    through(b, SOURCE, false);
  }
  b->spread = payload;
  for (unsigned i = 0; i < BATCH; i++) {
    b->random = b->random * 1664525u + 1013904223u;
    b->tree = spread_tree(b, (b->random >> 8) % SPREAD);
    put(b, 1, frame, interest_frame(b, frame, (uint32_t)payload, 0));
  }
  through(b, 1, true);
  b->tree = b->home;
}

/* Interests of which every second one is for a tree of the other worker: it goes there over the ring, and what the other one
 * hands over is answered here. */
static void astray_prepare(struct bench *b, size_t payload)
{
  uint32_t seq = b->seq;
  b->seq = (uint32_t)payload;
  sw_wipe(b->sw->members, true);
  replicate_round(b, payload, 1);
  b->seq = seq;
}

static void astray_round(struct bench *b, size_t payload, unsigned children)
{
  uint8_t frame[FRAME_CAP];
  (void)children;
  for (unsigned i = 0; i < BATCH; i++) {
    b->tree = i % 2 == 0 ? b->home : b->away;
    put(b, 1, frame, interest_frame(b, frame, (uint32_t)payload + i, 0));
  }
  b->tree = b->home;
  through(b, 1, true);
}

struct scenario {
  const char *name;
  void (*round)(struct bench *, size_t, unsigned);
  unsigned children, out_per_round; /* 0 frames: not as many in every round */
};

static double mpps(const struct bench *b)
{
  return (double)b->out * (double)rte_get_tsc_hz() / (double)b->cycles / 1e6;
}

static int compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(double *seen, unsigned n)
{
  qsort(seen, n, sizeof *seen, compare);
  return seen[n / 2];
}

struct slice { /* of one worker */
  struct bench *bench;
  const struct scenario *scenario;
  size_t payload;
  unsigned rounds;
};

static _Atomic unsigned waiting; /* workers that have not begun yet */

static int run_slice(void *arg)
{
  struct slice *x = arg;
  struct bench *b = x->bench;
  if (x->scenario->round == astray_round)
    astray_prepare(b, x->payload);
  b->cycles = b->out = 0;
  waiting--;
  while (waiting > 0)
    rte_pause();
  for (unsigned i = 0; i < x->rounds; i++)
    x->scenario->round(b, x->payload, x->scenario->children);
  if (x->scenario->out_per_round > 0 && b->out != (uint64_t)x->rounds * x->scenario->out_per_round) {
    fprintf(stderr, "%s: %llu frames left, %llu expected\n", x->scenario->name, (unsigned long long)b->out,
            (unsigned long long)x->rounds * x->scenario->out_per_round);
    exit(1);
  }
  return 0;
}

/* Million frames per second of so many workers together. */
static double slice(struct bench *b, unsigned workers, const struct scenario *s, size_t payload, unsigned rounds)
{
  struct slice x[WORKERS];
  double sum = 0;
  waiting = workers;
  for (unsigned w = workers; w-- > 0;) {
    x[w] = (struct slice){.bench = &b[w], .scenario = s, .payload = payload, .rounds = rounds};
    if (w > 0 && rte_eal_remote_launch(run_slice, &x[w], w) != 0)
      exit(1);
    if (w == 0)
      (void)run_slice(&x[0]);
  }
  for (unsigned w = 1; w < workers; w++)
    (void)rte_eal_wait_lcore(w);
  for (unsigned w = 0; w < workers; w++) { /* what was handed over last */
    uint64_t start = rte_rdtsc();
    while (sw_take(b[w].sw, loop_clock()) > 0) {
      engine_flush(&b[w].sw->engine, loop_clock());
      b[w].out += drain(&b[w]);
    }
    b[w].cycles += rte_rdtsc() - start;
    sum += mpps(&b[w]);
  }
  return sum;
}

enum { BY_REFERENCE, BY_COPY, TWO_WORKERS, WAYS };

/* Medians of slices, the ways in turn. A scenario of frames that go astray is compared with one worker's
 * hits, and lasts longer: what is handed over last is answered by one after the other. */
static void measure(struct bench *b, const struct scenario *s, const struct scenario *base, size_t payload,
                    unsigned rounds, double result[WAYS])
{
  enum { REPEATS = 9, LONGER = 4 };
  double seen[WAYS][REPEATS];
  for (unsigned r = 0; r < REPEATS; r++)
    for (unsigned way = 0; way < WAYS; way++) {
      for (unsigned i = 0; i < PORTS; i++)
        b->sw->ports[i].multi_seg = way != BY_COPY;
      seen[way][r] = way == TWO_WORKERS ? slice(b, WORKERS, s, payload, s == base ? rounds : LONGER * rounds)
                                        : slice(b, 1, base, payload, rounds);
    }
  for (unsigned way = 0; way < WAYS; way++)
    result[way] = median(seen[way], REPEATS);
}

static struct port_cfg ports[PORTS];
static struct node_cfg node = {.name = "bench", .ports = ports, .nports = PORTS};
static struct config config = {.nodes = &node, .nnodes = 1, .mtu = 9000, .ring_frames = 128, .workers = WORKERS};

static void configure(void)
{
  dc_node_cfg_default(&node.core);
  node.core.ports = PORTS;
  node.core.cache_bytes = node.core.cache_bytes_max = 1 << 20;
  node.core.memory_bytes = 256 << 20;
  node.core.memory_packets = 4 * SPREAD;
  node.core.trees = WORKERS * (SPREAD + 1);
  for (unsigned i = 0; i < PORTS; i++) {
    ports[i].port = (uint16_t)i;
    snprintf(ports[i].vdev, sizeof ports[i].vdev, "net_ring%u", i);
  }
}

int main(int argc, char **argv)
{
  static const struct scenario scenarios[] = {{"macswap", macswap_round, 0, BATCH},
                                              {"forward", forward_round, 0, BATCH},
                                              {"hit", hit_round, 1, BATCH},
                                              {"hit, 4096 trees", spread_round, 1, BATCH},
                                              {"replicate 4", replicate_round, 4, BATCH * 4},
                                              {"replicate 16", replicate_round, 16, BATCH * 16},
                                              {"hit, half astray", astray_round, 1, 0}};
  static const size_t payloads[] = {128, 1400, 8900};
  static struct bench b[WORKERS];
  struct workers all;
  struct fault f;
  uint32_t data, headers;
  unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 100;
  const char *only = argc > 2 ? argv[2] : NULL;
  if (rounds == 0) {
    fprintf(stderr, "usage: bench-switch [ROUNDS [SCENARIO]]  (of %d packets per measurement; default 100)\n", BATCH);
    return 2;
  }
  configure();
  log_open("bench-switch", LOG_WARN);
  sw_pool_sizes(&config, &data, &headers);
  if (log_catch_eal() < 0 ||
      eal_start(&config, packet_pools_bytes(data, headers, ports_frame_bytes(&config)), &f) < 0 ||
      workers_open(&all, &config, LOOP_PAUSES, &f) < 0) {
    log_error("%s", f.text);
    return 1;
  }
  for (unsigned w = 0; w < WORKERS; w++) {
    uint32_t tree[WORKERS] = {7, 7};
    for (unsigned k = 0; k < WORKERS; k++)
      while (steering_of_tree(tree[k], WORKERS) != k)
        tree[k]++;
    b[w] = (struct bench){
        .sw = &all.worker[w].sw, .queue = (uint16_t)w, .home = tree[w], .away = tree[1 - w], .tree = tree[w]};
  }
  printf("{\"unit\": \"million frames out per second\", \"rounds\": %u, \"results\": [", rounds);
  fprintf(stderr, "%-16s %8s %14s %14s %7s %14s %7s\n", "scenario", "payload", "by reference", "by copy", "ratio",
          "two workers", "ratio");
  unsigned results = 0;
  for (unsigned s = 0; s < sizeof scenarios / sizeof *scenarios; s++)
    for (unsigned p = 0;
         (only == NULL || strcmp(only, scenarios[s].name) == 0) && p < sizeof payloads / sizeof *payloads; p++) {
      double r[WAYS];
      const struct scenario *base = scenarios[s].out_per_round > 0 ? &scenarios[s] : &scenarios[2]; /* hit */
      measure(b, &scenarios[s], base, payloads[p], rounds / (scenarios[s].children > 4 ? 4 : 1) + 1, r);
      fprintf(stderr, "%-16s %8zu %9.2f Mpps %9.2f Mpps %7.2f %9.2f Mpps %7.2f\n", scenarios[s].name, payloads[p],
              r[BY_REFERENCE], r[BY_COPY], r[BY_REFERENCE] / r[BY_COPY], r[TWO_WORKERS],
              r[TWO_WORKERS] / r[BY_REFERENCE]);
      printf(
          "%s\n  {\"scenario\": \"%s\", \"payload\": %zu, \"by_reference\": %.3f, \"by_copy\": %.3f, \"ratio\": %.3f, "
          "\"two_workers\": %.3f, \"two_over_one\": %.3f}",
          results++ > 0 ? "," : "", scenarios[s].name, payloads[p], r[BY_REFERENCE], r[BY_COPY],
          r[BY_REFERENCE] / r[BY_COPY], r[TWO_WORKERS], r[TWO_WORKERS] / r[BY_REFERENCE]);
    }
  printf("\n]}\n");
  workers_close(&all);
  return 0;
}
