#include "source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ahead.h"
#include "datacast/source.h"
#include "extent_map.h"
#include "receiver.h"
#include "sendable.h"
#include "source_file.h"
#include "window.h"

/* A way out that is congested here is tried again after this. */
#define CROWDED_WAIT (500 * DC_US)
#define RATE_MAX_BPS (INT64_C(1) << 42)
enum { BATCH = 64 };

struct source_tree {
  struct endpoint endpoint; /* first: the tree is its endpoint */
  struct group *group;
  struct tree_params params;
  dc_source *core;
  struct extent_map extents;
  uint32_t sent; /* one past the highest sequence number sent */
  uint32_t mark; /* progress is told when `sent` gets there */
  uint32_t turn; /* the number with which the next block begins: those ahead of it are read by then */
  struct window window;
  uint32_t bore; /* of the core's times of patience, as far as the master was told */
  bool attached;
};

struct source {
  const char *name; /* of the file, for what is told */
  struct file *file;
  struct source_tree *tree[GROUP_TREES_MAX];
  unsigned trees;
  uint32_t other[GROUP_TREES_MAX]; /* trees of the group that begin elsewhere */
  unsigned others;
};

/* ---- the transport ---- */

static void on_interest(struct endpoint *e, dc_time now, const struct dc_header *h, const struct dc_segment *ret)
{
  struct source_tree *t = (struct source_tree *)(void *)e;
  dc_source_handle(t->core, now, h, ret);
  forward_mark(e);
}

/* n bytes of the file. 0, an errno, or -1 when the file is shorter. */
static int read_at(const struct source *s, uint8_t *to, size_t n, uint64_t at)
{
  while (n > 0) {
    ssize_t got = file_read(s->file, to, n, at);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return got < 0 ? errno : -1;
    to += got;
    at += (uint64_t)got;
    n -= (size_t)got;
  }
  return 0;
}

/* ---- blocks, read ahead of a tree ---- */

/* The next run of numbers from *seq on that carry pieces of one block: its first number, *block, and in *seq the number behind
 * it. False: there is none. */
static bool next_block(const struct source_tree *t, uint32_t *seq, uint32_t *first, uint32_t *block)
{
  const struct dc_extent *e = extent_map_from(&t->extents, *seq);
  if (e == NULL)
    return false;
  *first = *seq > e->seq ? *seq : e->seq;
  uint32_t per = t->group->layout.per_block, into = *first - e->seq, left = e->count - into;
  uint64_t piece = e->first + into;
  uint32_t run = per - (uint32_t)(piece % per);
  *block = (uint32_t)(piece / per);
  *seq = *first + (run < left ? run : left);
  return true;
}

/* The tree comes to no piece of [from, to) any more. */
static void pass(struct source_tree *t, uint32_t from, uint32_t to)
{
  uint32_t first, block;
  while (t->group->local != NULL && next_block(t, &from, &first, &block) && first < to)
    source_file_passed(t->group, block);
}

/* Blocks that come next are read. */
static void read_ahead(struct source_tree *t)
{
  uint32_t seq = t->sent, first, block;
  if (t->group->local == NULL)
    return;
  for (unsigned i = 0; i < AHEAD_BLOCKS && next_block(t, &seq, &first, &block); i++) {
    source_file_near(t->group, block);
    if (i == 0)
      t->turn = seq;
  }
}

/* The tree has sent up to `sent`, and `before` until now. */
static void moved(struct source_tree *t, uint32_t before)
{
  if (t->group->local == NULL || t->sent < t->turn)
    return;
  uint32_t seq = before, first, block;
  while (next_block(t, &seq, &first, &block) && seq <= t->sent)
    source_file_passed(t->group, block);
  read_ahead(t);
}

/* Is a block of the next batch being read? Whoever reads it beside that reads it twice. */
static bool waits(const struct source_tree *t)
{
  uint32_t seq = t->sent, first, block;
  bool wait = false;
  while (!wait && t->group->local != NULL && next_block(t, &seq, &first, &block) && first < t->sent + BATCH)
    wait = source_file_awaits(t->group, block);
  return wait;
}

void source_go(struct group *g)
{
  for (unsigned i = 0; i < g->source->trees; i++)
    forward_mark(&g->source->tree[i]->endpoint);
}

