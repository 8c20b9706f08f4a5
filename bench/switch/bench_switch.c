/* Packets per second through the switch's own path (driver call, node, packet building, driver call) on ring devices,
 * which cost next to nothing themselves. Copies by reference and copies by memcpy alternate within one run. */
#include <datacast/endpoint.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eal.h"
#include "switch.h"

enum {
  CHILDREN = 16,
  PORTS = CHILDREN + 1,
  BATCH = 32,
  SOURCE = 0,
  TREE = 7,
  FRAME_CAP = 9216,
  SPREAD_FIRST = 1000, /* trees of the scenario with many */
  SPREAD = 4096
};

struct bench {
  struct sw sw;
  struct loop loop;
  struct config cfg;
  struct node_cfg node;
  struct port_cfg ports[PORTS];
  uint32_t seq, tree;
  uint32_t random;
  size_t spread; /* payload that the content stores of the many trees hold; 0: none yet */
  uint64_t cycles; /* in the path under test */
  uint64_t out;    /* frames that left */
  bool linear;
};

static const uint8_t nobody[6] = {0};

/* ---- frames ---- */

static void put(struct bench *b, unsigned port, const uint8_t *frame, size_t len) {
  struct rte_mbuf *m = rte_pktmbuf_alloc(b->sw.pools.data);
  if (m == NULL || len > FRAME_CAP) exit(1);
  memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, len);
  /* A ring device is a loop: what is sent to it arrives from it. */
  if (rte_eth_tx_burst(b->sw.ports[port].dev, 0, &m, 1) != 1) exit(1);
}

static size_t data_frame(const struct bench *b, uint8_t *p, uint32_t seq, size_t payload, bool forward) {
  struct dc_segment seg = {.n = forward ? 2 : 1, .local = true, .port = {0, 1}};
  struct dc_header h = {.type = DC_TYPE_DATA, .length = (uint16_t)payload, .tree = b->tree, .seq = seq};
  size_t n = dc_data_write(p, FRAME_CAP, &seg, &h, nobody, nobody);
  memset(p + n, 0x5a, payload);
  return n + payload;
}

static size_t interest_frame(const struct bench *b, uint8_t *p, uint32_t seq, unsigned child) {
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
  if (dc_path_parse(&path, blob, len) < 0) exit(1);
  return dc_interest_write(p, FRAME_CAP, &path, &h, nobody, nobody);
}

/* ---- running ---- */

/* What left by the ports is looked at by nobody: give it back. Returns the frames. */
static uint64_t drain(struct bench *b) {
  uint64_t n = 0;
  for (unsigned i = 0; i < PORTS; i++) {
    struct rte_mbuf *m[BATCH];
    for (uint16_t got; (got = rte_eth_rx_burst(b->sw.ports[i].dev, 0, m, BATCH)) > 0; n += got)
      for (uint16_t k = 0; k < got; k++) rte_pktmbuf_free(m[k]);
  }
  return n;
}

/* Everything that waits at a port goes through the switch; timed with what it takes to send and release the results. */
static void through(struct bench *b, unsigned port, bool timed) {
  uint64_t start = rte_rdtsc();
  bool more = false;
  dc_time now = loop_clock();
  engine_receive(&b->sw.engine, &b->sw.ports[port].base, now, &more);
  engine_flush(&b->sw.engine, now);
  uint64_t n = drain(b);
  if (!timed) return;
  b->cycles += rte_rdtsc() - start;
  b->out += n;
}

static void forward_round(struct bench *b, size_t payload, unsigned children) {
  uint8_t frame[FRAME_CAP];
  (void)children;
  for (unsigned i = 0; i < BATCH; i++) put(b, SOURCE, frame, data_frame(b, frame, b->seq++, payload, true));
  through(b, SOURCE, true);
}

static void replicate_round(struct bench *b, size_t payload, unsigned children) {
  uint8_t frame[FRAME_CAP];
  for (unsigned c = 0; c < children; c++) {
    for (unsigned i = 0; i < BATCH; i++) put(b, c + 1, frame, interest_frame(b, frame, b->seq + i, c));
    through(b, c + 1, false);
  }
  for (unsigned i = 0; i < BATCH; i++) put(b, SOURCE, frame, data_frame(b, frame, b->seq + i, payload, false));
  through(b, SOURCE, true);
  b->seq += BATCH;
}

static void hit_round(struct bench *b, size_t payload, unsigned children) {
  uint8_t frame[FRAME_CAP];
  uint64_t cycles = b->cycles, out = b->out;
  replicate_round(b, payload, 1); /* fills the content store; not counted */
  b->cycles = cycles;
  b->out = out;
  for (unsigned c = 0; c < children; c++) {
    for (unsigned i = 0; i < BATCH; i++) put(b, c + 1, frame, interest_frame(b, frame, b->seq - BATCH + i, c));
    through(b, c + 1, true);
  }
}

