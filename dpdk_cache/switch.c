#include "switch.h"

#include <errno.h>
#include <rte_ethdev.h>
#include <rte_mempool.h>
#include <stdlib.h>
#include <sys/random.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "discovery.h"

enum {
  SPARE_PER_PORT = 256,   /* mbufs in flight at a port: a burst in, a burst out, descriptors of real devices */
  SPARE_REAL_PORT = 1536,
  HEADERS_PER_PORT = 512,
  POOL_CACHE = 512,       /* DPDK keeps so many mbufs of a pool per core */
};

dc_time sw_now(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (dc_time)ts.tv_sec * DC_SEC + (dc_time)ts.tv_nsec;
}

/* ---- sizes ---- */

static uint32_t in_flight(const struct config *c) {
  uint32_t reserve = POOL_CACHE;
  for (unsigned i = 0; i < c->nnodes; i++)
    for (unsigned p = 0; p < c->nodes[i].nports; p++)
      reserve += c->nodes[i].ports[p].iface[0] != '\0' ? SPARE_PER_PORT : SPARE_REAL_PORT;
  return reserve;
}

void sw_pool_sizes(const struct config *c, uint32_t *data, uint32_t *headers) {
  uint64_t packets = in_flight(c), ports = 0;
  for (unsigned i = 0; i < c->nnodes; i++) {
    packets += c->nodes[i].core.memory_packets;
    ports += c->nodes[i].nports;
  }
  *data = packets < UINT32_MAX / 2 ? (uint32_t)packets : UINT32_MAX / 2;
  *headers = (uint32_t)ports * HEADERS_PER_PORT + 4 * DC_NODE_TX_MAX + POOL_CACHE;
}

/* ---- opening ---- */

static int open_member(struct sw *s, struct member *m, const struct node_cfg *cfg, struct failure *f) {
  m->cfg = cfg;
  m->memory_size = dc_node_size(&cfg->core);
  m->memory = mmap(NULL, m->memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m->memory == MAP_FAILED) {
    m->memory = NULL;
    return fail(f, "node %s: no memory for its tables (%zu MB)", cfg->name, m->memory_size >> 20);
  }
  m->core = dc_node_init(m->memory, &cfg->core, &packet_buf_ops);
  if (m->core == NULL) return fail(f, "node %s: its limits were refused", cfg->name);
  for (unsigned i = 0; i < cfg->nports; i++) {
    static const uint8_t broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    const struct port_cfg *pc = &cfg->ports[i];
    struct port *p = &s->ports[s->nports];
    p->member = m;
    if (port_open(p, s->cfg, pc, s->nports, s->pools.data, f) < 0) {
      struct failure inner = *f;
      return fail(f, "node %s: %s", cfg->name, inner.text);
    }
    uint32_t instance = 0;
    if (getrandom(&instance, sizeof instance, 0) != sizeof instance) instance = (uint32_t)s->started;
    /* An appliance's neighbour is a switch that says none. */
    linkstate_init(&p->link, s->started, instance, !s->cfg->no_hello && !cfg->appliance, p->link.carrier);
    s->nports++;
    m->port[pc->port] = p;
    dc_node_set_port(m->core, pc->port, p->mac, pc->neighbour.has_mac ? pc->neighbour.mac : broadcast);
  }
  return 0;
}

int sw_open(struct sw *s, const struct config *c, struct failure *f) {
  uint32_t data, headers;
  unsigned ports = 0;
  *s = (struct sw){.cfg = c, .random = 0x9e3779b97f4a7c15u, .started = sw_now()};
  for (unsigned i = 0; i < c->nnodes; i++) ports += c->nodes[i].nports;
  s->members = calloc(c->nnodes, sizeof *s->members);
  s->ports = calloc(ports, sizeof *s->ports);
  if (s->members == NULL || s->ports == NULL) {
    sw_close(s);
    return fail(f, "out of memory");
  }
  sw_pool_sizes(c, &data, &headers);
  int rc = packet_pools_open(&s->pools, data, headers, ports_frame_bytes(c), f);
  for (; rc == 0 && s->nmembers < c->nnodes; s->nmembers++)
    rc = open_member(s, &s->members[s->nmembers], &c->nodes[s->nmembers], f);
  if (rc < 0) sw_close(s);
  return rc;
}

void sw_close(struct sw *s) {
  for (unsigned i = 0; i < s->nports; i++) port_close(&s->ports[i]);
  for (unsigned i = 0; s->members != NULL && i < s->cfg->nnodes; i++) {
    struct member *m = &s->members[i];
    if (m->core != NULL) dc_node_clear(m->core);
    if (m->memory != NULL) munmap(m->memory, m->memory_size);
  }
  packet_pools_close(&s->pools);
  free(s->members);
  free(s->ports);
  s->members = NULL;
  s->ports = NULL;
  s->nmembers = s->nports = 0;
}

/* ---- the path of a frame ---- */

static uint64_t next_random(struct sw *s) { /* xorshift64 */
  s->random ^= s->random << 13;
  s->random ^= s->random >> 7;
  s->random ^= s->random << 17;
  return s->random;
}

