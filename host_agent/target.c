#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "params.h"
#include "unpack.h"

/* Reserved at once when the file is opened, and by every further job: a reservation holds up writes to the file. */
enum { ALLOCATE_FIRST = 16 << 20, ALLOCATE_STEP = 32 << 20 };

bool target_fault(struct fault *why, int error, const char *name)
{
  switch (error) {
  case ENOSPC:
  case EDQUOT:
    return fault_set(why, "disk_full", "%s: %s", name, strerror(error));
  case EFBIG:
    return fault_set(why, "disk_full", "%s: the file system takes no file of this size", name);
  case EACCES:
  case EPERM:
  case EROFS:
    return fault_set(why, "not_writable", "%s: %s", name, strerror(error));
  case EXDEV:
  case ELOOP:
    return fault_set(why, "outside", "%s leads out of the allowed folder", name);
  case EEXIST:
  case ENOTEMPTY:
    return fault_set(why, "exists",
                     "%s is there already; a directory is not put over another: remove it, or give --dest", name);
  case EISDIR:
    return fault_set(why, "is_directory",
                     "%s is a folder that is there already; give the whole path of what is to be made", name);
  case ENOTDIR:
    return fault_set(why, "not_writable", "%s: a part of the path is not a folder", name);
  case ETXTBSY:
    return fault_set(why, "not_writable",
                     "%s: another host receives it there: of hosts that share a folder one is a receiver", name);
  default:
    return fault_set(why, fault_passes(error) ? "busy" : "io", "%s: %s", name, strerror(error));
  }
}

/* Split into folder and name. */
static bool split(const char *dest, const char *rest, char folder[PATH_MAX], char name[256], struct fault *why)
{
  const char *slash = strrchr(rest, '/');
  const char *last = slash == NULL ? rest : slash + 1;
  bool ok = last[0] != '\0' && strcmp(last, ".") != 0 && strlen(last) <= 255;
  if (ok) {
    snprintf(folder, PATH_MAX, "%.*s", slash == NULL ? 0 : (int)(slash - rest), rest);
    snprintf(name, 256, "%s", last);
  } else if (strlen(last) > 255)
    fault_set(why, "bad_request", "the file name of %s is longer than 255 bytes", dest);
  else
    fault_set(why, "is_directory", "%s names a folder; give the whole path of what is to be made", dest);
  return ok;
}

static unsigned parts(const char *folder)
{
  unsigned n = 0;
  for (const char *p = folder; *(p += strspn(p, "/")) != '\0'; p += strcspn(p, "/"))
    n++;
  return n;
}

/* Open the folder, or the deepest part of it that exists (*whole false); with `make`, create what is missing. */
static int open_folder(const struct root *root, const char *folder, bool make, bool *whole)
{
  *whole = true;
  int fd = root_open(root, folder, O_PATH | O_DIRECTORY, 0);
  if (fd != -ENOENT)
    return fd;
  *whole = make;

  char part[PATH_MAX];
  int parent = root_open(root, "", O_PATH | O_DIRECTORY, 0);
  for (const char *p = folder; parent >= 0 && *p != '\0';) {
    p += strspn(p, "/");
    size_t n = strcspn(p, "/");
    if (n == 0)
      break;
    snprintf(part, sizeof part, "%.*s", (int)(p + n - folder), folder);
    fd = root_open(root, part, O_PATH | O_DIRECTORY, 0);
    if (fd == -ENOENT) {
      if (!make)
        return parent;
      char one[256];
      if (n >= sizeof one) {
        close(parent);
        return -ENAMETOOLONG;
      }
      snprintf(one, sizeof one, "%.*s", (int)n, p);
      if (mkdirat(parent, one, 0777) < 0 && errno != EEXIST) {
        int error = -errno;
        close(parent);
        return error;
      }
      fd = root_open(root, part, O_PATH | O_DIRECTORY, 0);
    }
    close(parent);
    parent = fd;
    p += n;
  }
  return parent;
}

