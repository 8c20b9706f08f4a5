/* What a receiver fetches from an origin: blocks, as the master orders them, into its file. */
#ifndef AGENT_FETCHING_H
#define AGENT_FETCHING_H

#include "group.h"

/* `origin`: what the group fetches, of `open` (objects.h). */
bool fetching_open(struct group *g, const json_t *origin, struct fault *why) __attribute__((nonnull(1, 3)));
/* `fetch`: {"blocks": [[first, count], …]}. What is there, or on its way, is not fetched again, only told again. Or
 * {"leave": [[first, count], …]}: somebody else fetches them; `left` of the result: those that were not asked for yet. */
bool fetching_order(struct group *g, const json_t *part, json_t *result, struct fault *why)
    __attribute__((nonnull(1, 3, 4)));
/* What is held from before has been hashed again: what is missing of the orders is fetched now. */
void fetching_go_on(struct group *g) __attribute__((nonnull));
/* An origin refuses what it is asked, for now, and is asked again. False: none does. */
bool fetching_waits(const struct group *g, struct fault *why) __attribute__((nonnull));
/* What it fetches into, also when that has its name; NULL once the group has failed. */
struct file *fetching_file(const struct group *g) __attribute__((nonnull));
/* All is there: requests that are under way break off. False: some still write into the file. */
bool fetching_over(struct group *g) __attribute__((nonnull));
/* Tell the digests of all blocks that this host holds again. */
void fetching_repeat(struct group *g) __attribute__((nonnull));
/* The group has failed: what is under way breaks off, and nothing else is asked for. */
void fetching_stop(struct group *g) __attribute__((nonnull));
void fetching_close(struct group *g) __attribute__((nonnull));

/* `stat` of objects by their URLs: "objects", of each [size, ETag], or why not. `answer` is called with the result once it is
 * there, not before this returns. False with *why where nothing is asked. */
bool fetching_stat(struct host *h, const json_t *urls, void (*answer)(void *arg, json_t *result), void *arg,
                   struct fault *why) __attribute__((nonnull(1, 3, 5)));

#endif
