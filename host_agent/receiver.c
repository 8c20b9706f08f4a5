#include "receiver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "receiver_state.h"
#include "wants.h"

#define CROWDED_WAIT (500 * DC_US)
/* The disk is behind: what it wrote meanwhile makes room. */
#define DISK_WAIT (1 * DC_MS)
enum { BATCH = 32, BATCHES_PER_POLL = 4 };
enum { MAP_CELLS = 64 };

/* ---- writing ---- */

static void wrote(struct job *j)
{
  stages_give(j->stages, j->bytes);
  struct group *g = j->owner;
  if (g == NULL)
    return;
  g->receiver->unwritten -= j->len;
  blocks_wrote(g, j);
}

/* What arrived over this tree is on its way to the file. */
void receiver_hand_on(struct receiver_tree *t)
{
  struct group *g = t->group;
  struct job *j = stage_job(&t->stage, &g->receiver->target, &g->layout);
  if (j == NULL)
    return;
  j->flush = host_of(g)->sync;
  j->done = wrote;
  j->owner = g;
  j->generation = g->receiver->fails[j->tag];
  g->receiver->writing[j->tag]++;
  g->receiver->unwritten += j->len;
  worker_submit(host_of(g)->worker, j, t->stage.lane);
}

static bool stage(struct receiver_tree *t, uint64_t at, uint32_t block, const uint8_t *p, size_t n, struct fault *why)
{
  size_t took = stage_add(&t->stage, at, block, p, n);
  if (took == n)
    return true;
  receiver_hand_on(t);
  took += stage_add(&t->stage, at + took, block, p + took, n - took);
  return took == n || target_write(&t->group->receiver->target, at + took, p + took, n - took, why);
}

/* ---- the transport ---- */

static bool on_data(struct endpoint *e, dc_time now, const struct dc_header *h, const uint8_t *payload, uint16_t from)
{
  struct receiver_tree *t = (struct receiver_tree *)(void *)e;
  /* Answers come the way the interests went: from that port, or through this host's own node. */
  if (t->path == NULL || from != (t->path->first.n > 0 ? t->path->first.port[0] : DC_PORT_HOST))
    return false;
  struct group *g = t->group;
  struct receiver *r = g->receiver;
  uint64_t piece;
  forward_mark(e);
  enum dc_rx_result got = dc_receiver_handle(t->core, now, h, &piece);
  if (got != DC_RX_NEW) {
    r->again += got == DC_RX_DUPLICATE && r->state[piece / g->layout.per_block] == BLOCK_OK;
    return got != DC_RX_UNASKED;
  }
  if (g->t_first_ns == 0)
    group_first(g);
  struct fault why;
  uint32_t block = (uint32_t)(piece / g->layout.per_block);
  if (!stage(t, piece * g->layout.piece, block, payload, h->length, &why)) {
    group_fail(g, &why);
    return true;
  }
  t->bytes += h->length;
  r->bytes += h->length;
  if (t->rerouted) {
    t->rerouted = false;
    group_event(g, "resumed",
                json_pack("{s:I,s:I}", "tree", (json_int_t)t->params.id, "t_ns", (json_int_t)loop_realtime_ns()));
  }
  blocks_look_at(g, block);
  return true;
}

static bool poll(struct endpoint *e, dc_time now)
{
  struct receiver_tree *t = (struct receiver_tree *)(void *)e;
  struct dc_interest out[BATCH];
  if (t->path == NULL || t->group->receiver->target.file == NULL || t->group->receiver->resuming > 0)
    return false;
  if (stages_short(&host_of(t->group)->stages)) {
    forward_wake(e, now + DISK_WAIT);
    return false;
  }
  unsigned n = BATCH;
  for (unsigned i = 0; i < BATCHES_PER_POLL && n == BATCH; i++) {
    if (forward_crowded(e->forward, &t->path->first)) {
      forward_wake(e, now + CROWDED_WAIT);
      return false;
    }
    n = dc_receiver_poll(t->core, now, out, BATCH);
    for (unsigned k = 0; k < n; k++) {
      struct dc_header h = {
          .flags = out[k].flags, .tree = t->params.id, .seq = out[k].seq, .cache = t->cache_code, .more = out[k].more};
      if (!forward_interest(e->forward, now, t->path, &h))
        t->unroutable++; /* as if lost: the timer asks again */
    }
  }
  if (n == BATCH)
    return true;
  dc_time at = dc_receiver_next_wake(t->core);
  forward_wake(e, at == DC_NEVER || at > now ? at : now + 100 * DC_US);
  return false;
}

