/* What a program reaches, for `make mutants`. gcc calls the hook at every block (-fsanitize-coverage=trace-pc); a byte of a shared
   file, at the block's place in the program, says so. The file outlives a kill. Without DATACAST_REACH in the environment
   nothing happens. Hidden and weak: each program and library has its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROOM (8u << 20)
static unsigned char *reached;
static uintptr_t base;

void __sanitizer_cov_trace_pc(void);

__attribute__((weak, visibility("hidden"))) void __sanitizer_cov_trace_pc(void)
{
  uintptr_t at = (uintptr_t)__builtin_return_address(0) - base;
  if (reached && at < ROOM)
    reached[at] = 1;
}

__attribute__((constructor)) static void begin(void)
{
  const char *folder = getenv("DATACAST_REACH");
  Dl_info me;
  if (!folder || reached || !dladdr((void *)(uintptr_t)begin, &me))
    return;
  char path[4096], real[4096];
  if (realpath(me.dli_fname, real) == NULL && realpath("/proc/self/exe", real) == NULL)
    return;
  for (char *c = real; *c != '\0'; c++) /* build/x and build/asan/x are two */
    if (*c == '/')
      *c = '!';
  if (snprintf(path, sizeof path, "%s/%s", folder, real) >= (int)sizeof path)
    return;
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0)
    return;
  if (ftruncate(fd, ROOM) == 0) {
    void *map = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    base = (uintptr_t)me.dli_fbase;
    reached = map == MAP_FAILED ? NULL : map;
  }
  close(fd);
}
