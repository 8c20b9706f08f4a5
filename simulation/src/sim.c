/* Building a simulation, running it, asking it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

enum { LARGE = 256 }; /* vertices from which on huge pages pay */

uint64_t sim_random(sim *s)
{
  uint64_t x = s->rng += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

bool sim_chance(sim *s, uint32_t ppb) { return ppb > 0 && sim_random(s) % 1000000000 < ppb; }

int sim_fail(sim *s, const char *why)
{
  s->error = why;
  return -1;
}

const char *sim_error(const sim *s) { return s->error == NULL ? "no error" : s->error; }

const char *sim_rule(unsigned i) { return dc_cc_name(i); }

sim *sim_new(uint64_t seed, int framing)
{
  sim *s = calloc(1, sizeof *s);
  if (s == NULL)
    abort();
  s->rng = seed;
  s->framing = framing;
  s->events.shift = EVENTS_SHIFT;
  s->pool.memory = &s->memory;
  return s;
}

/* ---- building ---- */

int sim_vertex(sim *s, bool host)
{
  if (s->ready)
    return sim_fail(s, "the network cannot change once it runs");
  s->vertices = grow(s->vertices, s->n_vertices, sizeof *s->vertices);
  s->vertices[s->n_vertices] = (struct vertex){.host = host};
  s->memory.huge = s->n_vertices >= LARGE;
  return s->n_vertices++;
}

int sim_node_memory(sim *s, int vertex, uint32_t each, uint64_t all)
{
  if (vertex < 0 || vertex >= s->n_vertices || s->vertices[vertex].node != NULL)
    return sim_fail(s, "no such vertex, or it runs already");
  if (each == 0 || all < each)
    return sim_fail(s, "a node has memory for one store at least");
  s->vertices[vertex].each = each;
  s->vertices[vertex].memory = all;
  return 0;
}

static int one_way(sim *s, int a, int port_a, int b, int port_b, uint64_t rate, uint64_t delay, uint32_t queue)
{
  struct vertex *x = &s->vertices[a];
  if (port_a >= x->ports) {
    x->out = realloc(x->out, (size_t)(port_a + 1) * sizeof *x->out);
    if (x->out == NULL)
      abort();
    for (int p = x->ports; p <= port_a; p++)
      x->out[p] = -1;
    x->ports = (uint16_t)(port_a + 1);
  }
  if (x->out[port_a] >= 0)
    return sim_fail(s, "a port has two cables");
  s->links = grow(s->links, s->n_links, sizeof *s->links);
  s->links[s->n_links] = (struct link){
      .from = a, .to = b, .to_port = (uint16_t)port_b, .up = true, .rate = rate, .delay = delay, .queue = queue};
  return x->out[port_a] = s->n_links++;
}

int sim_cable(sim *s, int a, int port_a, int b, int port_b, uint64_t rate, uint64_t delay, uint32_t queue)
{
  if (s->ready)
    return sim_fail(s, "the network cannot change once it runs");
  if (a < 0 || b < 0 || a >= s->n_vertices || b >= s->n_vertices || a == b)
    return sim_fail(s, "a cable needs two vertices");
  if (port_a < 0 || port_b < 0 || port_a >= DC_NODE_PORTS_MAX || port_b >= DC_NODE_PORTS_MAX)
    return sim_fail(s, "a node has 256 ports");
  if (rate == 0 || rate > UINT64_C(1000000000000))
    return sim_fail(s, "a link's rate is between 1 bit/s and 1 Tb/s");
  int there = one_way(s, a, port_a, b, port_b, rate, delay, queue);
  return there < 0 || one_way(s, b, port_b, a, port_a, rate, delay, queue) < 0 ? -1 : there;
}

int sim_group(sim *s, const struct sim_group_cfg *cfg)
{
  if (cfg->source < 0 || cfg->source >= s->n_vertices || !s->vertices[cfg->source].host)
    return sim_fail(s, "the source is not a host");
  if (cfg->piece == 0 || cfg->piece > DC_PAYLOAD_MAX || cfg->per_block == 0)
    return sim_fail(s, "a piece has 1 to 65,000 bytes, a block at least one piece");
  s->groups = grow(s->groups, s->n_groups, sizeof *s->groups);
  s->groups[s->n_groups] =
      (struct group){.cfg = *cfg,
                     .layout = {.size = cfg->size, .piece = cfg->piece, .per_block = cfg->per_block},
                     .cache_code = dc_cache_code(cfg->cache_bytes),
                     .start = DC_NEVER,
                     .stop = DC_NEVER};
  return s->n_groups++;
}

int sim_receiver(sim *s, int group, int vertex)
{
  if (group < 0 || group >= s->n_groups)
    return sim_fail(s, "no such group");
  struct group *g = &s->groups[group];
  if (vertex < 0 || vertex >= s->n_vertices || !s->vertices[vertex].host || vertex == g->cfg.source)
    return sim_fail(s, "a receiver is a host other than the source");
  if (g->n_trees > 0)
    return sim_fail(s, "a group's receivers come before its trees");
  if (memory_room(s, (double)dc_layout_pieces(&g->layout) + (double)dc_pieces_size(&g->layout)) < 0)
    return -1;
  s->members = grow(s->members, s->n_members, sizeof *s->members);
  struct member *m = &s->members[s->n_members];
  *m = (struct member){
      .group = group, .index = g->n, .vertex = vertex, .alive = true, .first = DC_NEVER, .finish = DC_NEVER};
  m->bad = memory_take(&s->memory, (size_t)dc_layout_pieces(&g->layout) + 1);
  m->pieces = dc_pieces_init(memory_take(&s->memory, dc_pieces_size(&g->layout)), &g->layout);
  g->members = grow(g->members, g->n, sizeof *g->members);
  g->members[g->n] = s->n_members++;
  return g->n++;
}

static dc_receiver *new_receiver(sim *s, const struct tree *t, dc_pieces *pieces)
{
  struct dc_receiver_cfg cfg = {.credits = t->cfg.credits,
                                .batch = t->cfg.batch,
                                .rto_min = t->cfg.rto_min,
                                .rto_max = t->cfg.rto_max,
                                .rto_init = t->cfg.rto_init,
                                .reorder = t->cfg.reorder};
  return dc_receiver_init(memory_take(&s->memory, dc_receiver_size()), s->now, &cfg, pieces);
}

int sim_tree(sim *s, int group, uint32_t id, const struct sim_tree_cfg *cfg)
{
  if (group < 0 || group >= s->n_groups)
    return sim_fail(s, "no such group");
  const struct dc_cc_ops *cc = dc_cc_find(cfg->cc);
  if (cc == NULL)
    return sim_fail(s, "no such rule of rate control");
  struct group *g = &s->groups[group];
  if (memory_room(s, (double)dc_source_size() + (double)dc_receiver_size() * g->n) < 0)
    return -1;
  s->trees = grow(s->trees, s->n_trees, sizeof *s->trees);
  struct tree *t = &s->trees[s->n_trees];
  *t = (struct tree){
      .group = group, .id = id, .cfg = *cfg, .first_asker = s->n_askers, .armed = DC_NEVER, .first = DC_NEVER};
  t->cfg.cc = cc->name; /* not the caller's string */
  struct dc_source_cfg source = {.cc = cc,
                                 .params = {.rate_init = cfg->rate_init,
                                            .rate_min = cfg->rate_min,
                                            .rate_max = cfg->rate_max,
                                            .delta = cfg->delta,
                                            .interval = cfg->interval,
                                            .packet_bytes = cfg->packet_bytes,
                                            .credits = cfg->credits},
                                 .burst_packets = cfg->burst};
  t->source = dc_source_init(memory_take(&s->memory, dc_source_size()), s->now, &source);
  for (int i = 0; i < g->n; i++) {
    struct member *m = &s->members[g->members[i]];
    s->askers = grow(s->askers, s->n_askers, sizeof *s->askers);
    s->askers[s->n_askers] = (struct asker){
        .tree = s->n_trees, .member = g->members[i], .armed = DC_NEVER, .r = new_receiver(s, t, m->pieces)};
    struct vertex *v = &s->vertices[m->vertex];
    v->askers = grow(v->askers, v->n_askers, sizeof *v->askers);
    v->askers[v->n_askers++] = (struct endpoint){id, s->n_askers++};
  }
  struct vertex *v = &s->vertices[g->cfg.source];
  v->sources = grow(v->sources, v->n_sources, sizeof *v->sources);
  v->sources[v->n_sources++] = (struct endpoint){id, s->n_trees};
  g->trees = grow(g->trees, g->n_trees, sizeof *g->trees);
  g->trees[g->n_trees++] = s->n_trees;
  return s->n_trees++;
}

static struct asker *asker_of(const sim *s, int tree, int receiver)
{
  if (tree < 0 || tree >= s->n_trees || receiver < 0 || receiver >= s->groups[s->trees[tree].group].n)
    return NULL;
  return &s->askers[s->trees[tree].first_asker + receiver];
}

int sim_route(sim *s, int tree, int receiver, const uint8_t *blob, size_t len)
{
  struct asker *a = asker_of(s, tree, receiver);
  if (a == NULL)
    return sim_fail(s, "no such receiver in this tree");
  struct dc_path path;
  if (dc_path_parse(&path, blob, len) != 0)
    return sim_fail(s, "a route is malformed");
  if (a->path == NULL)
    a->path = memory_take(&s->memory, sizeof path);
  *a->path = path;
  asker_route(s, a);
  return 0;
}

int sim_extent(sim *s, int tree, uint64_t first, uint32_t count)
{
  if (tree < 0 || tree >= s->n_trees)
    return sim_fail(s, "no such tree");
  struct tree *t = &s->trees[tree];
  struct group *g = &s->groups[t->group];
  uint64_t pieces = dc_layout_pieces(&g->layout);
  if (count == 0)
    return 0;
  if (first >= pieces || count > pieces - first) {
    snprintf(s->text, sizeof s->text, "the file has %llu pieces", (unsigned long long)pieces);
    return sim_fail(s, s->text);
  }
  struct dc_extent e = {.seq = dc_extents_end(&t->extents), .count = count, .first = first};
  if (dc_extents_append(&t->extents, &e) != 0)
    return sim_fail(s, "too many pieces or extents for one tree");
  dc_source_assign(t->source, e.seq, e.count);
  for (int i = 0; i < g->n; i++) {
    struct asker *a = &s->askers[t->first_asker + i];
    if (dc_receiver_assign(a->r, &e) != 0)
      return sim_fail(s, "too many extents for one tree");
    if (s->ready && s->members[a->member].started)
      asker_wake(s, a);
  }
  return 0;
}

int sim_schedule(sim *s, int group, uint64_t start, uint64_t stop)
{
  if (group < 0 || group >= s->n_groups)
    return sim_fail(s, "no such group");
  struct group *g = &s->groups[group];
  if (g->start != DC_NEVER)
    return sim_fail(s, "the group is scheduled already");
  if (start < s->now)
    return sim_fail(s, "a group cannot begin in the past");
  g->start = start;
  g->stop = stop;
  if (stop == DC_NEVER)
    s->unfinished += g->n;
  events_push(&s->events, start, WHO(WHO_GROUP, group));
  return 0;
}

int sim_limit(sim *s, int tree, uint64_t at, uint64_t bps)
{
  if (tree < 0 || tree >= s->n_trees)
    return sim_fail(s, "no such tree");
  if (at < s->now)
    return sim_fail(s, "a share cannot be told in the past");
  s->limits = grow(s->limits, s->n_limits, sizeof *s->limits);
  s->limits[s->n_limits] = (struct limit){tree, at, bps};
  events_push(&s->events, at, WHO(WHO_LIMIT, s->n_limits++));
  return 0;
}

/* ---- running ---- */

int sim_prepare(sim *s)
{
  if (s->ready)
    return 0;
  double need = 0;
  for (int v = 0; v < s->n_vertices; v++)
    need += (double)vertex_memory(s, v);
  for (int i = 0; i < s->n_askers; i++) /* packets on the way, both ways */
    need += 2.0 * (sizeof(struct packet) + SMALL) * s->trees[s->askers[i].tree].cfg.credits;
  if (memory_room(s, need) < 0)
    return -1;
  for (int v = 0; v < s->n_vertices; v++)
    vertex_prepare(s, v);
  for (int i = 0; i < s->n_links; i++)
    s->links[i].node = s->vertices[s->links[i].to].node;
  s->ready = true;
  return 0;
}

uint64_t sim_run(sim *s, uint64_t until, bool whole)
{
  if (sim_prepare(s) < 0)
    abort();
  if (until < s->now)
    return s->now;
  while (!(whole && s->unfinished == 0) && events_ready(&s->events)) {
    struct event e = s->events.now[s->events.at];
    if (e.at > until) {
      s->now = until;
      break;
    }
    s->events.at++;
    if (s->memory.huge)
      look_ahead(s);
    s->now = e.at;
    s->digest = (s->digest ^ (e.at + e.who)) * UINT64_C(0x100000001b3);
    int i = (int)WHO_INDEX(e.who);
    switch (WHO_KIND(e.who)) {
    case WHO_LINK:
      link_event(s, i);
      break;
    case WHO_ASKER:
      asker_event(s, i);
      break;
    case WHO_SOURCE:
      source_event(s, i);
      break;
    case WHO_STRAY:
      stray_event(s, (uint32_t)i);
      break;
    case WHO_TCP:
      tcp_event(s, i);
      break;
    case WHO_GROUP:
      group_event(s, i);
      break;
    case WHO_LIMIT:
      limit_event(s, i);
      break;
    }
  }
  if (!whole && until != UINT64_MAX && s->now < until) /* nothing happens until then: whole, or dead */
    s->now = until;
  return s->now;
}

uint64_t sim_now(const sim *s) { return s->now; }
uint64_t sim_hops(const sim *s) { return s->hops; }
uint64_t sim_digest(const sim *s) { return s->digest ^ s->hops; }
int sim_links(const sim *s) { return s->n_links; }

void sim_free(sim *s)
{
  for (int i = 0; i < s->n_vertices; i++) {
    free(s->vertices[i].out);
    free(s->vertices[i].askers);
    free(s->vertices[i].sources);
  }
  for (int i = 0; i < s->n_groups; i++) {
    free(s->groups[i].members);
    free(s->groups[i].trees);
  }
  tcp_free(s);
  memory_free(&s->memory);
  free(s->links);
  free(s->vertices);
  free(s->members);
  free(s->askers);
  free(s->trees);
  free(s->groups);
  free(s->limits);
  free(s->local);
  events_free(&s->events);
  free(s);
}
