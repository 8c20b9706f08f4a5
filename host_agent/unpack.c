#include "unpack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "bundle.h"
#include "sha256.h"
#include "xattrs.h"

/* Of each entry, beside its bytes: blocks are not full, folders have a list. */
enum { NS = 1000000000, FILE_ROOM = 8 << 10 };

static bool stopped(const struct unpacking *u) { return __atomic_load_n(u->stopping, __ATOMIC_RELAXED) != 0; }

static int open_in(struct unpacking *u, int dir, const char *name, int flags)
{
  for (;;) {
    int fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 || !fault_passes(errno) || u->waits == UNPACK_WAITS)
      return fd;
    if (stopped(u)) {
      errno = EINTR;
      return -1;
    }
    u->waits++;
    (void)nanosleep(&(struct timespec){.tv_nsec = UNPACK_WAIT_NS}, NULL);
  }
}

/* Everything in the folder `dir`/`name`, and it. What is in it is ours: folders may have lost their rights. */
static void remove_all(struct unpacking *u, int dir, const char *name, unsigned depth)
{
  if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
    return;
  if (errno == EISDIR)
    (void)fchmodat(dir, name, 0700, AT_SYMLINK_NOFOLLOW);
  int fd = open_in(u, dir, name, O_RDONLY | O_DIRECTORY);
  DIR *d = fd < 0 ? NULL : fdopendir(fd);
  if (d == NULL) {
    if (fd >= 0)
      close(fd);
    (void)unlinkat(dir, name, AT_REMOVEDIR); /* if it is empty */
    return;
  }
  for (struct dirent *e; depth <= BUNDLE_DEPTH_MAX && (e = readdir(d)) != NULL;)
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
      remove_all(u, fd, e->d_name, depth + 1);
  closedir(d);
  (void)unlinkat(dir, name, AT_REMOVEDIR);
}

/* Are these bytes of the stream those that were promised? */
static int compare(struct unpacking *u, uint64_t at, uint64_t n, const uint8_t *expects, const char *name)
{
  uint8_t is[SHA256_LEN];
  int error = sha256_of(u->stopping, u->from, at, n, is);
  if (error != 0 || memcmp(is, expects, sizeof is) == 0)
    return error;
  snprintf(u->wrong, sizeof u->wrong, "%s", name);
  return EBADE;
}

static int read_manifest(struct unpacking *u, struct bundle *t)
{
  uint8_t head[BUNDLE_HEAD];
  int from = u->from;
  if (pread(from, head, sizeof head, 0) != sizeof head)
    return EBADMSG;
  uint32_t n = bundle_manifest_bytes(head);
  if (n != 0 && u->expects != NULL) {
    int wrong = compare(u, 0, n, u->expects, "");
    if (wrong != 0)
      return wrong;
  }
  uint8_t *p = n == 0 ? NULL : malloc(n);
  struct fault why;
  int error = n == 0 ? EBADMSG : p == NULL ? ENOMEM : 0;
  if (error == 0 && (pread(from, p, n, 0) != (ssize_t)n || !bundle_parse(t, p, n, &why)))
    error = EBADMSG;
  free(p);
  return error;
}

/* The stream up to `at` has been copied. Where what follows has no room beside it, it is taken out of the file: it would
 * have to come again if this was broken off now. Where the file system cannot do that, both are there until the end. */
static void make_room(struct unpacking *u, uint64_t at)
{
  struct statvfs fs;
  at = at / BUNDLE_ALIGN * BUNDLE_ALIGN;
  if (at < u->looked + UNPACK_STEP || __atomic_load_n(u->readers, __ATOMIC_ACQUIRE) > 1)
    return;
  u->looked = at;
  if (fstatvfs(u->dir, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize >= u->needs - at)
    return;
  (void)fallocate(u->from, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)u->given, (off_t)(at - u->given));
  u->given = at;
}

