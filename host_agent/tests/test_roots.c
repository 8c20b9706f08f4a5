/* Paths stay in their folders. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datapath/tests/check.h"
#include "roots.h"
#include "target.h"

static char base[64];

static const char *at(const char *tail)
{
  static char path[8][256];
  static unsigned next;
  next = (next + 1) % 8;
  snprintf(path[next], sizeof path[next], "%s%s", base, tail);
  return path[next];
}

static const char *code(const struct roots *r, const char *path)
{
  static struct fault why;
  const char *rest;
  return roots_of(r, path, &rest, &why) == NULL ? why.code : rest;
}

static void which_folder(void)
{
  struct roots r = {.n = 0};
  struct fault why;
  CHECK(!roots_add(&r, "relative", &why) && !roots_add(&r, at("/absent"), &why));
  CHECK(roots_add(&r, at("/in/"), &why) && roots_add(&r, at("/in/deep"), &why));
  CHECK(strcmp(code(&r, at("/in/x")), "x") == 0);
  CHECK(strcmp(code(&r, at("/in//x")), "x") == 0);
  CHECK(strcmp(code(&r, at("/in/deep/x")), "x") == 0); /* the innermost */
  CHECK(strcmp(code(&r, at("/in")), "") == 0);
  CHECK(strcmp(code(&r, "x/y"), "x/y") == 0);
  CHECK(strcmp(code(&r, at("/inx/y")), "outside") == 0);
  CHECK(strcmp(code(&r, at("/out")), "outside") == 0);
  CHECK(strcmp(code(&r, at("/in/../out")), "outside") == 0);
  CHECK(strcmp(code(&r, at("/in/..")), "outside") == 0);
  CHECK(strcmp(code(&r, at("/in/..x")), "..x") == 0);
  CHECK(strcmp(code(&r, ""), "bad_request") == 0);
  roots_close(&r);
}

static void what_opens(void)
{
  struct roots r = {.n = 0};
  struct fault why;
  CHECK(roots_add(&r, at("/in"), &why));
  int fd = root_open(&r.root[0], "file", O_RDONLY, 0);
  CHECK(fd >= 0);
  close(fd);
  fd = root_open(&r.root[0], "inner", O_RDONLY, 0); /* a link that stays inside */
  CHECK(fd >= 0);
  close(fd);
  CHECK(root_open(&r.root[0], "up", O_RDONLY, 0) == -EXDEV);
  CHECK(root_open(&r.root[0], "abs", O_RDONLY, 0) == -EXDEV);
  CHECK(root_open(&r.root[0], "dir/secret", O_RDONLY, 0) == -EXDEV);
  CHECK(root_open(&r.root[0], "absent", O_RDONLY, 0) == -ENOENT);
  roots_close(&r);
  CHECK(mkdir(at("/gone"), 0755) == 0 && roots_add(&r, at("/gone"), &why));
  CHECK(strcmp(code(&r, "x"), "x") == 0);
  CHECK(rmdir(at("/gone")) == 0 && mkdir(at("/gone"), 0755) == 0); /* another folder of that name is not it */
  CHECK(strcmp(code(&r, "x"), "not_found") == 0);
  roots_close(&r);
  CHECK(roots_add(&r, "/", &why));
  fd = root_open(&r.root[0], at("/in/abs") + 1, O_RDONLY, 0); /* everything lies in "/" */
  CHECK(fd >= 0);
  close(fd);
  roots_close(&r);
}

static int renaming = 1;

static void *rename_on(void *arg)
{
  const char *name[] = {at("/inx/one"), at("/inx/two")};
  for (unsigned i = 0; __atomic_load_n(&renaming, __ATOMIC_RELAXED); i++)
    CHECK(rename(name[i % 2], name[(i + 1) % 2]) == 0);
  return arg;
}

/* The kernel cannot tell then whether a ".." of a link stays inside, and says so: it is to be asked again. */
static void who_renames_elsewhere_is_in_nobody_s_way(void)
{
  struct roots r = {.n = 0};
  struct fault why;
  pthread_t other;
  close(creat(at("/inx/one"), 0644));
  CHECK(symlink("../file", at("/in/deep/back")) == 0 && roots_add(&r, at("/in"), &why));
  CHECK(pthread_create(&other, NULL, rename_on, NULL) == 0);
  for (unsigned i = 0; i < 100000; i++) {
    int fd = root_open(&r.root[0], "deep/back", O_PATH, 0);
    CHECK(fd >= 0);
    close(fd);
  }
  __atomic_store_n(&renaming, 0, __ATOMIC_RELAXED);
  CHECK(pthread_join(other, NULL) == 0);
  roots_close(&r);
}

static void targets(void)
{
  struct roots r = {.n = 0};
  struct fault why;
  CHECK(roots_add(&r, at("/in"), &why));
  CHECK(!target_check(&r, at("/in/dir/got"), 10, &why) && strcmp(why.code, "outside") == 0);
  CHECK(!target_check(&r, at("/in/deep"), 10, &why) && strcmp(why.code, "is_directory") == 0);
  CHECK(!target_check(&r, at("/in/x/"), 10, &why) && strcmp(why.code, "is_directory") == 0);
  CHECK(!target_check(&r, at("/in/file/x"), 10, &why) && strcmp(why.code, "not_writable") == 0);
  CHECK(!target_check(&r, at("/in/x"), UINT64_C(1) << 52, &why) && strcmp(why.code, "disk_full") == 0);
  CHECK(target_check(&r, at("/in/file"), 10, &why)); /* may be replaced */
  CHECK(target_check(&r, at("/in/new/deeper/x"), 10, &why) && access(at("/in/new"), F_OK) < 0);
  roots_close(&r);
}

int main(void)
{
  strcpy(base, "/tmp/datacast-roots-XXXXXX");
  CHECK(mkdtemp(base) != NULL);
  CHECK(mkdir(at("/in"), 0755) == 0 && mkdir(at("/in/deep"), 0755) == 0 && mkdir(at("/out"), 0755) == 0 &&
        mkdir(at("/inx"), 0755) == 0);
  close(creat(at("/in/file"), 0644));
  close(creat(at("/out/secret"), 0644));
  CHECK(symlink("file", at("/in/inner")) == 0 && symlink("../out/secret", at("/in/up")) == 0 &&
        symlink(at("/out/secret"), at("/in/abs")) == 0 && symlink("../out", at("/in/dir")) == 0);
  which_folder();
  what_opens();
  who_renames_elsewhere_is_in_nobody_s_way();
  targets();
  char command[100];
  snprintf(command, sizeof command, "rm -r %s", base);
  CHECK(system(command) == 0);
  puts("folders: ok");
  return 0;
}
