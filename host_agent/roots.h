/* Folders that paths of a group must lie in. Nothing leads out of them: no "..", no symbolic link (openat2,
 * RESOLVE_BENEATH: the kernel itself checks every step). */
#ifndef AGENT_ROOTS_H
#define AGENT_ROOTS_H

#include <sys/types.h>

#include "agent_limits.h"
#include "datapath/log.h"

struct root {
  char *path; /* as it was given, absolute, without a slash at its end ("" for "/") */
  char *real; /* without symbolic links */
  int fd;
};

struct roots {
  struct root root[ROOTS_MAX];
  unsigned n;
};

/* The folder must exist. False with *why. */
bool roots_add(struct roots *r, const char *path, struct fault *why) __attribute__((nonnull));
void roots_close(struct roots *r) __attribute__((nonnull));

/* Which root a path lies in; *rest is the part behind it, without a slash at its front. A relative path lies in the
 * first root. NULL with *why: `outside`, or `bad_request` for what is no path. */
const struct root *roots_of(const struct roots *r, const char *path, const char **rest, struct fault *why)
    __attribute__((nonnull));

/* Open `rest` beneath the root. A descriptor, or -errno (-EXDEV: it leads out). */
int root_open(const struct root *root, const char *rest, int flags, mode_t mode) __attribute__((nonnull));

#endif
