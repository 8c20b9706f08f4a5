/* What came out, faults, and the books. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

static struct member *member_of(const sim *s, int group, int receiver)
{
  if (group < 0 || group >= s->n_groups || receiver < 0 || receiver >= s->groups[group].n)
    return NULL;
  return &s->members[s->groups[group].members[receiver]];
}

int sim_receiver_stats(const sim *s, int group, int receiver, struct sim_receiver_stats *out)
{
  const struct member *m = member_of(s, group, receiver);
  if (m == NULL)
    return -1;
  uint64_t held = dc_pieces_held(m->pieces), n = dc_layout_pieces(&s->groups[group].layout);
  *out = (struct sim_receiver_stats){.whole = dc_pieces_whole(m->pieces),
                                     .alive = m->alive,
                                     .finish = m->finish,
                                     .first = m->first,
                                     .pieces = held,
                                     .bytes = held == n ? s->groups[group].layout.size
                                                        : held * s->groups[group].layout.piece,
                                     .wrong = m->wrong,
                                     .bad_blocks = m->bad_blocks};
  return 0;
}

int sim_tree_stats(const sim *s, int tree, struct sim_tree_stats *out)
{
  if (tree < 0 || tree >= s->n_trees)
    return -1;
  struct dc_source_counters c;
  dc_source_counters(s->trees[tree].source, &c);
  *out = (struct sim_tree_stats){.rate = c.rate,
                                 .interests = c.interests,
                                 .merged = c.merged,
                                 .duplicates = c.duplicates,
                                 .refetches = c.refetches,
                                 .new_packets = c.new_packets,
                                 .dup_packets = c.dup_packets,
                                 .first = s->trees[tree].first,
                                 .dropped = s->trees[tree].dropped,
                                 .queued = c.queued,
                                 .seq = c.next_seq,
                                 .numbers = c.numbers};
  for (int i = 0; i < DC_DROP_MAX; i++)
    out->dropped += c.drop[i];
  return 0;
}

int sim_asker_stats(const sim *s, int tree, int receiver, struct sim_asker_stats *out)
{
  if (tree < 0 || tree >= s->n_trees || receiver < 0 || receiver >= s->groups[s->trees[tree].group].n)
    return -1;
  struct dc_receiver_counters c;
  dc_receiver_counters(s->askers[s->trees[tree].first_asker + receiver].r, &c);
  *out = (struct sim_asker_stats){.interests = c.interests,
                                  .retransmitted = c.retransmitted,
                                  .by_gap = c.by_gap,
                                  .by_timeout = c.by_timeout,
                                  .data = c.data,
                                  .duplicates = c.duplicates,
                                  .unknown = c.unknown,
                                  .srtt = c.srtt,
                                  .rto = c.rto,
                                  .credits = c.credits,
                                  .outstanding = c.outstanding,
                                  .seq = c.next_seq};
  return 0;
}

int sim_link_stats(const sim *s, int link, struct sim_link_stats *out)
{
  if (link < 0 || link >= s->n_links)
    return -1;
  *out = s->links[link].count;
  return 0;
}

/* Room for what a node counts of each tree: it may know all there are. The caller frees it. */
static struct dc_tree_counters *room_for_trees(const sim *s)
{
  struct dc_tree_counters *t = calloc((size_t)s->n_trees + 1, sizeof *t);
  if (t == NULL)
    abort();
  return t;
}

int sim_node_stats(const sim *s, int vertex, struct sim_node_stats *out)
{
  if (vertex < 0 || vertex >= s->n_vertices || s->vertices[vertex].node == NULL)
    return -1;
  struct dc_node_counters c;
  struct dc_tree_counters *t = room_for_trees(s);
  dc_node_counters(s->vertices[vertex].node, &c);
  *out = (struct sim_node_stats){
      .interests = c.interests, .hits = c.hits, .data = c.data, .forwarded = c.forwarded, .bytes = c.bytes};
  for (int i = 0; i < DC_DROP_MAX; i++)
    out->drops += c.drop[i];
  unsigned n = dc_node_tree_counters(s->vertices[vertex].node, t, (unsigned)s->n_trees);
  for (unsigned i = 0; i < n; i++) {
    out->evicted += t[i].evicted;
    out->misses += t[i].misses;
    out->aggregated += t[i].aggregated;
    out->waiting += t[i].waiting;
  }
  free(t);
  return 0;
}

/* ---- faults ---- */