/* One data packet on its way. */
struct packet {
  const struct dc_source_tx *tx;
  struct dc_buf *buf;
  uint32_t off; /* of the payload in buf */
  bool there;   /* it is in buf already */
  uint64_t at;  /* in the file */
  uint32_t len;
};

/* A buffer for a piece, with its bytes if they are kept. False without memory. */
static bool fill(struct source_tree *t, struct packet *p, uint64_t piece)
{
  const struct dc_layout *l = &t->group->layout;
  struct ahead_block *kept =
      t->group->local == NULL ? NULL : source_file_kept(t->group, (uint32_t)(piece / l->per_block));
  uint32_t i = (uint32_t)(piece % l->per_block);
  p->there = kept != NULL;
  if (kept != NULL && p->tx->ret->n > 0) {
    p->buf = ahead_piece(kept, i);
    p->off = 0;
    return true;
  }
  p->off = DC_PREFIX_MAX; /* room for what a node writes */
  p->buf = bufpool_get(&t->endpoint.forward->pool, DC_PREFIX_MAX + p->len);
  if (p->buf != NULL && kept != NULL)
    memcpy(p->buf->data + p->off, kept->bytes + (size_t)i * l->piece, p->len);
  return p->buf != NULL;
}

static unsigned packets_of(struct source_tree *t, const struct dc_source_tx *tx, unsigned n, struct packet *p)
{
  const struct dc_layout *l = &t->group->layout;
  unsigned m = 0;
  for (unsigned i = 0; i < n; i++) {
    uint64_t piece;
    if (!extent_map_piece(&t->extents, tx[i].seq, &piece))
      continue; /* cut off meanwhile */
    p[m] = (struct packet){.tx = &tx[i], .at = piece * l->piece, .len = dc_layout_piece_len(l, piece)};
    m += fill(t, &p[m], piece); /* else as if lost on the link; the pool has counted it */
  }
  return m;
}

/* The bytes of the first packet, unless they are there, and of those that follow it in the file, with one call and into their
 * places. Returns how many packets; *error: 0, an errno, or -1 when the file is shorter. */
static unsigned read_run(const struct source *s, const struct packet *p, unsigned n, int *error)
{
  struct iovec v[BATCH];
  unsigned run = 0;
  *error = 0;
  if (p[0].there)
    return 1;
  do
    v[run] = (struct iovec){p[run].buf->data + p[run].off, p[run].len};
  while (++run < n && !p[run].there && p[run].at == p[run - 1].at + p[run - 1].len);
  ssize_t got =
      s->file->folder == NULL ? preadv(s->file->fd, v, (int)run, (off_t)p[0].at) : 0; /* a bundle: piece by piece */
  uint64_t there = got > 0 ? (uint64_t)got : 0; /* what it did not bring is asked for once more */
  for (unsigned i = 0; i < run && *error == 0; i++) {
    uint32_t have = there < p[i].len ? (uint32_t)there : p[i].len;
    there -= have;
    *error = read_at(s, (uint8_t *)v[i].iov_base + have, p[i].len - have, p[i].at + have);
  }
  return run;
}

static void send_packet(struct source_tree *t, dc_time now, const struct packet *p)
{
  const struct dc_source_tx *tx = p->tx;
  struct dc_header h = {.flags = (uint8_t)(tx->flags | (tx->seq + 1 == extent_map_end(&t->extents) ? DC_FLAG_LAST : 0)),
                        .length = (uint16_t)p->len,
                        .tree = t->params.id,
                        .seq = tx->seq};
  if (t->group->t_first_ns == 0)
    group_first(t->group);
  forward_data(t->endpoint.forward, now, tx->ret, &h, p->buf, p->off);
  if (tx->seq >= t->sent)
    t->sent = tx->seq + 1;
}

