/* A device that takes no more: frames wait, interests first, none is lost, and one that is never taken holds nothing up. */
#include <datacast/endpoint.h>
#include <datacast/wire.h>
#include <errno.h>
#include <rte_ethdev.h>
#include <rte_mempool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datapath/tests/check.h"
#include "eal.h"
#include "workers.h"

enum { FRAME = 2048, BURST = 32 };

static const uint8_t nobody[6];
static struct workers all;
static unsigned whole; /* mbufs of the pool when nothing is under way */

static struct dpdk_port *port(void) { return &all.worker[0].sw.ports[0]; }

static struct rte_mbuf *made(const uint8_t *frame, size_t len)
{
  struct rte_mbuf *m = rte_pktmbuf_alloc(all.worker[0].sw.pools.data);
  CHECK(m != NULL);
  memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, len);
  return m;
}

static struct rte_mbuf *data(uint32_t seq)
{
  uint8_t p[FRAME];
  struct dc_segment way = {.n = 2, .port = {0, 0}, .local = true};
  struct dc_header h = {.type = DC_TYPE_DATA, .length = 4, .tree = 1, .seq = seq};
  size_t n = dc_data_write(p, FRAME, &way, &h, nobody, nobody);
  memset(p + n, 0, 4);
  return made(p, n + 4);
}

static struct rte_mbuf *interest(uint32_t seq)
{
  uint8_t p[FRAME], blob[DC_ROUTE_MAX];
  struct dc_stop receiver = {.fwd = {.n = 1, .local = true}}, source = {.ret = {.n = 1, .local = true}};
  struct dc_stop here = {.store = true, .ret = {.n = 1}, .fwd = {.n = 1}};
  struct dc_header h = {.type = DC_TYPE_INTEREST, .tree = 1, .seq = seq};
  struct dc_path path;
  size_t len = dc_stop_write(blob, sizeof blob, &receiver);
  len += dc_stop_write(blob + len, sizeof blob - len, &here);
  len += dc_stop_write(blob + len, sizeof blob - len, &source);
  CHECK(dc_path_parse(&path, blob, len) >= 0);
  return made(p, dc_interest_write(p, FRAME, &path, &h, nobody, nobody));
}

/* What a frame is: 'i' or 'd', and its *seq. */
static char kind(const struct rte_mbuf *m, uint32_t *seq)
{
  const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *);
  uint32_t at = DC_ETHER_LEN;
  bool bottom = p[12] == DC_ETHERTYPE_DATACAST >> 8 && p[13] == (DC_ETHERTYPE_DATACAST & 0xff);
  for (; !bottom; at += DC_LABEL_LEN)
    (void)dc_label_read(p + at, &bottom);
  struct dc_header h;
  CHECK(dc_header_parse(p + at, m->data_len - at, &h) == DC_DROP_NONE);
  *seq = h.seq;
  return h.type == DC_TYPE_INTEREST ? 'i' : 'd';
}

/* DPDK's ring device is a loop of bounded length: what is sent to it arrives from it. */
static void device_that_is_full_loses_nothing(void)
{
  struct dpdk_port *p = port();
  uint32_t sent = 0, got = 0, seq = 0;
  bool early = false;
  while (p->counters.waited == 0 && p->counters.tx_full == 0)
    port_send(p, data(sent++), 1);
  for (unsigned i = 0; i < 3 * BURST; i++)
    port_send(p, data(sent++), 1);
  port_send(p, interest(99), 1);
  p->base.ops->flush(&p->base, 1);
  CHECK(p->counters.tx_full == 0 && !backlog_empty(&p->backlog) && p->kick_at != DC_NEVER);
  for (unsigned rounds = 0; rounds < 1000 && (got < sent || !early); rounds++) {
    struct rte_mbuf *m[BURST];
    unsigned n = rte_eth_rx_burst(p->dev, p->queue, m, BURST);
    for (unsigned i = 0; i < n; i++) {
      if (kind(m[i], &seq) == 'd')
        CHECK(seq == got++); /* nothing lost, in order */
      else
        early = got < sent - BURST;
      rte_pktmbuf_free(m[i]);
    }
    port_kick(p, (rounds + 1) * DC_SEC);
  }
  CHECK(got == sent && early);
  CHECK(backlog_empty(&p->backlog) && p->kick_at == DC_NEVER && p->counters.tx_full == 0);
  CHECK(rte_mempool_avail_count(all.worker[0].sw.pools.data) == whole);
}