static struct link *link_of(sim *s, int link) { return link < 0 || link >= s->n_links ? NULL : &s->links[link]; }

int sim_link_faults(sim *s, int link, const struct sim_faults *f)
{
  struct link *l = link_of(s, link);
  if (l == NULL)
    return sim_fail(s, "no such link");
  l->faults = *f;
  s->damaged |= f->corrupt > 0;
  l->faulty = f->loss_data | f->loss_interest | f->duplicate | f->reorder | f->corrupt;
  return 0;
}

int sim_link_rate(sim *s, int link, uint64_t rate)
{
  struct link *l = link_of(s, link);
  if (l == NULL || rate == 0)
    return sim_fail(s, "no such link, or no rate");
  l->rate = rate;
  l->rest = 0;
  l->memo_len = 0;
  return 0;
}

int sim_link_hold(sim *s, int link, uint64_t time)
{
  struct link *l = link_of(s, link);
  if (l == NULL)
    return sim_fail(s, "no such link");
  l->busy = l->busy > s->now + time ? l->busy : s->now + time;
  return 0;
}

uint64_t sim_link_free(const sim *s, int link) { return link < 0 || link >= s->n_links ? 0 : s->links[link].busy; }

int sim_link_delay(sim *s, int link, uint64_t delay)
{
  struct link *l = link_of(s, link);
  if (l == NULL)
    return sim_fail(s, "no such link");
  l->delay = delay;
  return 0;
}

int sim_link_up(sim *s, int link, bool up)
{
  struct link *l = link_of(s, link);
  if (l == NULL)
    return sim_fail(s, "no such link");
  l->up = up;
  return 0;
}

int sim_node_wipe(sim *s, int vertex)
{
  if (vertex < 0 || vertex >= s->n_vertices || s->vertices[vertex].node == NULL)
    return sim_fail(s, "no such node");
  dc_node_wipe(s->vertices[vertex].node);
  return 0;
}

int sim_node_restart(sim *s, int vertex)
{
  if (vertex < 0 || vertex >= s->n_vertices || s->vertices[vertex].node == NULL)
    return sim_fail(s, "no such node");
  dc_node_clear(s->vertices[vertex].node);
  return 0;
}

int sim_source_pause(sim *s, int tree, bool pause)
{
  if (tree < 0 || tree >= s->n_trees)
    return sim_fail(s, "no such tree");
  struct tree *t = &s->trees[tree];
  t->paused = pause;
  if (!pause && s->now < t->armed) {
    t->armed = s->now;
    events_push(&s->events, s->now, WHO(WHO_SOURCE, tree));
  }
  return 0;
}

int sim_receiver_kill(sim *s, int group, int receiver)
{
  struct member *m = member_of(s, group, receiver);
  if (m == NULL)
    return sim_fail(s, "no such receiver");
  if (m->alive && !dc_pieces_whole(m->pieces) && s->groups[group].stop == DC_NEVER)
    s->unfinished--;
  m->alive = false;
  return 0;
}

int sim_receiver_resume(sim *s, int group, int receiver)
{
  struct member *m = member_of(s, group, receiver);
  if (m == NULL || m->alive)
    return sim_fail(s, "no such receiver, or it lives");
  struct group *g = &s->groups[group];
  m->alive = true;
  if (dc_pieces_whole(m->pieces))
    return 0;
  if (g->stop == DC_NEVER)
    s->unfinished++;
  for (uint32_t b = 0; b < dc_layout_blocks(&g->layout); b++)
    if (!dc_pieces_block_whole(m->pieces, b)) {
      dc_pieces_drop_block(m->pieces, b);
      uint64_t first = (uint64_t)b * g->layout.per_block;
      for (uint32_t i = 0; i < g->layout.per_block && first + i < dc_layout_pieces(&g->layout); i++) {
        m->wrong -= m->bad[first + i];
        m->bad[first + i] = 0;
      }
    }
  for (int k = 0; k < g->n_trees; k++) {
    struct tree *t = &s->trees[g->trees[k]];
    struct asker *a = &s->askers[t->first_asker + m->index];
    struct dc_receiver_cfg cfg = {.credits = t->cfg.credits,
                                  .batch = t->cfg.batch,
                                  .rto_min = t->cfg.rto_min,
                                  .rto_max = t->cfg.rto_max,
                                  .rto_init = t->cfg.rto_init,
                                  .reorder = t->cfg.reorder};
    a->r = dc_receiver_init(a->r, s->now, &cfg, m->pieces);
    for (uint32_t i = 0; i < t->extents.n; i++)
      dc_receiver_assign(a->r, &t->extents.e[i]);
  }
  if (m->started) {
    member_start(s, (int)(m - s->members));
    vertex_drain(s);
  }
  return 0;
}