/* False when the group is no more. */
static bool send_batch(struct source_tree *t, dc_time now, const struct dc_source_tx *tx, unsigned n)
{
  struct group *g = t->group;
  struct packet p[BATCH];
  unsigned packets = packets_of(t, tx, n, p);
  for (unsigned i = 0; i < packets;) {
    int error;
    unsigned end = i + read_run(g->source, &p[i], packets - i, &error);
    if (error != 0) {
      while (i < packets)
        buf_unref(p[i++].buf);
      struct fault why;
      if (error > 0)
        sendable_fault(&why, error, g->source->name);
      else
        fault_set(&why, "changed", "%s changed while it was sent", g->source->name);
      group_fail(g, &why);
      return false;
    }
    for (; i < end; i++)
      send_packet(t, now, &p[i]);
  }
  return true;
}

/* It would, and goes on for a moment all the same: long enough for other trees, if they are planned now. */
static bool bears(struct source_tree *t)
{
  uint32_t bore = dc_source_bore(t->core);
  bool again = bore != t->bore;
  t->bore = bore;
  return again;
}

static bool poll(struct endpoint *e, dc_time now)
{
  struct source_tree *t = (struct source_tree *)(void *)e;
  struct dc_source_tx tx[BATCH];
  uint32_t before = t->sent;
  if (waits(t))
    return false; /* source_go */
  unsigned n = dc_source_poll(t->core, now, tx, BATCH);
  if (!send_batch(t, now, tx, n))
    return false; /* and the tree may be gone */
  moved(t, before);
  if (n > 0 && forward_crowded(e->forward, tx[n - 1].ret)) {
    n = 0;
    forward_wake(e, now + CROWDED_WAIT);
  }
  if (t->sent >= t->mark) {
    t->mark = extent_map_mark(&t->extents, t->sent);
    group_event(t->group, "progress",
                json_pack("{s:I,s:I}", "tree", (json_int_t)t->params.id, "seq", (json_int_t)t->sent));
  }
  bool fell = window_fell(&t->window, now, t->sent, t->sent >= extent_map_end(&t->extents));
  if (fell || bears(t))
    group_event(t->group, "slowed", json_pack("{s:I}", "tree", (json_int_t)t->params.id));
  if (n == BATCH)
    return true;
  if (e->timer.pos == 0 || e->timer.at != now + CROWDED_WAIT) {
    dc_time at = dc_source_next_wake(t->core);
    forward_wake(e, at == DC_NEVER || at > now ? at : now + 100 * DC_US);
  }
  return false;
}

static const struct endpoint_ops source_ops = {.data = NULL, .interest = on_interest, .poll = poll};

/* ---- trees ---- */

static struct source_tree *find_tree(const struct source *s, uint32_t id)
{
  for (unsigned i = 0; i < s->trees; i++)
    if (s->tree[i]->params.id == id)
      return s->tree[i];
  return NULL;
}

static void detach(struct source_tree *t)
{
  if (t->attached)
    forward_remove(&t->endpoint);
  t->attached = false;
}

static void drop_tree(struct group *g, unsigned i)
{
  struct source *s = g->source;
  struct source_tree *t = s->tree[i];
  struct groups *all = g->all;
  detach(t);
  pass(t, t->sent, UINT32_MAX);
  extent_map_free(&t->extents);
  loop_bury(all->host->loop, t->core); /* a poll of it may be on the stack */
  loop_bury(all->host->loop, t);
  s->tree[i] = s->tree[--s->trees];
  all->trees--;
}