/* A driver that sends one segment only: a packet that many labels are to stand before has no room in an mbuf. */
static void what_is_too_long_is_not_copied(void)
{
  struct dpdk_port *p = port();
  const struct packet_counters *built = &all.worker[0].sw.pools.counters;
  static const uint8_t frame[1500 + DC_ETHER_LEN];
  struct rte_mbuf *m = made(frame, sizeof frame);
  struct dc_tx tx = {.buf = packet_buf(m), .off = 34, .len = sizeof frame - 34, .prefix_len = DC_PREFIX_MAX};
  packet_arrived(m);
  packet_buf_ops.ref(packet_buf(m)); /* the content store's */
  p->multi_seg = false;
  p->base.ops->push(&p->base, &tx, 1, 1);
  CHECK(p->counters.oversized == 1 && built->linear == 0 && built->no_mbuf == 0 && rte_mbuf_refcnt_read(m) == 1);
  tx.prefix_len = 34; /* as it came */
  packet_buf_ops.ref(packet_buf(m));
  p->base.ops->push(&p->base, &tx, 1, 1);
  CHECK(p->counters.oversized == 1 && built->linear == 1 && p->nout == 1);
  p->multi_seg = true;
  p->base.ops->flush(&p->base, 1);
  CHECK(rte_eth_rx_burst(p->dev, p->queue, &m, 1) == 1 && m->pkt_len == sizeof frame);
  rte_pktmbuf_free(m);
  packet_buf_ops.unref(tx.buf);
  packet_round_over();
  CHECK(rte_mempool_avail_count(all.worker[0].sw.pools.data) == whole);
}

/* A kernel interface whose queue has room for what is small. */
static uint32_t passed;

static int take(struct netif *n, const struct dc_tx *tx, unsigned count)
{
  (void)n;
  if (tx[0].len > 300)
    return -ENOBUFS;
  passed++;
  return count > 0 ? 1 : 0;
}

static int refuse(struct netif *n, const struct dc_tx *tx, unsigned count)
{
  (void)n, (void)tx, (void)count;
  return -ENOBUFS;
}

static void full_queue_of_a_kernel_loses_data_and_keeps_interests(void)
{
  static const struct netif_ops takes = {.send = take}, refuses = {.send = refuse};
  static struct netif cable = {.ops = &takes};
  struct dpdk_port *p = port();
  struct rte_mbuf *large = data(1);
  (void)rte_pktmbuf_append(large, 400);
  p->nif = &cable;
  port_send(p, large, 1);
  port_send(p, data(2), 1);
  p->base.ops->flush(&p->base, 1);
  CHECK(p->counters.tx_full == 1 && p->counters.lost == 0 && passed == 1 && backlog_empty(&p->backlog));
  cable.ops = &refuses;
  port_send(p, interest(1), 1);
  p->base.ops->flush(&p->base, 1);
  CHECK(p->counters.tx_full == 1 && p->counters.lost == 0 && backlog_n(&p->backlog) == 1);
  for (unsigned i = 0; i < 600; i++) /* one that is never taken holds nothing up */
    port_kick(p, i * DC_SEC);
  CHECK(p->counters.tx_full == 1 && p->counters.lost == 1 && backlog_empty(&p->backlog));
  CHECK(rte_mempool_avail_count(all.worker[0].sw.pools.data) == whole);
  p->nif = NULL;
}

int main(void)
{
  static struct port_cfg ports[] = {{.port = 0, .vdev = "net_ring0"}};
  static struct node_cfg node = {.name = "n", .ports = ports, .nports = 1};
  struct config c = {.nodes = &node, .nnodes = 1, .mtu = 1500, .ring_frames = 128, .workers = 1};
  struct fault f;
  uint32_t data_mbufs, headers;
  dc_node_cfg_default(&node.core);
  node.core.ports = 1;
  node.core.trees = 16;
  node.core.memory_bytes = 1 << 20;
  node.core.memory_packets = 600;
  sw_pool_sizes(&c, &data_mbufs, &headers);
  if (log_catch_eal() < 0 || eal_start(&c, packet_pools_bytes(data_mbufs, headers, ports_frame_bytes(&c)), &f) < 0 ||
      workers_open(&all, &c, LOOP_PAUSES, &f) < 0) {
    fprintf(stderr, "%s\n", f.text);
    return 1;
  }
  whole = rte_mempool_avail_count(all.worker[0].sw.pools.data);
  device_that_is_full_loses_nothing();
  full_queue_of_a_kernel_loses_data_and_keeps_interests();
  what_is_too_long_is_not_copied();
  workers_close(&all);
  printf("test_backlog: 3 tests passed\n");
  return 0;
}
