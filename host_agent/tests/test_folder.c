/* A directory that cannot be read to its end is not sent as if that was all. */
#include "folder.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "datapath/tests/check.h"

static char folder[64];
static unsigned names = 100; /* that the disk gives before it fails */

struct dirent *readdir(DIR *d)
{
  static struct dirent *(*real)(DIR * d);
  if (real == NULL)
    *(void **)&real = dlsym(RTLD_NEXT, "readdir");
  if (names-- == 0) {
    errno = EIO;
    return NULL;
  }
  return real(d);
}

static struct folder *opened(int fd, struct fault *why)
{
  static const int stopping;
  struct folder_walk how = {.stopping = &stopping, .xattrs = true};
  return folder_open(fd, &how, why);
}

int main(void)
{
  struct fault why;
  snprintf(folder, sizeof folder, "/tmp/test-folder-XXXXXX");
  CHECK(mkdtemp(folder) != NULL);
  int top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (char name[] = "a"; name[0] <= 'e'; name[0]++)
    CHECK(mkdirat(top, name, 0700) == 0);
  struct folder *f = opened(dup(top), &why);
  CHECK(f != NULL && folder_entries(f) == 5);
  folder_free(f);
  names = 4;
  CHECK(opened(dup(top), &why) == NULL && strcmp(why.code, "io") == 0);
  names = 100;
  errno = EMFILE;
  CHECK(opened(-1, &why) == NULL && strcmp(why.code, "busy") == 0); /* it is tried again */
  int last = dup(top);
  struct rlimit most;
  CHECK(getrlimit(RLIMIT_NOFILE, &most) == 0);
  struct rlimit few = {.rlim_cur = (rlim_t)last + 2, .rlim_max = most.rlim_max}; /* for the directory alone */
  CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
  CHECK(opened(last, &why) == NULL && strcmp(why.code, "busy") == 0);
  CHECK(setrlimit(RLIMIT_NOFILE, &most) == 0);
  for (char name[] = "a"; name[0] <= 'e'; name[0]++)
    CHECK(unlinkat(top, name, AT_REMOVEDIR) == 0);
  close(top);
  CHECK(rmdir(folder) == 0);
  return 0;
}
