/* datacast-swx SPEC ENTRIES DROPS IFACE...: Datacast's forwarding (psa.p4) on DPDK's SWX pipeline. Interfaces are ports 0, 1, ...;
 * the last one may be the cache appliance's. ENTRIES: a table's name and an entry in the library's words per line. */
#include <errno.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_swx_ctl.h>
#include <rte_swx_port_ethdev.h>
#include <rte_swx_port_source_sink.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datacast/constants.h"
#include "spec.h"

enum {
  PORTS_MAX = 64,
  BURST = 32,
  MBUFS = 8191,
  FRAME = 9216,
  BLOCK = 4 * FRAME,
  FRAMES = 256,
  ARGS = PORTS_MAX + 16,
  RUN = 4096,
  IDLE_US = 50, /* and twice as long each time that nothing comes, to */
  IDLE_MOST_US = 3200,
  ENTRY = 256,
  REASONS = 32
};

static volatile sig_atomic_t ended;
static uint64_t arrived, cut_short;

static void end(int number)
{
  (void)number;
  ended = 1;
}

/* ---- a port: what arrives, but for frames that the pipeline would read beyond ---- */
struct reader {
  uint16_t device;
  bool none; /* the library wants a power of two of ports */
  uint16_t n, at;
  struct rte_mbuf *frame[BURST];
};

static void *reader_create(void *args)
{
  struct reader *r = calloc(1, sizeof *r);
  if (r != NULL)
    *r = *(struct reader *)args;
  return r;
}

/* SWX's `extract` does not look at a frame's length. */
static bool whole(const struct rte_mbuf *m)
{
  const uint8_t *b = rte_pktmbuf_mtod(m, const uint8_t *);
  uint32_t need = DC_ETHER_LEN;
  if (m->data_len >= need && (b[12] << 8 | b[13]) == DC_ETHERTYPE_MPLS) {
    need += DC_LABEL_LEN;
    if (m->data_len >= need && (b[DC_ETHER_LEN + 2] & 1) == 0)
      need += DC_LABEL_LEN;
  }
  return m->data_len >= need;
}

static int reader_rx(void *port, struct rte_swx_pkt *pkt)
{
  struct reader *r = port;
  for (;;) {
    if (r->at == r->n) {
      r->at = 0;
      r->n = r->none ? 0 : rte_eth_rx_burst(r->device, 0, r->frame, BURST);
      if (r->n == 0)
        return 0;
    }
    struct rte_mbuf *m = r->frame[r->at++];
    if (whole(m)) {
      *pkt = (struct rte_swx_pkt){.handle = m, .pkt = m->buf_addr, .offset = m->data_off, .length = m->pkt_len};
      arrived++;
      return 1;
    }
    cut_short++;
    rte_pktmbuf_free(m);
  }
}

static void reader_stats(void *port, struct rte_swx_port_in_stats *stats)
{
  (void)port;
  memset(stats, 0, sizeof *stats);
}

static struct rte_swx_port_in_ops reader_ops = {
    .create = reader_create, .free = free, .pkt_rx = reader_rx, .stats_read = reader_stats};

/* ---- setting up ---- */
static int fail(const char *what, int rc)
{
  fprintf(stderr, "datacast-swx: %s: %s\n", what, strerror(rc < 0 ? -rc : rc));
  return 1;
}

static int start_eal(char **iface, int n)
{
  static char text[PORTS_MAX][128];
  char *v[ARGS] = {"datacast-swx",   "--no-huge", "--no-pci", "--no-telemetry", "--no-shconf",
                   "--iova-mode=va", "-m",        "256",      "--lcores=0"};
  int c = 9;
  for (int i = 0; i < n; i++) {
    snprintf(text[i], sizeof text[i],
             "--vdev=net_af_packet%d,iface=%s,blocksz=%d,framesz=%d,framecnt=%d,qdisc_bypass=0", i, iface[i], BLOCK,
             FRAME, FRAMES);
    v[c++] = text[i];
  }
  return rte_eal_init(c, v);
}

