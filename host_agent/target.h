/* A receiver's file: written in place into a temporary file in the destination's folder, renamed when whole.
 *
 * Behind the file's bytes the temporary file holds the SHA-256 of every block that was verified (zeros: not yet). An
 * agent that is killed and opened again for the same group goes on from them: each is hashed once more before it is
 * believed. The table is cut off before the rename. A file that got its name says in an extended attribute which group
 * finished it, of which file of the source, and when it was written last: an agent that is killed before anybody knew
 * that it was done has it all the same. Where the file system takes no such attributes it comes once more. */
#ifndef AGENT_TARGET_H
#define AGENT_TARGET_H

#include "datacast/pieces.h"
#include "roots.h"
#include "worker.h"

struct target {
  int dir;        /* the destination's folder */
  unsigned above; /* folders above it, as the destination names them */
  char name[256], temp[256];
  struct file *file; /* NULL once given away */
  uint64_t size, allocated;
  bool resumed; /* the temporary file was there already, of the same group and layout */
  bool bundle;  /* a directory is made of it in the end */
  bool whole;   /* or the file itself, as this group had finished it: `file` is that */
  char mark[MARK_LEN];
};

/* Could a file of `size` bytes be written there now? Creates nothing. */
bool target_check(const struct roots *roots, const char *dest, uint64_t size, struct fault *why)
    __attribute__((nonnull));

/* `bundle`: a directory is made of it in the end. `wanted`: bytes of it that will be written; the rest
 * is holes. Create missing folders and the temporary file `.NAME.datacast-GROUP`, or go on with it; reserve its first
 * part. `busy`: an earlier part's jobs for that file are under way. `stamp`: names the source's file as it is now; NULL: nothing is said of the file when it is whole. False with
 * *why. */
bool target_open(struct target *t, const struct roots *roots, const char *dest, const struct dc_layout *layout,
                 bool bundle, uint64_t wanted, const char *group, const char *stamp, struct fault *why)
    __attribute__((nonnull(1, 2, 3, 4, 7, 9)));

/* What an earlier group left of this destination, to be read: its temporary file. Opened with `flags`; -1 with *why. */
int target_left(const struct roots *roots, const char *dest, const char *group, int flags, struct stat *st,
                struct fault *why) __attribute__((nonnull));
/* How the file that a group left was cut, by its table; false with *why where it has none. */
bool target_left_layout(int fd, const char *dest, struct dc_layout *l, struct fault *why) __attribute__((nonnull));
/* The digests of its blocks that were verified, zeros for the others. */
void target_left_verified(int fd, const struct dc_layout *l, uint8_t (*digest)[32]) __attribute__((nonnull));

/* Away with it, and with what was unpacked of it, by a job of `w`. False: there was nothing. */
bool target_drop_left(const struct roots *roots, const char *dest, const char *group, struct worker *w)
    __attribute__((nonnull));

/* The digests of the blocks that were verified once, zeros for the others. */
void target_read_verified(const struct target *t, uint8_t (*digest)[32], uint32_t blocks) __attribute__((nonnull));
/* The job that notes one; NULL without memory. */
struct job *target_note_verified(const struct target *t, uint32_t block, const uint8_t digest[32])
    __attribute__((nonnull));

/* A job that reserves the next part; NULL when all is reserved. */
struct job *target_allocate(struct target *t) __attribute__((nonnull));
/* A job that renames the file; the target gives file and folder away. NULL without memory. */
struct job *target_finish(struct target *t, bool sync) __attribute__((nonnull));
/* Close; unless `keep`, remove the temporary file; its blocks are freed by a job of `w`, if there is one. */
void target_close(struct target *t, bool keep, struct worker *w) __attribute__((nonnull(1)));

/* The fault of an errno met while writing. */
bool target_fault(struct fault *why, int error, const char *name) __attribute__((nonnull));

#endif
