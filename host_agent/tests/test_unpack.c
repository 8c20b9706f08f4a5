/* A stream becomes a directory on any file system, and nowhere but where it is meant to, whoever else may write there. */
#include "unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bundle.h"
#include "datapath/tests/check.h"

static char top[64];
static int dir;
static bool plain;                           /* a file system that renames, and knows no flags for it */
static void (*meanwhile)(const char *name);  /* somebody else, when a folder has been made */
static void (*in_between)(const char *name); /* and when a folder was found not to be a file */

static void once(void (**what)(const char *name), const char *name)
{
  void (*run)(const char *name) = *what;
  *what = NULL;
  if (run != NULL)
    run(name);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
  if (plain && flags != 0) {
    errno = EINVAL;
    return -1;
  }
  return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

static int link_error; /* of a file system whose files have one name each */

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
  if (link_error != 0) {
    errno = link_error;
    return -1;
  }
  return (int)syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
}

int mkdirat(int at, const char *name, mode_t mode)
{
  int rc = (int)syscall(SYS_mkdirat, at, name, mode);
  once(&meanwhile, name);
  return rc;
}

int unlinkat(int at, const char *name, int flags)
{
  int rc = (int)syscall(SYS_unlinkat, at, name, flags), error = errno;
  if (rc < 0 && error == EISDIR)
    once(&in_between, name);
  errno = error;
  return rc;
}

/* A stream of a folder "a" with the file "f" of five bytes in it, which has a second name, "g"; a descriptor. */
static int stream(uint64_t *bytes)
{
  struct bundle t = {0};
  struct fault why;
  struct bundle_entry *e = bundle_add(&t);
  *e = (struct bundle_entry){.kind = BUNDLE_FOLDER, .mode = 0755, .name = "a", .target = ""};
  e = bundle_add(&t);
  *e = (struct bundle_entry){.kind = BUNDLE_FILE, .mode = 0644, .size = 5, .name = "a/f", .target = ""};
  e = bundle_add(&t);
  *e = (struct bundle_entry){.kind = BUNDLE_SAME, .mode = 0644, .name = "a/g", .target = "a/f"};
  uint8_t *manifest = bundle_write(&t, &why);
  CHECK(manifest != NULL);
  int fd = openat(dir, ".d.temp", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(fd >= 0 && write(fd, manifest, t.manifest) == (ssize_t)t.manifest);
  CHECK(pwrite(fd, "hello", 5, (off_t)t.bytes - 5) == 5);
  *bytes = t.bytes;
  free(manifest);
  bundle_free(&t);
  return fd;
}

static int unpacked(void)
{
  static const int never, readers = 1;
  struct unpacking u = {.stopping = &never, .readers = &readers, .dir = dir, .temp = ".d.temp+", .name = "d"};
  u.from = stream(&u.bytes);
  int error = unpack(&u);
  close(u.from);
  CHECK(unlinkat(dir, ".d.temp", 0) == 0);
  CHECK(faccessat(dir, ".d.temp+", F_OK, AT_SYMLINK_NOFOLLOW) < 0);
  return error;
}

static bool there(const char *name) { return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0; }

static void test_a_file_system_that_renames_without_flags(void)
{
  plain = true;
  CHECK(unpacked() == 0 && there("d/a/f"));
  CHECK(unpacked() == EEXIST && there("d/a/f"));
  plain = false;
}

static void remove_it(void)
{
  CHECK(unlinkat(dir, "d/a/f", 0) == 0 && unlinkat(dir, "d/a/g", 0) == 0);
  CHECK(unlinkat(dir, "d/a", AT_REMOVEDIR) == 0 && unlinkat(dir, "d", AT_REMOVEDIR) == 0);
}

static void test_a_file_system_without_second_names(void)
{
  static const int errors[] = {EPERM, EOPNOTSUPP, EMLINK, ENOSYS,
                               EXDEV}; /* ENOSYS: FUSE; EXDEV: AFS, quotas of projects */
  for (unsigned i = 0; i < sizeof errors / sizeof errors[0]; i++) {
    struct stat st;
    link_error = errors[i];
    CHECK(unpacked() == 0 && fstatat(dir, "d/a/g", &st, 0) == 0 && st.st_size == 5 && st.st_nlink == 1);
    remove_it();
  }
  link_error = 0;
}

static void take_the_name(const char *temp)
{
  (void)temp;
  int fd = openat(dir, "d", O_WRONLY | O_CREAT, 0600);
  CHECK(fd >= 0 && close(fd) == 0);
}

static void test_a_name_that_is_taken_meanwhile(void)
{
  for (unsigned i = 0; i < 2; i++) {
    plain = i > 0;
    meanwhile = take_the_name;
    CHECK(unpacked() == EEXIST);
    CHECK(unlinkat(dir, "d", 0) == 0);
  }
  plain = false;
}

/* Who may write to the destination's folder has put one of his own there, and gets at what is made in it. */
static void put_another(const char *temp)
{
  CHECK(renameat(dir, temp, dir, "aside") == 0 && syscall(SYS_mkdirat, dir, temp, 0777) == 0 &&
        fchownat(dir, temp, 12345, 12345, 0) == 0);
}

static void test_a_folder_of_somebody_else(void)
{
  if (geteuid() != 0)
    return;
  meanwhile = put_another;
  CHECK(unpacked() == ELOOP && !there("d"));
  CHECK(unlinkat(dir, "aside", AT_REMOVEDIR) == 0);
}

static void put_a_link(const char *temp)
{
  CHECK(renameat(dir, temp, dir, "aside") == 0 && symlinkat("victim", dir, temp) == 0);
}

static void test_a_link_in_place_of_what_is_removed(void)
{
  struct stat st;
  int fd = openat(dir, "victim", O_WRONLY | O_CREAT, 0640);
  CHECK(fd >= 0 && fchmod(fd, 0640) == 0);
  CHECK(syscall(SYS_mkdirat, dir, ".d.temp+", 0700) == 0);
  in_between = put_a_link;
  unpack_drop(dir, ".d.temp");
  CHECK(fstat(fd, &st) == 0 && (st.st_mode & 0777) == 0640);
  close(fd);
}

int main(void)
{
  snprintf(top, sizeof top, "/tmp/test-unpack-XXXXXX");
  CHECK(mkdtemp(top) != NULL);
  dir = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  test_a_file_system_that_renames_without_flags();
  remove_it();
  test_a_file_system_without_second_names();
  test_a_name_that_is_taken_meanwhile();
  test_a_folder_of_somebody_else();
  test_a_link_in_place_of_what_is_removed();
  CHECK(unlinkat(dir, "victim", 0) == 0 && unlinkat(dir, "aside", AT_REMOVEDIR) == 0);
  if (there(".d.temp+"))
    CHECK(unlinkat(dir, ".d.temp+", 0) == 0);
  close(dir);
  CHECK(rmdir(top) == 0);
  puts("unpack: ok");
  return 0;
}
