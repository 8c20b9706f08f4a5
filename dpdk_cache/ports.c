#include "ports.h"

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <string.h>

#include "datapath/engine.h"
#include "datapath/memif.h"
#include "datapath/privileges.h"
#include "eal.h"
#include "interface.h"
#include "mbuf_netif.h"
#include "datapath/steering.h"

enum {
  DESCRIPTORS = 512,
  AGAIN_AFTER = 20 * 1000 /* ns; four jumbo frames at 10 Gbit/s */,
  QUEUE_AGAIN_AFTER = 500 * 1000 /* ns, of a kernel's queue that is full: a jumbo frame at 100 Mbit/s is 720 us */,
  SLACK = 8 /* two tags of VLANs */,
  ETHER_BYTES = 14,
  CRC_BYTES = 4
};

uint32_t ports_frame_bytes(const struct config *c) { return c->mtu + ETHER_BYTES + CRC_BYTES + SLACK; }

int port_check(const struct port_cfg *cfg, uint32_t mtu, bool opens, struct fault *f)
{
  bool up;
  if (cfg->iface[0] == '\0')
    return 0;
  if (interface_check(cfg->iface, mtu, &up, f) < 0)
    return -1;
  if (opens && !privileges_has(CAP_NET_RAW))
    return fail(f, "opening interface %s needs root or CAP_NET_RAW", cfg->iface);
  return 0;
}

static const char *port_name(const struct port_cfg *cfg)
{
  return cfg->iface[0] != '\0'   ? cfg->iface
         : cfg->vdev[0] != '\0'  ? cfg->vdev
         : cfg->memif[0] != '\0' ? cfg->memif
                                 : cfg->device;
}

static int device_failed(const struct port_cfg *cfg, const char *what, int rc, struct fault *f)
{
  return fail(f, "port %u (%s): cannot %s: %s", cfg->port, port_name(cfg), what,
              log_eal_words()[0] != '\0' ? log_eal_words() : rte_strerror(rc < 0 ? -rc : rte_errno));
}

/* Make the device exist and find DPDK's number for it. */
static int probe(struct dpdk_port *p, struct fault *f)
{
  const struct port_cfg *cfg = p->cfg;
  char name[SW_NAME_MAX], args[SW_VDEV_MAX] = "";
  int rc = 0;
  log_eal_forget();
  if (cfg->vdev[0] != '\0') {
    const char *comma = strchr(cfg->vdev, ',');
    int len = comma != NULL ? (int)(comma - cfg->vdev) : (int)strlen(cfg->vdev);
    snprintf(name, sizeof name, "%.*s", len, cfg->vdev);
    if (comma != NULL)
      snprintf(args, sizeof args, "%s", comma + 1);
    rc = rte_eal_hotplug_add("vdev", name, args);
  } else {
    snprintf(name, sizeof name, "%s", cfg->device);
    if (rte_eth_dev_get_port_by_name(name, &p->dev) != 0)
      rc = rte_dev_probe(name);
  }
  if (rc < 0)
    return device_failed(cfg, "open the device", rc, f);
  rc = rte_eth_dev_get_port_by_name(name, &p->dev);
  return rc < 0 ? device_failed(cfg, "find the device", rc, f) : 0;
}

/* With several queues: frames that only pass go to any worker by their label, if the device can hash it. What is for this node has
 * the same label in all its frames, so it comes to one queue and is handed over by tree (steering.h). */
static void spread(struct dpdk_port *p, const struct rte_eth_dev_info *info, struct rte_eth_conf *conf, uint16_t queues)
{
  if (queues == 1)
    return;
  p->spreads = (info->flow_type_rss_offloads & RTE_ETH_RSS_MPLS) != 0;
  if (p->spreads) {
    conf->rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf->rx_adv_conf.rss_conf.rss_hf = RTE_ETH_RSS_MPLS;
  } else {
    log_warn("port %u: driver %s cannot spread frames by their labels over %u queues: workers hand them over",
             p->cfg->port, info->driver_name, queues);
  }
}

