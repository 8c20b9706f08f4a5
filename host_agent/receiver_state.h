/* A receiver's inside, shared by its trees (receiver.c, in the shard receiving.c) and its blocks (blocks.c). It is the home
 * loop's; shards add to `pieces`. */
#ifndef AGENT_RECEIVER_STATE_H
#define AGENT_RECEIVER_STATE_H

#include "receiving.h"
#include "target.h"

enum block_state {
  BLOCK_OPEN,
  BLOCK_WHOLE, /* to be verified */
  BLOCK_VERIFYING,
  BLOCK_STALE, /* it is being verified, and something was written into it meanwhile: once more */
  BLOCK_OK
};

struct receiver {
  struct target target;
  char *dest; /* as its master named it */
  dc_pieces *pieces;
  struct receiver_tree *tree[GROUP_TREES_MAX];
  unsigned trees;
  struct receiver_tree *here[SHARDS_MAX]; /* the same, by shard; these change in calls only */
  uint64_t bytes;                         /* held, but for what came over the trees that there are */
  uint64_t unwritten;                     /* atomic: on their way to the file */
  /* blocks */
  uint32_t blocks, ok, waiting, cursor, verifying;
  uint32_t noting;                /* verified blocks that are being noted in the file */
  uint32_t resuming, resumed;     /* blocks held from before: to be hashed again, found good */
  uint8_t *skip;                  /* per block: not wanted, as good as held; NULL: all are wanted */
  uint32_t skipped;               /* so many */
  uint64_t bad, again;            /* blocks that failed; pieces of good blocks that came again, as `bytes` */
  uint8_t *state, *fails, *known; /* per block: block_state, failures, digest is known */
  uint8_t *claimed;               /* per block: held from before, not hashed again yet */
  uint64_t *there;                /* per block: bytes of it that are in the file */
  uint8_t *hashed;                /* per block: `found` is its digest, taken while it was written */
  uint8_t *doubted;               /* per block: that is not to be believed */
  uint8_t (*digest)[DIGEST_LEN], (*found)[DIGEST_LEN];
  bool allocating, finishing;
};

static inline struct host *host_of(const struct group *g) { return g->all->host; }

/* receiver.c: asks for what is missing of the block once more, past the caches, over all its trees. Returns for how many
 * pieces; *forgotten: those that no tree knows to have carried. */
uint32_t receiver_refetch(struct group *g, uint32_t block, uint32_t *forgotten) __attribute__((nonnull));
/* Pieces of good blocks that came once more, until now. */
uint64_t receiver_again(struct group *g) __attribute__((nonnull));
/* All of the block has come, and some of it is held in a shard yet. */
void receiver_complete(struct group *g, uint32_t block) __attribute__((nonnull));
/* All that is held is known: its trees may ask. */
void receiver_asks(struct group *g) __attribute__((nonnull));
/* The file is going to get its name: its trees let go of it. */
void receiver_rests(struct group *g) __attribute__((nonnull));

/* blocks.c */
void blocks_fail_errno(struct group *g, int error) __attribute__((nonnull));
/* Blocks that were verified before count as held, and are hashed once more before anything is asked for. */
void blocks_resume(struct group *g) __attribute__((nonnull));
/* The file is there, as this group had finished it: the group is done. */
void blocks_whole(struct group *g) __attribute__((nonnull));
/* Blocks that are not wanted are passed like those that are held: nothing asks for them, on any tree. */
void blocks_skip(struct group *g) __attribute__((nonnull));
/* The whole block was written by who fetched it; this is its digest. False with *why when another one is known. */
bool blocks_fetched(struct group *g, uint32_t block, const uint8_t digest[32], struct fault *why)
    __attribute__((nonnull));
/* Something else may have been written into the block: what is in the file is what counts, also where it was verified. */
void blocks_doubt(struct group *g, uint32_t block) __attribute__((nonnull));
/* The job that wrote a run is over. */
void blocks_wrote(struct group *g, const struct job *j) __attribute__((nonnull));
/* Go on with what waits: verify, finish. */
void blocks_go(struct group *g) __attribute__((nonnull));

#endif
