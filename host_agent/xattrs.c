#include "xattrs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "datacast/bytes.h"

enum { PREFIX = 5, NAME_MOST = 255 - PREFIX, FIXED = 5, LIST_MOST = 64 << 10, VALUE_MOST = 64 << 10 };

static const char prefix[] = "user.";

size_t xattrs_bytes(const uint8_t *all) { return XATTRS_HEAD + dc_get32(all); }

/* ---- from a file ---- */

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static bool travels(const char *name)
{
  return strncmp(name, prefix, PREFIX) == 0 && name[PREFIX] != '\0' && strcmp(name + PREFIX, XATTRS_MARK) != 0;
}

/* Behind *at of `p`, which has room for XATTRS_MOST and one value more. */
static int add(int fd, const char *name, uint8_t *p, size_t *at)
{
  size_t len = strlen(name + PREFIX);
  ssize_t n = fgetxattr(fd, name, p + *at + FIXED + len, VALUE_MOST);
  if (n < 0)
    return errno;
  p[*at] = (uint8_t)len;
  memcpy(p + *at + 1, name + PREFIX, len);
  dc_put32(p + *at + 1 + len, (uint32_t)n);
  *at += FIXED + len + (size_t)n;
  return *at > XATTRS_MOST ? E2BIG : 0;
}

static int read_all(int fd, const char *list, size_t n, uint8_t **all)
{
  size_t found = 0, at = XATTRS_HEAD;
  const char **names = calloc(n / 2 + 1, sizeof *names);
  uint8_t *p = malloc(XATTRS_MOST + FIXED + NAME_MOST + VALUE_MOST);
  int error = names == NULL || p == NULL ? ENOMEM : 0;
  for (const char *name = list; error == 0 && name < list + n; name += strlen(name) + 1)
    if (travels(name))
      names[found++] = name;
  if (found > 1)
    qsort(names, found, sizeof *names, by_name);
  for (size_t i = 0; error == 0 && i < found; i++)
    error = add(fd, names[i], p, &at);
  if (error == 0 && found > 0) {
    dc_put32(p, (uint32_t)(at - XATTRS_HEAD));
    *all = malloc(at);
    error = *all == NULL ? ENOMEM : 0;
    if (error == 0)
      memcpy(*all, p, at);
  }
  free(names);
  free(p);
  return error;
}

int xattrs_read(int fd, uint8_t **all)
{
  *all = NULL;
  ssize_t n = flistxattr(fd, NULL, 0);
  if (n <= 0)
    return n == 0 || errno == ENOTSUP ? 0 : errno;
  char *list = malloc(LIST_MOST + 1);
  if (list == NULL)
    return ENOMEM;
  n = flistxattr(fd, list, LIST_MOST);
  int error = n < 0 ? errno : 0;
  if (n > 0) {
    list[n] = '\0';
    error = read_all(fd, list, (size_t)n, all);
  }
  free(list);
  return error;
}

/* ---- from a manifest ---- */

/* One at *at, whose end that becomes. */
static bool one(const uint8_t *p, size_t end, size_t *at, const uint8_t *before)
{
  const uint8_t *e = p + *at;
  size_t left = end - *at, len = e[0];
  if (len == 0 || len > NAME_MOST || left < FIXED + len || memchr(e + 1, '\0', len) != NULL)
    return false;
  size_t value = dc_get32(e + 1 + len);
  if (value > VALUE_MOST || value > left - FIXED - len)
    return false;
  if (len == sizeof XATTRS_MARK - 1 && memcmp(e + 1, XATTRS_MARK, len) == 0)
    return false;
  if (before != NULL) {
    size_t less = before[0] < len ? before[0] : len;
    int order = memcmp(before + 1, e + 1, less);
    if (order > 0 || (order == 0 && before[0] >= len))
      return false;
  }
  *at += FIXED + len + value;
  return true;
}

size_t xattrs_check(const uint8_t *p, size_t n)
{
  if (n < XATTRS_HEAD || dc_get32(p) == 0 || dc_get32(p) > n - XATTRS_HEAD || xattrs_bytes(p) > XATTRS_MOST)
    return 0;
  const uint8_t *before = NULL;
  size_t end = xattrs_bytes(p), at = XATTRS_HEAD;
  while (at < end) {
    const uint8_t *this = p + at;
    if (!one(p, end, &at, before))
      return 0;
    before = this;
  }
  return end;
}

int xattrs_write(int fd, const uint8_t *all)
{
  char name[PREFIX + NAME_MOST + 1] = "user.";
  for (size_t at = XATTRS_HEAD, end = xattrs_bytes(all); at < end;) {
    size_t len = all[at], value = dc_get32(all + at + 1 + len);
    memcpy(name + PREFIX, all + at + 1, len);
    name[PREFIX + len] = '\0';
    if (fsetxattr(fd, name, all + at + FIXED + len, value, 0) < 0)
      return errno;
    at += FIXED + len + value;
  }
  return 0;
}