static int configure(struct dpdk_port *p, const struct config *c, struct rte_mempool *pool, struct fault *f)
{
  struct rte_eth_dev_info info;
  struct rte_eth_conf conf = {0};
  uint16_t rxd = DESCRIPTORS, txd = DESCRIPTORS;
  log_eal_forget();
  int rc = rte_eth_dev_info_get(p->dev, &info);
  if (rc < 0)
    return device_failed(p->cfg, "ask the device", rc, f);
  p->multi_seg = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
  /* The ring driver hands pointers on and never looks at segments, but does not say so. */
  p->multi_seg |= strcmp(info.driver_name, "net_ring") == 0;
  if (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS)
    conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  if (info.max_mtu != 0 && info.max_mtu < c->mtu)
    return fail(f, "port %u: the device carries at most %u bytes, the configuration says mtu %u", p->cfg->port,
                info.max_mtu, c->mtu);
  /* Software drivers (af_packet, memif) claim 1,518 bytes whatever they carry: then the MTU is left alone. */
  if (info.max_rx_pktlen >= c->mtu + ETHER_BYTES + CRC_BYTES)
    conf.rxmode.mtu = c->mtu;
  else
    log_warn("port %u: driver %s claims frames of at most %u bytes, mtu %u needs more", p->cfg->port, info.driver_name,
             info.max_rx_pktlen, c->mtu);
  uint16_t queues = (uint16_t)c->workers;
  if (info.max_rx_queues < queues || info.max_tx_queues < queues)
    return fail(f, "port %u: the device has %u queues, %u workers need one each: lower workers", p->cfg->port,
                info.max_rx_queues < info.max_tx_queues ? info.max_rx_queues : info.max_tx_queues, queues);
  p->link_interrupt = info.dev_flags != NULL && (*info.dev_flags & RTE_ETH_DEV_INTR_LSC) != 0;
  conf.intr_conf.lsc = p->link_interrupt;
  spread(p, &info, &conf, queues);
  conf.intr_conf.rxq = 1; /* drivers without rx interrupts ignore it or refuse it */
  rc = rte_eth_dev_configure(p->dev, queues, queues, &conf);
  if (rc < 0) {
    conf.intr_conf.rxq = 0;
    rc = rte_eth_dev_configure(p->dev, queues, queues, &conf);
  }
  if (rc < 0)
    return device_failed(p->cfg, "configure the device", rc, f);
  rc = rte_eth_dev_adjust_nb_rx_tx_desc(p->dev, &rxd, &txd);
  for (uint16_t q = 0; rc == 0 && q < queues; q++) {
    rc = rte_eth_rx_queue_setup(p->dev, q, rxd, (unsigned)rte_eth_dev_socket_id(p->dev), NULL, pool);
    if (rc == 0)
      rc = rte_eth_tx_queue_setup(p->dev, q, txd, (unsigned)rte_eth_dev_socket_id(p->dev), NULL);
  }
  if (rc == 0)
    rc = rte_eth_dev_start(p->dev);
  if (rc < 0)
    return device_failed(p->cfg, "start the device", rc, f);
  return 0;
}

/* ---- in ---- */

static uint64_t next_random(struct dpdk_port *s)
{ /* xorshift64 */
  s->random ^= s->random << 13;
  s->random ^= s->random >> 7;
  s->random ^= s->random << 17;
  return s->random;
}

/* Where the payload of a data packet begins in the frame; 0: it is none. */
static uint32_t payload_at(const uint8_t *p, uint32_t len)
{
  uint32_t at = DC_ETHER_LEN;
  bool bottom = len >= at && p[12] == DC_ETHERTYPE_DATACAST >> 8 && p[13] == (DC_ETHERTYPE_DATACAST & 0xff);
  if (!bottom && (len < at || p[12] != DC_ETHERTYPE_MPLS >> 8 || p[13] != (DC_ETHERTYPE_MPLS & 0xff)))
    return 0;
  for (; !bottom && at + DC_LABEL_LEN <= len; at += DC_LABEL_LEN)
    (void)dc_label_read(p + at, &bottom);
  uint32_t payload;
  return bottom && dc_is_data(p + at, len - at, &payload) && payload > 0 ? at + DC_HEADER_LEN : 0;
}

static void corrupt(struct dpdk_port *p, struct rte_mbuf *m)
{
  uint8_t *data = rte_pktmbuf_mtod(m, uint8_t *);
  uint32_t from = payload_at(data, m->data_len);
  if (from == 0 || from >= m->data_len || (double)(next_random(p) >> 11) * 0x1p-53 >= p->faults.corrupt)
    return;
  uint64_t bit = next_random(p) % ((m->data_len - from) * 8u);
  data[from + bit / 8] ^= (uint8_t)(1u << bit % 8);
  p->counters.corrupted++;
}

