#include "sendable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bundle.h"
#include "params.h"
#include "target.h"

bool sendable_fault(struct fault *why, int error, const char *path)
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
    return fault_set(why, fault_passes(error) ? "busy" : "io", "%s: %s", path, strerror(error));
  }
}

/* Looked at before it is opened to be read: opening a device or a FIFO is an act in itself. */
static int open_file(const struct host *h, const struct roots *roots, const char *path, int flags, struct stat *st,
                     struct fault *why)
{
  const char *rest;
  const struct root *root = roots_of(roots, path, &rest, why);
  if (root == NULL)
    return -1;
  int fd = root_open(root, rest, O_PATH, 0);
  if (fd < 0 || fstat(fd, st) < 0) {
    sendable_fault(why, fd < 0 ? -fd : errno, path);
    if (fd >= 0)
      close(fd);
    return -1;
  }
  if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)) {
    fault_set(why, "denied", "%s is neither a file nor a directory", path);
    close(fd);
    return -1;
  }
  struct secrets secrets;
  secrets_look(&secrets, h->key_file, h->origins);
  const char *secret = secrets_name(&secrets, st);
  if (secret != NULL) {
    fault_set(why, "denied", "%s is %s", path, secret);
    close(fd);
    return -1;
  }
  if (flags == O_PATH)
    return fd;
  char self[32];
  snprintf(self, sizeof self, "/proc/self/fd/%d", fd); /* the very file that was looked at */
  int file = open(self, flags | O_CLOEXEC);
  if (file < 0)
    sendable_fault(why, errno == ENOENT ? EIO : errno, path); /* it is there; /proc may not be */
  close(fd);
  return file;
}

static uint64_t mtime_ns(const struct stat *st)
{
  return (uint64_t)st->st_mtim.tv_sec * DC_SEC + (uint64_t)st->st_mtim.tv_nsec;
}

const char *sendable_unfinished(const json_t *part)
{
  const json_t *group = json_object_get(part, "unfinished");
  return group == NULL ? NULL : json_is_string(group) ? json_string_value(group) : "";
}

int sendable_fd(struct host *h, const char *path, const char *unfinished, int flags, struct stat *st, struct fault *why)
{
  return unfinished == NULL ? open_file(h, &h->source_roots, path, flags, st, why)
                            : target_left(&h->dest_roots, path, unfinished, flags, st, why);
}

enum { TO_READ = O_RDONLY | O_NONBLOCK | O_NOCTTY };

bool sendable_open(struct host *h, const char *path, const char *unfinished, struct sendable *k, struct fault *why)
{
  int fd = sendable_fd(h, path, unfinished, TO_READ, &k->stat, why);
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
  return true;
}

/* The directory, walked: a reference. */
static void take(struct sendable *k, struct file *walked)
{
  file_unref(k->file);
  k->file = walked;
  k->size = folder_bytes(walked->folder);
  k->mark = folder_mark(walked->folder);
}

struct file *sendable_look(struct host *h, const struct roots *roots, const char *path, struct fault *why)
{
  struct stat st;
  int fd = open_file(h, roots, path, TO_READ, &st, why);
  struct file *f = fd < 0 ? NULL : file_new(fd);
  if (fd >= 0 && f == NULL)
    fault_set(why, "io", "out of memory");
  return f;
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

static bool stat_left(const struct sendable *k, json_t *to, struct fault *why)
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

static void tell(const struct sendable *k, json_t *to)
{
  json_object_set_new(to, "size", json_integer((json_int_t)k->size));
  json_object_set_new(to, "mtime_ns", json_integer((json_int_t)k->mark));
  json_object_set_new(to, "inode", json_integer((json_int_t)k->stat.st_ino));
  if (k->file->folder != NULL)
    json_object_set_new(to, "bundle", json_integer(folder_entries(k->file->folder)));
}

/* Who asked for a directory that is being walked. */
struct asked {
  struct later later;
  struct sendable what;
};

static void had_folder(void *arg, struct file *f, const struct fault *why)
{
  struct asked *a = arg;
  json_t *to = f == NULL ? ops_refusal(why) : json_pack("{s:b}", "ok", 1);
  if (f != NULL) {
    take(&a->what, f);
    tell(&a->what, to);
    file_unref(f);
  }
  a->later.answer(a->later.arg, to);
  free(a);
}

static bool stat_folder(struct host *h, const char *path, const struct sendable *k, json_t *to, struct later later,
                        bool *waits, struct fault *why)
{
  struct walk_name name = {path, false};
  struct sendable walked = *k;
  struct file *f = walks_kept(&h->walks, name, true);
  if (f != NULL) {
    take(&walked, f);
    tell(&walked, to);
    file_unref(f);
    return true;
  }
  struct asked *a = malloc(sizeof *a);
  if (a == NULL) {
    file_unref(k->file);
    return fault_set(why, "io", "out of memory");
  }
  *a = (struct asked){.later = later, .what = {.stat = k->stat}};
  *waits = walks_ask(&h->walks, name, k->file, had_folder, a, why);
  if (!*waits)
    free(a);
  return *waits;
}

bool sendable_stat(struct host *h, const char *path, const json_t *part, json_t *to, struct later later, bool *waits,
                   struct fault *why)
{
  const char *unfinished = sendable_unfinished(part);
  struct sendable k = {0};
  if (!sendable_open(h, path, unfinished, &k, why))
    return false;
  if (unfinished == NULL && S_ISDIR(k.stat.st_mode))
    return stat_folder(h, path, &k, to, later, waits, why);
  if (unfinished != NULL && !stat_left(&k, to, why)) {
    file_unref(k.file);
    return false;
  }
  tell(&k, to);
  file_unref(k.file);
  return true;
}

bool sendable_walked(struct host *h, const char *path, struct sendable *k, struct fault *why)
{
  struct walk_name name = {path, false};
  struct file *f = walks_kept(&h->walks, name, false);
  if (f != NULL) {
    take(k, f);
    return true;
  }
  return walks_ask(&h->walks, name, k->file, NULL, NULL, why) &&
         fault_set(why, "walking", "%s: the directory is being looked through", path);
}

uint8_t (*sendable_verified(const struct sendable *k, uint8_t **skip, uint32_t blocks))[DIGEST_LEN]
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
