#include "source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetching.h"
#include "receiver.h"
#include "sendable.h"
#include "sending.h"
#include "shard.h"
#include "source_file.h"

#define RATE_MAX_BPS (INT64_C(1) << 42)

struct source {
  const char *name; /* of the file, for what is told */
  struct file *file;
  struct source_tree *tree[GROUP_TREES_MAX];
  unsigned trees;
  uint32_t other[GROUP_TREES_MAX]; /* trees of the group that begin elsewhere */
  unsigned others;
};

/* ---- what trees tell ---- */

void source_hears_first(void *tree, uint64_t t_ns, void *nothing)
{
  const struct source_tree *t = tree;
  (void)nothing;
  if (t->attached)
    group_first(t->group, t_ns);
}

void source_hears_progress(void *tree, uint64_t sent, void *nothing)
{
  const struct source_tree *t = tree;
  (void)nothing;
  if (t->attached)
    group_event(t->group, "progress",
                json_pack("{s:I,s:I}", "tree", (json_int_t)t->params.id, "seq", (json_int_t)sent));
}

void source_hears_slowed(void *tree, uint64_t n, void *nothing)
{
  const struct source_tree *t = tree;
  (void)n, (void)nothing;
  if (t->attached)
    group_event(t->group, "slowed", json_pack("{s:I}", "tree", (json_int_t)t->params.id));
}

void source_hears_near(void *tree, uint64_t block, void *nothing)
{
  struct source_tree *t = tree;
  (void)nothing;
  if (t->attached)
    source_file_near(t->group, t, (uint32_t)block);
}

void source_hears_passed(void *tree, uint64_t block, void *nothing)
{
  const struct source_tree *t = tree;
  (void)nothing;
  if (t->attached)
    source_file_passed(t->group, (uint32_t)block);
}

void source_hears_failed(void *tree, uint64_t error, void *nothing)
{
  const struct source_tree *t = tree;
  struct fault why;
  (void)nothing;
  if (!t->attached)
    return;
  const char *name = t->group->source->name;
  if ((int64_t)error > 0)
    sendable_fault(&why, (int)error, name);
  else
    fault_set(&why, "changed", "%s changed while it was sent", name);
  group_fail(t->group, &why);
}

/* ---- in the shard, between two rounds (shard_call) ---- */

/* One order for a tree, and what comes of it. */
struct order {
  struct source_tree *tree;
  const struct dc_extent *extent;
  uint64_t n;
  void *memory;
  struct dc_source_cfg cfg;
  int rc;
};

static void added(void *arg)
{
  struct order *o = arg;
  struct source_tree *t = o->tree;
  if (!sending_attach(t)) {
    o->rc = -EEXIST;
    return;
  }
  t->core = dc_source_init(o->memory, t->shard->loop.now, &o->cfg);
  t->mark = UINT32_MAX;
}

static void detached(void *arg) { sending_detach(arg); }

static void assigned(void *arg)
{
  struct order *o = arg;
  o->rc = sending_assign(o->tree, o->extent);
}

static void cut(void *arg)
{
  struct order *o = arg;
  sending_cut(o->tree, (uint32_t)o->n);
}

static void limited(void *arg)
{
  struct order *o = arg;
  dc_source_limit(o->tree->core, o->tree->shard->loop.now, o->n);
}

/* ---- trees ---- */

static struct source_tree *find_tree(const struct source *s, uint32_t id)
{
  for (unsigned i = 0; i < s->trees; i++)
    if (s->tree[i]->params.id == id)
      return s->tree[i];
  return NULL;
}

/* The tree comes to no piece from number `seq` on any more. */
static void pass(struct source_tree *t, uint32_t seq)
{
  uint32_t first, block;
  while (t->reads_ahead && sending_next_block(t, &seq, &first, &block))
    source_file_passed(t->group, block);
}

static void detach(struct source_tree *t)
{
  if (t->attached)
    shard_call(t->shard, detached, t);
  t->attached = false;
  if (t->reads_ahead)
    source_file_left(t->group, t);
}

static void drop_tree(struct group *g, unsigned i)
{
  struct source *s = g->source;
  struct source_tree *t = s->tree[i];
  struct groups *all = g->all;
  detach(t);
  pass(t, t->sent);
  extent_map_free(&t->extents);
  loop_bury(all->host->loop, t->core);
  loop_bury(all->host->loop, t); /* what it told may be there yet */
  s->tree[i] = s->tree[--s->trees];
  all->trees--;
}