static bool add_tree(struct group *g, const struct tree_params *p, struct fault *why)
{
  struct source *s = g->source;
  struct forward *f = g->all->host->forward;
  if (g->all->trees >= TREES_MAX)
    return fault_set(why, "limit", "this host has %d trees already", TREES_MAX);
  struct source_tree *t = calloc(1, sizeof *t);
  void *memory = t == NULL ? NULL : aligned_alloc(64, (dc_source_size() + 63) / 64 * 64);
  if (memory == NULL) {
    free(t);
    return fault_set(why, "io", "out of memory");
  }
  if (!forward_add(f, &t->endpoint, p->id, &source_ops)) {
    free(memory);
    free(t);
    return fault_set(why, "bad_request", "tree %u is another group's on this host", p->id);
  }
  t->attached = true;
  t->group = g;
  t->params = *p;
  struct dc_source_cfg cfg = {.cc = p->cc, .params = p->rate, .burst_packets = p->burst, .patience = p->patience};
  if (cfg.params.packet_bytes == 0) /* Ethernet, two labels, header: the shortest way over a switch to a host */
    cfg.params.packet_bytes = DC_ETHER_LEN + 2 * DC_LABEL_LEN + DC_HEADER_LEN + g->layout.piece;
  t->core = dc_source_init(memory, g->all->host->loop->now, &cfg);
  t->mark = UINT32_MAX;
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
  uint64_t pieces = dc_layout_pieces(&g->layout);
  if (e->first >= pieces || e->count > pieces - e->first)
    return fault_set(why, "bad_request", "the extent reaches beyond the file's %llu pieces",
                     (unsigned long long)pieces);
  uint32_t end = (uint32_t)((e->first + e->count - 1) / g->layout.per_block) + 1;
  if (t == NULL) {
    source_file_want(g, end);
    return true;
  }
  if (!held(g, e))
    return fault_set(why, "bad_request", "the pieces from %llu on are not all on this host",
                     (unsigned long long)e->first);
  bool known = t->extents.n > 0 && e->seq < extent_map_end(&t->extents);
  if (e->seq < t->sent && !known)
    return fault_set(why, "bad_request", "sequence number %u of tree %u was sent already", e->seq, tree);
  int rc = extent_map_append(&t->extents, e);
  if (rc == -ENOSPC)
    return fault_set(why, "limit", "tree %u has too many extents", tree);
  if (rc < 0)
    return fault_set(why, "bad_request", "tree %u: the extent at %u does not follow the last one (%u)", tree, e->seq,
                     extent_map_end(&t->extents));
  dc_source_assign(t->core, e->seq, e->count);
  t->mark = extent_map_mark(&t->extents, t->sent);
  if (g->local != NULL) {
    source_file_leave(g, (uint32_t)(e->first / g->layout.per_block), end);
    source_file_want(g, end);
    read_ahead(t);
  }
  return true;
}

void source_cut(struct group *g, uint32_t tree, uint32_t seq)
{
  struct source_tree *t = find_tree(g->source, tree);
  if (t == NULL)
    return;
  pass(t, seq, UINT32_MAX);
  extent_map_cut(&t->extents, seq);
  dc_source_cut(t->core, seq);
  t->mark = extent_map_mark(&t->extents, t->sent);
  forward_mark(&t->endpoint);
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
  if (f == NULL)
    return fault_set(why, "bad_request", "this host has finished its part: no tree can begin here any more");
  return begin(g, receiver_name(g), f, why);
}

void source_stop(struct group *g)
{
  struct source *s = g->source;
  for (unsigned i = 0; i < s->trees; i++)
    detach(s->tree[i]);
  if (g->local != NULL)
    source_file_stop(g);
}

void source_close(struct group *g)
{
  struct source *s = g->source;
  source_stop(g);
  while (s->trees > 0)
    drop_tree(g, 0);
  file_unref(s->file);
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
      if (apply != 0 && t != NULL)
        dc_source_limit(t->core, g->all->host->loop->now, json_is_null(value) ? 0 : (uint64_t)bps);
    }
  }
  return true;
}

json_t *source_status(struct group *g)
{
  struct source *s = g->source;
  json_t *trees = json_object();
  for (unsigned i = 0; i < s->trees; i++) {
    struct source_tree *t = s->tree[i];
    struct dc_source_counters c;
    dc_source_counters(t->core, &c);
    uint64_t dropped = 0;
    for (unsigned k = 0; k < DC_DROP_MAX; k++)
      dropped += c.drop[k];
    char id[16];
    snprintf(id, sizeof id, "%u", t->params.id);
    json_object_set_new(trees, id,
                        json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "rate_bps", (json_int_t)c.rate,
                                  "new_packets", (json_int_t)c.new_packets, "dup_packets", (json_int_t)c.dup_packets,
                                  "interests", (json_int_t)c.interests, "merged", (json_int_t)c.merged, "duplicates",
                                  (json_int_t)c.duplicates, "refetches", (json_int_t)c.refetches, "refused",
                                  (json_int_t)dropped, "seq", (json_int_t)t->sent, "numbers", (json_int_t)c.numbers,
                                  "queued", (json_int_t)c.queued));
  }
  json_t *status = json_pack("{s:o}", "trees", trees);
  if (g->local != NULL)
    source_file_status(g, status);
  return status;
}
