/* A vertex is a node of libdatacast; what comes out of it goes to links or to this host's endpoints. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

static uint32_t power_above(uint64_t n)
{
  uint32_t p = 64;
  while (p < n && p < DC_NODE_SLOTS_MAX)
    p *= 2;
  return p;
}

/* Room for what the groups can ever ask of a node; untouched memory costs nothing. */
void vertex_room(const sim *s, struct dc_node_cfg *cfg)
{
  uint32_t waiting = 0, piece = DC_PAYLOAD_MAX;
  uint64_t cache = 1;
  for (int i = 0; i < s->n_trees; i++) {
    const struct tree *t = &s->trees[i];
    const struct group *g = &s->groups[t->group];
    uint32_t most = g->cfg.waiting != 0 ? g->cfg.waiting : t->cfg.adaptive ? 2 * DC_CREDITS_MAX : 8 * t->cfg.credits;
    waiting = most > waiting ? most : waiting;
    piece = g->layout.piece < piece ? g->layout.piece : piece;
    cache = g->cfg.cache_bytes > cache ? g->cfg.cache_bytes : cache;
  }
  dc_node_cfg_default(cfg);
  cfg->cache_bytes = (uint32_t)(cache < UINT32_MAX ? cache : UINT32_MAX);
  if (cfg->cache_bytes_max < cfg->cache_bytes)
    cfg->cache_bytes_max = cfg->cache_bytes;
  cfg->memory_bytes = UINT64_C(1) << 40;
  cfg->trees = s->n_trees == 0 ? 1 : (uint32_t)s->n_trees;
  cfg->store_slots = power_above(2 * cache / (piece == 0 ? 1 : piece) + 1);
  cfg->waiting_slots = power_above(waiting);
}

void vertex_prepare(sim *s, int v)
{
  struct vertex *x = &s->vertices[v];
  struct dc_node_cfg cfg;
  vertex_room(s, &cfg);
  cfg.ports = x->ports == 0 ? 1 : x->ports;
  cfg.endpoint = x->host;
  x->memory = calloc(1, dc_node_size(&cfg) + 64);
  if (x->memory == NULL)
    abort();
  uintptr_t aligned = ((uintptr_t)x->memory + 63) & ~(uintptr_t)63;
  x->node = dc_node_init((void *)aligned, &cfg, &packet_ops);
  x->cache_bytes = cfg.cache_bytes;
}

/* A frame to send becomes a packet: in place when nobody else holds the buffer and the new front fits before it. */
static struct packet *make_packet(sim *s, struct dc_tx *tx)
{
  struct packet *from = (struct packet *)(void *)tx->buf;
  uint32_t off = from->start + tx->off, real = from->real > tx->off ? from->real - tx->off : 0;
  if (real > tx->len)
    real = tx->len;
  if (from->refs == 1 && off >= tx->prefix_len) {
    from->start = (uint16_t)(off - tx->prefix_len);
    from->len = tx->prefix_len + tx->len;
    from->real = tx->prefix_len + real;
    memcpy(from->byte + from->start, tx->prefix, tx->prefix_len);
    return from;
  }
  struct packet *p = packet_new(&s->pool, tx->prefix_len + real);
  p->start = 0;
  p->len = tx->prefix_len + tx->len;
  p->real = tx->prefix_len + real;
  p->payload = from->payload;
  p->data = from->data;
  memcpy(p->byte, tx->prefix, tx->prefix_len);
  memcpy(p->byte + tx->prefix_len, from->byte + off, real);
  packet_give(from);
  return p;
}

/* What a node sends: to links, or up to the endpoints. */
static void emit(sim *s, int v, unsigned n, struct dc_tx *tx)
{
  struct vertex *x = &s->vertices[v];
  for (unsigned i = 0; i < n; i++) {
    struct dc_tx *t = &tx[i];
    int link = t->port == DC_PORT_HOST ? -1 : x->out[t->port];
    if (t->port == DC_PORT_HOST) {
      struct packet *p = make_packet(s, t);
      vertex_local(s, ~v, p); /* after this node's frames: an endpoint may answer at once */
    } else if (link < 0) {
      packet_give((struct packet *)(void *)t->buf);
    } else {
      struct packet *p = make_packet(s, t);
      p->wire = s->framing == SIM_PAPER ? DC_HEADER_LEN + p->payload : p->len;
      link_send(s, link, p);
    }
  }
}

void vertex_frame(sim *s, int v, uint16_t port, struct packet *p)
{
  struct dc_frame f = {.buf = (dc_buf *)(void *)p, .data = p->byte + p->start, .len = p->len, .port = port};
  emit(s, v, dc_node_handle(s->vertices[v].node, s->now, &f, s->tx, DC_NODE_TX_MAX), s->tx);
  if (s->local_n > 0)
    vertex_drain(s);
}

/* `v` is a vertex for a frame towards its node, ~vertex for one towards its endpoints. */
void vertex_local(sim *s, int v, struct packet *p)
{
  if (s->local_n == s->local_cap) {
    s->local_cap = s->local_cap == 0 ? 256 : 2 * s->local_cap;
    s->local = realloc(s->local, s->local_cap * sizeof *s->local);
    if (s->local == NULL)
      abort();
  }
  s->local[s->local_n++] = (struct local){v, p};
}

void vertex_drain(sim *s)
{
  for (size_t i = 0; i < s->local_n; i++) {
    struct local l = s->local[i];
    struct packet *p = l.p;
    if (l.vertex >= 0) {
      struct dc_frame f = {.buf = (dc_buf *)(void *)p, .data = p->byte + p->start, .len = p->len, .port = DC_PORT_HOST};
      emit(s, l.vertex, dc_node_handle(s->vertices[l.vertex].node, s->now, &f, s->tx, DC_NODE_TX_MAX), s->tx);
    } else {
      host_frame(s, ~l.vertex, p->byte + p->start, p->len, p->real);
      packet_give(p);
    }
  }
  s->local_n = 0;
}
