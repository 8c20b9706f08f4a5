#include "unpack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bundle.h"

enum { COPY_BYTES = 16 << 20 };

/* Everything in the folder `dir`/`name`, and it. What is in it is ours: folders may have lost their rights. */
static void remove_all(int dir, const char *name, unsigned depth)
{
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *d = fd < 0 ? NULL : fdopendir(fd);
  if (d == NULL) {
    if (fd >= 0)
      close(fd);
    (void)unlinkat(dir, name, 0);
    return;
  }
  (void)fchmod(fd, 0700);
  for (struct dirent *e; depth <= BUNDLE_DEPTH_MAX && (e = readdir(d)) != NULL;)
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && unlinkat(fd, e->d_name, 0) < 0)
      remove_all(fd, e->d_name, depth + 1);
  closedir(d);
  (void)unlinkat(dir, name, AT_REMOVEDIR);
}

static int read_manifest(int from, struct bundle *t)
{
  uint8_t head[BUNDLE_HEAD];
  if (pread(from, head, sizeof head, 0) != sizeof head)
    return EBADMSG;
  uint32_t n = bundle_manifest_bytes(head);
  uint8_t *p = n == 0 ? NULL : malloc(n);
  struct fault why;
  int error = n == 0 ? EBADMSG : p == NULL ? ENOMEM : 0;
  if (error == 0 && (pread(from, p, n, 0) != (ssize_t)n || !bundle_parse(t, p, n, &why)))
    error = EBADMSG;
  free(p);
  return error;
}

/* Blocks are shared where the file system can. */
static int copy(const int *stopping, int from, uint64_t at, int to, uint64_t n)
{
  off_t off = (off_t)at;
  while (n > 0) {
    if (__atomic_load_n(stopping, __ATOMIC_RELAXED))
      return EINTR;
    ssize_t got = copy_file_range(from, &off, to, NULL, n < COPY_BYTES ? (size_t)n : COPY_BYTES, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return got < 0 ? errno : EIO;
    n -= (uint64_t)got;
  }
  return 0;
}

static int make_file(const int *stopping, int from, const struct bundle_entry *e, int folder, bool sync)
{
  int fd = openat(folder, e->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0)
    return errno;
  int error = copy(stopping, from, e->at, fd, e->size);
  if (error == 0 && (fchmod(fd, e->mode) < 0 || (sync && fsync(fd) < 0)))
    error = errno;
  if (close(fd) < 0 && error == 0)
    error = errno;
  return error;
}

static int make(const int *stopping, int from, const struct bundle *t, int folder, bool sync)
{
  int error = 0;
  for (uint32_t i = 0; error == 0 && i < t->n; i++) {
    const struct bundle_entry *e = &t->entry[i];
    if (e->kind == BUNDLE_FILE)
      error = make_file(stopping, from, e, folder, sync);
    else if ((e->kind == BUNDLE_FOLDER ? mkdirat(folder, e->name, 0700) : symlinkat(e->target, folder, e->name)) < 0)
      error = errno;
  }
  for (uint32_t i = t->n; error == 0 && i-- > 0;) /* rights last: some folders may not be written to */
    if (t->entry[i].kind == BUNDLE_FOLDER && fchmodat(folder, t->entry[i].name, t->entry[i].mode, 0) < 0)
      error = errno;
  return error;
}

int unpack(const int *stopping, int from, uint64_t bytes, int dir, const char *temp, const char *name, bool sync)
{
  struct bundle t = {0};
  struct stat st;
  int error = read_manifest(from, &t);
  if (error == 0 && t.bytes != bytes)
    error = EBADMSG;
  if (error == 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
    error = EEXIST;
  if (error == 0)
    remove_all(dir, temp, 0); /* of an agent that was killed */
  if (error == 0 && mkdirat(dir, temp, 0700) < 0)
    error = errno;
  int folder = error == 0 ? openat(dir, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
  if (error == 0)
    error = folder < 0 ? errno : make(stopping, from, &t, folder, sync);
  if (error == 0 && (fchmod(folder, 0755) < 0 || (sync && syncfs(folder) < 0) ||
                     renameat2(dir, temp, dir, name, RENAME_NOREPLACE) < 0))
    error = errno;
  if (error == 0 && sync)
    (void)fsync(dir);
  if (error != 0)
    remove_all(dir, temp, 0);
  if (folder >= 0)
    close(folder);
  bundle_free(&t);
  return error;
}
