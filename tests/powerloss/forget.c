/* A witness of what a program asks a file system to keep (LD_PRELOAD). Every write, truncation, sync and change of a
 * name beneath FORGET_ROOT goes on, and is written down in FORGET_JOURNAL; disk.py makes from it what a disk may hold
 * after a loss of power at any moment. Lines written to the file FORGET_MARKS are marks between these: "I have said
 * that this is safe".
 *
 * Not seen: stores through mmap, and what glibc's own streams write (neither is used for anything that must last). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct entry { /* what disk.py reads; then `path` and `rest` */
  uint8_t op;
  uint8_t zero[3];
  uint32_t path_len;
  uint32_t rest_len;
  uint32_t zero2;
  uint64_t inode;
  uint64_t offset;
};

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static const char *root, *marks;
static int journal = -1;

/* The program may read its environment for the last time before its first write, so it is read when loaded. */
__attribute__((constructor)) static void begin(void)
{
  root = getenv("FORGET_ROOT");
  marks = getenv("FORGET_MARKS");
  const char *path = getenv("FORGET_JOURNAL");
  if (root && path)
    journal = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

static void note(char op, uint64_t inode, uint64_t offset, const char *path, const void *rest, size_t len)
{
  struct entry e = {(uint8_t)op, {0}, (uint32_t)strlen(path), (uint32_t)len, 0, inode, offset};
  struct iovec v[] = {{&e, sizeof e}, {(void *)(uintptr_t)path, e.path_len}, {(void *)(uintptr_t)rest, len}};
  if (syscall(SYS_writev, journal, v, 3) != (long)(sizeof e + e.path_len + len)) {
    static const char text[] = "forget: the journal is full\n";
    (void)!syscall(SYS_write, 2, text, sizeof text - 1);
    abort();
  }
}

static int beneath(const char *path)
{
  size_t n = strlen(root);
  return strncmp(path, root, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* The file's path by its descriptor; 0: not ours. */
static int of_fd(int fd, char path[static 4096])
{
  if (journal < 0 || fd < 0)
    return 0;
  char link[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, 4095);
  if (n <= 0 || path[0] != '/')
    return 0;
  path[n] = '\0';
  return beneath(path) || (marks && strcmp(path, marks) == 0);
}

static int of_name(int dir, const char *name, char path[static 4096])
{
  char at[4096];
  if (journal < 0 || !name)
    return 0;
  if (name[0] == '/') {
    snprintf(path, 4096, "%s", name);
  } else if (dir == AT_FDCWD) {
    if (!getcwd(at, sizeof at))
      return 0;
    if (snprintf(path, 4096, "%s/%s", at, name) >= 4096)
      return 0;
  } else {
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    ssize_t n = readlink(link, at, sizeof at - 1);
    if (n <= 0)
      return 0;
    at[n] = '\0';
    if (snprintf(path, 4096, "%s/%s", at, name) >= 4096)
      return 0;
  }
  return beneath(path);
}

static uint64_t inode_of(int fd)
{
  struct stat s;
  return fstat(fd, &s) == 0 ? s.st_ino : 0;
}

/* ---- files: created, written, cut, synced ---- */
static int opened(int dir, const char *name, int flags, mode_t mode, const struct open_how *how)
{
  char path[4096];
  int ours = (flags & (O_CREAT | O_TRUNC)) && of_name(dir, name, path);
  pthread_mutex_lock(&lock);
  struct stat s;
  int fresh = ours && (flags & O_CREAT) && fstatat(dir, name, &s, 0) < 0;
  int fd =
      how ? (int)syscall(SYS_openat2, dir, name, how, sizeof *how) : (int)syscall(SYS_openat, dir, name, flags, mode);
  int error = errno;
  if (fd >= 0 && ours && of_fd(fd, path)) {
    if (fresh)
      note('C', inode_of(fd), 0, path, "", 0);
    else if (flags & O_TRUNC)
      note('T', inode_of(fd), 0, "", "", 0);
  }
  pthread_mutex_unlock(&lock);
  errno = error;
  return fd;
}

static mode_t mode_of(int flags, va_list list) { return flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0; }

#define OPEN(name)                                                                                                     \
  int name(const char *path, int flags, ...)                                                                           \
  {                                                                                                                    \
    va_list list;                                                                                                      \
    va_start(list, flags);                                                                                             \
    mode_t mode = mode_of(flags, list);                                                                                \
    va_end(list);                                                                                                      \
    return opened(AT_FDCWD, path, flags, mode, NULL);                                                                  \
  }
#define OPENAT(name)                                                                                                   \
  int name(int dir, const char *path, int flags, ...)                                                                  \
  {                                                                                                                    \
    va_list list;                                                                                                      \
    va_start(list, flags);                                                                                             \
    mode_t mode = mode_of(flags, list);                                                                                \
    va_end(list);                                                                                                      \
    return opened(dir, path, flags, mode, NULL);                                                                       \
  }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode, NULL); }

/* glibc has no openat2: programs call it by number. */
long syscall(long number, ...)
{
  static long (*next)(long, ...);
  if (!next)
    next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  va_list list;
  va_start(list, number);
  long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long), d = va_arg(list, long);
  long e = va_arg(list, long), f = va_arg(list, long);
  va_end(list);
  static __thread int inside;
  if (number == SYS_openat2 && !inside) {
    const struct open_how *how = (const struct open_how *)c;
    inside = 1;
    long fd = opened((int)a, (const char *)b, (int)how->flags, (mode_t)how->mode, how);
    inside = 0;
    return fd;
  }
  return next(number, a, b, c, d, e, f);
}