/* Blocks are shared where the file system can. */
static int copy(struct unpacking *u, int from, uint64_t at, int to, uint64_t n)
{
  off_t off = (off_t)at;
  while (n > 0) {
    if (stopped(u))
      return EINTR;
    ssize_t got = copy_file_range(from, &off, to, NULL, n < UNPACK_STEP ? (size_t)n : UNPACK_STEP, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return got < 0 ? errno : EIO;
    n -= (uint64_t)got;
    if (from == u->from)
      make_room(u, (uint64_t)off);
  }
  return 0;
}

/* For a file's attributes: ext4 and Btrfs say that there is no room. */
static bool too_large(int error, int fd)
{
  struct statvfs fs;
  bool room = fstatvfs(fd, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize >= UNPACK_STEP;
  return error == E2BIG || error == ERANGE || (error == ENOSPC && room);
}

static int give_xattrs(struct unpacking *u, const struct bundle_entry *e, int folder)
{
  int fd = open_in(u, folder, e->name, O_RDONLY);
  if (fd < 0)
    return errno;
  int error = xattrs_write(fd, e->xattrs);
  if (too_large(error, fd))
    error = E2BIG;
  close(fd);
  if (error == ENOTSUP || error == E2BIG)
    snprintf(u->wrong, sizeof u->wrong, "%s", e->name);
  return error;
}

/* Attributes, rights, time and owner of what was made under this name: attributes first, for who may not write to a file gives it
 * none; the owner last, for then it may be nobody's here to change. Rights are a link's own, and a name more of a file changes
 * nothing. */
static int dress(struct unpacking *u, const struct bundle_entry *e, int folder)
{
  int error = u->xattrs && e->xattrs != NULL ? give_xattrs(u, e, folder) : 0;
  if (error != 0)
    return error;
  if (e->kind != BUNDLE_LINK && fchmodat(folder, e->name, e->mode, 0) < 0)
    return errno;
  int64_t ns = e->mtime_ns % NS, sec = e->mtime_ns / NS;
  struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                              {.tv_sec = ns < 0 ? sec - 1 : sec, .tv_nsec = ns < 0 ? ns + NS : ns}};
  if (e->timed && utimensat(folder, e->name, times, AT_SYMLINK_NOFOLLOW) < 0)
    return errno;
  return u->owners && e->owned && fchownat(folder, e->name, e->uid, e->gid, AT_SYMLINK_NOFOLLOW) < 0 ? errno : 0;
}

/* Of `from` beginning at `at`, where its bytes are. */
static int make_file(struct unpacking *u, const struct bundle_entry *e, int folder, int from, uint64_t at)
{
  int wrong = e->expects != NULL ? compare(u, at, e->size, e->expects, e->name) : 0;
  if (wrong != 0)
    return wrong;
  int fd = open_in(u, folder, e->name, O_WRONLY | O_CREAT | O_EXCL);
  if (fd < 0)
    return errno;
  int error = copy(u, from, at, fd, e->size);
  if (error == 0)
    error = dress(u, e, folder);
  if (close(fd) < 0 && error == 0)
    error = errno;
  return error;
}

/* One more name of a file that is there; where there can be none, a copy of it. Of the file: its bytes of the stream may be
 * gone. */
static int make_same(struct unpacking *u, const struct bundle *t, const struct bundle_entry *e, int folder)
{
  if (linkat(folder, e->target, folder, e->name, 0) == 0)
    return 0;
  const struct bundle_entry *file = bundle_named(t, e->target, t->n);
  struct bundle_entry own = *file;
  own.name = e->name;
  own.expects = NULL; /* as the file had it */
  int from = fchmodat(folder, e->target, 0600, 0) < 0 ? -1 : open_in(u, folder, e->target, O_RDONLY);
  int error = from < 0 ? errno : make_file(u, &own, folder, from, 0);
  if (from >= 0)
    close(from);
  return error == 0 ? dress(u, file, folder) : error;
}

static int make_link(struct unpacking *u, const struct bundle_entry *e, int folder)
{
  return symlinkat(e->target, folder, e->name) < 0 ? errno : dress(u, e, folder);
}

static int make(struct unpacking *u, const struct bundle *t, int folder)
{
  int error = 0;
  for (uint32_t i = 0; error == 0 && i < t->n; i++) {
    const struct bundle_entry *e = &t->entry[i];
    if (stopped(u))
      error = EINTR;
    else if (e->kind == BUNDLE_FILE)
      error = make_file(u, e, folder, u->from, e->at);
    else if (e->kind == BUNDLE_SAME)
      error = make_same(u, t, e, folder);
    else if (e->kind == BUNDLE_LINK)
      error = make_link(u, e, folder);
    else if (mkdirat(folder, e->name, 0700) < 0)
      error = errno;
  }
  for (uint32_t i = t->n;
       error == 0 && i-- > 0;) /* last: some folders may not be written to, and all are written to until now */
    if (t->entry[i].kind == BUNDLE_FOLDER)
      error = dress(u, &t->entry[i], folder);
  return error;
}

/* Whoever may write to the folder that it is made in can have put another one in its place, and links in that: what is made here
 * would be made where these lead. It is whose the temporary file is, and nobody else gets into it from now on. */
static int open_own(struct unpacking *u)
{
  struct stat st, file;
  int fd = open_in(u, u->dir, u->temp, O_RDONLY | O_DIRECTORY);
  if (fd < 0)
    return -1;
  if (fstat(fd, &st) == 0 && fstat(u->from, &file) == 0 && st.st_uid == file.st_uid && fchmod(fd, 0700) == 0)
    return fd;
  close(fd);
  errno = ELOOP;
  return -1;
}

/* It gets its name, which nothing has. NFS, Ceph, Lustre and others know no flags of a rename; without, a folder takes the place of
 * an empty one at most. */
static int rename_to(const struct unpacking *u)
{
  if (renameat2(u->dir, u->temp, u->dir, u->name, RENAME_NOREPLACE) == 0)
    return 0;
  if (errno != EINVAL)
    return errno;
  if (renameat(u->dir, u->temp, u->dir, u->name) == 0)
    return 0;
  return errno == ENOTDIR ? EEXIST : errno;
}

int unpack(struct unpacking *u)
{
  struct bundle t = {0};
  struct stat st;
  int error = read_manifest(u, &t);
  if (error == 0 && t.bytes != u->bytes)
    error = EBADMSG;
  u->needs = t.bytes + (uint64_t)t.n * FILE_ROOM + UNPACK_STEP;
  if (error == 0 && fstatat(u->dir, u->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
    error = EEXIST;
  if (error == 0)
    remove_all(u, u->dir, u->temp, 0); /* of an agent that was killed */
  if (error == 0 && mkdirat(u->dir, u->temp, 0700) < 0)
    error = errno;
  int folder = error == 0 ? open_own(u) : -1;
  if (error == 0)
    error = folder < 0 ? errno : make(u, &t, folder);
  if (error == 0 && (fchmod(folder, 0755) < 0 || (u->sync && syncfs(folder) < 0)))
    error = errno;
  if (error == 0 && stopped(u))
    error = EINTR;
  if (error == 0)
    error = rename_to(u);
  if (error == 0 && u->sync)
    (void)fsync(u->dir);
  if (folder >= 0)
    close(folder);
  if (error != 0)
    remove_all(u, u->dir, u->temp, 0);
  bundle_free(&t);
  return error;
}

void unpack_folder(char to[256], const char *temp) { snprintf(to, 256, "%.254s+", temp); }

void unpack_drop(int dir, const char *temp)
{
  char folder[256];
  int never = 0;
  struct unpacking u = {.stopping = &never};
  unpack_folder(folder, temp);
  remove_all(&u, dir, folder, 0);
}
