#include "sending.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "ahead.h"
#include "shard.h"

/* A way out that is congested here is tried again after this. */
#define CROWDED_WAIT (500 * DC_US)
enum { BATCH = 64 };

static bool tell(struct source_tree *t, void (*what)(void *tree, uint64_t n, void *nothing), uint64_t n)
{
  return shard_tell(t->shard, what, t, n, NULL);
}

/* ---- blocks, read ahead of a tree ---- */

bool sending_next_block(const struct source_tree *t, uint32_t *seq, uint32_t *first, uint32_t *block)
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

static struct near_block *near_of(struct source_tree *t, uint32_t block)
{
  for (unsigned i = 0; i < AHEAD_BLOCKS; i++)
    if (t->near[i].state != NEAR_NONE && t->near[i].block == block)
      return &t->near[i];
  return NULL;
}

static void leave(struct near_block *b)
{
  ahead_unref(b->kept);
  *b = (struct near_block){.state = NEAR_NONE};
}

static void come_near(struct source_tree *t, uint32_t block)
{
  struct near_block *b = t->near;
  while (b < t->near + AHEAD_BLOCKS && b->state != NEAR_NONE)
    b++;
  if (b < t->near + AHEAD_BLOCKS && tell(t, source_hears_near, block))
    *b = (struct near_block){.state = NEAR_ASKED, .block = block};
}

/* Blocks that come next are read; those that come no more are left. */
static void read_ahead(struct source_tree *t)
{
  uint32_t seq = t->sent, first, next[AHEAD_BLOCKS];
  unsigned n = 0;
  if (!t->reads_ahead)
    return;
  for (; n < AHEAD_BLOCKS && sending_next_block(t, &seq, &first, &next[n]); n++)
    if (n == 0)
      t->turn = seq;
  for (unsigned i = 0; i < AHEAD_BLOCKS; i++) {
    bool comes = false;
    for (unsigned k = 0; k < n; k++)
      comes |= next[k] == t->near[i].block;
    if (!comes)
      leave(&t->near[i]);
  }
  for (unsigned k = 0; k < n; k++)
    if (near_of(t, next[k]) == NULL)
      come_near(t, next[k]);
}

/* The tree has sent up to `sent`, and `before` until now. */
static void moved(struct source_tree *t, uint32_t before)
{
  if (!t->reads_ahead || t->sent < t->turn)
    return;
  uint32_t seq = before, first, block;
  while (sending_next_block(t, &seq, &first, &block) && seq <= t->sent) {
    struct near_block *b = near_of(t, block);
    if (b != NULL)
      leave(b);
    else
      (void)tell(t, source_hears_passed, block); /* else it is found when nothing moves */
  }
  read_ahead(t);
}

/* Is a block of the next batch being read? Whoever reads it beside that reads it twice. */
static bool waits(struct source_tree *t)
{
  uint32_t seq = t->sent, first, block;
  bool wait = false;
  while (!wait && t->reads_ahead && sending_next_block(t, &seq, &first, &block) && first < t->sent + BATCH) {
    const struct near_block *b = near_of(t, block);
    wait = b != NULL && b->state == NEAR_ASKED;
  }
  return wait;
}

void sending_has(void *tree, uint64_t block, void *with)
{
  struct source_tree *t = tree;
  struct near_block *b = near_of(t, (uint32_t)block);
  if (b == NULL || b->state != NEAR_ASKED) { /* it comes there no more */
    ahead_unref(with);
    return;
  }
  b->state = with != NULL ? NEAR_KEPT : NEAR_TO_READ;
  b->kept = with;
  forward_mark(&t->endpoint);
}

/* ---- the transport ---- */

static void on_interest(struct endpoint *e, dc_time now, const struct dc_header *h, const struct dc_segment *ret)
{
  struct source_tree *t = (struct source_tree *)(void *)e;
  dc_source_handle(t->core, now, h, ret);
  forward_mark(e);
}

