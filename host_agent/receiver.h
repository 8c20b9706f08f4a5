/* A receiver's part of a group: asks for pieces, writes them in place, verifies blocks, renames the whole file. */
#ifndef AGENT_RECEIVER_H
#define AGENT_RECEIVER_H

#include "group.h"

/* `wants`: the blocks that it is to have (wants.h); NULL: all. */
bool receiver_open(struct group *g, const char *dest, const json_t *wants, struct fault *why)
    __attribute__((nonnull(1, 2, 4)));
/* They are those that it was opened with. */
bool receiver_wants(const struct group *g, const json_t *wants, struct fault *why) __attribute__((nonnull(1, 3)));
/* Of its trees only these go on: before new ones begin, at this host too. */
void receiver_keep(struct group *g, const struct tree_params *t, int n) __attribute__((nonnull(1)));
bool receiver_trees(struct group *g, const struct tree_params *t, int n, struct fault *why)
    __attribute__((nonnull(1, 4)));
/* An object of tree id -> route blob as hex; NULL: none. What is out on a changed route is asked for again at once. */
bool receiver_routes(struct group *g, const json_t *routes, struct fault *why) __attribute__((nonnull(1, 3)));
/* A list of trees that this receiver holds up; NULL: none. It asks for nothing more there, the master deals it elsewhere. */
bool receiver_leave(struct group *g, const json_t *trees, struct fault *why) __attribute__((nonnull(1, 3)));
/* Pieces of the file. */
bool receiver_assign(struct group *g, uint32_t tree, const struct dc_extent *e, struct fault *why)
    __attribute__((nonnull));
void receiver_cut(struct group *g, uint32_t tree, uint32_t seq) __attribute__((nonnull));
bool receiver_digest(struct group *g, uint32_t block, const uint8_t digest[32], struct fault *why)
    __attribute__((nonnull));
/* Begin or go on after trees, routes, extents or digests changed; an empty file is done at once. */
void receiver_go(struct group *g) __attribute__((nonnull));
/* Tell `done` again. */
void receiver_repeat(struct group *g) __attribute__((nonnull));
json_t *receiver_status(struct group *g) __attribute__((nonnull));
/* For trees that begin here: the file (NULL when it was given away), its name, and whether all blocks of these pieces are
 * here. */
struct file *receiver_file(struct group *g) __attribute__((nonnull));
const char *receiver_dest(const struct group *g) __attribute__((nonnull)); /* as its master named it */
const char *receiver_name(const struct group *g) __attribute__((nonnull));
/* Some of it had been received before it was opened. */
bool receiver_resumed(const struct group *g) __attribute__((nonnull));
bool receiver_holds(const struct group *g, uint64_t first, uint64_t count) __attribute__((nonnull));
void receiver_stop(struct group *g, bool keep)
    __attribute__((nonnull)); /* no more interests; the temporary file goes */
void receiver_close(struct group *g, bool keep) __attribute__((nonnull));

#endif
