/* A source's tree in its shard: answers interests from the file, and comes to blocks that were read ahead of it. */
#ifndef AGENT_SENDING_H
#define AGENT_SENDING_H

#include "datacast/source.h"
#include "extent_map.h"
#include "group.h"
#include "window.h"

struct ahead_block;

/* A block that the tree comes to next. */
struct near_block {
  enum { NEAR_NONE, NEAR_ASKED, NEAR_KEPT, NEAR_TO_READ } state; /* asked: it is being read, the tree waits */
  uint32_t block;
  struct ahead_block *kept; /* owned once */
};

struct source_tree {
  struct endpoint endpoint; /* first */
  struct group *group;
  struct tree_params params;
  bool attached; /* the home loop's: the shard has it, and the rest is the shard's from then on */
  struct shard *shard;
  struct file *file; /* its source's */
  bool reads_ahead;  /* the file is watched and hashed here */
  dc_source *core;
  struct extent_map extents; /* changes in calls only: the home loop reads it, too */
  uint32_t sent;             /* one past the highest sequence number sent */
  uint32_t mark;             /* progress is told when `sent` gets there */
  uint32_t turn;             /* the number with which the next block begins: those ahead of it are read by then */
  struct near_block near[AHEAD_BLOCKS];
  struct window window;
  bool began;        /* it was told that data goes */
  bool failed, told; /* nothing more is sent; and the reason is known */
  int error;         /* an errno, or -1: the file is shorter */
};

/* Over calls of the shard (shard.h), or when the tree is detached. False: this tree id is taken. */
bool sending_attach(struct source_tree *t) __attribute__((nonnull));
void sending_detach(struct source_tree *t) __attribute__((nonnull)); /* with its blocks */
int sending_assign(struct source_tree *t, const struct dc_extent *e)
    __attribute__((nonnull)); /* 0, as extent_map_append; -EALREADY: the number was sent */
void sending_cut(struct source_tree *t, uint32_t seq) __attribute__((nonnull));
/* Posted: the block that was asked for, `with`; NULL: the tree is to read it. */
void sending_has(void *tree, uint64_t block, void *with);

/* The next run of numbers from *seq on that carry pieces of one block: its first number, *block, and in *seq the number behind
 * it. False: there is none. */
bool sending_next_block(const struct source_tree *t, uint32_t *seq, uint32_t *first, uint32_t *block)
    __attribute__((nonnull));

/* source.c, in the home loop: what a tree tells. */
void source_hears_first(void *tree, uint64_t t_ns, void *nothing);
void source_hears_progress(void *tree, uint64_t sent, void *nothing);
void source_hears_slowed(void *tree, uint64_t n, void *nothing);
void source_hears_near(void *tree, uint64_t block, void *nothing);   /* answered by sending_has */
void source_hears_passed(void *tree, uint64_t block, void *nothing); /* one that it had not told to be near */
void source_hears_failed(void *tree, uint64_t error, void *nothing);

#endif
