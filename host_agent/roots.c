#include "roots.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TRIES = 1000 };

bool roots_add(struct roots *r, const char *path, struct fault *why)
{
  if (r->n == ROOTS_MAX)
    return fault_set(why, "limit", "more than %d folders", ROOTS_MAX);
  if (path[0] != '/')
    return fault_set(why, "bad_request", "folder %s is not an absolute path", path);
  int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return fault_set(why, "not_found", "folder %s: %s", path, strerror(errno));
  struct root *x = &r->root[r->n];
  x->fd = fd;
  x->path = strdup(path);
  x->real = realpath(path, NULL);
  if (x->path == NULL || x->real == NULL) {
    free(x->path);
    free(x->real);
    close(fd);
    return fault_set(why, "io", "folder %s: %s", path, strerror(errno));
  }
  for (size_t n = strlen(x->path); n > 0 && x->path[n - 1] == '/'; n--)
    x->path[n - 1] = '\0';
  if (strcmp(x->real, "/") == 0)
    x->real[0] = '\0';
  r->n++;
  return true;
}

void roots_close(struct roots *r)
{
  for (unsigned i = 0; i < r->n; i++) {
    free(r->root[i].path);
    free(r->root[i].real);
    close(r->root[i].fd);
  }
  r->n = 0;
}

static bool climbs(const char *path)
{
  for (const char *p = path; *p != '\0';) {
    size_t n = strcspn(p, "/");
    if (n == 2 && p[0] == '.' && p[1] == '.')
      return true;
    p += n;
    p += *p == '/';
  }
  return false;
}

/* What follows the folder in the path; NULL when the path is not in it. */
static const char *behind(const char *folder, const char *path)
{
  size_t n = strlen(folder);
  if (strncmp(folder, path, n) != 0 || (path[n] != '/' && path[n] != '\0'))
    return NULL;
  path += n;
  return path + strspn(path, "/");
}

const struct root *roots_of(const struct roots *r, const char *path, const char **rest, struct fault *why)
{
  if (path[0] == '\0' || strlen(path) >= PATH_MAX) {
    fault_set(why, "bad_request", "the path is empty or too long");
    return NULL;
  }
  if (climbs(path)) {
    fault_set(why, "outside", "%s: a path must not hold \"..\"", path);
    return NULL;
  }
  const struct root *best = NULL;
  for (unsigned i = 0; i < r->n; i++) {
    const char *a = path[0] == '/' ? behind(r->root[i].path, path) : path;
    const char *b = a == NULL ? behind(r->root[i].real, path) : a;
    if (b != NULL && (best == NULL || strlen(b) < strlen(*rest))) {
      best = &r->root[i];
      *rest = b;
      if (path[0] != '/')
        break;
    }
  }
  if (best == NULL && r->n == 0)
    fault_set(why, "outside", "%s: this host was given no folder for that (--source-root, --dest-root)", path);
  else if (best == NULL)
    fault_set(why, "outside", "%s lies in none of the allowed folders of this host", path);
  struct stat st;
  if (best != NULL && fstat(best->fd, &st) == 0 && st.st_nlink == 0) {
    fault_set(why, "not_found", "folder %s was removed since this agent started: make it again, and restart the agent",
              best->path);
    return NULL;
  }
  return best;
}

int root_open(const struct root *root, const char *rest, int flags, mode_t mode)
{
  struct open_how how = {.flags = (unsigned)flags | O_CLOEXEC, .mode = mode};
  /* Everything lies in "/"; there an absolute link leads nowhere else. */
  how.resolve = RESOLVE_NO_MAGICLINKS | (root->real[0] == '\0' ? 0 : RESOLVE_BENEATH);
  long fd;
  unsigned tries = 0;
  do /* whatever is renamed or mounted anywhere while the kernel is at a ".." of a link makes it give up */
    fd = syscall(SYS_openat2, root->fd, rest[0] == '\0' ? "." : rest, &how, sizeof how);
  while (fd < 0 && errno == EAGAIN && ++tries < TRIES);
  return fd < 0 ? -errno : (int)fd;
}
