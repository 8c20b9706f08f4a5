#include "receiver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "receiver_counts.h"
#include "receiver_state.h"
#include "shard.h"
#include "wants.h"

/* ---- what trees tell ---- */

void receiver_hears_first(void *tree, uint64_t t_ns, void *nothing)
{
  const struct receiver_tree *t = tree;
  (void)nothing;
  if (t->attached)
    group_first(t->group, t_ns);
}

void receiver_hears_resumed(void *tree, uint64_t t_ns, void *nothing)
{
  const struct receiver_tree *t = tree;
  (void)nothing;
  if (t->attached)
    group_event(t->group, "resumed",
                json_pack("{s:I,s:I}", "tree", (json_int_t)t->params.id, "t_ns", (json_int_t)t_ns));
}

/* ---- trees ---- */

static struct receiver_tree *find_tree(struct receiver *r, uint32_t id)
{
  for (unsigned i = 0; i < r->trees; i++)
    if (r->tree[i]->params.id == id)
      return r->tree[i];
  return NULL;
}

/* ---- in a shard, between two rounds (shard_call) ---- */

/* One order, for one tree or all of the group's in a shard; what comes of it. */
struct order {
  struct group *group;
  const struct shard *shard;
  struct receiver_tree *tree;
  const struct dc_extent *extent;
  struct dc_path *path; /* owned */
  uint32_t n;
  int rc;
  uint8_t *carried; /* of each of a block's pieces; NULL: nobody asks */
};

/* With `o` to each shard that has trees of the group, one after another. */
static void each_shard(struct group *g, void (*run)(void *order), struct order *o)
{
  struct shards *all = host_of(g)->shards;
  o->group = g;
  for (unsigned i = 0; i < all->n; i++) {
    if (g->receiver->here[i] == NULL)
      continue;
    o->shard = &all->one[i];
    shard_call(&all->one[i], run, o);
  }
}

static struct receiver_tree *first_of(const struct order *o) { return o->group->receiver->here[o->shard->index]; }

static void detached(void *arg) { receiving_detach(arg); }

static void rested(void *arg)
{
  for (struct receiver_tree *t = first_of(arg); t != NULL; t = t->next) {
    file_unref(t->file); /* the target has one, too: nothing is freed here */
    t->file = NULL;
  }
}

static void asked(void *arg)
{
  const struct order *o = arg;
  for (struct receiver_tree *t = first_of(o); t != NULL; t = t->next) {
    t->asks = o->group->receiver->resuming == 0;
    forward_mark(&t->endpoint);
  }
}

static void assigned(void *arg)
{
  struct order *o = arg;
  o->rc = dc_receiver_assign(o->tree->core, o->extent);
  if (o->rc == 0)
    forward_mark(&o->tree->endpoint);
}

static void cut(void *arg)
{
  struct order *o = arg;
  dc_receiver_cut(o->tree->core, o->n);
  forward_mark(&o->tree->endpoint);
}

static void left(void *arg) { dc_receiver_leave(((struct order *)arg)->tree->core); }

static void refetched(void *arg)
{
  struct order *o = arg;
  const struct dc_layout *l = &o->group->layout;
  uint64_t first = (uint64_t)o->n * l->per_block, pieces = dc_layout_pieces(l), end = first + l->per_block;
  for (struct receiver_tree *t = first_of(o); t != NULL; t = t->next) {
    o->rc += (int)dc_receiver_refetch(t->core, first, l->per_block);
    forward_mark(&t->endpoint);
    for (uint64_t p = first; o->carried != NULL && p < end && p < pieces; p++)
      o->carried[p - first] |= dc_receiver_carries(t->core, p);
  }
}

static void routed(void *arg)
{
  struct order *o = arg;
  struct receiver_tree *t = o->tree;
  struct dc_path *path = o->path, *before = t->path;
  bool changed =
      before != NULL && (before->rest_len != path->rest_len || before->stops != path->stops ||
                         memcmp(before->rest, path->rest, path->rest_len) != 0 || before->first.n != path->first.n ||
                         before->first.local != path->first.local ||
                         memcmp(before->first.port, path->first.port, path->first.n * sizeof path->first.port[0]) != 0);
  t->path = path;
  o->path = before;
  if (changed) {
    t->rerouted = true;
    dc_receiver_restart(t->core, t->shard->loop.now);
  }
}

/* ---- */

