#include "source_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ahead.h"
#include "folder.h"
#include "params.h"
#include "source.h"
#include "target.h"
#include "wants.h"

/* How often the path is looked at: is it still this file? */
#define CHECK_EVERY (250 * DC_MS)
/* Digests gather for so long before they are told; the last ones are told at once. */
#define TELL_AFTER (50 * DC_MS)

/* A block on its way to a digest. One that a tree of this source comes to is read when the tree is near. */
enum hashing { NOT_HASHED, LEFT_TO_TREE, BEING_HASHED, PASSED_BEFORE, HASHED };

struct source_file {
  struct group *group;
  char *path, *unfinished; /* unfinished: the group that left it; NULL: a file that was there */
  struct file *file;
  struct stat stat; /* as it was opened */
  struct timer check, tell, rest;
  uint32_t looked; /* which of a directory's entries are looked at next */
  /* digests, in the order in which they were found */
  uint32_t blocks, hashed, told, wanted; /* wanted: one past the highest block assigned */
  uint32_t skipped;                      /* blocks that need none */
  uint32_t under_way;                    /* blocks that are being hashed and not kept */
  uint32_t checked;                      /* `hashed` when it was looked at last */
  uint32_t first;                        /* no block before it is NOT_HASHED */
  uint8_t *state;                        /* enum hashing, of each block */
  uint32_t *order;                       /* the blocks that have their digest, `hashed` of them */
  uint8_t (*digest)[DIGEST_LEN];
  struct ahead *ahead;
  struct ahead_block **kept;     /* of each block; NULL: not read, or not kept */
  uint8_t *skip;                 /* per block: nobody wants it, or it is not here; NULL: all are wanted and here */
  uint8_t (*before)[DIGEST_LEN]; /* of what a group left: as they were verified */
};

bool source_file_fault(struct fault *why, int error, const char *path)
{
  switch (error) {
  case ENOENT:
  case ENOTDIR:
    return fault_set(why, "not_found", "%s: %s", path, strerror(error));
  case EACCES:
  case EPERM:
    return fault_set(why, "denied", "%s: %s", path, strerror(error));
  case ESTALE:
    return fault_set(why, "changed", "%s changed while it was sent", path);
  case EXDEV:
  case ELOOP:
    return fault_set(why, "outside", "%s leads out of the allowed folder", path);
  default:
    return fault_set(why, "io", "%s: %s", path, strerror(error));
  }
}

/* Looked at before it is opened to be read: opening a device or a FIFO is an act in itself. */
static int open_file(struct host *h, const char *path, int flags, struct stat *st, struct fault *why)
{
  const char *rest;
  const struct root *root = roots_of(&h->source_roots, path, &rest, why);
  if (root == NULL)
    return -1;
  int fd = root_open(root, rest, O_PATH, 0);
  if (fd < 0 || fstat(fd, st) < 0) {
    source_file_fault(why, fd < 0 ? -fd : errno, path);
    if (fd >= 0)
      close(fd);
    return -1;
  }
  if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)) {
    fault_set(why, "denied", "%s is neither a file nor a directory", path);
    close(fd);
    return -1;
  }
  struct stat key;
  if (h->key_file != NULL && stat(h->key_file, &key) == 0 && key.st_dev == st->st_dev && key.st_ino == st->st_ino) {
    fault_set(why, "denied", "%s is this agent's private key", path);
    close(fd);
    return -1;
  }
  if (flags == O_PATH)
    return fd;
  char self[32];
  snprintf(self, sizeof self, "/proc/self/fd/%d", fd); /* the very file that was looked at */
  int file = open(self, flags | O_CLOEXEC);
  if (file < 0)
    source_file_fault(why, errno == ENOENT ? EIO : errno, path); /* it is there; /proc may not be */
  close(fd);
  return file;
}

static uint64_t mtime_ns(const struct stat *st)
{
  return (uint64_t)st->st_mtim.tv_sec * DC_SEC + (uint64_t)st->st_mtim.tv_nsec;
}

/* The group that left what is to be sent; NULL: none did. What is no text is no group's name. */
static const char *unfinished_of(const json_t *part)
{
  const json_t *group = json_object_get(part, "unfinished");
  return group == NULL ? NULL : json_is_string(group) ? json_string_value(group) : "";
}

/* What a file, or a directory as a stream, is known by. */
struct known {
  struct stat stat;
  uint64_t size, mark; /* mark: time of the last change, or of a directory what stands for all in it */
  struct file *file;
  struct dc_layout cut; /* of what a group left */
};