static const struct endpoint_ops receiver_ops = {.data = on_data, .interest = NULL, .poll = poll};

/* ---- trees ---- */

static struct receiver_tree *find_tree(struct receiver *r, uint32_t id)
{
  for (unsigned i = 0; i < r->trees; i++)
    if (r->tree[i]->params.id == id)
      return r->tree[i];
  return NULL;
}

static void detach(struct receiver_tree *t)
{
  if (t->attached)
    forward_remove(&t->endpoint);
  t->attached = false;
}

static void drop_tree(struct group *g, unsigned i)
{
  struct receiver *r = g->receiver;
  struct receiver_tree *t = r->tree[i];
  if (g->state == GROUP_RUNNING && r->target.file != NULL)
    receiver_hand_on(t);
  detach(t);
  stage_close(&t->stage);
  loop_bury(host_of(g)->loop, t->core);
  loop_bury(host_of(g)->loop, t->path);
  loop_bury(host_of(g)->loop, t);
  r->tree[i] = r->tree[--r->trees];
  g->all->trees--;
}

/* How long `bytes` take at the tree's highest rate; bounded, so that a made-up rate stops nothing. */
static dc_time rate_time(const struct tree_params *p, uint64_t bytes)
{
  dc_time t = p->rate.rate_max == 0 ? 0 : bytes * 8 * DC_US / p->rate.rate_max * (DC_SEC / DC_US);
  return t < 10 * DC_SEC ? t : 10 * DC_SEC;
}

/* The longest round trip of the trees there are, and what is asked for over all of them. A tree that is added shares
 * their links, and stands behind that in their queues. */
static dc_time longest_trip(const struct receiver *r, uint32_t *outstanding)
{
  dc_time longest = 0;
  *outstanding = 0;
  for (unsigned i = 0; i < r->trees; i++) {
    struct dc_receiver_counters c;
    dc_receiver_counters(r->tree[i]->core, &c);
    longest = c.srtt > longest ? c.srtt : longest;
    *outstanding += c.outstanding;
  }
  return longest;
}

static bool add_tree(struct group *g, const struct tree_params *p, struct fault *why)
{
  struct receiver *r = g->receiver;
  if (g->all->trees >= TREES_MAX)
    return fault_set(why, "limit", "this host has %d trees already", TREES_MAX);
  struct receiver_tree *t = calloc(1, sizeof *t);
  void *memory = t == NULL ? NULL : aligned_alloc(64, (dc_receiver_size() + 63) / 64 * 64);
  if (memory == NULL) {
    free(t);
    return fault_set(why, "io", "out of memory");
  }
  if (!stage_open(&t->stage, &host_of(g)->stages)) {
    free(memory);
    free(t);
    return fault_set(why, "io", "out of memory");
  }
  if (!forward_add(host_of(g)->forward, &t->endpoint, p->id, &receiver_ops)) {
    stage_close(&t->stage);
    free(memory);
    free(t);
    return fault_set(why, "bad_request", "tree %u is another group's on this host", p->id);
  }
  t->attached = true;
  t->group = g;
  t->params = *p;
  t->cache_code = dc_cache_code(p->cache_bytes);
  struct dc_receiver_cfg cfg;
  dc_receiver_cfg_default(&cfg);
  cfg.credits = p->rate.credits;
  /* On a slow link all credits take their time: a timer that cannot reach it would ask for every packet twice, and by
   * Karn's rule never learn better. They all do so after the first one came at once. */
  dc_time window = rate_time(p, (uint64_t)p->rate.credits * g->layout.piece);
  cfg.rto_min = window > p->rto_min ? window : p->rto_min;
  uint32_t before;
  dc_time trip = longest_trip(r, &before), init = cfg.rto_min + rate_time(p, (uint64_t)before * g->layout.piece);
  if (init < 2 * trip)
    init = 2 * trip;
  if (cfg.rto_init < init)
    cfg.rto_init = init;
  if (cfg.rto_max < 4 * init)
    cfg.rto_max = 4 * init;
  t->core = dc_receiver_init(memory, host_of(g)->loop->now, &cfg, r->pieces);
  r->tree[r->trees++] = t;
  g->all->trees++;
  return true;
}

