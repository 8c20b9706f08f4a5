#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "digest.h"

enum { LOOK_AT = 64 };

struct folder {
  int fd;
  struct bundle bundle;
  struct stat *was; /* of each entry */
  uint8_t *manifest;
  uint64_t mark;
  uint32_t room;
  bool owners;
};

void folder_free(struct folder *f)
{
  if (f == NULL)
    return;
  bundle_free(&f->bundle);
  free(f->was);
  free(f->manifest);
  close(f->fd);
  free(f);
}

static int open_in(const struct folder *f, const char *name, int flags)
{
  flags |=
      O_CLOEXEC | O_NOFOLLOW | (flags & O_PATH ? 0 : O_NONBLOCK | O_NOCTTY); /* openat2 wants no others with O_PATH */
  struct open_how how = {.flags = (unsigned long long)(unsigned)flags,
                         .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
  return (int)syscall(SYS_openat2, f->fd, name, &how, sizeof how);
}

static bool same(const struct stat *a, const struct stat *b)
{
  return a->st_size == b->st_size && a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_mode == b->st_mode &&
         a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
         a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* ---- the walk ---- */

static bool grow(struct folder *f)
{
  if (f->bundle.n < f->room)
    return true;
  uint32_t room = f->room == 0 ? 64 : 2 * f->room;
  struct bundle_entry *entry = reallocarray(f->bundle.entry, room, sizeof *entry);
  f->bundle.entry = entry == NULL ? f->bundle.entry : entry;
  struct stat *was = reallocarray(f->was, room, sizeof *was);
  f->was = was == NULL ? f->was : was;
  f->room = entry == NULL || was == NULL ? f->room : room;
  return entry != NULL && was != NULL;
}

static int64_t mtime_ns(const struct stat *st)
{
  int64_t most = INT64_MAX / 1000000000 - 1, sec = st->st_mtim.tv_sec; /* some file systems have the year 30,000 */
  sec = sec > most ? most : sec < -most ? -most : sec;
  return sec * 1000000000 + st->st_mtim.tv_nsec;
}

static bool add(struct folder *f, int dir, const char *prefix, const char *name, const struct stat *secret,
                struct fault *why)
{
  char target[BUNDLE_NAME_MAX + 1] = "";
  struct stat st;
  if (f->bundle.n == BUNDLE_ENTRIES_MAX)
    return fault_set(why, "too_many", "the directory has more than %d entries: send a tar file of it",
                     BUNDLE_ENTRIES_MAX);
  if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
    return fault_set(why, "changed", "%.200s%.200s: %s", prefix, name, strerror(errno));
  enum bundle_kind kind = S_ISREG(st.st_mode) ? BUNDLE_FILE : S_ISDIR(st.st_mode) ? BUNDLE_FOLDER : BUNDLE_LINK;
  if (kind == BUNDLE_LINK && !S_ISLNK(st.st_mode))
    return fault_set(why, "denied", "%.200s%.200s is neither file nor folder nor link", prefix, name);
  if (secret != NULL && secret->st_dev == st.st_dev && secret->st_ino == st.st_ino)
    return fault_set(why, "denied", "%.200s%.200s is this agent's private key", prefix, name);
  if (kind == BUNDLE_LINK) {
    ssize_t n = readlinkat(dir, name, target, sizeof target);
    if (n <= 0 || (size_t)n >= sizeof target)
      return fault_set(why, "bad_bundle", "%.200s%.200s: a link that cannot be read, or is too long", prefix, name);
    target[n] = '\0';
  }
  char *whole = NULL, *to = strdup(target);
  if (!grow(f) || to == NULL || asprintf(&whole, "%s%s", prefix, name) < 0) {
    free(to);
    return fault_set(why, "io", "out of memory");
  }
  struct bundle_entry *e = &f->bundle.entry[f->bundle.n];
  *e = (struct bundle_entry){.kind = kind,
                             .mode = kind == BUNDLE_LINK ? 0777 : (uint16_t)(st.st_mode & 0777),
                             .size = kind == BUNDLE_FILE ? (uint64_t)st.st_size : 0,
                             .timed = true,
                             .owned = f->owners,
                             .mtime_ns = mtime_ns(&st),
                             .uid = st.st_uid,
                             .gid = st.st_gid,
                             .name = whole,
                             .target = to};
  f->was[f->bundle.n++] = st;
  return strlen(whole) <= BUNDLE_NAME_MAX || fault_set(why, "bad_bundle", "%.200s…: the name is too long", whole);
}

/* `fd` is closed. */
static bool walk(struct folder *f, int fd, const char *prefix, unsigned depth, const struct stat *secret,
                 struct fault *why)
{
  DIR *d = fd < 0 ? NULL : fdopendir(fd);
  if (d == NULL) {
    fault_set(why, "denied", "%.200s: %s", *prefix == '\0' ? "." : prefix, strerror(errno));
    if (fd >= 0)
      close(fd);
    return false;
  }
  bool ok = depth <= BUNDLE_DEPTH_MAX || fault_set(why, "bad_bundle", "%.200s: too deep", prefix);
  uint32_t first = f->bundle.n;
  for (struct dirent *e; ok && (e = readdir(d)) != NULL;)
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
      ok = add(f, dirfd(d), prefix, e->d_name, secret, why);
  for (uint32_t i = first, end = f->bundle.n; ok && i < end; i++) {
    char below[BUNDLE_NAME_MAX + 2];
    if (f->bundle.entry[i].kind != BUNDLE_FOLDER)
      continue;
    snprintf(below, sizeof below, "%s/", f->bundle.entry[i].name);
    ok = walk(f, open_in(f, f->bundle.entry[i].name, O_RDONLY | O_DIRECTORY), below, depth + 1, secret, why);
  }
  closedir(d);
  return ok;
}

struct pair {
  struct bundle_entry entry;
  struct stat was;
};

static int by_name(const void *a, const void *b)
{
  return strcmp(((const struct pair *)a)->entry.name, ((const struct pair *)b)->entry.name);
}

static bool sort(struct folder *f)
{
  struct pair *all = calloc(f->bundle.n + 1, sizeof *all);
  if (all == NULL)
    return false;
  for (uint32_t i = 0; i < f->bundle.n; i++)
    all[i] = (struct pair){f->bundle.entry[i], f->was[i]};
  qsort(all, f->bundle.n, sizeof *all, by_name);
  for (uint32_t i = 0; i < f->bundle.n; i++) {
    f->bundle.entry[i] = all[i].entry;
    f->was[i] = all[i].was;
  }
  free(all);
  return true;
}

/* ---- files with several names ---- */

struct linked {
  dev_t dev;
  ino_t ino;
  uint32_t entry;
};

static int by_inode(const void *a, const void *b)
{
  const struct linked *x = a, *y = b;
  if (x->dev != y->dev)
    return x->dev < y->dev ? -1 : 1;
  if (x->ino != y->ino)
    return x->ino < y->ino ? -1 : 1;
  return x->entry < y->entry ? -1 : x->entry > y->entry;
}

/* Of the names of one file in the directory the first is the file, the others say so. Entries are in order. */
static bool link_names(struct folder *f)
{
  uint32_t n = 0;
  struct linked *all = calloc(f->bundle.n + 1, sizeof *all);
  if (all == NULL)
    return false;
  for (uint32_t i = 0; i < f->bundle.n; i++)
    if (f->bundle.entry[i].kind == BUNDLE_FILE && f->was[i].st_nlink > 1)
      all[n++] = (struct linked){f->was[i].st_dev, f->was[i].st_ino, i};
  qsort(all, n, sizeof *all, by_inode);
  bool ok = true;
  for (uint32_t i = 1, first = 0; ok && i < n; i++) {
    if (all[i].dev != all[first].dev || all[i].ino != all[first].ino) {
      first = i;
      continue;
    }
    struct bundle_entry *e = &f->bundle.entry[all[i].entry];
    char *name = strdup(f->bundle.entry[all[first].entry].name);
    ok = name != NULL;
    if (ok) {
      free(e->target);
      e->target = name;
      e->kind = BUNDLE_SAME;
      e->size = 0;
    }
  }
  free(all);
  return ok;
}

static uint64_t mark_of(const struct folder *f)
{
  blake3_hasher h;
  uint64_t mark;
  blake3_hasher_init(&h);
  blake3_hasher_update(&h, f->manifest, f->bundle.manifest);
  for (uint32_t i = 0; i < f->bundle.n; i++) {
    const struct stat *s = &f->was[i];
    int64_t told[4] = {(int64_t)s->st_ino, s->st_mtim.tv_sec, s->st_mtim.tv_nsec, s->st_ctim.tv_nsec};
    blake3_hasher_update(&h, told, sizeof told);
  }
  blake3_hasher_finalize(&h, (uint8_t *)&mark, sizeof mark);
  return mark >> 2;
}

struct folder *folder_open(int fd, const struct stat *secret, bool owners, struct fault *why)
{
  struct folder *f = calloc(1, sizeof *f);
  if (f == NULL) {
    close(fd);
    fault_set(why, "io", "out of memory");
    return NULL;
  }
  f->fd = fd;
  f->owners = owners;
  bool ok = walk(f, openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "", 0, secret, why);
  if (ok && (!sort(f) || !link_names(f)))
    ok = fault_set(why, "io", "out of memory");
  f->manifest = ok ? bundle_write(&f->bundle, why) : NULL;
  if (f->manifest == NULL) {
    folder_free(f);
    return NULL;
  }
  f->mark = mark_of(f);
  return f;
}

uint64_t folder_bytes(const struct folder *f) { return f->bundle.bytes; }
uint64_t folder_mark(const struct folder *f) { return f->mark; }
uint32_t folder_entries(const struct folder *f) { return f->bundle.n; }

/* ---- reading ---- */

static ssize_t read_file(const struct folder *f, uint32_t i, uint8_t *to, size_t n, uint64_t at)
{
  struct stat st;
  int fd = open_in(f, f->bundle.entry[i].name, O_RDONLY);
  if (fd < 0 || fstat(fd, &st) < 0 || !same(&st, &f->was[i])) {
    if (fd >= 0)
      close(fd);
    errno = ESTALE;
    return -1;
  }
  ssize_t got = pread(fd, to, n, (off_t)at);
  int error = got == 0 ? ESTALE : errno;
  close(fd);
  errno = error;
  return got == 0 ? -1 : got;
}

ssize_t folder_read(const struct folder *f, uint8_t *to, size_t n, uint64_t at)
{
  if (at >= f->bundle.bytes)
    return 0;
  if (at < f->bundle.manifest) {
    size_t some = f->bundle.manifest - at < n ? (size_t)(f->bundle.manifest - at) : n;
    memcpy(to, f->manifest + at, some);
    return (ssize_t)some;
  }
  uint32_t i = bundle_find(&f->bundle, at);
  const struct bundle_entry *e = &f->bundle.entry[i];
  uint64_t end = at < e->at ? e->at : e->at + e->size;
  size_t some = end - at < n ? (size_t)(end - at) : n;
  if (at >= e->at)
    return read_file(f, i, to, some, at - e->at);
  memset(to, 0, some); /* between two files */
  return (ssize_t)some;
}

bool folder_same(const struct folder *f, uint32_t *at)
{
  for (unsigned k = 0; k < LOOK_AT && k < f->bundle.n; k++) {
    struct stat st;
    *at = *at < f->bundle.n ? *at : 0;
    int fd = open_in(f, f->bundle.entry[*at].name, O_PATH);
    bool ok = fd >= 0 && fstat(fd, &st) == 0 && same(&st, &f->was[*at]);
    if (fd >= 0)
      close(fd);
    if (!ok)
      return false;
    (*at)++;
  }
  return true;
}