int sim_receiver_start(sim *s, int group, int receiver, uint64_t at)
{
  struct member *m = member_of(s, group, receiver);
  if (m == NULL || m->started)
    return sim_fail(s, "no such receiver, or it has started");
  if (at < s->now)
    return sim_fail(s, "a receiver cannot begin in the past");
  m->start = at;
  events_push(&s->events, at, WHO(WHO_GROUP, group));
  return 0;
}

/* ---- the books ---- */

/* What does not balance in the nodes, or NULL. `cached`: packets in all stores. */
static const char *check_nodes(const sim *s, uint64_t *cached)
{
  const char *wrong = NULL;
  struct dc_tree_counters *t = room_for_trees(s);
  for (int i = 0; i < s->n_vertices && wrong == NULL; i++) {
    const struct vertex *v = &s->vertices[i];
    if (v->node == NULL)
      continue;
    unsigned n = dc_node_tree_counters(v->node, t, (unsigned)s->n_trees);
    uint64_t bytes = 0;
    struct dc_node_counters c;
    dc_node_counters(v->node, &c);
    for (unsigned k = 0; k < n; k++) {
      bytes += t[k].bytes;
      *cached += t[k].packets;
      if (t[k].bytes > (s->damaged ? v->cache_bytes_max : v->cache_bytes))
        wrong = "a content store is larger than C";
    }
    if (wrong == NULL && bytes != c.bytes)
      wrong = "a node's content stores do not add up";
  }
  free(t);
  return wrong;
}

const char *sim_check(sim *s)
{
  for (int i = 0; i < s->n_members; i++) {
    const struct member *m = &s->members[i];
    const struct group *g = &s->groups[m->group];
    uint64_t n = dc_layout_pieces(&g->layout), held = 0, wrong = 0;
    for (uint64_t k = 0; k < n; k++) {
      held += dc_pieces_has(m->pieces, k);
      wrong += m->bad[k];
    }
    if (held != dc_pieces_held(m->pieces))
      return "a receiver's pieces are miscounted";
    if (wrong != m->wrong)
      return "wrong pieces are miscounted";
    if (dc_pieces_whole(m->pieces) && wrong > 0)
      return "a whole file holds what the source never sent";
  }
  for (int i = 0; i < s->n_askers; i++) {
    struct dc_receiver_counters c;
    dc_receiver_counters(s->askers[i].r, &c);
    if (c.outstanding > c.credits || c.credits > DC_CREDITS_MAX)
      return "more interests are out than credits";
    if (c.retransmitted > c.interests || c.duplicates > c.data)
      return "a receiver's counters do not add up";
  }
  for (int i = 0; i < s->n_trees; i++) {
    struct dc_source_counters c;
    dc_source_counters(s->trees[i].source, &c);
    if (c.queued > DC_SOURCE_QUEUE_MAX)
      return "a source's queue is too long";
    if (c.rate < s->trees[i].cfg.rate_min || c.rate > s->trees[i].cfg.rate_max)
      return "a source's rate left its limits";
    uint64_t dropped = 0;
    for (int k = 0; k < DC_DROP_MAX; k++)
      dropped += c.drop[k];
    if (c.dup_packets > c.duplicates || c.interests > c.merged + c.duplicates + c.new_packets + c.queued + dropped)
      return "a source's interests do not add up";
  }
  uint64_t cached = 0, flying = 0;
  const char *wrong_node = check_nodes(s, &cached);
  if (wrong_node != NULL)
    return wrong_node;
  for (int i = 0; i < s->n_links; i++) {
    const struct link *l = &s->links[i];
    if (l->count.queue_max > l->queue + 1)
      return "a link's queue is longer than its limit";
    for (const struct packet *p = l->head; p != NULL; p = p->next)
      flying++;
  }
  for (size_t i = 0; i < sizeof s->strays / sizeof s->strays[0]; i++)
    flying += s->strays[i].p != NULL;
  if (s->pool.packets != flying)
    return "packets leak";
  uint64_t routes = 0;
  for (int i = 0; i < s->n_askers; i++)
    routes += s->askers[i].route != NULL;
  if (s->pool.bodies > cached + flying + routes)
    return "what packets share leaks";
  return NULL;
}
