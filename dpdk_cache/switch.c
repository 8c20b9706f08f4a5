#include "switch.h"

#include <rte_mempool.h>
#include <stdlib.h>
#include <string.h>

#include "discovery.h"

enum {
  SPARE_PER_PORT = 256,   /* mbufs in flight at a port: a burst in, a burst out, descriptors of real devices */
  SPARE_REAL_PORT = 1536,
  HEADERS_PER_PORT = 512,
  POOL_CACHE = 512,       /* DPDK keeps so many mbufs of a pool per core */
};

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

static int open_member(struct sw *s, struct member *m, const struct node_cfg *cfg, struct fault *f) {
  struct fault inner;
  m->cfg = cfg;
  m->node.name = cfg->name;
  if (!engine_node_open(&m->node, &cfg->core, &packet_buf_ops, &inner))
    return fail(f, "node %s: %s", cfg->name, inner.text);
  for (unsigned i = 0; i < cfg->nports; i++) {
    struct dpdk_port *p = &s->ports[s->nports];
    bool carrier;
    if (port_open(p, s->cfg, &cfg->ports[i], s->nports, &s->pools, &carrier, &inner) < 0)
      return fail(f, "node %s: %s", cfg->name, inner.text);
    s->nports++;
    /* An appliance's neighbour is a switch that says no hellos. */
    engine_attach(&s->engine, &m->node, &p->base, !s->cfg->no_hello && !cfg->appliance, carrier);
  }
  return 0;
}

/* A discovery frame of our controller, at a cache appliance: sent back, it says that the appliance is there. What it says of
 * the switch holds until the next one. */
static bool admit(void *arg, struct port *p, struct dc_frame *frame, dc_time now) {
  struct member *m = (struct member *)p->node;
  struct discovery probe;
  (void)arg;
  if (!m->cfg->appliance || !discovery_read(frame->data, frame->len, &probe)) return true;
  m->copies = probe.copies;
  dc_node_set_copies(m->node.core, probe.copies);
  port_send(dpdk_port(p), (struct rte_mbuf *)frame->buf, now);
  return false;
}

static const struct engine_hooks hooks = {.admit = admit};

int sw_open(struct sw *s, const struct config *c, struct loop *loop, struct fault *f) {
  uint32_t data, headers;
  unsigned ports = 0;
  memset(s, 0, sizeof *s);
  s->cfg = c;
  s->started = loop_clock();
  for (unsigned i = 0; i < c->nnodes; i++) ports += c->nodes[i].nports;
  s->members = calloc(c->nnodes, sizeof *s->members); /* NOLINT: a configuration has nodes */
  s->ports = calloc(ports, sizeof *s->ports);
  if (s->members == NULL || s->ports == NULL || !engine_open(&s->engine, loop, &packet_buf_ops, ports, &hooks, s, f)) {
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
  for (unsigned i = 0; i < s->nports; i++) port_close(&s->ports[i]); /* NOLINT: none without memory */
  for (unsigned i = 0; s->members != NULL && i < s->cfg->nnodes; i++) {
    engine_node_close(&s->members[i].node);
  }
  engine_close(&s->engine);
  packet_pools_close(&s->pools);
  free(s->members);
  free(s->ports);
  s->members = NULL;
  s->ports = NULL;
  s->nmembers = s->nports = 0;
}

void sw_wipe(struct member *m, bool restart) {
  if (restart) dc_node_clear(m->node.core);
  else dc_node_wipe(m->node.core);
}

struct member *sw_member(struct sw *s, const char *name) {
  for (unsigned i = 0; i < s->nmembers; i++)
    if (strcmp(s->members[i].cfg->name, name) == 0) return &s->members[i];
  return NULL;
}