bool receiver_trees(struct group *g, const struct tree_params *p, int n, struct fault *why)
{
  struct receiver *r = g->receiver;
  if (g->state != GROUP_RUNNING)
    return true;
  for (unsigned i = 0; i < r->trees;) {
    bool wanted = false;
    for (int k = 0; k < n; k++)
      wanted |= p[k].id == r->tree[i]->params.id;
    if (wanted)
      i++;
    else
      drop_tree(g, i);
  }
  for (int k = 0; k < n; k++)
    if (find_tree(r, p[k].id) == NULL && !add_tree(g, &p[k], why))
      return false;
  return true;
}

static bool set_route(struct group *g, struct receiver_tree *t, const json_t *v, struct fault *why)
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
  if (path->first.n > 0 && path->first.port[0] >= host_of(g)->forward->ports) {
    unsigned port = path->first.port[0];
    free(path);
    return fault_set(why, "bad_request", "the route of tree %u leaves by port %u, which this host does not have",
                     t->params.id, port);
  }
  bool changed = t->path != NULL &&
                 (t->path->rest_len != path->rest_len || t->path->stops != path->stops ||
                  memcmp(t->path->rest, path->rest, path->rest_len) != 0 || t->path->first.n != path->first.n ||
                  t->path->first.local != path->first.local ||
                  memcmp(t->path->first.port, path->first.port, path->first.n * sizeof path->first.port[0]) != 0);
  free(t->path);
  t->path = path;
  if (changed) {
    t->rerouted = true;
    dc_receiver_restart(t->core, host_of(g)->loop->now);
  }
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
    if (!set_route(g, t, v, why))
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
  uint64_t pieces = dc_layout_pieces(&g->layout);
  if (e->first >= pieces || e->count > pieces - e->first)
    return fault_set(why, "bad_request", "the extent reaches beyond the file's %llu pieces",
                     (unsigned long long)pieces);
  int rc = dc_receiver_assign(t->core, e);
  if (rc == -ENOSPC)
    return fault_set(why, "limit", "tree %u has too many extents that are not received yet", tree);
  if (rc < 0)
    return fault_set(why, "bad_request", "tree %u: the extent at %u does not follow the last one", tree, e->seq);
  forward_mark(&t->endpoint);
  return true;
}