static bool add_tree(struct group *g, const struct tree_params *p, struct fault *why)
{
  struct source *s = g->source;
  if (g->all->trees >= TREES_MAX)
    return fault_set(why, "limit", "this host has %d trees already", TREES_MAX);
  struct source_tree *t = calloc(1, sizeof *t);
  void *memory = t == NULL ? NULL : aligned_alloc(64, (dc_source_size() + 63) / 64 * 64);
  if (memory == NULL) {
    free(t);
    return fault_set(why, "io", "out of memory");
  }
  t->group = g;
  t->shard = shard_of(g->all->host->shards, p->id);
  t->params = *p;
  t->file = s->file;
  t->reads_ahead = g->local != NULL;
  struct order o = {.tree = t,
                    .memory = memory,
                    .cfg = {.cc = p->cc, .params = p->rate, .burst_packets = p->burst, .patience = p->patience}};
  if (o.cfg.params.packet_bytes == 0) /* Ethernet, two labels, header: the shortest way over a switch to a host */
    o.cfg.params.packet_bytes = DC_ETHER_LEN + 2 * DC_LABEL_LEN + DC_HEADER_LEN + g->layout.piece;
  shard_call(t->shard, added, &o);
  if (o.rc < 0) {
    free(memory);
    free(t);
    return fault_set(why, "bad_request", "tree %u is another group's on this host", p->id);
  }
  t->attached = true;
  s->tree[s->trees++] = t;
  g->all->trees++;
  return true;
}

bool source_trees(struct group *g, const struct tree_params *p, int own, int n, struct fault *why)
{
  struct source *s = g->source;
  for (unsigned i = 0; i < s->trees;) {
    bool wanted = false;
    for (int k = 0; k < own; k++)
      wanted |= p[k].id == s->tree[i]->params.id;
    if (wanted)
      i++;
    else
      drop_tree(g, i);
  }
  s->others = 0;
  for (int k = own; k < n; k++)
    s->other[s->others++] = p[k].id;
  for (int k = 0; k < own; k++)
    if (find_tree(s, p[k].id) == NULL && !add_tree(g, &p[k], why))
      return false;
  return true;
}

bool source_begins(const struct group *g, uint32_t tree) { return find_tree(g->source, tree) != NULL; }

static bool elsewhere(const struct source *s, uint32_t tree)
{
  for (unsigned i = 0; i < s->others; i++)
    if (s->other[i] == tree)
      return true;
  return false;
}

/* Does this host have what it is to send? */
static bool held(const struct group *g, const struct dc_extent *e)
{
  return g->local != NULL ? source_file_holds(g, e->first, e->count) : receiver_holds(g, e->first, e->count);
}

bool source_assign(struct group *g, uint32_t tree, const struct dc_extent *e, struct fault *why)
{
  struct source *s = g->source;
  struct source_tree *t = find_tree(s, tree);
  if (t == NULL && !elsewhere(s, tree))
    return fault_set(why, "no_tree", "tree %u is not of this group", tree);
  uint32_t end = (uint32_t)((e->first + e->count - 1) / g->layout.per_block) + 1;
  if (t == NULL) {
    source_file_want(g, end);
    return true;
  }
  if (!held(g, e))
    return fault_set(why, "bad_request", "the pieces from %llu on are not all on this host",
                     (unsigned long long)e->first);
  struct order o = {.tree = t, .extent = e};
  if (t->attached)
    shard_call(t->shard, assigned, &o);
  if (o.rc == -EALREADY)
    return fault_set(why, "bad_request", "sequence number %u of tree %u was sent already", e->seq, tree);
  if (o.rc == -ENOSPC)
    return fault_set(why, "limit", "tree %u has too many extents", tree);
  if (o.rc < 0)
    return fault_set(why, "bad_request", "tree %u: the extent at %u does not follow the last one (%u)", tree, e->seq,
                     extent_map_end(&t->extents));
  if (g->local != NULL) { /* before it is heard which blocks are near */
    source_file_leave(g, (uint32_t)(e->first / g->layout.per_block), end);
    source_file_want(g, end);
  }
  return true;
}

void source_cut(struct group *g, uint32_t tree, uint32_t seq)
{
  struct source_tree *t = find_tree(g->source, tree);
  if (t == NULL)
    return;
  pass(t, seq);
  struct order o = {.tree = t, .n = seq};
  if (t->attached)
    shard_call(t->shard, cut, &o);
}

/* ---- beginning and end ---- */

static bool begin(struct group *g, const char *name, struct file *f, struct fault *why)
{
  g->source = calloc(1, sizeof *g->source);
  if (g->source == NULL)
    return fault_set(why, "io", "out of memory");
  *g->source = (struct source){.name = name, .file = file_ref(f)};
  return true;
}

