/* The file that a source has from the beginning: opened, watched for changes, its blocks hashed ahead of the sending. */
#ifndef AGENT_SOURCE_FILE_H
#define AGENT_SOURCE_FILE_H

#include "group.h"

struct source_tree;

/* As g->local. `part` may hold `mtime_ns` and `inode` as `stat` told them: then another file at this path is refused
 * (`changed`). `unfinished` in it names a group: the file is what that one left of `path`, a destination, and the blocks
 * that were verified then are all that this source has. */
bool source_file_open(struct group *g, const char *path, const json_t *part, struct fault *why)
    __attribute__((nonnull(1, 2, 4)));
struct file *source_file(struct group *g) __attribute__((nonnull));
const char *source_file_path(const struct group *g) __attribute__((nonnull));
/* Blocks before `end` are going to be sent, by this source or by another one that has the same file: they are hashed. */
void source_file_want(struct group *g, uint32_t end) __attribute__((nonnull));
/* Of blocks that a tree of this source sends: those of [first, end) are hashed when the tree is near them, and kept until it has
 * passed, so that they are read once. It is near: the block is read, and the tree has it then (sending_has), or hears that it is
 * to read by itself. */
void source_file_leave(struct group *g, uint32_t first, uint32_t end) __attribute__((nonnull));
void source_file_near(struct group *g, struct source_tree *t, uint32_t block) __attribute__((nonnull));
/* A tree that was not near has passed the block, or will not come to it. */
void source_file_passed(struct group *g, uint32_t block) __attribute__((nonnull));
/* The tree is gone. */
void source_file_left(struct group *g, const struct source_tree *t) __attribute__((nonnull));

/* Tell all digests known so far again. */
void source_file_repeat(struct group *g) __attribute__((nonnull));
void source_file_status(const struct group *g, json_t *to) __attribute__((nonnull));
void source_file_stop(struct group *g) __attribute__((nonnull));
void source_file_close(struct group *g) __attribute__((nonnull));

/* Does it have these pieces? */
bool source_file_holds(const struct group *g, uint64_t first, uint64_t count) __attribute__((nonnull));

#endif