/* Interests for one stored packet each, of trees in no order: what they touch is in no cache of the processor. */
static void spread_round(struct bench *b, size_t payload, unsigned children) {
  uint8_t frame[FRAME_CAP];
  (void)children;
  if (b->spread != payload) sw_wipe(b->sw.members, true);
  for (unsigned i = 0; b->spread != payload && i < SPREAD; i++) {
    b->tree = SPREAD_FIRST + i;
    put(b, 1, frame, interest_frame(b, frame, (uint32_t)payload, 0));
    through(b, 1, false);
    put(b, SOURCE, frame, data_frame(b, frame, (uint32_t)payload, payload, false));
    through(b, SOURCE, false);
  }
  b->spread = payload;
  for (unsigned i = 0; i < BATCH; i++) {
    b->random = b->random * 1664525u + 1013904223u;
    b->tree = SPREAD_FIRST + (b->random >> 8) % SPREAD;
    put(b, 1, frame, interest_frame(b, frame, (uint32_t)payload, 0));
  }
  through(b, 1, true);
  b->tree = TREE;
}

struct scenario {
  const char *name;
  void (*round)(struct bench *, size_t, unsigned);
  unsigned children, out_per_round;
};

static double mpps(const struct bench *b) {
  return (double)b->out * (double)rte_get_tsc_hz() / (double)b->cycles / 1e6;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* Median of `repeats` slices, reference and copy in turn. */
static void measure(struct bench *b, const struct scenario *s, size_t payload, unsigned rounds, double result[2]) {
  enum { REPEATS = 9 };
  double seen[2][REPEATS];
  for (unsigned r = 0; r < REPEATS; r++)
    for (unsigned linear = 0; linear < 2; linear++) {
      for (unsigned i = 0; i < PORTS; i++) b->sw.ports[i].multi_seg = !linear;
      b->cycles = b->out = 0;
      for (unsigned i = 0; i < rounds; i++) s->round(b, payload, s->children);
      if (b->out != (uint64_t)rounds * s->out_per_round) {
        fprintf(stderr, "%s: %llu frames left, %llu expected\n", s->name, (unsigned long long)b->out,
                (unsigned long long)rounds * s->out_per_round);
        exit(1);
      }
      seen[linear][r] = mpps(b);
    }
  for (unsigned linear = 0; linear < 2; linear++) {
    qsort(seen[linear], REPEATS, sizeof(double), compare);
    result[linear] = seen[linear][REPEATS / 2];
  }
}

static void configure(struct bench *b) {
  b->cfg = (struct config){.nodes = &b->node, .nnodes = 1, .mtu = 9000, .ring_frames = 128};
  b->node = (struct node_cfg){.name = "bench", .ports = b->ports, .nports = PORTS};
  dc_node_cfg_default(&b->node.core);
  b->node.core.ports = PORTS;
  b->node.core.cache_bytes = b->node.core.cache_bytes_max = 1 << 20;
  b->node.core.memory_bytes = 128 << 20;
  b->node.core.memory_packets = 2 * SPREAD;
  b->node.core.trees = SPREAD + 1;
  for (unsigned i = 0; i < PORTS; i++) {
    b->ports[i].port = (uint16_t)i;
    snprintf(b->ports[i].vdev, sizeof b->ports[i].vdev, "net_ring%u", i);
  }
}

int main(int argc, char **argv) {
  static const struct scenario scenarios[] = {{"forward", forward_round, 0, BATCH},
                                              {"hit", hit_round, 1, BATCH},
                                              {"hit, 4096 trees", spread_round, 1, BATCH},
                                              {"replicate 4", replicate_round, 4, BATCH * 4},
                                              {"replicate 16", replicate_round, 16, BATCH * 16}};
  static const size_t payloads[] = {128, 1400, 8900};
  static struct bench b;
  struct fault f = {.text = ""};
  uint32_t data, headers;
  unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 400;
  if (rounds == 0) {
    fprintf(stderr, "usage: bench-switch [ROUNDS]  (of %d packets per measurement; default 400)\n", BATCH);
    return 2;
  }
  configure(&b);
  b.tree = TREE;
  log_open("bench-switch", LOG_WARN);
  sw_pool_sizes(&b.cfg, &data, &headers);
  if (log_catch_eal() < 0 ||
      eal_start(&b.cfg, packet_pools_bytes(data, headers, ports_frame_bytes(&b.cfg)), &f) < 0 ||
      loop_open(&b.loop) < 0 || sw_open(&b.sw, &b.cfg, &b.loop, &f) < 0) {
    log_error("%s", f.text);
    return 1;
  }
  printf("{\"unit\": \"million frames out per second, one core\", \"rounds\": %u, \"results\": [", rounds);
  fprintf(stderr, "%-15s %8s %14s %14s %7s\n", "scenario", "payload", "by reference", "by copy", "ratio");
  for (unsigned s = 0; s < sizeof scenarios / sizeof *scenarios; s++)
    for (unsigned p = 0; p < sizeof payloads / sizeof *payloads; p++) {
      double r[2];
      measure(&b, &scenarios[s], payloads[p], rounds / (scenarios[s].children > 4 ? 4 : 1) + 1, r);
      fprintf(stderr, "%-15s %8zu %9.2f Mpps %9.2f Mpps %7.2f\n", scenarios[s].name, payloads[p], r[0], r[1],
              r[0] / r[1]);
      printf(
          "%s\n  {\"scenario\": \"%s\", \"payload\": %zu, \"by_reference\": %.3f, \"by_copy\": %.3f, \"ratio\": %.3f}",
          s + p > 0 ? "," : "", scenarios[s].name, payloads[p], r[0], r[1], r[0] / r[1]);
    }
  printf("\n]}\n");
  sw_close(&b.sw);
  eal_stop();
  return 0;
}
