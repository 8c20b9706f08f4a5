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
#include "sendable.h"
#include "sending.h"
#include "shard.h"
#include "source.h"
#include "target.h"
#include "wants.h"

/* How often the path is looked at: is it still this file? */
#define CHECK_EVERY (250 * DC_MS)
enum { LOOK_MIN = 64, LOOK_MAX = 8192 };
/* Nobody asks the trees: so many looks, one after another, at which none had sent more and no block was hashed. One alone may be
 * a moment in which the machine had something else to do. */
enum { QUIET_LOOKS = 2 };
/* Digests gather for so long before they are told; the last ones are told at once. */
#define TELL_AFTER (50 * DC_MS)

/* A block on its way to a digest. One that a tree of this source comes to is read when the tree is near. */
enum hashing { NOT_HASHED, LEFT_TO_TREE, BEING_HASHED, HASHED };

struct source_file {
  struct group *group;
  char *path, *unfinished; /* unfinished: the group that left it; NULL: a file that was there */
  struct file *file;
  struct stat stat; /* as it was opened */
  struct timer check, tell, rest;
  uint32_t looked; /* which of a directory's entries are looked at next; looking: some are */
  bool looking;
  /* digests, in the order in which they were found */
  uint32_t blocks, hashed, told, wanted; /* wanted: one past the highest block assigned */
  uint32_t skipped;                      /* blocks that need none */
  uint32_t under_way;                    /* blocks that are being hashed and not kept */
  uint64_t moved;                        /* blocks hashed and pieces sent when it was looked at last */
  unsigned quiet;                        /* looks since then that found the same */
  uint32_t first;                        /* no block before it is NOT_HASHED */
  uint8_t *state;                        /* enum hashing, of each block */
  uint32_t *order;                       /* the blocks that have their digest, `hashed` of them */
  uint8_t (*digest)[DIGEST_LEN];
  struct ahead *ahead;
  struct source_tree **asker;    /* of each block that is being hashed: the tree that waits for it, or NULL */
  uint8_t *skip;                 /* per block: nobody wants it, or it is not here; NULL: all are wanted and here */
  uint8_t (*before)[DIGEST_LEN]; /* of what a group left: as they were verified */
};

/* ---- the file stays the same ---- */