uint32_t receiver_refetch(struct group *g, uint32_t block, uint32_t *lost)
{
  const struct dc_layout *l = &g->layout;
  uint64_t left = dc_layout_pieces(l) - (uint64_t)block * l->per_block, n = left < l->per_block ? left : l->per_block;
  struct order o = {.n = block, .carried = calloc(n, 1)};
  each_shard(g, refetched, &o);
  *lost = 0; /* pieces that no tree knows to have carried: its links are gone, or it was too long ago */
  for (uint64_t i = 0; o.carried != NULL && i < n; i++)
    *lost += !o.carried[i];
  free(o.carried);
  return (uint32_t)o.rc;
}

void receiver_complete(struct group *g, uint32_t block)
{
  struct shards *all = host_of(g)->shards;
  for (unsigned i = 0; i < all->n; i++)
    if (g->receiver->here[i] != NULL)
      shard_post(&all->one[i], receiving_complete, g, block, &all->one[i]);
}

void receiver_asks(struct group *g) { each_shard(g, asked, &(struct order){0}); }
void receiver_rests(struct group *g) { each_shard(g, rested, &(struct order){0}); }

static void detach(struct receiver_tree *t)
{
  if (t->attached)
    shard_call(t->shard, detached, t);
  t->attached = false;
}

static void drop_tree(struct group *g, unsigned i)
{
  struct receiver *r = g->receiver;
  struct receiver_tree *t = r->tree[i];
  detach(t);
  if (g->state == GROUP_RUNNING && r->target.file != NULL)
    receiving_hand_on(t);
  r->bytes += t->bytes;
  r->again += t->again;
  stage_close(&t->stage);
  file_unref(t->file);
  loop_bury(host_of(g)->loop, t->core);
  loop_bury(host_of(g)->loop, t->path);
  loop_bury(host_of(g)->loop, t); /* what it told may be there yet */
  r->tree[i] = r->tree[--r->trees];
  g->all->trees--;
}

/* The longest round trip of the trees there are, and what is asked for over all of them. A tree that is added shares
 * their links, and stands behind that in their queues. */
struct adding {
  struct receiver_tree *tree;
  void *memory;
  dc_time trip;
  uint32_t outstanding;
  bool taken;
};

static void added(void *arg)
{
  struct adding *a = arg;
  struct receiver_tree *t = a->tree;
  const struct group *g = t->group;
  struct dc_receiver_cfg cfg;
  params_receiver(&t->params, g->layout.piece, a->outstanding, a->trip, &cfg);
  t->core = dc_receiver_init(a->memory, t->shard->loop.now, &cfg, g->receiver->pieces);
  a->taken = !receiving_attach(t);
}

static bool add_tree(struct group *g, const struct tree_params *p, struct fault *why)
{
  struct receiver *r = g->receiver;
  struct host *h = host_of(g);
  if (g->all->trees >= TREES_MAX)
    return fault_set(why, "limit", "this host has %d trees already", TREES_MAX);
  struct receiver_tree *t = calloc(1, sizeof *t);
  void *memory = t == NULL ? NULL : aligned_alloc(64, (dc_receiver_size() + 63) / 64 * 64);
  if (memory == NULL || !stage_open(&t->stage, &h->stages)) {
    free(memory);
    free(t);
    return fault_set(why, "io", "out of memory");
  }
  t->group = g;
  t->shard = shard_of(h->shards, p->id);
  t->params = *p;
  t->cache_code = dc_cache_code(p->cache_bytes);
  t->file = r->target.file == NULL || r->finishing ? NULL : file_ref(r->target.file);
  t->asks = r->resuming == 0;
  struct adding a = {.tree = t, .memory = memory};
  struct receiver_counts before = {0};
  receiver_count(g, &before);
  for (unsigned i = 0; i < r->trees; i++) {
    a.trip = before.core[i].srtt > a.trip ? before.core[i].srtt : a.trip;
    a.outstanding += before.core[i].outstanding;
  }
  shard_call(t->shard, added, &a);
  if (a.taken) {
    stage_close(&t->stage);
    file_unref(t->file);
    free(memory);
    free(t);
    return fault_set(why, "bad_request", "tree %u is another group's on this host", p->id);
  }
  t->attached = true;
  r->tree[r->trees++] = t;
  g->all->trees++;
  return true;
}

void receiver_keep(struct group *g, const struct tree_params *p, int n)
{
  struct receiver *r = g->receiver;
  for (unsigned i = 0; g->state == GROUP_RUNNING && i < r->trees;) {
    bool wanted = false;
    for (int k = 0; k < n; k++)
      wanted |= p[k].id == r->tree[i]->params.id;
    if (wanted)
      i++;
    else
      drop_tree(g, i);
  }
}

bool receiver_trees(struct group *g, const struct tree_params *p, int n, struct fault *why)
{
  struct receiver *r = g->receiver;
  for (int k = 0; g->state == GROUP_RUNNING && k < n; k++)
    if (find_tree(r, p[k].id) == NULL && !add_tree(g, &p[k], why))
      return false;
  return true;
}

