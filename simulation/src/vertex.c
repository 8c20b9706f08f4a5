/* A vertex is a node of libdatacast; what comes out of it goes to links or to this host's endpoints. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

/* Slots per packet that a store holds. A policy that keeps old packets needs more: a new packet takes the slot of the one
 * that has its number modulo the slots, whatever the policy says. */
#ifndef SIM_ROOM
#define SIM_ROOM 2
#endif

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
  dc_node_cfg_default(cfg);
  for (int i = 0; i < s->n_trees; i++) {
    const struct tree *t = &s->trees[i];
    const struct group *g = &s->groups[t->group];
    uint32_t most = g->cfg.waiting != 0 ? g->cfg.waiting : cfg->waiting_slots;
    waiting = most > waiting ? most : waiting;
    piece = g->layout.piece < piece ? g->layout.piece : piece;
    cache = g->cfg.cache_bytes > cache ? g->cfg.cache_bytes : cache;
  }
  cfg->cache_bytes = (uint32_t)(cache < UINT32_MAX ? cache : UINT32_MAX);
  if (cfg->cache_bytes_max < cfg->cache_bytes)
    cfg->cache_bytes_max = cfg->cache_bytes;
  cfg->memory_bytes = UINT64_C(1) << 40;
  cfg->trees = s->n_trees == 0 ? 1 : (uint32_t)s->n_trees;
  cfg->store_slots = power_above(SIM_ROOM * cache / (piece == 0 ? 1 : piece) + 1);
  cfg->waiting_slots = power_above(waiting);
}

static struct dc_node_cfg config(const sim *s, int v)
{
  struct dc_node_cfg cfg;
  vertex_room(s, &cfg);
  cfg.ports = s->vertices[v].ports == 0 ? 1 : s->vertices[v].ports;
  cfg.endpoint = s->vertices[v].host;
  if (s->vertices[v].memory > 0) {
    cfg.cache_bytes = s->vertices[v].each;
    cfg.memory_bytes = s->vertices[v].memory;
  }
  return cfg;
}

size_t vertex_memory(const sim *s, int v)
{
  struct dc_node_cfg cfg = config(s, v);
  return dc_node_size(&cfg);
}

void vertex_prepare(sim *s, int v)
{
  struct dc_node_cfg cfg = config(s, v);
  s->vertices[v].node = dc_node_init(memory_take(&s->memory, dc_node_size(&cfg)), &cfg, &packet_ops);
  struct dc_node_cfg room;
  vertex_room(s, &room);
  s->vertices[v].cache_bytes = room.cache_bytes;
  s->vertices[v].cache_bytes_max = cfg.cache_bytes_max;
}

/* A frame to send becomes a packet: `from`, the one at hand, when this is the last of them. Takes over the
 * reference. */
static struct packet *make_packet(sim *s, struct packet *from, const struct dc_tx *tx, bool last)
{
  struct body *body = (struct body *)(void *)tx->buf;
  bool here = body == from->body; /* else from a content store, which keeps data from its header on */
  const uint8_t *bytes = here ? from->byte + from->start + tx->off : body->byte;
  uint32_t real = !here ? body->n : from->real > tx->off ? from->real - tx->off : 0;
  uint32_t head = tx->prefix_len;
  if (here && tx->off <= from->head)
    head += from->head - tx->off;
  else if (here)
    head -= DC_HEADER_LEN; /* the node wrote a new one, in front of a shorter route */
  if (real > tx->len)
    real = tx->len;

  bool data = !here || from->data;
  uint32_t payload = here ? from->payload : body->payload, room = tx->prefix_len + real;
  struct packet *p = last && room <= packet_room(from) ? from : packet_new(&s->pool, room);
  if (p == from && here && from->start + tx->off >= tx->prefix_len) {
    p->start = (uint16_t)(from->start + tx->off - tx->prefix_len);
  } else {
    memmove(p->byte + tx->prefix_len, bytes, real);
    p->start = 0;
  }
  memcpy(p->byte + p->start, tx->prefix, tx->prefix_len);
  p->body = body;
  p->len = tx->prefix_len + tx->len;
  p->payload = payload;
  p->real = (uint16_t)room;
  p->head = (uint16_t)head;
  p->data = data;
  if (last && p != from)
    packet_spend(&s->pool, from);
  return p;
}

/* What a node sends: to links, or up to the endpoints. */
static void emit(sim *s, int v, struct packet *from, unsigned n, struct dc_tx *tx)
{
  struct vertex *x = &s->vertices[v];
  if (n == 0)
    packet_spend(&s->pool, from);
  for (unsigned i = 0; i < n; i++) {
    struct dc_tx *t = &tx[i];
    int link = t->port == DC_PORT_HOST ? -1 : x->out[t->port];
    if (t->port == DC_PORT_HOST) {
      struct packet *p = make_packet(s, from, t, i + 1 == n);
      vertex_local(s, ~v, p); /* after this node's frames: an endpoint may answer at once */
    } else if (link < 0) {
      body_give((struct body *)(void *)t->buf);
      if (i + 1 == n)
        packet_spend(&s->pool, from);
    } else {
      struct packet *p = make_packet(s, from, t, i + 1 == n);
      p->wire = s->framing == SIM_PAPER ? DC_HEADER_LEN + p->payload : p->len;
      link_send(s, link, p);
    }
  }
}

/* The packet's reference to its body is the node's from here on. */
static void handle(sim *s, int v, dc_node *node, uint16_t port, struct packet *p)
{
  struct dc_frame f = {.buf = (dc_buf *)(void *)p->body, .data = p->byte + p->start, .len = p->len, .port = port};
  emit(s, v, p, dc_node_handle(node, s->now, &f, s->tx, DC_NODE_TX_MAX), s->tx);
}

void vertex_frame(sim *s, int v, dc_node *node, uint16_t port, struct packet *p)
{
  handle(s, v, node, port, p);
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
    if (l.vertex >= 0) {
      handle(s, l.vertex, s->vertices[l.vertex].node, DC_PORT_HOST, l.p);
    } else {
      host_frame(s, ~l.vertex, l.p);
      packet_give(&s->pool, l.p);
    }
  }
  s->local_n = 0;
}
