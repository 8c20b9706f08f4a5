/* A simulation as text, before it runs: for another simulator that is to run the very same (simulation/ns3). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

struct text {
  char *p;
  size_t n, cap;
};

static void put(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct text *t, const char *format, ...)
{
  for (;;) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->p + t->n, t->cap - t->n, format, args);
    va_end(args);
    if (n < 0)
      abort();
    if ((size_t)n < t->cap - t->n) {
      t->n += (size_t)n;
      return;
    }
    t->cap = 2 * t->cap + (size_t)n + 1;
    t->p = realloc(t->p, t->cap);
    if (t->p == NULL)
      abort();
  }
}

static int port_of(const struct vertex *v, int link)
{
  for (int p = 0; p < v->ports; p++)
    if (v->out[p] == link)
      return p;
  return -1;
}

static bool network(const sim *s, struct text *t)
{
  struct dc_node_cfg room;
  vertex_room(s, &room);
  put(t, "room %u %u %u %u\n", room.cache_bytes, room.trees, room.store_slots, room.waiting_slots);
  for (int i = 0; i < s->n_vertices; i++) {
    if (s->vertices[i].memory > 0)
      return false;
    put(t, "vertex %s\n", s->vertices[i].host ? "host" : "switch");
  }
  for (int i = 0; i + 1 < s->n_links; i += 2) { /* sim_cable makes both directions, side by side */
    const struct link *a = &s->links[i], *b = a + 1;
    if (!a->up || !b->up || a->delay != b->delay || a->queue != b->queue)
      return false;
    put(t, "cable %d %d %d %d %llu %llu %llu %u\n", a->from, port_of(&s->vertices[a->from], i), a->to, a->to_port,
        (unsigned long long)a->rate, (unsigned long long)b->rate, (unsigned long long)a->delay, a->queue);
  }
  for (int i = 0; i < s->n_links; i++) {
    const struct sim_faults *f = &s->links[i].faults;
    if (f->duplicate | f->reorder | f->corrupt)
      return false;
    if (f->jitter > 0)
      put(t, "late %d %llu\n", i, (unsigned long long)f->jitter);
    if (f->loss_data | f->loss_interest | f->early)
      put(t, "loss %d %u %u %s\n", i, f->loss_data, f->loss_interest, f->early ? "early" : "wire");
  }
  return true;
}

/* The route's blob again, from what was parsed of it. */
static void route(struct text *t, int tree, int receiver, const struct dc_path *path)
{
  uint8_t blob[DC_ROUTE_MAX];
  struct dc_stop own = {.fwd = path->first};
  size_t n = dc_stop_write(blob, sizeof blob, &own);
  memcpy(blob + n, path->rest, path->rest_len);
  n += path->rest_len;
  put(t, "route %d %d ", tree, receiver);
  for (size_t i = 0; i < n; i++)
    put(t, "%02x", blob[i]);
  put(t, "\n");
}

static void one_tree(const sim *s, struct text *t, int i)
{
  const struct tree *x = &s->trees[i];
  const struct sim_tree_cfg *c = &x->cfg;
  put(t, "tree %d %u %s %llu %llu %llu %llu %llu %u %u %u %u %llu %llu %llu %u\n", x->group, x->id, c->cc,
      (unsigned long long)c->rate_init, (unsigned long long)c->rate_min, (unsigned long long)c->rate_max,
      (unsigned long long)c->delta, (unsigned long long)c->interval, c->burst, c->packet_bytes, c->credits, c->batch,
      (unsigned long long)c->rto_min, (unsigned long long)c->rto_max, (unsigned long long)c->rto_init, c->reorder);
  for (int k = 0; k < s->groups[x->group].n; k++)
    if (s->askers[x->first_asker + k].path != NULL)
      route(t, i, k, s->askers[x->first_asker + k].path);
  for (uint32_t k = 0; k < x->extents.n; k++)
    put(t, "extent %d %u %u %llu\n", i, x->extents.e[k].seq, x->extents.e[k].count,
        (unsigned long long)x->extents.e[k].first);
}

static void limits(const sim *s, struct text *t)
{
  for (int i = 0; i < s->n_limits; i++)
    put(t, "limit %d %llu %llu\n", s->limits[i].tree, (unsigned long long)s->limits[i].at,
        (unsigned long long)s->limits[i].bps);
}

static bool groups(const sim *s, struct text *t)
{
  for (int i = 0; i < s->n_groups; i++) {
    const struct group *g = &s->groups[i];
    put(t, "group %d %llu %u %u %llu %llu %llu", g->cfg.source, (unsigned long long)g->cfg.size, g->cfg.piece,
        g->cfg.per_block, (unsigned long long)g->cfg.cache_bytes, (unsigned long long)g->start,
        (unsigned long long)g->stop);
    for (int k = 0; k < g->n; k++) {
      const struct member *m = &s->members[g->members[k]];
      if (!m->alive || m->start != 0)
        return false;
      put(t, " %d", m->vertex);
    }
    put(t, "\n");
  }
  return true;
}

char *sim_describe(sim *s)
{
  struct text t = {.p = malloc(1 << 16), .cap = 1 << 16};
  if (t.p == NULL)
    abort();
  const char *wrong = s->ready ? "it runs already" : s->n_flows > 0 ? "TCP connections are described apart" : NULL;
  put(&t, "seed %llu\nframing %s\n", (unsigned long long)s->rng, s->framing == SIM_PAPER ? "paper" : "ethernet");
  if (wrong == NULL && !network(s, &t))
    wrong = "links with other faults than loss and jitter cannot be described";
  if (wrong == NULL && !groups(s, &t))
    wrong = "late or dead receivers cannot be described";
  if (wrong == NULL) {
    for (int i = 0; i < s->n_trees; i++)
      one_tree(s, &t, i);
    limits(s, &t);
    return t.p;
  }
  sim_fail(s, wrong);
  free(t.p);
  return NULL;
}

void sim_text_free(char *text) { free(text); }