void receiver_cut(struct group *g, uint32_t tree, uint32_t seq)
{
  struct receiver_tree *t = find_tree(g->receiver, tree);
  if (t == NULL || g->state != GROUP_RUNNING)
    return;
  dc_receiver_cut(t->core, seq);
  forward_mark(&t->endpoint);
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
    dc_receiver_leave(t->core);
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
  free(r->writing);
  free(r->hashed);
  free(r->digest);
  free(r->found);
  free(r->skip);
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
  r->writing = calloc(n, sizeof *r->writing);
  r->hashed = calloc(n, 1);
  r->digest = calloc(n, DIGEST_LEN);
  r->found = calloc(n, DIGEST_LEN); /* touched as blocks come */
  if (memory == NULL || r->state == NULL || r->fails == NULL || r->known == NULL || r->claimed == NULL ||
      r->writing == NULL || r->hashed == NULL || r->digest == NULL || r->found == NULL) {
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
  struct receiver *r = g->receiver;
  if (g->state != GROUP_RUNNING)
    return;
  for (unsigned i = 0; i < r->trees; i++)
    forward_mark(&r->tree[i]->endpoint);
  allocate_more(g);
  blocks_go(g);
}

struct file *receiver_file(struct group *g) { return g->receiver->target.file; }
const char *receiver_name(const struct group *g) { return g->receiver->target.name; }

bool receiver_holds(const struct group *g, uint64_t first, uint64_t count)
{
  for (uint64_t b = first / g->layout.per_block; b <= (first + count - 1) / g->layout.per_block; b++)
    if (!dc_pieces_block_whole(g->receiver->pieces, (uint32_t)b) || (g->receiver->skip != NULL && g->receiver->skip[b]))
      return false;
  return true;
}

void receiver_stop(struct group *g, bool keep)
{
  struct receiver *r = g->receiver;
  for (unsigned i = 0; i < r->trees; i++) {
    detach(r->tree[i]); /* what was verified is in the file already; the rest is of no use to anybody */
    r->tree[i]->stage.n = 0;
  }
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

/* Which parts of the file are there: up to MAP_CELLS equal runs of blocks, of each the whole ones in fifteenths as a
 * hexadecimal digit. */
static void blocks_map(const struct receiver *r, char text[MAP_CELLS + 1])
{
  uint32_t cells = r->blocks < MAP_CELLS ? r->blocks : MAP_CELLS;
  for (uint32_t cell = 0; cell < cells; cell++) {
    uint32_t first = (uint32_t)((uint64_t)cell * r->blocks / cells);
    uint32_t end = (uint32_t)((uint64_t)(cell + 1) * r->blocks / cells), whole = 0;
    for (uint32_t block = first; block < end; block++)
      whole += r->state[block] != BLOCK_OPEN && (r->skip == NULL || !r->skip[block]);
    text[cell] = "0123456789abcdef"[(uint64_t)whole * 15 / (end - first)]; /* NOLINT: no more cells than blocks */
  }
  text[cells] = '\0';
}

json_t *receiver_status(struct group *g)
{
  struct receiver *r = g->receiver;
  json_t *trees = json_object();
  for (unsigned i = 0; i < r->trees; i++) {
    struct receiver_tree *t = r->tree[i];
    struct dc_receiver_counters c;
    dc_receiver_counters(t->core, &c);
    char id[16];
    snprintf(id, sizeof id, "%u", t->params.id);
    json_object_set_new(trees, id,
                        json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "data", (json_int_t)c.data,
                                  "duplicates", (json_int_t)c.duplicates, "interests", (json_int_t)c.interests,
                                  "retransmitted", (json_int_t)c.retransmitted, "by_gap", (json_int_t)c.by_gap,
                                  "by_timeout", (json_int_t)c.by_timeout, "outstanding", (json_int_t)c.outstanding,
                                  "srtt_us", (json_int_t)(c.srtt / DC_US), "rto_us", (json_int_t)(c.rto / DC_US),
                                  "credits", (json_int_t)c.credits, "seq", (json_int_t)c.next_seq, "low",
                                  (json_int_t)c.low_seq, "bytes", (json_int_t)t->bytes));
  }
  char map[MAP_CELLS + 1];
  blocks_map(r, map);
  return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:s,s:o}", "blocks_resumed", (json_int_t)r->resumed, "bytes",
                   (json_int_t)r->bytes, "unwritten", (json_int_t)r->unwritten, "pieces",
                   (json_int_t)dc_pieces_held(r->pieces), "blocks_ok", (json_int_t)(r->ok - r->skipped), "bad_blocks",
                   (json_int_t)r->bad, "blocks", map, "trees", trees);
}
