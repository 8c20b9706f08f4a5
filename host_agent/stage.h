/* Runs of a receiver's bytes on their way to the file. A tree's pieces mostly follow one another: they are put together
 * in the shard, and a thread writes and hashes each run. A run lies within one block. The number of runs is bounded: receivers
 * stop asking before there is none, and what comes all the same is as if lost. */
#ifndef AGENT_STAGE_H
#define AGENT_STAGE_H

#include "agent_limits.h"
#include "datacast/pieces.h"
#include "worker.h"

struct stages {
  pthread_mutex_t lock;
  uint8_t **free; /* `frees` of them */
  uint32_t made, frees, cap;
  uint32_t trees; /* receivers' trees, each with two runs of its own: the one that is filled and the next */
};

void stages_open(struct stages *s) __attribute__((nonnull));
void stages_close(struct stages *s) __attribute__((nonnull));
void stages_give(struct stages *s, uint8_t *bytes) __attribute__((nonnull));
/* The disk is behind: nothing more should be asked for now. */
bool stages_short(struct stages *s) __attribute__((nonnull));

/* One tree's. */
struct stage {
  struct stages *all;
  struct lane *lane;
  uint8_t *bytes, *next;      /* NULL: none yet */
  struct job *job, *next_job; /* that will write them */
  uint64_t at;                /* file bytes [at, at + n) */
  size_t n;
  uint32_t block; /* that they lie in */
};

/* False without memory. */
bool stage_open(struct stage *s, struct stages *all) __attribute__((nonnull));
/* What was not handed on is lost. */
void stage_close(struct stage *s) __attribute__((nonnull));

/* There is room for one more piece, whatever it is. False: not now. */
bool stage_ready(struct stage *s) __attribute__((nonnull));
/* One more piece at `at`, of `block`, after stage_ready. Returns how many bytes of it were taken: all, or what fills the run, so
 * that each begins where the digest's tree of the block has a node; 0: it does not follow. Then hand on what there is, and
 * add the rest. */
size_t stage_add(struct stage *s, uint64_t at, uint32_t block, const uint8_t *p, size_t n) __attribute__((nonnull));

/* The job that writes the run to `f`, and begins the next one; NULL when there is nothing. The caller sets owner and done, and
 * submits it with s->lane. */
struct job *stage_job(struct stage *s, struct file *f, const struct dc_layout *l) __attribute__((nonnull));

#endif