/* True when the frame may go on to its node. */
static bool whole(struct dpdk_port *p, struct rte_mbuf *m)
{
  if (p->faults.blackhole_rx) {
    p->counters.blackholed++;
    return false;
  }
  if (m->nb_segs > 1 && rte_pktmbuf_linearize(m) < 0) {
    p->counters.segments++;
    return false;
  }
  if (m->pkt_len > p->max_frame) {
    p->counters.oversized++;
    return false;
  }
  if (p->faults.corrupt > 0)
    corrupt(p, m);
  return true;
}

struct arrival {
  struct dpdk_port *port;
  struct engine *engine;
  dc_time now;
};

static void arrived(void *arg, struct rte_mbuf **in, unsigned n)
{
  const struct arrival *a = arg;
  struct dpdk_port *p = a->port;
  bool faults = p->faults.blackhole_rx || p->faults.corrupt > 0;
  struct dc_frame frame[PORT_BURST];
  unsigned kept = 0;
  for (unsigned i = 0; i < n; i++)
    rte_prefetch0(rte_pktmbuf_mtod(in[i], void *));
  for (unsigned i = 0; i < n; i++) {
    struct rte_mbuf *m = in[i];
    if ((faults || m->nb_segs > 1 || m->pkt_len > p->max_frame) && !whole(p, m)) {
      rte_pktmbuf_free(m);
      continue;
    }
    packet_arrived(m);
    frame[kept++] = (struct dc_frame){
        .buf = packet_buf(m), .data = rte_pktmbuf_mtod(m, const uint8_t *), .len = m->data_len, .port = p->base.number};
  }
  if (kept > 0)
    engine_frames(a->engine, &p->base, frame, kept, a->now);
}

static unsigned receive(struct port *port, struct engine *e, dc_time now, bool *more)
{
  struct dpdk_port *p = dpdk_port(port);
  struct arrival a = {.port = p, .engine = e, .now = now};
  struct rte_mbuf *in[PORT_BURST];
  unsigned n;
  if (p->nif != NULL) {
    const struct mbuf_netif_rx rx = {
        .pools = p->pools, .longest = p->max_frame, .oversized = &p->counters.oversized, .fn = arrived, .arg = &a};
    n = mbuf_netif_receive(p->nif, &rx, PORT_BURST);
    if (p->nif->tells_carrier)
      engine_set_carrier(e, port, p->nif->up);
  } else if ((n = rte_eth_rx_burst(p->dev, p->queue, in, PORT_BURST)) > 0) {
    arrived(&a, in, n);
  }
  *more |= n >= PORT_BURST;
  return n;
}

/* ---- out ---- */

static unsigned transmit(struct dpdk_port *p, struct rte_mbuf **m, unsigned n)
{
  p->counters.bursts++;
  if (p->nif == NULL)
    return rte_eth_tx_burst(p->dev, p->queue, m, (uint16_t)n);
  return mbuf_netif_send(p->nif, m, n, &p->counters.tx_full, &p->counters.lost);
}

/* Does it go before data? */
static bool is_first(const struct rte_mbuf *m)
{
  const struct rte_mbuf *rest = m->next;
  return goes_first(rte_pktmbuf_mtod(m, const uint8_t *), m->data_len,
                    rest == NULL ? NULL : rte_pktmbuf_mtod(rest, const uint8_t *), rest == NULL ? 0 : rest->data_len);
}

/* Frames of the round that the device has not taken. */
static void wait_or_drop(struct dpdk_port *p, unsigned from)
{
  for (unsigned i = from; i < p->nout; i++) {
    int place = backlog_put(&p->backlog, is_first(p->out[i]));
    if (place >= 0) {
      p->waiting[place] = p->out[i];
      p->counters.waited++;
      continue;
    }
    rte_pktmbuf_free(p->out[i]);
    p->counters.tx_full++;
  }
}

/* The frames that go next, PORT_BURST at most. */
static unsigned gather(const struct dpdk_port *p, struct rte_mbuf **m)
{
  unsigned n = 0, run;
  uint32_t place;
  while (n < PORT_BURST && (run = backlog_run(&p->backlog, n, &place)) > 0) {
    run = run < PORT_BURST - n ? run : PORT_BURST - n;
    memcpy(&m[n], &p->waiting[place], run * sizeof(struct rte_mbuf *));
    n += run;
  }
  return n;
}

