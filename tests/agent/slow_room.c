/* A disk that does not answer (LD_PRELOAD): to ask for its room takes as long as the file named by HOLD is there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

int fstatvfs(int fd, struct statvfs *to)
{
  while (access(getenv("HOLD"), F_OK) == 0)
    usleep(1000);
  return ((int (*)(int, struct statvfs *))dlsym(RTLD_NEXT, "fstatvfs"))(fd, to);
}