static int start_ports(struct rte_swx_pipeline *p, int n)
{
  struct rte_mempool *pool = rte_pktmbuf_pool_create("frames", MBUFS, 0, 0, FRAME + 1024 + RTE_PKTMBUF_HEADROOM, 0);
  struct rte_eth_conf conf = {0};
  int inputs = 1, rc = pool == NULL ? -ENOMEM : rte_swx_pipeline_port_in_type_register(p, "whole", &reader_ops);
  for (int i = 0; rc == 0 && i < n; i++) {
    char name[32];
    snprintf(name, sizeof name, "net_af_packet%d", i);
    struct rte_swx_port_ethdev_writer_params out = {.dev_name = name, .queue_id = 0, .burst_size = 1};
    struct reader in = {.device = (uint16_t)i};
    if ((rc = rte_eth_dev_configure((uint16_t)i, 1, 1, &conf)) == 0 &&
        (rc = rte_eth_rx_queue_setup((uint16_t)i, 0, FRAMES, 0, NULL, pool)) == 0 &&
        (rc = rte_eth_tx_queue_setup((uint16_t)i, 0, FRAMES, 0, NULL)) == 0 &&
        (rc = rte_eth_dev_start((uint16_t)i)) == 0 &&
        (rc = rte_swx_pipeline_port_in_config(p, (uint32_t)i, "whole", &in)) == 0)
      rc = rte_swx_pipeline_port_out_config(p, (uint32_t)i, "ethdev", &out);
  }
  while (inputs < n)
    inputs *= 2;
  for (int i = n; rc == 0 && i < inputs; i++)
    rc = rte_swx_pipeline_port_in_config(p, (uint32_t)i, "whole", &(struct reader){.none = true});
  /* What is dropped goes to the last one. */
  if (rc == 0)
    rc = rte_swx_pipeline_port_out_config(p, (uint32_t)n, "sink", NULL);
  return rc;
}

static int fill_tables(struct rte_swx_pipeline *p, const char *path)
{
  struct rte_swx_ctl_pipeline *ctl = rte_swx_ctl_pipeline_create(p);
  FILE *file = fopen(path, "r");
  char line[ENTRY];
  int rc = ctl == NULL ? -EINVAL : file == NULL ? -errno : 0;
  while (rc == 0 && fgets(line, sizeof line, file) != NULL) {
    char *rest = strchr(line, ' ');
    int blank = 0;
    if (rest == NULL)
      continue;
    *rest++ = '\0';
    struct rte_swx_table_entry *entry = rte_swx_ctl_pipeline_table_entry_read(ctl, line, rest, &blank);
    rc = entry == NULL ? -EINVAL : rte_swx_ctl_pipeline_table_entry_add(ctl, line, entry);
    if (rc != 0)
      fprintf(stderr, "datacast-swx: %s: table %s does not take: %s\n", path, line, rest);
  }
  if (file != NULL)
    fclose(file);
  return rc != 0 ? rc : rte_swx_ctl_pipeline_commit(ctl, 1);
}

static void say_drops(struct rte_swx_pipeline *p, const char *counter)
{
  printf("truncated %lu\n", (unsigned long)cut_short);
  for (uint32_t i = 0; i < REASONS; i++) {
    uint64_t n = 0;
    if (rte_swx_ctl_pipeline_regarray_read(p, counter, i, &n) == 0 && n > 0)
      printf("reason %u: %lu\n", i, (unsigned long)n);
  }
}

int main(int argc, char **argv)
{
  struct rte_swx_pipeline *p = NULL;
  int n = argc - 4, rc;
  if (n < 1 || n > PORTS_MAX) {
    fprintf(stderr, "use: datacast-swx SPEC ENTRIES DROPS IFACE... (1 to %d interfaces)\n", PORTS_MAX);
    return 2;
  }
  if (start_eal(argv + 4, n) < 0)
    return 1;
  if ((rc = rte_swx_pipeline_config(&p, "datacast", 0)) != 0)
    return fail("pipeline", rc);
  if ((rc = start_ports(p, n)) != 0)
    return fail("ports", rc);
  if ((rc = spec_load(p, argv[1])) != 0)
    return fail(argv[1], rc);
  if ((rc = rte_swx_pipeline_build(p)) != 0)
    return fail("the pipeline is not built", rc);
  if ((rc = fill_tables(p, argv[2])) != 0)
    return fail(argv[2], rc);
  signal(SIGTERM, end);
  signal(SIGINT, end);
  printf("ready\n");
  fflush(stdout);
  unsigned idle_us = IDLE_US;
  for (uint64_t before = 0; !ended; before = arrived) {
    rte_swx_pipeline_run(p, RUN);
    if (arrived != before) {
      idle_us = IDLE_US;
      continue;
    }
    usleep(idle_us);
    idle_us = idle_us < IDLE_MOST_US ? 2 * idle_us : idle_us;
  }
  say_drops(p, argv[3]);
  return 0;
}