bool source_walk(const struct host *h, struct file *f, const char *path, struct fault *why)
{
  struct stat key;
  bool has_key = h->key_file != NULL && stat(h->key_file, &key) == 0;
  struct fault inside;
  f->folder = folder_open(fcntl(f->fd, F_DUPFD_CLOEXEC, 3), has_key ? &key : NULL, h->owners, &inside);
  return f->folder != NULL || fault_set(why, inside.code, "%s: %s", path, inside.text);
}

/* A file that may be sent, or what a group left of one. */
static int open_either(struct host *h, const char *path, const char *unfinished, int flags, struct stat *st,
                       struct fault *why)
{
  return unfinished == NULL ? open_file(h, path, flags, st, why)
                            : target_left(&h->dest_roots, path, unfinished, flags, st, why);
}

static bool open_known(struct host *h, const char *path, const char *unfinished, struct known *k, struct fault *why)
{
  int fd = open_either(h, path, unfinished, O_RDONLY | O_NONBLOCK | O_NOCTTY, &k->stat, why);
  k->file = fd < 0 ? NULL : file_new(fd);
  if (k->file == NULL)
    return fd < 0 ? false : fault_set(why, "io", "out of memory");
  k->size = (uint64_t)k->stat.st_size;
  k->mark = mtime_ns(&k->stat);
  if (unfinished != NULL) {
    bool cut = target_left_layout(fd, path, &k->cut, why);
    k->size = k->cut.size;
    if (!cut)
      file_unref(k->file);
    return cut;
  }
  if (!S_ISDIR(k->stat.st_mode))
    return true;
  if (!source_walk(h, k->file, path, why)) {
    file_unref(k->file);
    return false;
  }
  k->size = folder_bytes(k->file->folder);
  k->mark = folder_mark(k->file->folder);
  return true;
}

struct file *source_look(struct host *h, const char *path, struct fault *why)
{
  struct known k = {0};
  return open_known(h, path, NULL, &k, why) ? k.file : NULL;
}

static bool zeros(const uint8_t digest[DIGEST_LEN])
{
  static const uint8_t none[DIGEST_LEN];
  return memcmp(digest, none, DIGEST_LEN) == 0;
}

/* Rows of the blocks that were verified, HELD_ROWS_MAX at most: masters make no more blocks than twice that. */
static json_t *held_rows(int fd, const struct dc_layout *cut, bool *bundle)
{
  uint32_t blocks = dc_layout_blocks(cut);
  uint8_t(*digest)[DIGEST_LEN] = calloc(blocks > 0 ? blocks : 1, DIGEST_LEN), head[BUNDLE_HEAD];
  if (digest == NULL)
    return NULL;
  target_left_verified(fd, cut, digest);
  *bundle = blocks > 0 && !zeros(digest[0]) && pread(fd, head, sizeof head, 0) == sizeof head &&
            bundle_manifest_bytes(head) > 0;
  json_t *rows = json_array();
  for (uint32_t b = 0, first; b < blocks && json_array_size(rows) < HELD_ROWS_MAX; b++) {
    for (first = b; b < blocks && !zeros(digest[b]);)
      b++;
    if (b > first)
      json_array_append_new(rows, json_pack("[I,I]", (json_int_t)first, (json_int_t)(b - first)));
  }
  free(digest);
  return rows;
}

static bool stat_left(const struct known *k, json_t *to, struct fault *why)
{
  bool bundle = false;
  json_t *rows = held_rows(k->file->fd, &k->cut, &bundle);
  if (rows == NULL)
    return fault_set(why, "io", "out of memory");
  json_object_set_new(to, "piece", json_integer(k->cut.piece));
  json_object_set_new(to, "per_block", json_integer(k->cut.per_block));
  json_object_set_new(to, "held", rows);
  if (bundle)
    json_object_set_new(to, "bundle", json_true());
  return true;
}

bool source_stat(struct host *h, const char *path, const json_t *part, json_t *to, struct fault *why)
{
  const char *unfinished = unfinished_of(part);
  struct known k = {0};
  if (!open_known(h, path, unfinished, &k, why))
    return false;
  if (unfinished != NULL && !stat_left(&k, to, why)) {
    file_unref(k.file);
    return false;
  }
  json_object_set_new(to, "size", json_integer((json_int_t)k.size));
  json_object_set_new(to, "mtime_ns", json_integer((json_int_t)k.mark));
  json_object_set_new(to, "inode", json_integer((json_int_t)k.stat.st_ino));
  if (k.file->folder != NULL)
    json_object_set_new(to, "bundle", json_integer(folder_entries(k.file->folder)));
  file_unref(k.file);
  return true;
}

