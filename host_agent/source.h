/* The source's part of a group: its trees, whose shard answers interests from the file (sending.h). */
#ifndef AGENT_SOURCE_H
#define AGENT_SOURCE_H

#include "group.h"

/* `part` may hold `mtime_ns` and `inode` as `stat` told them: then another file at this path is refused (`changed`). */
bool source_open(struct group *g, const char *path, const json_t *part, struct fault *why) __attribute__((nonnull));
/* This host is a receiver, and trees for what it fetched begin here: they read from the receiver's file. */
bool source_share(struct group *g, struct fault *why) __attribute__((nonnull));
/* Trees as the master wants them now: new ones begin, missing ones end, known ones go on. The first `own` of `n` begin
 * here, the others at other roots. */
bool source_trees(struct group *g, const struct tree_params *t, int own, int n, struct fault *why)
    __attribute__((nonnull(1, 5)));
bool source_begins(const struct group *g, uint32_t tree) __attribute__((nonnull)); /* does this tree begin here? */
/* Pieces of the file. Also an extent of another root's tree, where this host has the whole file: its digests are wanted as
 * well. */
bool source_assign(struct group *g, uint32_t tree, const struct dc_extent *e, struct fault *why)
    __attribute__((nonnull));
void source_cut(struct group *g, uint32_t tree, uint32_t seq) __attribute__((nonnull));
/* Trees send no faster than this from now on: {"<tree id>": bit/s}, null for no bound. Others stay as they are. */
bool source_rates(struct group *g, const json_t *rates, struct fault *why) __attribute__((nonnull(1, 3)));
json_t *source_status(struct group *g) __attribute__((nonnull));
/* Pieces that all its trees have sent: grows while they go on. */
uint64_t source_sent(const struct group *g) __attribute__((nonnull));
void source_stop(struct group *g) __attribute__((nonnull)); /* no more answers */
void source_close(struct group *g) __attribute__((nonnull));

#endif