/* Is the folder writable, is there room (beside `held` bytes that it takes already), is the name not a folder's? */
static bool fits(int dir, const char *dest, const char *name, bool whole, bool bundle, uint64_t size, uint64_t held,
                 struct fault *why)
{
  struct stat st;
  if (bundle && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
    return target_fault(why, EEXIST, dest);
  size += bundle ? UNPACK_STEP : 0;
  if (whole && fstatat(dir, name, &st, 0) == 0 && S_ISDIR(st.st_mode))
    return target_fault(why, EISDIR, dest);
  if (faccessat(dir, ".", W_OK | X_OK, AT_EACCESS) < 0)
    return target_fault(why, errno, dest);
  struct statvfs fs;
  if (fstatvfs(dir, &fs) == 0) {
    uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize + held;
    if (fs.f_blocks > 0 && size > room)
      return fault_set(why, "disk_full", "%s: %llu bytes are needed, %llu are free", dest, (unsigned long long)size,
                       (unsigned long long)room);
  }
  return true;
}

/* A file in memory: reserving it would take and clear every page at once, with the file locked. fits() has looked. */
static bool in_memory(int fd)
{
  struct statfs fs;
  return fstatfs(fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

bool target_check(const struct roots *roots, const char *dest, uint64_t size, struct fault *why)
{
  const char *rest;
  char folder[PATH_MAX], name[256];
  const struct root *root = roots_of(roots, dest, &rest, why);
  if (root == NULL || !split(dest, rest, folder, name, why))
    return false;
  bool whole;
  int dir = open_folder(root, folder, false, &whole);
  if (dir < 0)
    return target_fault(why, -dir, dest);
  bool ok = fits(dir, dest, name, whole, false, size, 0, why);
  close(dir);
  return ok;
}

/* ---- the table of verified blocks ---- */

struct head {
  char magic[8];
  uint64_t size;
  uint32_t piece, per_block;
};

static const char magic[8] = "dcverif2"; /* host byte order: it is read on the host that wrote it */

static uint64_t table_behind(uint64_t size) { return (size + 4095) / 4096 * 4096; }
static off_t table_at(const struct target *t) { return (off_t)table_behind(t->size); }

static struct head head_of(const struct dc_layout *l)
{
  struct head h = {.size = l->size, .piece = l->piece, .per_block = l->per_block};
  memcpy(h.magic, magic, sizeof h.magic);
  return h;
}

static void read_table(int fd, uint64_t size, uint8_t (*digest)[32], uint32_t blocks)
{
  size_t want = (size_t)blocks * 32, got = 0;
  off_t at = (off_t)(table_behind(size) + sizeof(struct head));
  while (got < want) {
    ssize_t n = pread(fd, (uint8_t *)digest + got, want - got, at + (off_t)got);
    if (n <= 0)
      break; /* the end of the table as far as it was written */
    got += (size_t)n;
  }
  memset((uint8_t *)digest + got, 0, want - got);
}

void target_read_verified(const struct target *t, uint8_t (*digest)[32], uint32_t blocks)
{
  read_table(t->file->fd, t->size, digest, blocks);
}

struct job *target_note_verified(const struct target *t, uint32_t block, const uint8_t digest[32])
{
  struct job *j = t->file == NULL ? NULL : job_new(JOB_NOTE);
  if (j == NULL)
    return NULL;
  j->file = file_ref(t->file);
  j->off = (uint64_t)table_at(t) + sizeof(struct head) + 32ull * block;
  memcpy(j->digest, digest, sizeof j->digest);
  return j;
}

/* It is locked while it is open: of hosts that share a folder each would write to it, or take it away from the other. A file system
 * without locks cannot tell. */
static bool is_anothers(int fd) { return flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK; }

/* What is there, and is not to be thrown away. */
static bool in_use(int error) { return fault_passes(error) || error == ETXTBSY; }

/* The temporary file of an agent that was killed, when it is ours alone and of this layout; else -1, with errno. */
static int open_again(const struct target *t, const struct dc_layout *l, uint64_t *held)
{
  struct head h, wanted = head_of(l);
  struct stat st;
  int fd = openat(t->dir, t->temp, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    return -1;
  bool file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode), taken = file && is_anothers(fd);
  if (file && !taken && st.st_nlink == 1 && st.st_uid == geteuid() &&
      pread(fd, &h, sizeof h, table_at(t)) == sizeof h && memcmp(&h, &wanted, sizeof h) == 0) {
    *held = (uint64_t)st.st_blocks * 512;
    return fd;
  }
  close(fd);
  errno = taken ? ETXTBSY : ENOENT;
  return -1;
}

/* With room for one letter more (unpack_folder). */
static void temp_name(char to[256], const char *name, const char *group)
{
  int room = 254 - (int)strlen(group) - (int)sizeof "..datacast-" + 1;
  snprintf(to, 256, ".%.*s.datacast-%s", room, name, group);
}

/* ---- what another group left ---- */

struct left_place {
  const struct root *root;
  char folder[PATH_MAX], temp[256];
};

static bool left_at(const struct roots *roots, const char *dest, const char *group, struct left_place *at,
                    struct fault *why)
{
  const char *rest;
  char name[256];
  if (!name_ok(group))
    return fault_set(why, "bad_request", "unfinished must be the name of a group");
  at->root = roots_of(roots, dest, &rest, why);
  if (at->root == NULL || !split(dest, rest, at->folder, name, why))
    return false;
  temp_name(at->temp, name, group);
  return true;
}

static int open_left(const struct left_place *at, const char *dest, const char *group, int flags, struct stat *st,
                     struct fault *why)
{
  char path[PATH_MAX + 256];
  snprintf(path, sizeof path, "%s%s%s", at->folder, at->folder[0] == '\0' ? "" : "/", at->temp);
  int more = flags & O_PATH ? 0 : O_NONBLOCK | O_NOCTTY; /* openat2 wants no others with O_PATH */
  int fd = root_open(at->root, path, flags | O_NOFOLLOW | more, 0);
  if (fd == -ENOENT)
    fault_set(why, "not_found", "%s: this host has nothing left of group %s there", dest, group);
  else if (fd < 0)
    target_fault(why, -fd, dest);
  else if (fstat(fd, st) == 0 && S_ISREG(st->st_mode) && st->st_nlink == 1 && st->st_uid == geteuid())
    return fd;
  else
    fault_set(why, "denied", "%s: what lies there under the name of group %s is no file of this agent's", dest, group);
  if (fd >= 0)
    close(fd);
  return -1;
}

int target_left(const struct roots *roots, const char *dest, const char *group, int flags, struct stat *st,
                struct fault *why)
{
  struct left_place at;
  return left_at(roots, dest, group, &at, why) ? open_left(&at, dest, group, flags, st, why) : -1;
}

bool target_drop_left(const struct roots *roots, const char *dest, const char *group, struct worker *w)
{
  struct left_place at;
  struct fault why;
  struct stat st;
  int fd = left_at(roots, dest, group, &at, &why) ? open_left(&at, dest, group, O_RDWR, &st, &why) : -1;
  if (fd >= 0 && is_anothers(fd)) { /* that went on with it */
    close(fd);
    fd = -1;
  }
  int dir = fd < 0 ? -1 : root_open(at.root, at.folder, O_PATH | O_DIRECTORY, 0);
  struct file *file = fd < 0 ? NULL : file_new(fd);
  struct job *j = dir < 0 || file == NULL ? NULL : job_new(JOB_DROP);
  if (dir >= 0)
    (void)unlinkat(dir, at.temp, 0);
  if (j == NULL) {
    file_unref(file);
    if (dir >= 0)
      close(dir);
    return dir >= 0;
  }
  j->file = file;
  j->dir = dir;
  memcpy(j->temp, at.temp, sizeof j->temp);
  worker_submit(w, j, NULL);
  return true;
}

bool target_left_layout(int fd, const char *dest, struct dc_layout *l, struct fault *why)
{
  struct stat st;
  struct head h;
  /* The table begins behind the bytes, and how many these are it says itself. Looked for from the end: what is above
   * its beginning are digests, and nobody makes one of those that looks like a head. */
  uint64_t most = sizeof h + 32ull * BLOCKS_MAX + 4096;
  if (fstat(fd, &st) == 0 && (uint64_t)st.st_size >= sizeof h) {
    uint64_t at = ((uint64_t)st.st_size - sizeof h) / 4096 * 4096, least = at > most ? at - most : 0;
    for (;; at -= 4096) {
      if (pread(fd, &h, sizeof h, (off_t)at) == sizeof h && memcmp(h.magic, magic, sizeof magic) == 0 && h.size <= at &&
          table_behind(h.size) == at && h.piece > 0 && h.per_block > 0) {
        *l = (struct dc_layout){.size = h.size, .piece = h.piece, .per_block = h.per_block};
        if (dc_layout_pieces(l) <= PIECES_MAX && dc_layout_blocks(l) <= BLOCKS_MAX)
          return true;
      }
      if (at < least + 4096)
        break;
    }
  }
  return fault_set(why, "not_found", "%s: nothing that was left of it can be gone on with", dest);
}

void target_left_verified(int fd, const struct dc_layout *l, uint8_t (*digest)[32])
{
  read_table(fd, l->size, digest, dc_layout_blocks(l));
}

/* ---- files that somebody is still at ---- */

/* A temporary file whose part is over while jobs for it are under way: one that is opened under its name meanwhile would
 * miss blocks that are being noted, be renamed under its owner's hands, or have its table cut off. The loop's. */
struct leaving {
  int gone; /* atomic: nobody has the file any more */
  dev_t dev;
  ino_t folder;
  char temp[256];
  struct leaving *next;
};
static struct leaving *all_leaving;

static void leaves(const struct target *t)
{
  struct stat st;
  struct leaving *l = t->file->gone != NULL || fstat(t->dir, &st) < 0 ? NULL : calloc(1, sizeof *l);
  if (l == NULL)
    return;
  *l = (struct leaving){.dev = st.st_dev, .folder = st.st_ino, .next = all_leaving};
  memcpy(l->temp, t->temp, sizeof l->temp);
  all_leaving = l;
  t->file->gone = &l->gone;
}

static bool is_leaving(const struct target *t)
{
  struct stat st;
  bool found = false;
  if (fstat(t->dir, &st) < 0)
    return false;
  for (struct leaving **at = &all_leaving; *at != NULL;) {
    struct leaving *l = *at;
    if (__atomic_load_n(&l->gone, __ATOMIC_ACQUIRE)) {
      *at = l->next;
      free(l);
      continue;
    }
    found |= l->dev == st.st_dev && l->folder == st.st_ino && strcmp(l->temp, t->temp) == 0;
    at = &l->next;
  }
  return found;
}

/* The file under its own name, when this group has finished it and nobody has written to it since; else -1, with errno. */
static int open_whole(const struct target *t)
{
  struct stat st;
  int fd = openat(t->dir, t->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    return -1;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && (uint64_t)st.st_size == t->size &&
      file_marked(fd, t->mark))
    return fd;
  close(fd);
  errno = ENOENT;
  return -1;
}

bool target_open(struct target *t, const struct roots *roots, const char *dest, const struct dc_layout *layout,
                 bool bundle, uint64_t wanted, const char *group, const char *stamp, struct fault *why)
{
  uint64_t size = layout->size, held = 0;
  memset(t, 0, sizeof *t);
  t->dir = -1;
  t->size = size;
  t->bundle = bundle;
  const char *rest;
  char folder[PATH_MAX];
  const struct root *root = roots_of(roots, dest, &rest, why);
  if (root == NULL || !split(dest, rest, folder, t->name, why))
    return false;
  t->above = parts(folder);
  bool whole;
  int path = open_folder(root, folder, true, &whole);
  if (path < 0)
    return target_fault(why, -path, dest);
  t->dir = openat(path, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* one that can be synced */
  if (t->dir < 0) {
    target_fault(why, errno, dest);
    close(path);
    return false;
  }
  close(path);

  temp_name(t->temp, t->name, group);
  if (is_leaving(t)) {
    target_close(t, true, NULL);
    return fault_set(why, "busy", "%s: what this host had of it is being written out; ask again in a moment", dest);
  }
  int fd = open_again(t, layout, &held);
  t->resumed = fd >= 0;
  if (stamp != NULL)
    snprintf(t->mark, sizeof t->mark, "%s %s", group, stamp);
  if (fd < 0 && !in_use(errno) && stamp != NULL) {
    fd = open_whole(t);
    t->whole = fd >= 0;
  }
  if (fd < 0 && in_use(errno)) { /* it may be there, and would be thrown away, or come once more */
    target_fault(why, errno, dest);
    target_close(t, true, NULL);
    return false;
  }
  if (t->whole) {
    t->file = file_new(fd);
    t->whole = t->file != NULL;
    t->allocated = size;
    if (!t->whole)
      target_close(t, true, NULL);
    return t->whole || fault_set(why, "io", "out of memory");
  }
  if (!fits(t->dir, dest, t->name, true, bundle, wanted, held, why)) {
    if (fd >= 0)
      close(fd);
    target_close(t, true, NULL);
    return false;
  }
  if (fd < 0) {
    (void)unlinkat(t->dir, t->temp, 0); /* of no use */
    fd = openat(t->dir, t->temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd >= 0)
      (void)is_anothers(fd);
  }
  t->file = fd < 0 ? NULL : file_new(fd);
  if (t->file == NULL) {
    target_fault(why, fd < 0 ? errno : ENOMEM, dest);
    target_close(t, fd < 0, NULL);
    return false;
  }
  struct head h = head_of(layout);
  if (!t->resumed && pwrite(fd, &h, sizeof h, table_at(t)) != sizeof h) {
    target_fault(why, errno, dest);
    target_close(t, false, NULL);
    return false;
  }
  if (in_memory(fd) || wanted < size) { /* what is not wanted stays a hole */
    t->allocated = size;
    return true;
  }
  uint64_t first = size < ALLOCATE_FIRST ? size : ALLOCATE_FIRST;
  if (first > 0 && fallocate(fd, 0, 0, (off_t)first) < 0 && errno != EOPNOTSUPP) {
    target_fault(why, errno, dest);
    target_close(t, t->resumed, NULL);
    return false;
  }
  t->allocated = first;
  return true;
}

struct job *target_allocate(struct target *t)
{
  if (t->allocated == t->size)
    return NULL;
  struct job *j = job_new(JOB_ALLOCATE);
  if (j == NULL)
    return NULL;
  j->file = file_ref(t->file);
  j->off = t->allocated;
  j->len = t->size - t->allocated < ALLOCATE_STEP ? t->size - t->allocated : ALLOCATE_STEP;
  t->allocated += j->len;
  return j;
}

static void name_job(struct target *t, struct job *j)
{
  leaves(t);
  j->file = t->file;
  j->len = t->size;
  j->dir = t->dir;
  j->above = t->above;
  memcpy(j->temp, t->temp, sizeof j->temp);
  memcpy(j->name, t->name, sizeof j->name);
  memcpy(j->mark, t->mark, sizeof j->mark);
  t->file = NULL;
  t->dir = -1;
}

struct job *target_finish(struct target *t, bool sync)
{
  struct job *j = job_new(JOB_FINISH);
  if (j != NULL) {
    name_job(t, j);
    j->sync = sync;
  }
  return j;
}

void target_close(struct target *t, bool keep, struct worker *w)
{
  if (t->file != NULL && !keep) {
    (void)unlinkat(t->dir, t->temp, 0);
    struct job *j = w == NULL ? NULL : job_new(JOB_DROP);
    if (j != NULL) {
      if (t->bundle)
        name_job(t, j);
      else
        j->file = t->file;
      t->file = NULL;
      worker_submit(w, j, NULL);
    }
  } else if (t->file != NULL && t->dir >= 0) {
    leaves(t);
  }
  file_unref(t->file);
  t->file = NULL;
  if (t->dir >= 0)
    close(t->dir);
  t->dir = -1;
}