static void send_backlog(struct dpdk_port *p)
{
  struct rte_mbuf *m[PORT_BURST];
  unsigned n, sent;
  do {
    n = gather(p, m);
    sent = transmit(p, m, n);
    backlog_sent(&p->backlog, sent);
    if (sent < n && p->nif != NULL && !p->nif->tells_carrier && backlog_refused(&p->backlog)) {
      p->counters.lost++;
      rte_pktmbuf_free(m[sent]);
      backlog_sent(&p->backlog, 1);
    }
  } while (sent == n && !backlog_empty(&p->backlog));
}

static void flush(struct port *port, dc_time now)
{
  struct dpdk_port *p = dpdk_port(port);
  bool behind = !backlog_empty(&p->backlog);
  packet_round_over();
  if (p->nout == 0 && !behind)
    return;
  unsigned sent = 0;
  if (!behind)
    sent = transmit(p, p->out, p->nout);
  wait_or_drop(p, sent);
  p->nout = 0;
  if (behind)
    send_backlog(p);
  p->kick_at = backlog_empty(&p->backlog)                 ? DC_NEVER
               : p->nif != NULL && !p->nif->tells_carrier ? now + QUEUE_AGAIN_AFTER
                                                          : now + AGAIN_AFTER;
}

static inline void queue(struct dpdk_port *p, struct rte_mbuf *m, dc_time now)
{
  if (p->faults.blackhole_tx) {
    p->counters.blackholed++;
    rte_pktmbuf_free(m);
    return;
  }
  p->out[p->nout++] = m;
  if (p->nout == PORT_BURST)
    flush(&p->base, now);
}

void port_send(struct dpdk_port *p, struct rte_mbuf *m, dc_time now) { queue(p, m, now); }

static void push(struct port *port, const struct dc_tx *tx, unsigned n, dc_time now)
{
  struct dpdk_port *p = dpdk_port(port);
  for (unsigned i = 0; i < n; i++) {
    /* No mbuf has more room, and an interest may name a longer way back. */
    if (tx[i].prefix_len + tx[i].len > p->max_frame) {
      p->counters.oversized++;
      if (tx[i].buf != NULL)
        packet_buf_ops.unref(tx[i].buf);
      continue;
    }
    struct rte_mbuf *m = packet_build(p->pools, &tx[i], !p->multi_seg);
    if (m != NULL)
      queue(p, m, now);
  }
}

static void hello(struct port *port, struct dc_tx *tx, unsigned zeros, dc_time now)
{
  struct dpdk_port *p = dpdk_port(port);
  if (zeros == 0) {
    push(port, tx, 1, now);
    return;
  }
  struct rte_mbuf *m = rte_pktmbuf_alloc(p->pools->data);
  char *out = m == NULL ? NULL : rte_pktmbuf_append(m, (uint16_t)(tx->prefix_len + zeros));
  if (out == NULL) {
    p->pools->counters.no_mbuf++;
    rte_pktmbuf_free(m);
    return;
  }
  memcpy(out, tx->prefix, tx->prefix_len);
  memset(out + tx->prefix_len, 0, zeros);
  port_send(p, m, now);
}

void port_kick(struct dpdk_port *p, dc_time now)
{
  if (now >= p->kick_at)
    flush(&p->base, now);
}

/* Frames from before the carrier went wait still. */
static void carrier_back(struct port *port)
{
  struct dpdk_port *p = dpdk_port(port);
  if (!backlog_empty(&p->backlog))
    p->kick_at = 0;
}

static struct netif *way(struct port *p) { return dpdk_port(p)->nif; }

static const struct port_ops port_ops = {
    .rx = receive, .push = push, .flush = flush, .hello = hello, .carrier = carrier_back, .way = way};

void port_read_missed(struct dpdk_port *p)
{
  struct rte_eth_stats stats;
  if (p->nif != NULL && p->nif->ops->missed != NULL)
    p->counters.rx_missed += p->nif->ops->missed(p->nif);
  else if (p->nif != NULL)
    p->counters.rx_missed = p->nif->rx_truncated;
  else if (p->queue == 0 && rte_eth_stats_get(p->dev, &stats) == 0)
    p->counters.rx_missed = stats.imissed;
}

/* ---- open, close ---- */

/* The way that is no device of DPDK's, of this worker. */
static struct netif *open_way(struct dpdk_port *p, const struct config *c, struct fault *why)
{
  if (p->cfg->memif[0] == '\0') {
    struct afpacket_cfg a = {.name = p->cfg->iface, .whole = true, .ring_frames = c->ring_frames, .group = &p->group};
    if (c->workers > 1)
      a.spread = steering_program();
    return afpacket_open(&a, why);
  }
  struct memif_cfg m = {.server = true, .mtu = c->mtu, .raw = true};
  _Static_assert(sizeof m.path >= SW_PATH_MAX, "a path fits");
  memcpy(m.path, p->cfg->memif, sizeof p->cfg->memif);
  return memif_open(&m, why);
}