bool source_open(struct group *g, const char *path, const json_t *part, struct fault *why)
{
  if (!source_file_open(g, path, part, why))
    return false;
  if (begin(g, source_file_path(g), source_file(g), why))
    return true;
  source_file_close(g);
  return false;
}

bool source_share(struct group *g, struct fault *why)
{
  struct file *f = receiver_file(g); /* the renamed file is the same one */
  if (f == NULL && g->fetching != NULL)
    f = fetching_file(g);
  if (f == NULL)
    return fault_set(why, "bad_request", "this host has finished its part: no tree can begin here any more");
  return begin(g, receiver_name(g), f, why);
}

void source_stop(struct group *g)
{
  struct source *s = g->source;
  for (unsigned i = 0; i < s->trees; i++)
    detach(s->tree[i]);
  file_unref(s->file);
  s->file = NULL;
  if (g->local != NULL)
    source_file_stop(g);
}

void source_close(struct group *g)
{
  struct source *s = g->source;
  source_stop(g);
  while (s->trees > 0)
    drop_tree(g, 0);
  if (g->local != NULL)
    source_file_close(g);
  loop_bury(g->all->host->loop, s);
  g->source = NULL;
}

bool source_rates(struct group *g, const json_t *rates, struct fault *why)
{
  if (!json_is_object(rates))
    return fault_set(why, "bad_request", "rates must be an object");
  for (int apply = 0; apply < 2; apply++) { /* all of it or nothing */
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)rates, key, value)
    {
      char *end;
      errno = 0;
      unsigned long id = strtoul(key, &end, 10);
      if (key[0] < '0' || key[0] > '9' || *end != '\0' || errno != 0 || id > UINT32_MAX)
        return fault_set(why, "bad_request", "rates: \"%.40s\" is no tree id", key);
      json_int_t bps = json_integer_value(value);
      if (!json_is_null(value) && (!json_is_integer(value) || bps < 1000 || bps > RATE_MAX_BPS))
        return fault_set(why, "bad_request", "rates: tree %lu: wanted an integer from 1000 to %lld, or null", id,
                         (long long)RATE_MAX_BPS);
      struct source_tree *t = find_tree(g->source, (uint32_t)id); /* one that has ended needs no rate */
      struct order o = {.tree = t, .n = json_is_null(value) ? 0 : (uint64_t)bps};
      if (apply != 0 && t != NULL)
        shard_call(t->shard, limited, &o);
    }
  }
  return true;
}

/* What trees have counted, taken in their shards. */
struct counted {
  const struct source *source;
  struct dc_source_counters core[GROUP_TREES_MAX];
  uint32_t sent[GROUP_TREES_MAX];
};

static void count(struct shard *shard, void *arg)
{
  struct counted *c = arg;
  for (unsigned i = 0; i < c->source->trees; i++) {
    const struct source_tree *t = c->source->tree[i];
    if (t->shard != shard)
      continue;
    dc_source_counters(t->core, &c->core[i]);
    c->sent[i] = t->sent;
  }
}

uint64_t source_sent(const struct group *g)
{
  uint64_t sent = 0;
  for (unsigned i = 0; i < g->source->trees; i++)
    sent += __atomic_load_n(&g->source->tree[i]->sent, __ATOMIC_RELAXED); /* the shard's, which goes on */
  return sent;
}

json_t *source_status(struct group *g)
{
  struct source *s = g->source;
  json_t *trees = json_object();
  struct counted all = {.source = s};
  shards_call(g->all->host->shards, count, &all);
  for (unsigned i = 0; i < s->trees; i++) {
    const struct dc_source_counters c = all.core[i];
    uint64_t dropped = 0;
    for (unsigned k = 0; k < DC_DROP_MAX; k++)
      dropped += c.drop[k];
    char id[16];
    snprintf(id, sizeof id, "%u", s->tree[i]->params.id);
    json_object_set_new(trees, id,
                        json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "rate_bps", (json_int_t)c.rate,
                                  "new_packets", (json_int_t)c.new_packets, "dup_packets", (json_int_t)c.dup_packets,
                                  "interests", (json_int_t)c.interests, "merged", (json_int_t)c.merged, "duplicates",
                                  (json_int_t)c.duplicates, "refetches", (json_int_t)c.refetches, "refused",
                                  (json_int_t)dropped, "seq", (json_int_t)all.sent[i], "numbers", (json_int_t)c.numbers,
                                  "queued", (json_int_t)c.queued));
  }
  json_t *status = json_pack("{s:o}", "trees", trees);
  if (g->local != NULL)
    source_file_status(g, status);
  return status;
}
