/* What may be sent, before it is: a file, a directory as a stream, or what a group left of one. */
#ifndef AGENT_SENDABLE_H
#define AGENT_SENDABLE_H

#include <sys/stat.h>

#include "host.h"
#include "ops.h"

/* What it is known by. */
struct sendable {
  struct stat stat;
  uint64_t size, mark; /* mark: time of the last change, or of a directory what stands for all in it */
  struct file *file;
  struct dc_layout cut; /* of what a group left */
};

/* The fault of an errno met while reading; false. */
bool sendable_fault(struct fault *why, int error, const char *path) __attribute__((nonnull));
/* The group that left what is to be sent, by `part`; NULL: none did. What is no text is no group's name. */
const char *sendable_unfinished(const json_t *part);
/* A file that may be sent, or (`unfinished`) what a group left of one; -1 with *why. */
int sendable_fd(struct host *h, const char *path, const char *unfinished, int flags, struct stat *st, struct fault *why)
    __attribute__((nonnull(1, 2, 5, 6)));
/* Opened; false with *why. A directory is yet to be walked. */
bool sendable_open(struct host *h, const char *path, const char *unfinished, struct sendable *k, struct fault *why)
    __attribute__((nonnull(1, 2, 4, 5)));
/* The directory as it was walked when it was asked what it is. Else it is walked now, and the master asks again: false
 * (`walking`). It is closed then. */
bool sendable_walked(struct host *h, const char *path, struct sendable *k, struct fault *why) __attribute__((nonnull));
/* What a group left: the digests of what was verified, and `skip` with all else in it. NULL without memory. */
uint8_t (*sendable_verified(const struct sendable *k, uint8_t **skip, uint32_t blocks))[DIGEST_LEN]
    __attribute__((nonnull));

/* To be read here and there, beneath one of `roots`: a file, or a directory that is yet to be walked. NULL with *why. */
struct file *sendable_look(struct host *h, const struct roots *roots, const char *path, struct fault *why)
    __attribute__((nonnull));
/* `stat`: size, mtime_ns and inode, into `to`; of what the group `unfinished` of `part` left
 * how it is cut as well, and which blocks of it there are. Of a directory it may come `later`, then *waits. */
bool sendable_stat(struct host *h, const char *path, const json_t *part, json_t *to, struct later later, bool *waits,
                   struct fault *why) __attribute__((nonnull));

#endif
