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
#include "xattrs.h"

/* A file that has several names, one of them this. */
struct linked {
  dev_t dev;
  ino_t ino;
  const char *name;
};

struct folder {
  int fd;
  struct bundle bundle;
  uint8_t *manifest;
  uint64_t mark;
};

/* What there is during the walk only. */
struct walk {
  struct folder *f;
  struct folder_walk *how;
  struct fault *why;
  uint64_t manifest; /* bytes of it so far */
  struct linked *linked;
  uint32_t links, room;
};

void folder_free(struct folder *f)
{
  if (f == NULL)
    return;
  bundle_free(&f->bundle);
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

/* 64 bits that are others when the file is another one, or was written to, or has other rights. */
static uint64_t seen(const struct stat *s)
{
  int64_t told[] = {(int64_t)s->st_size, (int64_t)s->st_ino, (int64_t)s->st_dev, s->st_mode,
                    s->st_mtim.tv_sec,   s->st_mtim.tv_nsec, s->st_ctim.tv_sec,  s->st_ctim.tv_nsec};
  uint64_t is;
  blake3_hasher h;
  blake3_hasher_init(&h);
  blake3_hasher_update(&h, told, sizeof told);
  blake3_hasher_finalize(&h, (uint8_t *)&is, sizeof is);
  return is;
}

/* ---- the walk ---- */

static int64_t mtime_ns(const struct stat *st)
{
  int64_t most = INT64_MAX / 1000000000 - 1, sec = st->st_mtim.tv_sec; /* some file systems have the year 30,000 */
  sec = sec > most ? most : sec < -most ? -most : sec;
  return sec * 1000000000 + st->st_mtim.tv_nsec;
}

static bool note_link(struct walk *w, const struct stat *st, const char *name)
{
  if (w->links == w->room) {
    uint32_t room = w->room == 0 ? 64 : 2 * w->room;
    struct linked *grown = reallocarray(w->linked, room, sizeof *grown);
    if (grown == NULL)
      return false;
    w->linked = grown;
    w->room = room;
  }
  w->linked[w->links++] = (struct linked){st->st_dev, st->st_ino, name};
  return true;
}

/* The extended attributes of a file or folder; NULL in *to: it has none. */
static bool read_xattrs(struct walk *w, int dir, const char *prefix, const char *name, const uint8_t **to)
{
  uint8_t *found = NULL;
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  int error = fd < 0 ? errno : xattrs_read(fd, &found);
  if (fd >= 0)
    close(fd);
  *to = found == NULL ? NULL : (const uint8_t *)bundle_text(&w->f->bundle, found, xattrs_bytes(found));
  if (found != NULL && *to == NULL)
    error = ENOMEM;
  free(found);
  if (error == E2BIG)
    return fault_set(w->why, "too_many", "%.200s%.200s: its extended attributes are more than %d KiB", prefix, name,
                     XATTRS_MOST >> 10);
  return error == 0 ||
         fault_set(w->why, fault_passes(error) ? "busy" : "denied", "%.200s%.200s: %s", prefix, name, strerror(error));
}

static bool add(struct walk *w, int dir, const char *prefix, const char *name)
{
  char target[BUNDLE_NAME_MAX + 1] = "", whole[2 * BUNDLE_NAME_MAX];
  struct bundle *t = &w->f->bundle;
  struct fault *why = w->why;
  struct stat st;
  if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
    return fault_set(why, "changed", "%.200s%.200s: %s", prefix, name, strerror(errno));
  enum bundle_kind kind = S_ISREG(st.st_mode) ? BUNDLE_FILE : S_ISDIR(st.st_mode) ? BUNDLE_FOLDER : BUNDLE_LINK;
  if (kind == BUNDLE_LINK && !S_ISLNK(st.st_mode))
    return fault_set(why, "denied", "%.200s%.200s is neither file nor folder nor link", prefix, name);
  const char *secret = secrets_name(&w->how->secrets, &st);
  if (secret != NULL)
    return fault_set(why, "denied", "%.200s%.200s is %s", prefix, name, secret);
  if (kind == BUNDLE_FILE && faccessat(dir, name, R_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) < 0)
    return fault_set(why, "denied", "%.200s%.200s: %s", prefix, name, strerror(errno));
  if (kind == BUNDLE_LINK) {
    ssize_t n = readlinkat(dir, name, target, sizeof target);
    if (n <= 0 || (size_t)n >= sizeof target)
      return fault_set(why, "bad_bundle", "%.200s%.200s: a link that cannot be read, or is too long", prefix, name);
    target[n] = '\0';
  }
  int len = snprintf(whole, sizeof whole, "%s%s", prefix, name);
  if (len > BUNDLE_NAME_MAX)
    return fault_set(why, "bad_bundle", "%.200s…: the name is too long", whole);
  const char *kept = bundle_text(t, whole, (size_t)len);
  const char *to = kind == BUNDLE_LINK ? bundle_text(t, target, strlen(target)) : "";
  const uint8_t *xattrs = NULL;
  if (w->how->xattrs && kind != BUNDLE_LINK && !read_xattrs(w, dir, prefix, name, &xattrs))
    return false;
  struct bundle_entry *e = kept == NULL || to == NULL ? NULL : bundle_add(t);
  if (e == NULL || (kind == BUNDLE_FILE && st.st_nlink > 1 && !note_link(w, &st, kept)))
    return fault_set(why, "io", "out of memory");
  *e = (struct bundle_entry){.name = kept,
                             .target = to,
                             .xattrs = xattrs,
                             .size = kind == BUNDLE_FILE ? (uint64_t)st.st_size : 0,
                             .mtime_ns = mtime_ns(&st),
                             .seen = seen(&st),
                             .uid = st.st_uid,
                             .gid = st.st_gid,
                             .mode = kind == BUNDLE_LINK ? 0777 : (uint16_t)(st.st_mode & 0777),
                             .kind = (uint8_t)kind,
                             .timed = true,
                             .owned = w->how->owners};
  w->manifest += bundle_entry_bytes(e);
  __atomic_store_n(&w->how->entries, t->n, __ATOMIC_RELAXED);
  return w->manifest <= BUNDLE_MANIFEST_MAX || bundle_too_many(t->n, why);
}

/* `fd` is closed. */
static bool walk(struct walk *w, int fd, const char *prefix, unsigned depth)
{
  const struct folder *f = w->f;
  DIR *d = fd < 0 ? NULL : fdopendir(fd);
  if (d == NULL) {
    fault_set(w->why, fault_passes(errno) ? "busy" : "denied", "%.200s: %s", *prefix == '\0' ? "." : prefix,
              strerror(errno));
    if (fd >= 0)
      close(fd);
    return false;
  }
  bool ok = depth <= BUNDLE_DEPTH_MAX || fault_set(w->why, "bad_bundle", "%.200s: too deep", prefix);
  uint32_t first = f->bundle.n;
  for (struct dirent *e; ok && (errno = 0, e = readdir(d)) != NULL;) {
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
      ok = add(w, dirfd(d), prefix, e->d_name);
    if (__atomic_load_n(w->how->stopping, __ATOMIC_RELAXED))
      ok = fault_set(w->why, "io", "the agent ends");
  }
  if (ok && errno != 0) /* the rest of its names is not to be had */
    ok = fault_set(w->why, fault_passes(errno) ? "busy" : "io", "%.200s: %s", *prefix == '\0' ? "." : prefix,
                   strerror(errno));
  for (uint32_t i = first, end = f->bundle.n; ok && i < end; i++) {
    char below[BUNDLE_NAME_MAX + 2];
    if (f->bundle.entry[i].kind != BUNDLE_FOLDER)
      continue;
    snprintf(below, sizeof below, "%s/", f->bundle.entry[i].name);
    ok = walk(w, open_in(f, f->bundle.entry[i].name, O_RDONLY | O_DIRECTORY), below, depth + 1);
  }
  closedir(d);
  return ok;
}

static int by_name(const void *a, const void *b)
{
  return strcmp(((const struct bundle_entry *)a)->name, ((const struct bundle_entry *)b)->name);
}

/* ---- files with several names ---- */

static int by_inode(const void *a, const void *b)
{
  const struct linked *x = a, *y = b;
  if (x->dev != y->dev)
    return x->dev < y->dev ? -1 : 1;
  if (x->ino != y->ino)
    return x->ino < y->ino ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* Of the names of one file in the directory the first is the file, the others say so. Entries are in order. */
static void link_names(struct walk *w)
{
  struct bundle *t = &w->f->bundle;
  struct linked *all = w->linked;
  if (w->links > 1)
    qsort(all, w->links, sizeof *all, by_inode);
  for (uint32_t i = 1, first = 0; i < w->links; i++) {
    if (all[i].dev != all[first].dev || all[i].ino != all[first].ino) {
      first = i;
      continue;
    }
    struct bundle_entry *e = t->entry + (bundle_named(t, all[i].name, t->n) - t->entry);
    e->target = all[first].name;
    e->kind = BUNDLE_SAME;
    e->xattrs = NULL; /* the file's */
    e->size = 0;
  }
}

static uint64_t mark_of(const struct folder *f)
{
  blake3_hasher h;
  uint64_t mark;
  blake3_hasher_init(&h);
  blake3_hasher_update(&h, f->manifest, f->bundle.manifest);
  for (uint32_t i = 0; i < f->bundle.n; i++)
    blake3_hasher_update(&h, &f->bundle.entry[i].seen, sizeof f->bundle.entry[i].seen);
  blake3_hasher_finalize(&h, (uint8_t *)&mark, sizeof mark);
  return mark >> 2;
}

struct folder *folder_open(int fd, struct folder_walk *how, struct fault *why)
{
  struct folder *f = calloc(1, sizeof *f);
  if (f == NULL) {
    close(fd);
    fault_set(why, "io", "out of memory");
    return NULL;
  }
  f->fd = fd;
  struct walk w = {.f = f, .how = how, .why = why, .manifest = BUNDLE_HEAD};
  if (walk(&w, fd < 0 ? fd : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "", 0)) {
    if (f->bundle.n > 1)
      qsort(f->bundle.entry, f->bundle.n, sizeof *f->bundle.entry, by_name);
    link_names(&w);
    f->manifest = bundle_write(&f->bundle, why);
  }
  free(w.linked);
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
  if (fd < 0 && fault_passes(errno))
    return -1;
  if (fd < 0 || fstat(fd, &st) < 0 || seen(&st) != f->bundle.entry[i].seen) {
    if (fd >= 0)
      close(fd);
    errno = ESTALE;
    return -1;
  }
  ssize_t got = pread(fd, to, n, (off_t)at);
  int error = errno;
  close(fd);
  errno = error;
  return got; /* 0: cut off since it was looked at, as any file may be */
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

bool folder_same(const struct folder *f, uint32_t *at, uint32_t n)
{
  for (uint32_t k = 0; k < n && k < f->bundle.n; k++) {
    struct stat st;
    *at = *at < f->bundle.n ? *at : 0;
    int fd = open_in(f, f->bundle.entry[*at].name, O_PATH);
    if (fd < 0 && fault_passes(errno))
      return true; /* it is looked at the next time */
    bool ok = fd >= 0 && fstat(fd, &st) == 0 && seen(&st) == f->bundle.entry[*at].seen;
    if (fd >= 0)
      close(fd);
    if (!ok)
      return false;
    (*at)++;
  }
  return true;
}