/* The time of the last change of the inode moves with every write, also where the modification time is set back. */
static bool same(const struct stat *a, const struct stat *b)
{
  return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
         a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ino == b->st_ino && a->st_dev == b->st_dev &&
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

static void have_looked(struct job *j)
{
  struct group *g = j->owner;
  struct source_file *s = g->local;
  s->looking = false;
  s->looked = j->looked;
  if (g->state == GROUP_RUNNING && j->error == ESTALE)
    changed(g);
}

/* At some of a directory's entries, so that a minute is enough for all but the largest. */
static void look(struct source_file *s)
{
  struct host *h = s->group->all->host;
  struct job *j = job_new(JOB_LOOK);
  if (j == NULL)
    return;
  uint32_t n = folder_entries(s->file->folder) / (60 * DC_SEC / CHECK_EVERY);
  j->file = file_ref(s->file);
  j->len = n < LOOK_MIN ? LOOK_MIN : n < LOOK_MAX ? n : LOOK_MAX;
  j->looked = s->looked;
  j->done = have_looked;
  j->owner = s->group;
  s->looking = true;
  worker_submit(h->worker, j, NULL);
}

static void check(struct timer *t, dc_time now)
{
  struct source_file *s = (struct source_file *)(void *)((char *)t - offsetof(struct source_file, check));
  struct group *g = s->group;
  if (g->state != GROUP_RUNNING)
    return;
  struct fault why;
  struct stat st;
  int fd = sendable_fd(g->all->host, s->path, s->unfinished, O_PATH, &st, &why);
  if (fd < 0 && strcmp(why.code, "busy") == 0) {
    loop_timer(g->all->host->loop, t, now + CHECK_EVERY);
    return;
  }
  if (fd < 0) {
    group_fail(g, &why);
    return;
  }
  close(fd);
  if (!same(&st, &s->stat)) {
    changed(g);
    return;
  }
  if (s->file->folder != NULL && !s->looking)
    look(s);
  uint64_t now_moved = s->hashed + source_sent(g);
  s->quiet = now_moved == s->moved ? s->quiet + 1 : 0;
  s->moved = now_moved;
  if (s->quiet >= QUIET_LOOKS) /* whoever has the pieces already waits for their digests */
    leave_nothing(s);
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
    sendable_fault(&why, j->error, s->path);
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

/* The tree that waits for the block has it now. False: there is none. */
static bool answer(struct source_file *s, uint32_t block, struct ahead_block *kept)
{
  struct source_tree *t = s->asker[block];
  s->asker[block] = NULL;
  if (t != NULL)
    shard_post(t->shard, sending_has, t, block, kept);
  return t != NULL;
}

static void left(struct source_file *s, uint32_t block)
{
  s->state[block] = NOT_HASHED;
  if (block < s->first)
    s->first = block;
}

/* It cannot be read just now. */
static void hash_later(struct source_file *s, uint32_t block)
{
  struct loop *l = s->group->all->host->loop;
  left(s, block);
  (void)answer(s, block, NULL);
  if (s->rest.pos == 0)
    loop_timer(l, &s->rest, l->now + CHECK_EVERY);
}

static void hashed(struct job *j)
{
  struct group *g = j->owner;
  bool goes_on = g != NULL && g->state == GROUP_RUNNING && j->error != EINTR;
  if (goes_on)
    g->local->under_way -= j->block == NULL;
  if (goes_on && fault_passes(j->error))
    hash_later(g->local, (uint32_t)j->tag);
  if (!goes_on || fault_passes(j->error) || !judge(g, j)) {
    ahead_unref(j->block);
    return;
  }
  struct source_file *s = g->local;
  s->state[j->tag] = HASHED;
  if (!answer(s, (uint32_t)j->tag, j->block))
    ahead_unref(j->block);
  memcpy(s->digest[j->tag], j->digest, DIGEST_LEN);
  s->order[s->hashed++] = (uint32_t)j->tag;
  if (s->hashed + s->skipped == s->blocks) /* who has all pieces waits for these */
    loop_timer(g->all->host->loop, &s->tell, g->all->host->loop->now);
  else if (s->tell.pos == 0)
    loop_timer(g->all->host->loop, &s->tell, g->all->host->loop->now + TELL_AFTER);
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

void source_file_near(struct group *g, struct source_tree *t, uint32_t block)
{
  struct source_file *s = g->local;
  if (s->state[block] == LEFT_TO_TREE) {
    hash_block(s, block, ahead_take(s->ahead));
    s->asker[block] = t;
  }
  if (s->state[block] != BEING_HASHED || s->asker[block] != t) {
    if (s->asker[block] == t)
      s->asker[block] = NULL;
    shard_post(t->shard, sending_has, t, block, NULL);
  }
}

void source_file_passed(struct group *g, uint32_t block)
{
  struct source_file *s = g->local;
  if (s->state[block] != LEFT_TO_TREE)
    return;
  left(s, block);
  loop_timer(g->all->host->loop, &s->rest, g->all->host->loop->now);
}

void source_file_left(struct group *g, const struct source_tree *t)
{
  struct source_file *s = g->local;
  for (uint32_t b = 0; b < s->wanted; b++)
    if (s->asker[b] == t)
      s->asker[b] = NULL;
}

void source_file_repeat(struct group *g)
{
  struct source_file *s = g->local;
  s->told = 0;
  if (s->hashed > 0)
    loop_timer(g->all->host->loop, &s->tell, g->all->host->loop->now);
}

/* Is it `is`, as `stat` told it? Before 1970 a time is below 0, and an inode of 64 bits is told so. */
static bool told_so(const json_t *part, const char *key, uint64_t is, bool *same, struct fault *why)
{
  const json_t *v = json_object_get(part, key);
  bool given = v != NULL && !json_is_null(v);
  *same = !given || json_integer_value(v) == (json_int_t)is;
  return !given || json_is_integer(v) || fault_set(why, "bad_request", "%s must be an integer", key);
}

/* Is it the file that the group was made for? */
static bool as_before(const struct group *g, const char *path, const json_t *part, const struct sendable *k,
                      struct fault *why)
{
  bool time, inode;
  if (k->cut.piece > 0 && memcmp(&k->cut, &g->layout, sizeof k->cut) != 0)
    return fault_set(why, "changed", "%s was cut otherwise when it was received: into blocks of %u pieces of %u bytes",
                     path, k->cut.per_block, k->cut.piece);
  if (k->size != g->layout.size)
    return fault_set(why, "changed", "%s has %llu bytes, the group was made for %llu", path,
                     (unsigned long long)k->size, (unsigned long long)g->layout.size);
  if (!told_so(part, "mtime_ns", k->mark, &time, why) || !told_so(part, "inode", k->stat.st_ino, &inode, why))
    return false;
  return (time && inode) || fault_set(why, "changed", "%s is not the file any more that the group was made for (%s)",
                                      path, !inode ? "another file of that name" : "written to since");
}

static bool digests_open(struct source_file *s, struct host *h, const struct dc_layout *l, const uint8_t *skip)
{
  s->blocks = dc_layout_blocks(l);
  size_t n = s->blocks > 0 ? s->blocks : 1;
  s->digest = calloc(n, DIGEST_LEN);
  s->state = calloc(n, 1);
  s->order = calloc(n, sizeof *s->order);
  s->asker = calloc(n, sizeof(struct source_tree *));
  s->ahead = ahead_new(&h->ahead_room, l);
  if (s->digest == NULL || s->state == NULL || s->order == NULL || s->asker == NULL || s->ahead == NULL)
    return false;
  for (uint32_t b = 0; skip != NULL && b < s->blocks; b++) {
    s->skipped += skip[b];
    s->state[b] = skip[b] ? HASHED : NOT_HASHED;
  }
  return true;
}

static void digests_close(struct source_file *s)
{
  ahead_close(s->ahead);
  free(s->asker);
  free(s->order);
  free(s->state);
  free(s->digest);
}

bool source_file_open(struct group *g, const char *path, const json_t *part, struct fault *why)
{
  struct host *h = g->all->host;
  struct sendable k = {0};
  const char *unfinished = sendable_unfinished(part);
  if (!sendable_open(h, path, unfinished, &k, why) || (S_ISDIR(k.stat.st_mode) && !sendable_walked(h, path, &k, why)))
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
  uint8_t(*before)[DIGEST_LEN] = unfinished == NULL ? NULL : sendable_verified(&k, &skip, blocks);
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
  if (unfinished != NULL) /* somebody wants it after all */
    left_settle(&g->all->left, unfinished, true);
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
