#include "switch.h"

#include <rte_mempool.h>
#include <rte_prefetch.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "discovery.h"
#include "datapath/steering.h"
#include "workers.h"

enum {
  SPARE_PER_PORT = 128 + BACKLOG_FIRST, /* mbufs in flight at a port: a burst in, a burst out, a backlog */
  SPARE_REAL_PORT = 1536 + BACKLOG_DATA + BACKLOG_FIRST,
  HEADERS_PER_PORT = 512,
  POOL_CACHE = 512, /* DPDK keeps so many mbufs of a pool per core */
};

/* ---- sizes ---- */

static uint32_t in_flight(const struct config *c)
{
  uint32_t reserve = c->workers * (POOL_CACHE + (c->workers > 1 ? (uint32_t)HANDED_FRAMES : 0u));
  for (unsigned i = 0; i < c->nnodes; i++)
    for (unsigned p = 0; p < c->nodes[i].nports; p++)
      reserve += c->nodes[i].ports[p].iface[0] != '\0' ? c->workers * (SPARE_PER_PORT + c->ring_frames)
                                                       : c->workers * SPARE_REAL_PORT;
  return reserve;
}

void sw_pool_sizes(const struct config *c, uint32_t *data, uint32_t *headers)
{
  uint64_t packets = in_flight(c), ports = 0;
  for (unsigned i = 0; i < c->nnodes; i++) {
    packets += c->nodes[i].core.memory_packets;
    ports += c->nodes[i].nports;
  }
  *data = packets < UINT32_MAX / 2 ? (uint32_t)packets : UINT32_MAX / 2;
  *headers = c->workers * ((uint32_t)ports * HEADERS_PER_PORT + 4 * DC_NODE_TX_MAX + POOL_CACHE);
}

/* ---- opening ---- */

/* first: whose ports these share; NULL: they are opened. */
static int open_member(struct sw *s, struct member *m, const struct node_cfg *cfg, struct sw *first, struct fault *f)
{
  struct fault inner;
  struct dc_node_cfg part = config_part(s->cfg, cfg);
  m->cfg = cfg; /* NOLINT: a configuration has nodes */
  m->node.name = cfg->name;
  if (!engine_node_open(&m->node, &part, &packet_buf_ops, &inner))
    return fail(f, "node %s: %s", cfg->name, inner.text);
  if (s->cfg->eal.huge) /* what a frame touches of many trees is far apart; a hint */
    (void)madvise(m->node.memory, m->node.memory_size, MADV_HUGEPAGE);
  for (unsigned i = 0; i < cfg->nports; i++) {
    struct dpdk_port *p = &s->ports[s->nports];
    bool carrier = false;
    if ((first != NULL ? port_share(p, &first->ports[s->nports], s->cfg, (uint16_t)s->index, &s->pools, &inner)
                       : port_open(p, s->cfg, &cfg->ports[i], s->nports, &s->pools, &carrier, &inner)) < 0)
      return fail(f, "node %s: %s", cfg->name, inner.text);
    s->nports++;
    /* An appliance's neighbour is a switch that says no hellos. */
    engine_attach(&s->engine, &m->node, &p->base, first == NULL && !s->cfg->no_hello && !cfg->appliance, carrier);
  }
  return 0;
}

/* ---- whose frame it is ---- */

static void hand_over(struct sw *s, unsigned to)
{
  struct handover *h = &s->away[to];
  unsigned there = worker_hand(&s->workers[to], h->m, h->n);
  s->counters.handed_over += h->n;
  s->counters.handed_lost += h->n - there;
  for (unsigned i = there; i < h->n; i++)
    rte_pktmbuf_free(h->m[i]);
  h->n = 0;
}

/* Worker 0's node hears what its switch can copy. */
static void learn_copies(struct sw *s, struct member *m)
{
  uint16_t copies = s->workers[0].sw.members[m - s->members].copies;
  if (m->copies == copies)
    return;
  m->copies = copies;
  dc_node_set_copies(m->node.core, copies);
}

static unsigned steer(void *arg, struct port *p, struct dc_frame *frame, unsigned n, dc_time now)
{
  struct sw *s = arg;
  struct member *m = (struct member *)p->node;
  bool appliance = m->cfg->appliance, heard = false;
  unsigned kept = 0;
  if (appliance)
    learn_copies(s, m);
  for (unsigned i = 0; i < n; i++) {
    int to = steering_of(&frame[i], appliance, s->cfg->workers);
    heard |= to != 0;
    if (to == STEERING_ANY || to == (int)s->index) {
      if (kept < i)
        frame[kept] = frame[i];
      kept++;
      continue;
    }
    struct rte_mbuf *b = (struct rte_mbuf *)frame[i].buf;
    b->port = (uint16_t)(dpdk_port(p) - s->ports);
    struct handover *h = &s->away[to];
    h->m[h->n++] = b;
    if (h->n == PORT_BURST)
      hand_over(s, (unsigned)to);
  }
  if (s->index > 0 && heard)
    atomic_store_explicit(&dpdk_port(p)->heard, now, memory_order_relaxed);
  return kept;
}

void sw_hand_over(struct sw *s)
{
  for (unsigned w = 0; w < s->cfg->workers; w++)
    if (s->away[w].n > 0)
      hand_over(s, w);
}