/* n bytes of the file. 0, an errno, or -1 when the file is shorter. */
static int read_at(const struct file *f, uint8_t *to, size_t n, uint64_t at)
{
  while (n > 0) {
    ssize_t got = file_read(f, to, n, at);
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
  const struct near_block *b = near_of(t, (uint32_t)(piece / l->per_block));
  struct ahead_block *kept = b == NULL ? NULL : b->kept;
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
static unsigned read_run(const struct file *f, const struct packet *p, unsigned n, int *error)
{
  struct iovec v[BATCH];
  unsigned run = 0;
  *error = 0;
  if (p[0].there)
    return 1;
  do
    v[run] = (struct iovec){p[run].buf->data + p[run].off, p[run].len};
  while (++run < n && !p[run].there && p[run].at == p[run - 1].at + p[run - 1].len);
  ssize_t got = f->folder == NULL ? preadv(f->fd, v, (int)run, (off_t)p[0].at) : 0; /* a bundle: piece by piece */
  uint64_t there = got > 0 ? (uint64_t)got : 0; /* what it did not bring is asked for once more */
  for (unsigned i = 0; i < run && *error == 0; i++) {
    uint32_t have = there < p[i].len ? (uint32_t)there : p[i].len;
    there -= have;
    *error = read_at(f, (uint8_t *)v[i].iov_base + have, p[i].len - have, p[i].at + have);
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
  if (!t->began)
    t->began = tell(t, source_hears_first, loop_realtime_ns());
  forward_data(t->endpoint.forward, now, tx->ret, &h, p->buf, p->off);
  if (tx->seq >= t->sent)
    __atomic_store_n(&t->sent, tx->seq + 1, __ATOMIC_RELAXED); /* source_sent */
}

/* False when the file could not be read. */
static bool send_batch(struct source_tree *t, dc_time now, const struct dc_source_tx *tx, unsigned n)
{
  struct packet p[BATCH];
  unsigned packets = packets_of(t, tx, n, p);
  for (unsigned i = 0; i < packets;) {
    int error;
    unsigned end = i + read_run(t->file, &p[i], packets - i, &error);
    if (fault_passes(error)) { /* as if lost on the link */
      while (i < end)
        buf_unref(p[i++].buf);
      continue;
    }
    if (error != 0) {
      while (i < packets)
        buf_unref(p[i++].buf);
      t->failed = true;
      t->error = error;
      return false;
    }
    for (; i < end; i++)
      send_packet(t, now, &p[i]);
  }
  return true;
}

static bool poll(struct endpoint *e, dc_time now)
{
  struct source_tree *t = (struct source_tree *)(void *)e;
  struct dc_source_tx tx[BATCH];
  uint32_t before = t->sent;
  if (t->failed) {
    t->told = t->told || tell(t, source_hears_failed, (uint64_t)(int64_t)t->error);
    return !t->told;
  }
  if (waits(t))
    return false; /* sending_has */
  unsigned n = dc_source_poll(t->core, now, tx, BATCH);
  if (!send_batch(t, now, tx, n))
    return true;
  moved(t, before);
  if (n > 0 && forward_crowded(e->forward, tx[n - 1].ret)) {
    n = 0;
    forward_wake(e, now + CROWDED_WAIT);
  }
  if (t->sent >= t->mark && tell(t, source_hears_progress, t->sent))
    t->mark = extent_map_mark(&t->extents, t->sent);
  bool dry = t->sent >= extent_map_end(&t->extents);
  if (window_slowed(&t->window, now, t->sent, dry, dc_source_bore(t->core)))
    (void)tell(t, source_hears_slowed, 0);
  if (n == BATCH)
    return true;
  if (e->timer.pos == 0 || e->timer.at != now + CROWDED_WAIT) {
    dc_time at = dc_source_next_wake(t->core);
    forward_wake(e, at == DC_NEVER || at > now ? at : now + 100 * DC_US);
  }
  return false;
}

static const struct endpoint_ops source_ops = {.data = NULL, .interest = on_interest, .poll = poll};

/* ---- calls ---- */

bool sending_attach(struct source_tree *t)
{
  return forward_add(&t->shard->forward, &t->endpoint, t->params.id, &source_ops);
}

void sending_detach(struct source_tree *t)
{
  forward_remove(&t->endpoint);
  for (unsigned i = 0; i < AHEAD_BLOCKS; i++)
    leave(&t->near[i]);
}

int sending_assign(struct source_tree *t, const struct dc_extent *e)
{
  bool known = t->extents.n > 0 && e->seq < extent_map_end(&t->extents);
  if (e->seq < t->sent && !known)
    return -EALREADY;
  int rc = extent_map_append(&t->extents, e);
  if (rc < 0)
    return rc;
  dc_source_assign(t->core, e->seq, e->count);
  t->mark = extent_map_mark(&t->extents, t->sent);
  read_ahead(t);
  forward_mark(&t->endpoint); /* it may have been asked for already */
  return 0;
}

void sending_cut(struct source_tree *t, uint32_t seq)
{
  extent_map_cut(&t->extents, seq);
  dc_source_cut(t->core, seq);
  t->mark = extent_map_mark(&t->extents, t->sent);
  read_ahead(t);
  forward_mark(&t->endpoint);
}
