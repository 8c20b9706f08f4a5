/* Endpoints on a host: sources, and receivers in each of their trees. */
#include <stdlib.h>
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

/* Put a frame that an endpoint wrote on its way: out of a port, or to this host's own node. */
static void leave(sim *s, int v, const struct dc_segment *seg, struct packet *p)
{
  struct vertex *x = &s->vertices[v];
  if (seg->n == 0) {
    vertex_local(s, v, p);
    return;
  }
  int link = seg->port[0] < x->ports ? x->out[seg->port[0]] : -1;
  if (link < 0) {
    packet_give(p);
    return;
  }
  p->wire = s->framing == SIM_PAPER ? DC_HEADER_LEN + p->payload : p->len;
  link_send(s, link, p);
}

/* ---- receivers ---- */

static void ask(sim *s, struct asker *a)
{
  struct tree *t = &s->trees[a->tree];
  struct member *m = &s->members[a->member];
  struct group *g = &s->groups[m->group];
  struct dc_interest in[64];
  unsigned n;
  do {
    n = dc_receiver_poll(a->r, s->now, in, 64);
    for (unsigned i = 0; i < n; i++) {
      struct dc_header h = {
          .flags = in[i].flags, .tree = t->id, .seq = in[i].seq, .cache = dc_cache_code(g->cfg.cache_bytes)};
      struct packet *p = packet_new(&s->pool, DC_PREFIX_MAX + a->path.rest_len);
      p->start = 0;
      p->len = p->real = (uint32_t)dc_interest_write(p->byte, p->cap, &a->path, &h, nowhere, nowhere);
      leave(s, m->vertex, &a->path.first, p);
    }
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

void asker_event(sim *s, int asker)
{
  struct asker *a = &s->askers[asker];
  dc_time at = s->now;
  events_pop(&s->events);
  if (a->armed != at)
    return; /* it was asked for earlier meanwhile, and that has been done */
  a->armed = DC_NEVER;
  if (!silent(s, &s->members[a->member]) && a->routed)
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
    if (a->routed && dc_receiver_refetch(a->r, first, count) > 0)
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
      struct packet *p = packet_new(&s->pool, SMALL);
      uint64_t stamp = content(s, t->group, piece);
      p->start = 0;
      p->payload = h.length;
      p->data = true;
      size_t front = dc_data_write(p->byte, p->cap, tx[i].ret, &h, nowhere, nowhere);
      size_t kept = h.length < STAMP ? h.length : STAMP;
      memcpy(p->byte + front, &stamp, kept);
      p->len = (uint32_t)front + h.length;
      p->real = (uint32_t)(front + kept);
      if (t->first == DC_NEVER)
        t->first = s->now;
      leave(s, g->cfg.source, tx[i].ret, p);
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
  events_pop(&s->events);
  if (t->armed != at)
    return;
  t->armed = DC_NEVER;
  if (!t->paused && s->now < s->groups[t->group].stop)
    send_data(s, t);
  vertex_drain(s);
}

/* ---- a frame for this host's endpoints, from the Datacast header on ---- */

void host_frame(sim *s, int v, const uint8_t *p, uint32_t len, uint32_t real)
{
  struct vertex *x = &s->vertices[v];
  struct dc_header h;
  if (dc_header_parse(p, len, &h) != DC_DROP_NONE)
    return;
  if (h.type == DC_TYPE_DATA) {
    for (int i = 0; i < x->n_askers; i++) {
      struct asker *a = &s->askers[x->askers[i]];
      if (s->trees[a->tree].id == h.tree && a->routed && !silent(s, &s->members[a->member])) {
        on_data(s, a, &h, p + DC_HEADER_LEN, real - DC_HEADER_LEN);
        return;
      }
    }
    return;
  }
  struct dc_segment ret;
  for (int i = 0; i < x->n_sources; i++) {
    struct tree *t = &s->trees[x->sources[i]];
    if (t->id != h.tree)
      continue;
    if (t->paused)
      return;
    if (dc_interest_at_source(p, len, &h, &ret) != DC_DROP_NONE) {
      t->dropped++;
      return;
    }
    dc_source_handle(t->source, s->now, &h, &ret);
    send_data(s, t);
    return;
  }
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
    if (a->routed && m->alive)
      ask(s, a);
  }
}

/* The group's start; or the later start of one of its receivers. */
void group_event(sim *s, int group)
{
  struct group *g = &s->groups[group];
  events_pop(&s->events);
  g->running = true;
  for (int i = 0; i < g->n; i++) {
    struct member *m = &s->members[g->members[i]];
    if (!m->started && s->now >= m->start && s->now >= g->start)
      member_start(s, g->members[i]);
  }
  vertex_drain(s);
}