static void written(int fd, const struct iovec *v, int count, uint64_t offset, ssize_t n)
{
  char path[4096];
  if (n <= 0 || !of_fd(fd, path))
    return;
  int mark = marks && strcmp(path, marks) == 0;
  for (int i = 0; i < count && n > 0; i++) {
    size_t len = v[i].iov_len < (size_t)n ? v[i].iov_len : (size_t)n;
    note(mark ? 'K' : 'W', inode_of(fd), offset, "", v[i].iov_base, len);
    offset += len;
    n -= (ssize_t)len;
  }
}

/* Where a write without an offset goes: the place before it. */
static ssize_t streamed(int fd, const struct iovec *v, int count)
{
  char path[4096];
  if (!of_fd(fd, path))
    return (ssize_t)syscall(SYS_writev, fd, v, count);
  pthread_mutex_lock(&lock);
  ssize_t n = (ssize_t)syscall(SYS_writev, fd, v, count);
  int error = errno;
  if (n > 0)
    written(fd, v, count, (uint64_t)(lseek(fd, 0, SEEK_CUR) - n), n);
  pthread_mutex_unlock(&lock);
  errno = error;
  return n;
}

ssize_t write(int fd, const void *data, size_t len)
{
  struct iovec v = {(void *)(uintptr_t)data, len};
  char path[4096];
  return of_fd(fd, path) ? streamed(fd, &v, 1) : (ssize_t)syscall(SYS_write, fd, data, len);
}

ssize_t writev(int fd, const struct iovec *v, int count) { return streamed(fd, v, count); }

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset)
{
  pthread_mutex_lock(&lock);
  ssize_t n = (ssize_t)syscall(SYS_pwrite64, fd, data, len, offset);
  int error = errno;
  struct iovec v = {(void *)(uintptr_t)data, len};
  written(fd, &v, 1, (uint64_t)offset, n);
  pthread_mutex_unlock(&lock);
  errno = error;
  return n;
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t offset) { return pwrite(fd, data, len, offset); }

ssize_t pwritev(int fd, const struct iovec *v, int count, off_t offset)
{
  pthread_mutex_lock(&lock);
  ssize_t n = (ssize_t)syscall(SYS_pwritev, fd, v, count, offset, 0);
  int error = errno;
  written(fd, v, count, (uint64_t)offset, n);
  pthread_mutex_unlock(&lock);
  errno = error;
  return n;
}

int ftruncate(int fd, off_t length)
{
  char path[4096];
  pthread_mutex_lock(&lock);
  int done = (int)syscall(SYS_ftruncate, fd, length), error = errno;
  if (done == 0 && of_fd(fd, path))
    note('T', inode_of(fd), (uint64_t)length, "", "", 0);
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}

int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }

int fallocate(int fd, int mode, off_t offset, off_t len)
{
  char path[4096];
  pthread_mutex_lock(&lock);
  struct stat s;
  int done = fstat(fd, &s) < 0 ? -1 : (int)syscall(SYS_fallocate, fd, mode, offset, len), error = errno;
  if (done == 0 && mode == 0 && offset + len > s.st_size && of_fd(fd, path))
    note('T', s.st_ino, (uint64_t)(offset + len), "", "", 0);
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}

int fallocate64(int fd, int mode, off64_t offset, off64_t len) { return fallocate(fd, mode, offset, len); }

int fsync(int fd)
{
  char path[4096];
  pthread_mutex_lock(&lock);
  struct stat s;
  int done = (int)syscall(SYS_fsync, fd), error = errno;
  if (done == 0 && of_fd(fd, path) && fstat(fd, &s) == 0)
    note(S_ISDIR(s.st_mode) ? 'D' : 'S', s.st_ino, 0, path, "", 0);
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}

int fdatasync(int fd) { return fsync(fd); }

/* ---- names ---- */
static int renamed(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
  char old[4096], new[4096];
  int ours = of_name(from_dir, from, old) && of_name(to_dir, to, new);
  pthread_mutex_lock(&lock);
  int done = (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags), error = errno;
  if (done == 0 && ours)
    note('R', 0, 0, old, new, strlen(new));
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}

int rename(const char *from, const char *to) { return renamed(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return renamed(a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { return renamed(a, from, b, to, flags); }

int mkdirat(int dir, const char *name, mode_t mode)
{
  char path[4096];
  int ours = of_name(dir, name, path);
  pthread_mutex_lock(&lock);
  int done = (int)syscall(SYS_mkdirat, dir, name, mode), error = errno;
  if (done == 0 && ours)
    note('M', 0, 0, path, "", 0);
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}

int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

int unlinkat(int dir, const char *name, int flags)
{
  char path[4096];
  int ours = of_name(dir, name, path);
  pthread_mutex_lock(&lock);
  int done = (int)syscall(SYS_unlinkat, dir, name, flags), error = errno;
  if (done == 0 && ours && !(flags & AT_REMOVEDIR))
    note('U', 0, 0, path, "", 0);
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}

int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int remove(const char *name) { return unlinkat(AT_FDCWD, name, 0); }

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
  char old[4096], new[4096];
  int ours = of_name(from_dir, from, old) && of_name(to_dir, to, new);
  pthread_mutex_lock(&lock);
  int done = (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags), error = errno;
  if (done == 0 && ours)
    note('L', 0, 0, old, new, strlen(new));
  pthread_mutex_unlock(&lock);
  errno = error;
  return done;
}

int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