/* ---- the file stays the same ---- */

/* The time of the last change of the inode moves with every write, also where the modification time is set back. */
static bool same(const struct stat *a, const struct stat *b)
{
  return a->st_size == b->st_size && mtime_ns(a) == mtime_ns(b) && a->st_ino == b->st_ino && a->st_dev == b->st_dev &&
         a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static void changed(struct group *g)
{
  struct fault why;
  fault_set(&why, "changed", "%s changed while it was sent", g->local->path);
  group_fail(g, &why);
}

static void hash_on(struct source_file *s);
static void leave_nothing(struct source_file *s);

static void check(struct timer *t, dc_time now)
{
  struct source_file *s = (struct source_file *)(void *)((char *)t - offsetof(struct source_file, check));
  struct group *g = s->group;
  if (g->state != GROUP_RUNNING)
    return;
  struct fault why;
  struct stat st;
  int fd = open_either(g->all->host, s->path, s->unfinished, O_PATH, &st, &why);
  if (fd < 0) {
    group_fail(g, &why);
    return;
  }
  close(fd);
  if (!same(&st, &s->stat) || (s->file->folder != NULL && !folder_same(s->file->folder, &s->looked))) {
    changed(g);
    return;
  }
  if (s->checked == s->hashed) /* nobody asks the trees: whoever has the pieces already waits for their digests */
    leave_nothing(s);
  s->checked = s->hashed;
  loop_timer(g->all->host->loop, t, now + CHECK_EVERY);
}

/* ---- digests ---- */

static void tell(struct timer *t, dc_time now)
{
  (void)now;
  struct source_file *s = (struct source_file *)(void *)((char *)t - offsetof(struct source_file, tell));
  while (s->told < s->hashed && s->group->state == GROUP_RUNNING) {
    json_t *list = json_array();
    for (; json_array_size(list) < DIGESTS_PER_EVENT && s->told < s->hashed; s->told++) {
      char hex[65];
      uint32_t block = s->order[s->told];
      hex_write(hex, s->digest[block], 32);
      json_array_append_new(list, json_pack("[i,s]", (int)block, hex));
    }
    group_event(s->group, "digests", json_pack("{s:o}", "blocks", list));
  }
}

/* False when the group has failed. */
static bool judge(struct group *g, const struct job *j)
{
  struct source_file *s = g->local;
  if (j->error > 0) {
    struct fault why;
    source_file_fault(&why, j->error, s->path);
    group_fail(g, &why);
    return false;
  }
  if (j->error < 0 || !same(&j->stat, &s->stat) ||
      (s->before != NULL && memcmp(s->before[j->tag], j->digest, DIGEST_LEN) != 0)) {
    changed(g);
    return false;
  }
  return true;
}

static void hashed(struct job *j)
{
  struct group *g = j->owner;
  if (g == NULL || g->state != GROUP_RUNNING || j->error == EINTR || !judge(g, j)) {
    ahead_unref(j->block);
    return;
  }
  struct source_file *s = g->local;
  s->under_way -= j->block == NULL;
  if (s->state[j->tag] == BEING_HASHED)
    s->kept[j->tag] = j->block;
  else
    ahead_unref(j->block);
  s->state[j->tag] = HASHED;
  memcpy(s->digest[j->tag], j->digest, DIGEST_LEN);
  s->order[s->hashed++] = (uint32_t)j->tag;
  if (s->hashed + s->skipped == s->blocks) /* who has all pieces waits for these */
    loop_timer(g->all->host->loop, &s->tell, g->all->host->loop->now);
  else if (s->tell.pos == 0)
    loop_timer(g->all->host->loop, &s->tell, g->all->host->loop->now + TELL_AFTER);
  source_go(g);
  hash_on(s);
}

static void hash_block(struct source_file *s, uint32_t block, struct ahead_block *keep)
{
  struct group *g = s->group;
  struct job *j = job_new(JOB_HASH);
  if (j == NULL) { /* it is tried again */
    ahead_unref(keep);
    return;
  }
  uint64_t bytes = (uint64_t)g->layout.piece * g->layout.per_block;
  s->state[block] = BEING_HASHED;
  s->under_way += keep == NULL;
  j->tag = block;
  j->file = file_ref(s->file);
  j->off = block * bytes;
  j->len = g->layout.size - j->off < bytes ? g->layout.size - j->off : bytes;
  j->block = keep;
  j->done = hashed;
  j->owner = g;
  worker_submit(g->all->host->worker, j, NULL);
}

/* The next blocks that are wanted and that no tree of this source comes to. */
static void hash_on(struct source_file *s)
{
  while (s->under_way < HASH_AT_ONCE && s->first < s->wanted) {
    const uint8_t *next = memchr(s->state + s->first, NOT_HASHED, s->wanted - s->first);
    s->first = next == NULL ? s->wanted : (uint32_t)(next - s->state);
    if (next == NULL)
      return;
    hash_block(s, s->first, NULL);
    if (s->state[s->first] == NOT_HASHED)
      return; /* no memory */
  }
}

static void hash_rest(struct timer *t, dc_time now)
{
  (void)now;
  struct source_file *s = (struct source_file *)(void *)((char *)t - offsetof(struct source_file, rest));
  if (s->group->state == GROUP_RUNNING)
    hash_on(s);
}

static void left(struct source_file *s, uint32_t block)
{
  s->state[block] = NOT_HASHED;
  if (block < s->first)
    s->first = block;
}

static void leave_nothing(struct source_file *s)
{
  for (uint32_t b = 0; b < s->wanted; b++)
    if (s->state[b] == LEFT_TO_TREE)
      left(s, b);
  hash_on(s);
}

/* ---- for trees ---- */

void source_file_leave(struct group *g, uint32_t first, uint32_t end)
{
  struct source_file *s = g->local;
  for (uint32_t b = first; b < end; b++)
    if (s->state[b] == NOT_HASHED)
      s->state[b] = LEFT_TO_TREE;
}

void source_file_near(struct group *g, uint32_t block)
{
  struct source_file *s = g->local;
  if (s->state[block] == LEFT_TO_TREE)
    hash_block(s, block, ahead_take(s->ahead));
}

bool source_file_awaits(const struct group *g, uint32_t block) { return g->local->state[block] == BEING_HASHED; }

struct ahead_block *source_file_kept(const struct group *g, uint32_t block) { return g->local->kept[block]; }

void source_file_passed(struct group *g, uint32_t block)
{
  struct source_file *s = g->local;
  ahead_unref(s->kept[block]);
  s->kept[block] = NULL;
  if (s->state[block] == BEING_HASHED)
    s->state[block] = PASSED_BEFORE;
  if (s->state[block] != LEFT_TO_TREE)
    return;
  left(s, block);
  loop_timer(g->all->host->loop, &s->rest, g->all->host->loop->now);
}

void source_file_repeat(struct group *g)
{
  struct source_file *s = g->local;
  s->told = 0;
  if (s->hashed > 0)
    loop_timer(g->all->host->loop, &s->tell, g->all->host->loop->now);
}
/* Is it the file that the group was made for? */
static bool as_before(const struct group *g, const char *path, const json_t *part, const struct known *k,
                      struct fault *why)
{
  uint64_t mtime, inode;
  if (k->cut.piece > 0 && memcmp(&k->cut, &g->layout, sizeof k->cut) != 0)
    return fault_set(why, "changed", "%s was cut otherwise when it was received: into blocks of %u pieces of %u bytes",
                     path, k->cut.per_block, k->cut.piece);
  if (k->size != g->layout.size)
    return fault_set(why, "changed", "%s has %llu bytes, the group was made for %llu", path,
                     (unsigned long long)k->size, (unsigned long long)g->layout.size);
  if (!get_integer(part, "mtime_ns", 0, INT64_MAX, k->mark, &mtime, why) ||
      !get_integer(part, "inode", 0, INT64_MAX, k->stat.st_ino, &inode, why))
    return false;
  if (mtime != k->mark || inode != k->stat.st_ino)
    return fault_set(why, "changed", "%s is not the file any more that the group was made for (%s)", path,
                     inode != k->stat.st_ino ? "another file of that name" : "written to since");
  return true;
}

/* What a group left: the digests of what was verified, and `skip` with all else in it. NULL without memory. */
static uint8_t (*verified_then(const struct known *k, uint8_t **skip, uint32_t blocks))[DIGEST_LEN]
{
  uint8_t(*before)[DIGEST_LEN] = calloc(blocks > 0 ? blocks : 1, DIGEST_LEN);
  if (*skip == NULL)
    *skip = calloc(blocks > 0 ? blocks : 1, 1);
  if (before == NULL || *skip == NULL) {
    free(before);
    return NULL;
  }
  target_left_verified(k->file->fd, &k->cut, before);
  for (uint32_t b = 0; b < blocks; b++)
    (*skip)[b] |= zeros(before[b]);
  return before;
}

static bool digests_open(struct source_file *s, struct host *h, const struct dc_layout *l, const uint8_t *skip)
{
  s->blocks = dc_layout_blocks(l);
  size_t n = s->blocks > 0 ? s->blocks : 1;
  s->digest = calloc(n, DIGEST_LEN);
  s->state = calloc(n, 1);
  s->order = calloc(n, sizeof *s->order);
  s->kept = calloc(n, sizeof(struct ahead_block *));
  s->ahead = ahead_new(&h->ahead_room, l);
  if (s->digest == NULL || s->state == NULL || s->order == NULL || s->kept == NULL || s->ahead == NULL)
    return false;
  for (uint32_t b = 0; skip != NULL && b < s->blocks; b++) {
    s->skipped += skip[b];
    s->state[b] = skip[b] ? HASHED : NOT_HASHED;
  }
  return true;
}

static void digests_close(struct source_file *s)
{
  for (uint32_t b = 0; s->kept != NULL && b < s->blocks; b++)
    ahead_unref(s->kept[b]);
  ahead_close(s->ahead);
  free(s->kept);
  free(s->order);
  free(s->state);
  free(s->digest);
}

bool source_file_open(struct group *g, const char *path, const json_t *part, struct fault *why)
{
  struct host *h = g->all->host;
  struct known k = {0};
  const char *unfinished = unfinished_of(part);
  if (!open_known(h, path, unfinished, &k, why))
    return false;
  if (!as_before(g, path, part, &k, why)) {
    file_unref(k.file);
    return false;
  }
  struct source_file *s = calloc(1, sizeof *s);
  uint32_t blocks = dc_layout_blocks(&g->layout);
  uint8_t *skip = NULL;
  if (!wants_read(json_object_get(part, "wants"), &g->layout, &skip, why)) {
    free(s);
    file_unref(k.file);
    return false;
  }
  char *copy = strdup(path), *left = unfinished == NULL ? NULL : strdup(unfinished);
  uint8_t(*before)[DIGEST_LEN] = unfinished == NULL ? NULL : verified_then(&k, &skip, blocks);
  bool whole = s != NULL && copy != NULL && (unfinished == NULL || (left != NULL && before != NULL));
  if (!whole || !digests_open(s, h, &g->layout, skip)) {
    if (s != NULL)
      digests_close(s);
    free(skip);
    free(s);
    file_unref(k.file);
    free(copy);
    free(left);
    free(before);
    return fault_set(why, "io", "out of memory");
  }
  (void)posix_fadvise(k.file->fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* several trees read at several places, but forwards */
  s->path = copy;
  s->unfinished = left;
  s->before = before;
  s->file = k.file;
  s->stat = k.stat;
  s->group = g;
  s->skip = skip;
  s->check = (struct timer){.fire = check, .at = DC_NEVER};
  s->tell = (struct timer){.fire = tell, .at = DC_NEVER};
  s->rest = (struct timer){.fire = hash_rest, .at = DC_NEVER};
  g->local = s;
  loop_timer(h->loop, &s->check, h->loop->now + CHECK_EVERY);
  return true;
}

struct file *source_file(struct group *g) { return g->local->file; }
const char *source_file_path(const struct group *g) { return g->local->path; }

bool source_file_holds(const struct group *g, uint64_t first, uint64_t count)
{
  const uint8_t *skip = g->local->skip;
  if (g->local->before == NULL)
    return true;
  uint64_t per = g->layout.per_block, begin = first / per, end = (first + count - 1) / per + 1;
  return memchr(skip + begin, 1, end - begin) == NULL;
}

void source_file_want(struct group *g, uint32_t end)
{
  struct source_file *s = g->local;
  if (end > s->wanted)
    s->wanted = end;
  loop_timer(g->all->host->loop, &s->rest, g->all->host->loop->now); /* when all of the order is known */
}

void source_file_status(const struct group *g, json_t *to)
{
  json_object_set_new(to, "blocks", json_integer(g->local->blocks));
  json_object_set_new(to, "hashed", json_integer(g->local->hashed + g->local->skipped));
}

void source_file_stop(struct group *g)
{
  struct loop *l = g->all->host->loop;
  loop_timer(l, &g->local->check, DC_NEVER);
  loop_timer(l, &g->local->tell, DC_NEVER);
  loop_timer(l, &g->local->rest, DC_NEVER);
}

void source_file_close(struct group *g)
{
  struct source_file *s = g->local;
  source_file_stop(g);
  worker_forget(g->all->host->worker, g);
  file_unref(s->file);
  digests_close(s);
  free(s->skip);
  free(s->before);
  free(s->unfinished);
  free(s->path);
  loop_bury(g->all->host->loop, s);
  g->local = NULL;
}