/* Where the payload of a data packet begins in the frame; 0: it is none. */
static uint32_t payload_at(const uint8_t *p, uint32_t len) {
  uint32_t at = DC_ETHER_LEN;
  bool bottom = len >= at && p[12] == DC_ETHERTYPE_DATACAST >> 8 && p[13] == (DC_ETHERTYPE_DATACAST & 0xff);
  if (!bottom && (len < at || p[12] != DC_ETHERTYPE_MPLS >> 8 || p[13] != (DC_ETHERTYPE_MPLS & 0xff))) return 0;
  for (; !bottom && at + DC_LABEL_LEN <= len; at += DC_LABEL_LEN) (void)dc_label_read(p + at, &bottom);
  struct dc_header h;
  return bottom && dc_header_parse(p + at, len - at, &h) == DC_DROP_NONE && h.type == DC_TYPE_DATA && h.length > 0
             ? at + DC_HEADER_LEN
             : 0;
}

static void corrupt(struct sw *s, struct port *p, struct rte_mbuf *m) {
  uint8_t *data = rte_pktmbuf_mtod(m, uint8_t *);
  uint32_t from = payload_at(data, m->data_len);
  if (from == 0 || from >= m->data_len || (double)(next_random(s) >> 11) * 0x1p-53 >= p->faults.corrupt) return;
  uint64_t bit = next_random(s) % ((m->data_len - from) * 8u);
  data[from + bit / 8] ^= (uint8_t)(1u << bit % 8);
  p->counters.corrupted++;
}

/* True when the frame may go on to the node. */
static bool admit(struct sw *s, struct port *p, struct rte_mbuf *m, dc_time now) {
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
  switch (linkstate_frame(&p->link, now, rte_pktmbuf_mtod(m, const uint8_t *), m->data_len)) {
    case LINK_HELLO: s->hello_wanted = true; return false;
    case LINK_TRAFFIC: s->traffic = true; break;
    case LINK_OTHER: break;
  }
  if (p->faults.corrupt > 0) corrupt(s, p, m);
  return true;
}

/* A discovery frame of our controller, at a cache appliance: sent back, it says that the appliance is there. What it says of
 * the switch holds until the next one. */
static bool is_probe(const struct port *p, const struct rte_mbuf *m) {
  struct discovery probe;
  if (!p->member->cfg->appliance || !discovery_read(rte_pktmbuf_mtod(m, const uint8_t *), m->data_len, &probe))
    return false;
  p->member->copies = probe.copies;
  dc_node_set_copies(p->member->core, probe.copies);
  return true;
}

static void send_frame(struct sw *s, struct member *node, const struct dc_tx *tx, dc_time now) {
  struct port *to = tx->port < DC_NODE_PORTS_MAX ? node->port[tx->port] : NULL;
  if (to == NULL) {
    if (tx->buf != NULL) packet_buf_ops.unref(tx->buf);
    node->no_device++;
    return;
  }
  struct rte_mbuf *m = packet_build(&s->pools, tx, !to->multi_seg);
  if (m != NULL) port_send(to, m, now);
}

unsigned sw_receive(struct sw *s, struct port *p, dc_time now) {
  struct rte_mbuf *in[PORT_BURST];
  unsigned n = rte_eth_rx_burst(p->dev, 0, in, PORT_BURST);
  if (n == 0) return 0;
  s->counters.frames_in += n;
  for (unsigned i = 0; i < n; i++) {
    struct rte_mbuf *m = in[i];
    if (i + 1 < n) rte_prefetch0(rte_pktmbuf_mtod(in[i + 1], void *));
    if (!admit(s, p, m, now)) {
      rte_pktmbuf_free(m);
      continue;
    }
    if (is_probe(p, m)) {
      port_send(p, m, now);
      continue;
    }
    packet_arrived(m);
    struct dc_frame frame = {
        .buf = packet_buf(m), .data = rte_pktmbuf_mtod(m, const uint8_t *), .len = m->data_len, .port = p->number};
    unsigned out = dc_node_handle(p->member->core, now, &frame, s->tx, DC_NODE_TX_MAX);
    for (unsigned k = 0; k < out; k++) send_frame(s, p->member, &s->tx[k], now);
  }
  return n;
}

dc_time sw_hello(struct sw *s, dc_time now, void (*changed)(void *context, struct port *p), void *context) {
  static const uint8_t broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  dc_time next = DC_NEVER;
  for (unsigned i = 0; i < s->nports; i++) {
    struct port *p = &s->ports[i];
    struct dc_tx tx = {.buf = NULL, .port = p->number};
    if (s->traffic) linkstate_busy(&p->link, now);
    tx.prefix_len = (uint16_t)linkstate_poll(
        &p->link, now, p->cfg->neighbour.has_mac ? p->cfg->neighbour.mac : broadcast, p->mac, tx.prefix);
    if (tx.prefix_len > 0) {
      send_frame(s, p->member, &tx, now);
      port_flush(p, now);
    }
    if (linkstate_settle(&p->link)) changed(context, p);
    dc_time at = linkstate_next_wake(&p->link);
    if (at < next) next = at;
  }
  s->traffic = s->hello_wanted = false;
  return next;
}

void sw_flush(struct sw *s, dc_time now) {
  for (unsigned i = 0; i < s->nports; i++) port_flush(&s->ports[i], now);
}

void sw_wipe(struct member *m, bool restart) {
  if (restart) dc_node_clear(m->core);
  else dc_node_wipe(m->core);
}

struct member *sw_member(struct sw *s, const char *name) {
  for (unsigned i = 0; i < s->nmembers; i++)
    if (strcmp(s->members[i].cfg->name, name) == 0) return &s->members[i];
  return NULL;
}
