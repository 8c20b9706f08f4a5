#include "source_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
#include "params.h"
#include "target.h"
#include "wants.h"

/* How often the path is looked at: is it still this file? */
#define CHECK_EVERY (250 * DC_MS)
/* Digests gather for so long before they are told. */
#define TELL_AFTER (2 * DC_MS)

struct source_file {
  struct group *group;
  char *path, *unfinished; /* unfinished: the group that left it; NULL: a file that was there */
  struct file *file;
  struct stat stat; /* as it was opened */
  struct timer check, tell;
  uint32_t looked; /* which of a directory's entries are looked at next */
  /* digests, in the order of blocks */
  uint32_t blocks, hashed, told, wanted; /* wanted: one past the highest block assigned */
  uint32_t begun;                        /* blocks [hashed, begun) are being hashed, or wait for one before them */
  uint64_t ready;                        /* bit i: block hashed + i has its digest already */
  uint8_t (*digest)[DIGEST_LEN];
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
  if (!same(&st, &s->stat) || (s->file->folder != NULL && !folder_same(s->file->folder, &s->looked)))
    changed(g);
  else
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
      if (s->skip != NULL && s->skip[s->told])
        continue;
      char hex[65];
      hex_write(hex, s->digest[s->told], 32);
      json_array_append_new(list, json_pack("[i,s]", (int)s->told, hex));
    }
    group_event(s->group, "digests", json_pack("{s:o}", "blocks", list));
  }
}

static void hash_on(struct source_file *s);

/* Over the blocks that have their digest, or need none. */
static void advance(struct source_file *s)
{
  for (; s->ready & 1; s->ready >>= 1)
    s->hashed++;
}

static void hashed(struct job *j)
{
  struct group *g = j->owner;
  struct source_file *s = g->local;
  if (g->state != GROUP_RUNNING || j->error == EINTR)
    return;
  if (j->error > 0) {
    struct fault why;
    source_file_fault(&why, j->error, s->path);
    group_fail(g, &why);
    return;
  }
  if (j->error < 0 || !same(&j->stat, &s->stat)) {
    changed(g);
    return;
  }
  if (s->before != NULL && memcmp(s->before[j->tag], j->digest, DIGEST_LEN) != 0) {
    changed(g);
    return;
  }
  memcpy(s->digest[j->tag], j->digest, DIGEST_LEN);
  s->ready |= UINT64_C(1) << (j->tag - s->hashed);
  advance(s);
  if (s->tell.pos == 0 && s->told < s->hashed)
    loop_timer(g->all->host->loop, &s->tell, g->all->host->loop->now + TELL_AFTER);
  hash_on(s);
}

/* Hash the next blocks, if they are not too far ahead of what was assigned. Reading them also brings them into the page
 * cache, so that the loop's own reads find them there. */
static void hash_on(struct source_file *s)
{
  struct group *g = s->group;
  uint64_t block = (uint64_t)g->layout.piece * g->layout.per_block;
  while (s->begun < s->hashed + HASH_AT_ONCE && s->begun < s->blocks &&
         s->begun < (uint64_t)s->wanted + DIGESTS_AHEAD) {
    if (s->skip != NULL && s->skip[s->begun]) {
      s->ready |= UINT64_C(1) << (s->begun++ - s->hashed);
      advance(s);
      continue;
    }
    struct job *j = job_new(JOB_HASH);
    if (j == NULL)
      return;
    j->tag = s->begun++;
    j->file = file_ref(s->file);
    j->off = j->tag * block;
    j->len = g->layout.size - j->off < block ? g->layout.size - j->off : block;
    j->done = hashed;
    j->owner = g;
    worker_submit(g->all->host->worker, j, NULL);
  }
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
  uint8_t(*digest)[DIGEST_LEN] = calloc(blocks > 0 ? blocks : 1, DIGEST_LEN);
  uint8_t *skip = NULL;
  if (!wants_read(json_object_get(part, "wants"), &g->layout, &skip, why)) {
    free(s);
    file_unref(k.file);
    free(digest);
    return false;
  }
  char *copy = strdup(path), *left = unfinished == NULL ? NULL : strdup(unfinished);
  uint8_t(*before)[DIGEST_LEN] = unfinished == NULL ? NULL : verified_then(&k, &skip, blocks);
  if (s == NULL || digest == NULL || copy == NULL || (unfinished != NULL && (left == NULL || before == NULL))) {
    free(skip);
    free(s);
    file_unref(k.file);
    free(digest);
    free(copy);
    free(left);
    free(before);
    return fault_set(why, "io", "out of memory");
  }
  (void)posix_fadvise(k.file->fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* several trees read at several places, but forwards */
  *s = (struct source_file){.path = copy,
                            .unfinished = left,
                            .before = before,
                            .file = k.file,
                            .stat = k.stat,
                            .group = g,
                            .blocks = blocks,
                            .digest = digest,
                            .skip = skip,
                            .check = {.fire = check, .at = DC_NEVER},
                            .tell = {.fire = tell, .at = DC_NEVER}};
  g->local = s;
  loop_timer(h->loop, &s->check, h->loop->now + CHECK_EVERY);
  hash_on(s);
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
  hash_on(s);
}

void source_file_status(const struct group *g, json_t *to)
{
  json_object_set_new(to, "blocks", json_integer(g->local->blocks));
  json_object_set_new(to, "hashed", json_integer(g->local->hashed));
}

void source_file_stop(struct group *g)
{
  struct loop *l = g->all->host->loop;
  loop_timer(l, &g->local->check, DC_NEVER);
  loop_timer(l, &g->local->tell, DC_NEVER);
}

void source_file_close(struct group *g)
{
  struct source_file *s = g->local;
  source_file_stop(g);
  worker_forget(g->all->host->worker, g);
  file_unref(s->file);
  free(s->digest);
  free(s->skip);
  free(s->before);
  free(s->unfinished);
  free(s->path);
  loop_bury(g->all->host->loop, s);
  g->local = NULL;
}
