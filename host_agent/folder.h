/* A directory that is read as a stream (bundle.h): walked once, every file held against what it was then. */
#ifndef AGENT_FOLDER_H
#define AGENT_FOLDER_H

#include <sys/stat.h>
#include <sys/types.h>

#include "bundle.h"
#include "secrets.h"

struct folder;

/* How a directory is to be walked, in a thread. `entries` (atomic) tells how far that is; `stopping`: leave off. */
struct folder_walk {
  bool owners, xattrs;    /* they are told */
  struct secrets secrets; /* must not be in it */
  const int *stopping;
  uint32_t entries;
};

/* Walk the directory `fd`, which is taken over in any case; below 0: errno says why it could not be opened. NULL with *why:
 * what is neither file nor folder nor link, links that lead outside, too many. */
struct folder *folder_open(int fd, struct folder_walk *how, struct fault *why) __attribute__((nonnull));
void folder_free(struct folder *f);

uint64_t folder_bytes(const struct folder *f) __attribute__((nonnull)); /* of the stream */
uint64_t folder_mark(const struct folder *f)
    __attribute__((nonnull)); /* another one when anything in it has changed; 62 bits */
uint32_t folder_entries(const struct folder *f) __attribute__((nonnull));
/* As pread; for several threads. -1 with ESTALE: a file is not what it was. */
ssize_t folder_read(const struct folder *f, uint8_t *to, size_t n, uint64_t at) __attribute__((nonnull));
/* Are the next `n` entries from *at on what they were? *at goes round. */
bool folder_same(const struct folder *f, uint32_t *at, uint32_t n) __attribute__((nonnull));

#endif