static bool set_route(struct receiver_tree *t, const json_t *v, struct fault *why)
{
  uint8_t blob[DC_ROUTE_MAX];
  size_t len = json_is_string(v) ? json_string_length(v) : 1;
  struct dc_path *path = calloc(1, sizeof *path);
  if (path == NULL)
    return fault_set(why, "io", "out of memory");
  if (len % 2 != 0 || len / 2 > sizeof blob || !hex_read(blob, len / 2, json_string_value(v), len) ||
      dc_path_parse(path, blob, len / 2) != 0) {
    free(path);
    return fault_set(why, "bad_request", "the route of tree %u is malformed", t->params.id);
  }
  if (path->first.n > 0 && path->first.port[0] >= t->shard->forward.ports) {
    unsigned port = path->first.port[0];
    free(path);
    return fault_set(why, "bad_request", "the route of tree %u leaves by port %u, which this host does not have",
                     t->params.id, port);
  }
  struct order o = {.tree = t, .path = path};
  shard_call(t->shard, routed, &o);
  free(o.path);
  return true;
}

bool receiver_routes(struct group *g, const json_t *routes, struct fault *why)
{
  const char *key;
  json_t *v;
  if (routes == NULL || g->state != GROUP_RUNNING)
    return true;
  if (!json_is_object(routes))
    return fault_set(why, "bad_request", "routes must be an object of tree id to hex");
  json_object_foreach((json_t *)(uintptr_t)routes, key, v)
  {
    char *end;
    unsigned long id = strtoul(key, &end, 10);
    struct receiver_tree *t =
        *key == '\0' || *end != '\0' || id > UINT32_MAX ? NULL : find_tree(g->receiver, (uint32_t)id);
    if (t == NULL)
      return fault_set(why, "bad_request", "routes: tree \"%.20s\" is not of this group", key);
    if (!set_route(t, v, why))
      return false;
  }
  return true;
}

bool receiver_assign(struct group *g, uint32_t tree, const struct dc_extent *e, struct fault *why)
{
  struct receiver *r = g->receiver;
  if (g->state != GROUP_RUNNING)
    return true;
  struct receiver_tree *t = find_tree(r, tree);
  if (t == NULL)
    return fault_set(why, "no_tree", "tree %u is not of this group", tree);
  struct order o = {.tree = t, .extent = e};
  shard_call(t->shard, assigned, &o);
  if (o.rc == -ENOSPC)
    return fault_set(why, "limit", "tree %u has too many extents that are not received yet", tree);
  if (o.rc < 0)
    return fault_set(why, "bad_request", "tree %u: the extent at %u does not follow the last one", tree, e->seq);
  return true;
}

void receiver_cut(struct group *g, uint32_t tree, uint32_t seq)
{
  struct receiver_tree *t = find_tree(g->receiver, tree);
  if (t == NULL || g->state != GROUP_RUNNING)
    return;
  struct order o = {.tree = t, .n = seq};
  shard_call(t->shard, cut, &o);
}

bool receiver_leave(struct group *g, const json_t *trees, struct fault *why)
{
  if (trees == NULL || g->state != GROUP_RUNNING)
    return true;
  if (!json_is_array(trees) || json_array_size(trees) > GROUP_TREES_MAX)
    return fault_set(why, "bad_request", "leave must be a list of at most %d tree ids", GROUP_TREES_MAX);
  for (size_t i = 0; i < json_array_size(trees); i++) {
    json_int_t id = json_integer_value(json_array_get(trees, i));
    struct receiver_tree *t = id > 0 && id <= UINT32_MAX ? find_tree(g->receiver, (uint32_t)id) : NULL;
    if (t == NULL)
      return fault_set(why, "bad_request", "leave[%zu] is no tree of this group", i);
    struct order o = {.tree = t};
    shard_call(t->shard, left, &o);
  }
  return true;
}

/* ---- beginning and end ---- */

static void allocate_more(struct group *g);

static void allocated(struct job *j)
{
  struct group *g = j->owner;
  g->receiver->allocating = false;
  if (g->state != GROUP_RUNNING)
    return;
  if (j->error > 0 && j->error != EINTR)
    blocks_fail_errno(g, j->error);
  else
    allocate_more(g);
}

static void allocate_more(struct group *g)
{
  struct receiver *r = g->receiver;
  struct job *j = r->allocating || r->target.file == NULL ? NULL : target_allocate(&r->target);
  if (j == NULL)
    return;
  r->allocating = true;
  j->done = allocated;
  j->owner = g;
  worker_submit(host_of(g)->disk, j, NULL);
}