static int open_netif(struct dpdk_port *p, const struct config *c, struct fault *f)
{
  struct fault why;
  p->nif = open_way(p, c, &why);
  if (p->nif == NULL)
    return fail(f, "port %u: %s", p->cfg->port, why.text);
  p->open = p->multi_seg = true;
  p->base.ifindex = p->nif->ifindex;
  memcpy(p->base.mac, p->nif->mac, sizeof p->base.mac);
  p->backlog.most = p->nif->tells_carrier           ? BACKLOG_DATA
                    : c->ring_frames < BACKLOG_DATA ? c->ring_frames
                                                    : BACKLOG_DATA;
  return 0;
}

int port_open(struct dpdk_port *p, const struct config *c, const struct port_cfg *cfg, unsigned serial,
              struct packet_pools *pools, bool *carrier, struct fault *f)
{
  p->base = (struct port){.ops = &port_ops, .name = port_name(cfg), .number = cfg->port, .mtu = c->mtu};
  if (cfg->neighbour.has_mac)
    memcpy(p->base.neighbour, cfg->neighbour.mac, sizeof p->base.neighbour);
  else
    memset(p->base.neighbour, 0xff, sizeof p->base.neighbour);
  p->cfg = cfg;
  p->pools = pools;
  p->group = -1;
  p->kick_at = DC_NEVER;
  p->max_frame = c->mtu + ETHER_BYTES;
  p->random = 0x9e3779b97f4a7c15u + serial;
  *carrier = false;
  if (cfg->iface[0] != '\0' && interface_check(cfg->iface, c->mtu, carrier, f) < 0)
    return -1;
  if (cfg->iface[0] != '\0' || cfg->memif[0] != '\0')
    return open_netif(p, c, f);
  if (probe(p, f) < 0)
    return -1;
  p->open = true;
  if (configure(p, c, pools->data, f) < 0) {
    port_close(p);
    return -1;
  }
  struct rte_ether_addr mac;
  struct rte_eth_link link;
  if (rte_eth_macaddr_get(p->dev, &mac) == 0)
    memcpy(p->base.mac, mac.addr_bytes, sizeof p->base.mac);
  if (rte_eth_promiscuous_enable(p->dev) < 0)
    log_debug("port %u: no promiscuous mode", p->cfg->port);
  *carrier = rte_eth_link_get_nowait(p->dev, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
  p->rx_interrupt = rte_eth_dev_rx_intr_ctl_q_get_fd(p->dev, 0) >= 0;
  return 0;
}

int port_share(struct dpdk_port *p, struct dpdk_port *first, const struct config *c, uint16_t queue,
               struct packet_pools *pools, struct fault *f)
{
  *p = (struct dpdk_port){.base = first->base,
                          .cfg = first->cfg,
                          .pools = pools,
                          .dev = first->dev,
                          .group = first->group,
                          .queue = queue,
                          .max_frame = first->max_frame,
                          .open = first->nif == NULL,
                          .multi_seg = first->multi_seg,
                          .rx_interrupt = first->rx_interrupt,
                          .spreads = first->spreads,
                          .kick_at = DC_NEVER,
                          .random = first->random + queue};
  return first->nif == NULL ? 0 : open_netif(p, c, f);
}

/* A driver whose device says something as it is stopped (virtio: the answers of the other end) is called for it. */
static void close_device(void *arg)
{
  const struct dpdk_port *p = arg;
  (void)rte_eth_dev_stop(p->dev);
  (void)rte_eth_dev_close(p->dev);
}

static void free_backlog(struct dpdk_port *p)
{
  struct rte_mbuf *m[PORT_BURST];
  unsigned n;
  while ((n = gather(p, m)) > 0) {
    rte_pktmbuf_free_bulk(m, n);
    backlog_sent(&p->backlog, n);
  }
}

void port_close(struct dpdk_port *p)
{
  if (!p->open)
    return;
  for (unsigned i = 0; i < p->nout; i++)
    rte_pktmbuf_free(p->out[i]);
  p->nout = 0;
  free_backlog(p);
  if (p->nif != NULL)
    p->nif->ops->close(p->nif);
  else if (p->queue == 0)
    eal_between_interrupts(close_device, p);
  p->open = false;
}
