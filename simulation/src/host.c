/* Endpoints on a host: sources, and receivers in each of their trees. */
#include <string.h>

#include "engine.h"

static const uint8_t nowhere[6];

/* What a piece holds, in eight bytes. */
uint64_t content(const sim *s, int group, uint64_t piece)
{
  (void)s;
  uint64_t x = (piece + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ ((uint64_t)group + 1) * UINT64_C(0xbf58476d1ce4e5b9);
  x ^= x >> 30;
  x *= UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* The link by which an endpoint's frames for this segment leave; LOCAL: to this host's own node, NOWHERE: no such
 * port. */
enum { LOCAL = -1, NOWHERE = -2 };

static int way_out(const sim *s, int v, const struct dc_segment *seg)
{
  const struct vertex *x = &s->vertices[v];
  if (seg->n == 0)
    return LOCAL;
  return seg->port[0] < x->ports && x->out[seg->port[0]] >= 0 ? x->out[seg->port[0]] : NOWHERE;
}

/* Put a frame that an endpoint wrote on its way. */
static void leave(sim *s, int v, int link, struct packet *p)
{
  if (link == LOCAL) {
    vertex_local(s, v, p);
  } else if (link == NOWHERE) {
    packet_give(&s->pool, p);
  } else {
    p->wire = s->framing == SIM_PAPER ? DC_HEADER_LEN + p->payload : p->len;
    link_send(s, link, p);
  }
}

/* ---- receivers ---- */

/* The interests of a receiver in a tree differ in their headers only. */
void asker_route(sim *s, struct asker *a)
{
  uint8_t frame[DC_PREFIX_MAX + DC_ROUTE_MAX];
  struct dc_header h = {.tree = s->trees[a->tree].id};
  size_t len = dc_interest_write(frame, sizeof frame, a->path, &h, nowhere, nowhere);
  a->rest = a->path->rest_len;
  a->front = (uint16_t)(len - a->rest - DC_HEADER_LEN);
  a->stops = a->path->stops;
  a->out = way_out(s, s->members[a->member].vertex, &a->path->first);
  a->interest = memory_take(&s->memory, len);
  memcpy(a->interest, frame, len);
  if (a->route == NULL)
    a->route = body_new(&s->pool, 0);
}

static void send_interest(sim *s, struct asker *a, const struct member *m, const struct dc_interest *x)
{
  const struct tree *t = &s->trees[a->tree];
  uint32_t len = a->front + DC_HEADER_LEN + a->rest;
  struct packet *p = packet_new(&s->pool, len);
  struct dc_header h = {.type = DC_TYPE_INTEREST,
                        .flags = x->flags,
                        .length = a->rest,
                        .tree = t->id,
                        .seq = x->seq,
                        .stops = a->stops,
                        .cache = s->groups[t->group].cache_code,
                        .more = x->more};
  memcpy(p->byte, a->interest, len);
  dc_header_write(p->byte + a->front, &h);
  p->head = a->front;
  p->len = len;
  p->real = (uint16_t)len;
  p->body = a->route;
  a->route->refs++;
  leave(s, m->vertex, a->out, p);
}

static void ask(sim *s, struct asker *a)
{
  const struct member *m = &s->members[a->member];
  struct dc_interest in[64];
  unsigned n;
  do {
    n = dc_receiver_poll(a->r, s->now, in, 64);
    for (unsigned i = 0; i < n; i++)
      send_interest(s, a, m, &in[i]);
  } while (n == 64);
  dc_time wake = dc_receiver_next_wake(a->r);
  if (wake < a->armed) {
    a->armed = wake;
    events_push(&s->events, wake, WHO(WHO_ASKER, a - s->askers));
  }
}

static bool silent(const sim *s, const struct member *m)
{
  return !m->alive || !m->started || s->now >= s->groups[m->group].stop;
}

/* There is more to ask for than it knew of. */
void asker_wake(sim *s, struct asker *a)
{
  if (s->now < a->armed) {
    a->armed = s->now;
    events_push(&s->events, s->now, WHO(WHO_ASKER, a - s->askers));
  }
}

void asker_event(sim *s, int asker)
{
  struct asker *a = &s->askers[asker];
  dc_time at = s->now;
  if (a->armed != at)
    return; /* it was asked for earlier meanwhile, and that has been done */
  a->armed = DC_NEVER;
  if (!silent(s, &s->members[a->member]) && a->route != NULL)
    ask(s, a);
  vertex_drain(s);
}

static void finish(sim *s, struct member *m)
{
  struct group *g = &s->groups[m->group];
  m->finish = s->now;
  g->whole++;
  if (g->stop == DC_NEVER)
    s->unfinished--;
}

/* A block's checksum: whether each of its pieces is what the source sent. */
static void check_block(sim *s, struct member *m, uint32_t block)
{
  struct group *g = &s->groups[m->group];
  uint64_t first = (uint64_t)block * g->layout.per_block, n = dc_layout_pieces(&g->layout);
  uint32_t count = (uint32_t)(n - first < g->layout.per_block ? n - first : g->layout.per_block);
  bool good = true;
  for (uint32_t i = 0; i < count; i++)
    good = good && !m->bad[first + i];
  if (good)
    return;
  m->bad_blocks++;
  for (uint32_t i = 0; i < count; i++) {
    m->wrong -= m->bad[first + i];
    m->bad[first + i] = 0;
  }
  dc_pieces_drop_block(m->pieces, block);
  for (int k = 0; k < g->n_trees; k++) {
    struct asker *a = &s->askers[s->trees[g->trees[k]].first_asker + m->index];
    if (a->route != NULL && dc_receiver_refetch(a->r, first, count) > 0)
      ask(s, a);
  }
}

static void on_data(sim *s, struct asker *a, const struct dc_header *h, const uint8_t *payload, uint32_t real)
{
  struct member *m = &s->members[a->member];
  uint64_t piece, got = 0, want;
  enum dc_rx_result r = dc_receiver_handle(a->r, s->now, h, &piece);
  if (r == DC_RX_NEW) {
    size_t n = h->length < STAMP ? h->length : STAMP;
    want = content(s, m->group, piece);
    memcpy(&got, payload, n < real ? n : real);
    if (n < STAMP)
      want &= (UINT64_C(1) << 8 * n) - 1;
    if (m->pieces != NULL && got != want) {
      m->bad[piece] = 1;
      m->wrong++;
    }
    if (m->first == DC_NEVER)
      m->first = s->now;
    uint32_t block = (uint32_t)(piece / s->groups[m->group].layout.per_block);
    if (m->wrong > 0 && dc_pieces_block_whole(m->pieces, block))
      check_block(s, m, block);
    if (dc_pieces_whole(m->pieces) && m->finish == DC_NEVER)
      finish(s, m);
  }
  ask(s, a);
}

/* ---- sources ---- */

static void send_data(sim *s, struct tree *t)
{
  struct group *g = &s->groups[t->group];
  struct dc_source_tx tx[64];
  unsigned n;
  do {
    n = dc_source_poll(t->source, s->now, tx, 64);
    for (unsigned i = 0; i < n; i++) {
      uint64_t piece;
      if (!dc_extents_piece(&t->extents, tx[i].seq, &piece))
        continue;
      struct dc_header h = {.flags = tx[i].flags,
                            .length = (uint16_t)dc_layout_piece_len(&g->layout, piece),
                            .tree = t->id,
                            .seq = tx[i].seq};
      size_t cap = DC_ETHER_LEN + (size_t)DC_LABEL_LEN * tx[i].ret->n + DC_HEADER_LEN;
      struct packet *p = packet_new(&s->pool, cap + STAMP);
      uint64_t stamp = content(s, t->group, piece);
      size_t front = dc_data_write(p->byte, cap, tx[i].ret, &h, nowhere, nowhere);
      size_t kept = h.length < STAMP ? h.length : STAMP;
      memcpy(p->byte + front, &stamp, kept);
      p->payload = h.length;
      p->data = true;
      p->len = (uint32_t)front + h.length;
      p->real = (uint16_t)(front + kept);
      p->head = (uint16_t)(front - DC_HEADER_LEN);
      p->body = body_new(&s->pool, DC_HEADER_LEN + kept);
      p->body->payload = p->payload;
      memcpy(p->body->byte, p->byte + p->head, p->body->n);
      if (t->first == DC_NEVER)
        t->first = s->now;
      leave(s, g->cfg.source, way_out(s, g->cfg.source, tx[i].ret), p);
    }
  } while (n == 64);
  dc_time wake = dc_source_next_wake(t->source);
  if (wake < t->armed) {
    t->armed = wake;
    events_push(&s->events, wake, WHO(WHO_SOURCE, t - s->trees));
  }
}

void source_event(sim *s, int tree)
{
  struct tree *t = &s->trees[tree];
  dc_time at = s->now;
  if (t->armed != at)
    return;
  t->armed = DC_NEVER;
  if (!t->paused && s->now < s->groups[t->group].stop)
    send_data(s, t);
  vertex_drain(s);
}

void limit_event(sim *s, int limit)
{
  const struct limit *l = &s->limits[limit];
  struct tree *t = &s->trees[l->tree];
  dc_source_limit(t->source, s->now, l->bps);
  if (!t->paused && s->now < s->groups[t->group].stop)
    send_data(s, t);
  vertex_drain(s);
}

/* ---- a frame for this host's endpoints, from the Datacast header on ---- */

static int endpoint_of(const struct endpoint *e, int n, uint32_t id, int from)
{
  while (from < n && e[from].id != id)
    from++;
  return from;
}

void host_frame(sim *s, int v, const struct packet *p)
{
  struct vertex *x = &s->vertices[v];
  const uint8_t *bytes = p->byte + p->start;
  struct dc_header h;
  if (dc_header_parse(bytes, p->len, &h) != DC_DROP_NONE)
    return;
  if (h.type == DC_TYPE_DATA) {
    for (int i = 0; (i = endpoint_of(x->askers, x->n_askers, h.tree, i)) < x->n_askers; i++) {
      struct asker *a = &s->askers[x->askers[i].index];
      if (a->route != NULL && !silent(s, &s->members[a->member])) {
        on_data(s, a, &h, bytes + DC_HEADER_LEN, p->real - DC_HEADER_LEN);
        return;
      }
    }
    return;
  }
  struct dc_segment ret;
  int i = endpoint_of(x->sources, x->n_sources, h.tree, 0);
  if (i == x->n_sources)
    return;
  struct tree *t = &s->trees[x->sources[i].index];
  if (t->paused)
    return;
  if (dc_interest_at_source(bytes, p->len, &h, &ret) != DC_DROP_NONE) {
    t->dropped++;
    return;
  }
  dc_source_handle(t->source, s->now, &h, &ret);
  send_data(s, t);
}

/* ---- start and stop ---- */

void member_start(sim *s, int member)
{
  struct member *m = &s->members[member];
  struct group *g = &s->groups[m->group];
  m->started = true;
  if (dc_pieces_whole(m->pieces) && m->finish == DC_NEVER)
    finish(s, m);
  for (int k = 0; k < g->n_trees; k++) {
    struct asker *a = &s->askers[s->trees[g->trees[k]].first_asker + m->index];
    if (a->route != NULL && m->alive)
      ask(s, a);
  }
}

/* The group's start; or the later start of one of its receivers. */
void group_event(sim *s, int group)
{
  struct group *g = &s->groups[group];
  g->running = true;
  for (int i = 0; i < g->n; i++) {
    struct member *m = &s->members[g->members[i]];
    if (!m->started && s->now >= m->start && s->now >= g->start)
      member_start(s, g->members[i]);
  }
  vertex_drain(s);
}