unsigned sw_take(struct sw *s, dc_time now)
{
  struct rte_mbuf *in[PORT_BURST];
  struct dc_frame frame[PORT_BURST];
  unsigned n = worker_take(&s->workers[s->index], in, PORT_BURST);
  for (unsigned i = 0; i < n; i++) { /* all of it is in another core's cache */
    rte_mbuf_prefetch_part1(in[i]);
    rte_mbuf_prefetch_part2(in[i]);
  }
  for (unsigned i = 0; i < n; i++)
    rte_prefetch0(rte_pktmbuf_mtod(in[i], void *));
  for (unsigned i = 0; i < n;) { /* bursts of one port */
    uint16_t from = in[i]->port;
    struct port *p = &s->ports[from].base;
    unsigned k = 0;
    for (; i < n && in[i]->port == from; i++)
      frame[k++] = (struct dc_frame){.buf = packet_buf(in[i]),
                                     .data = rte_pktmbuf_mtod(in[i], const uint8_t *),
                                     .len = in[i]->data_len,
                                     .port = p->number};
    engine_frames(&s->engine, p, frame, k, now);
  }
  return n;
}

void sw_hear(struct sw *s)
{
  for (unsigned i = 0; i < s->nports; i++) {
    struct dpdk_port *p = &s->ports[i];
    for (unsigned w = 1; w < s->cfg->workers; w++) {
      dc_time heard = atomic_load_explicit(&s->workers[w].sw.ports[i].heard, memory_order_relaxed);
      if (heard <= p->heard_told)
        continue;
      p->heard_told = heard;
      engine_heard(&s->engine, &p->base, heard);
    }
  }
}

/* Discovery frames of our controller, at a cache appliance: sent back, they say that the appliance is there. What they say of
 * the switch holds until the next one. */
static unsigned admit(void *arg, struct port *p, struct dc_frame *frame, unsigned n, dc_time now)
{
  struct member *m = (struct member *)p->node;
  struct discovery probe;
  unsigned kept = 0;
  (void)arg;
  if (!m->cfg->appliance)
    return n;
  for (unsigned i = 0; i < n; i++) {
    if (discovery_read(frame[i].data, frame[i].len, &probe)) {
      m->copies = probe.copies;
      dc_node_set_copies(m->node.core, probe.copies);
      port_send(dpdk_port(p), (struct rte_mbuf *)frame[i].buf, now);
      continue;
    }
    if (kept < i)
      frame[kept] = frame[i];
    kept++;
  }
  return kept;
}

/* All but pools and members. */
static int open_engine(struct sw *s, const struct config *c, struct loop *loop, struct fault *f)
{
  const struct engine_hooks hooks = {.steer = c->workers > 1 ? steer : NULL, .admit = admit};
  unsigned ports = 0;
  memset(s, 0, sizeof *s);
  s->cfg = c;
  s->started = loop_clock();
  for (unsigned i = 0; i < c->nnodes; i++)
    ports += c->nodes[i].nports;
  s->members = calloc(c->nnodes, sizeof *s->members); /* NOLINT: a configuration has nodes */
  s->ports = calloc(ports, sizeof *s->ports);
  if (s->members == NULL || s->ports == NULL || !engine_open(&s->engine, loop, &packet_buf_ops, ports, &hooks, s, f)) {
    sw_close(s);
    return fail(f, "out of memory");
  }
  return 0;
}

static int open_members(struct sw *s, struct sw *first, struct fault *f)
{
  int rc = 0;
  for (; rc == 0 && s->nmembers < s->cfg->nnodes; s->nmembers++)
    rc = open_member(s, &s->members[s->nmembers], &s->cfg->nodes[s->nmembers], first, f);
  if (rc < 0)
    sw_close(s);
  return rc;
}

int sw_open(struct sw *s, const struct config *c, struct loop *loop, struct fault *f)
{
  uint32_t data, headers;
  if (open_engine(s, c, loop, f) < 0)
    return -1;
  sw_pool_sizes(c, &data, &headers);
  if (packet_pools_open(&s->pools, data, headers, ports_frame_bytes(c), f) == 0)
    return open_members(s, NULL, f);
  sw_close(s);
  return -1;
}

int sw_share(struct sw *s, struct sw *first, unsigned index, struct loop *loop, struct fault *f)
{
  if (open_engine(s, first->cfg, loop, f) < 0)
    return -1;
  s->index = index;
  s->engine.no_links = true;
  s->pools = (struct packet_pools){.data = first->pools.data, .headers = first->pools.headers};
  return open_members(s, first, f);
}

void sw_close(struct sw *s)
{
  for (unsigned i = 0; i < s->nports; i++)
    port_close(&s->ports[i]); /* NOLINT: none without memory */
  for (unsigned i = 0; s->members != NULL && i < s->cfg->nnodes; i++) {
    engine_node_close(&s->members[i].node);
  }
  engine_close(&s->engine);
  if (s->index == 0)
    packet_pools_close(&s->pools);
  free(s->members);
  free(s->ports);
  s->members = NULL;
  s->ports = NULL;
  s->nmembers = s->nports = 0;
}

void sw_wipe(struct member *m, bool restart)
{
  if (restart)
    dc_node_clear(m->node.core);
  else
    dc_node_wipe(m->node.core);
  packet_round_over();
}

struct member *sw_member(struct sw *s, const char *name)
{
  for (unsigned i = 0; i < s->nmembers; i++)
    if (strcmp(s->members[i].cfg->name, name) == 0)
      return &s->members[i];
  return NULL;
}