static void free_all(struct receiver *r)
{
  free(r->pieces);
  free(r->state);
  free(r->fails);
  free(r->known);
  free(r->claimed);
  free(r->there);
  free(r->hashed);
  free(r->doubted);
  free(r->digest);
  free(r->found);
  free(r->skip);
  free(r->dest);
}

bool receiver_open(struct group *g, const char *dest, const json_t *wants, struct fault *why)
{
  struct receiver *r = calloc(1, sizeof *r);
  if (r == NULL)
    return fault_set(why, "io", "out of memory");
  r->blocks = dc_layout_blocks(&g->layout);
  size_t n = r->blocks > 0 ? r->blocks : 1;
  void *memory = calloc(1, dc_pieces_size(&g->layout)); /* touched as pieces come */
  r->state = calloc(n, 1);
  r->fails = calloc(n, 1);
  r->known = calloc(n, 1);
  r->claimed = calloc(n, 1);
  r->there = calloc(n, sizeof *r->there); /* touched as blocks come */
  r->hashed = calloc(n, 1);
  r->doubted = calloc(n, 1);
  r->digest = calloc(n, DIGEST_LEN);
  r->found = calloc(n, DIGEST_LEN); /* touched as blocks come */
  r->dest = strdup(dest);
  if (memory == NULL || r->state == NULL || r->fails == NULL || r->known == NULL || r->claimed == NULL ||
      r->there == NULL || r->hashed == NULL || r->doubted == NULL || r->digest == NULL || r->found == NULL ||
      r->dest == NULL) {
    fault_set(why, "io", "out of memory for %u blocks", r->blocks);
    free(memory);
    free_all(r);
    free(r);
    return false;
  }
  r->pieces = dc_pieces_init(memory, &g->layout);
  if (!wants_read(wants, &g->layout, &r->skip, why) ||
      !target_open(&r->target, &host_of(g)->dest_roots, dest, &g->layout, g->bundle, wants_bytes(r->skip, &g->layout),
                   g->id, g->bundle || r->skip != NULL || g->stamp[0] == '\0' ? NULL : g->stamp, why)) {
    free_all(r);
    free(r);
    return false;
  }
  g->receiver = r;
  blocks_skip(g);
  if (r->target.whole)
    blocks_whole(g);
  else if (r->target.resumed)
    blocks_resume(g);
  return true;
}

bool receiver_wants(const struct group *g, const json_t *wants, struct fault *why)
{
  uint8_t *skip;
  if (!wants_read(wants, &g->layout, &skip, why))
    return false;
  bool same = wants_same(skip, g->receiver->skip, g->receiver->blocks);
  free(skip);
  return same || fault_set(why, "bad_request", "the group is open with other ranges for this host");
}

void receiver_go(struct group *g)
{
  if (g->state != GROUP_RUNNING)
    return;
  receiver_asks(g);
  allocate_more(g);
  blocks_go(g);
}

struct file *receiver_file(struct group *g) { return g->receiver->target.file; }
const char *receiver_dest(const struct group *g) { return g->receiver->dest; }
const char *receiver_name(const struct group *g) { return g->receiver->target.name; }
bool receiver_resumed(const struct group *g) { return g->receiver->target.resumed; }

bool receiver_holds(const struct group *g, uint64_t first, uint64_t count)
{
  for (uint64_t b = first / g->layout.per_block; b <= (first + count - 1) / g->layout.per_block; b++)
    if (g->receiver->state[b] != BLOCK_OK || (g->receiver->skip != NULL && g->receiver->skip[b]))
      return false;
  return true;
}

void receiver_stop(struct group *g, bool keep)
{
  struct receiver *r = g->receiver;
  for (unsigned i = 0; i < r->trees; i++) {
    struct receiver_tree *t = r->tree[i];
    detach(t); /* what was verified is in the file already; the rest is of no use to anybody */
    t->stage.n = 0;
    file_unref(t->file); /* the target has one, too */
    t->file = NULL;
  }
  worker_break_off(host_of(g)->disk, g, keep); /* what is to get its name now */
  target_close(&r->target, keep, host_of(g)->disk);
}

void receiver_close(struct group *g, bool keep)
{
  struct receiver *r = g->receiver;
  if (keep && g->state == GROUP_RUNNING)
    log_info("group %s: keeps %u blocks that it has verified", g->id, r->ok - r->skipped);
  receiver_stop(g, keep);
  worker_forget(host_of(g)->worker, g);
  worker_forget(host_of(g)->disk, g);
  while (r->trees > 0)
    drop_tree(g, 0);
  free_all(r);
  loop_bury(host_of(g)->loop, r);
  g->receiver = NULL;
}
