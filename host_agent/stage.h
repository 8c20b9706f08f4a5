/* Runs of a receiver's bytes on their way to the file. A tree's pieces mostly follow one another: they are put together
 * here, and a thread writes and hashes each run. A run lies within one block. The number of runs is bounded; where there
 * is none, the loop writes by itself, and receivers stop asking before that. */
#ifndef AGENT_STAGE_H
#define AGENT_STAGE_H

#include "agent_limits.h"
#include "datacast/pieces.h"
#include "target.h"
#include "worker.h"

struct stages {
  uint8_t **free; /* `frees` of them */
  uint32_t made, frees, cap;
  uint32_t trees; /* receivers' trees that hold a run of their own */
};

void stages_close(struct stages *s) __attribute__((nonnull));
void stages_give(struct stages *s, uint8_t *bytes) __attribute__((nonnull));
/* The disk is behind: nothing more should be asked for now. */
bool stages_short(const struct stages *s) __attribute__((nonnull));

/* One tree's. */
struct stage {
  struct stages *all;
  struct lane *lane;
  uint8_t *bytes; /* NULL: none yet */
  uint64_t at;    /* file bytes [at, at + n) */
  size_t n;
  uint32_t block; /* that they lie in */
};

/* False without memory. */
bool stage_open(struct stage *s, struct stages *all) __attribute__((nonnull));
/* What was not handed on is lost. */
void stage_close(struct stage *s) __attribute__((nonnull));

/* One more piece at `at`, of `block`. Returns how many bytes of it were taken: all, or what fills the run, so that each
 * begins where the digest's tree of the block has a node; 0: it does not follow, or there is no room. Then hand on what
 * there is, and add the rest; or write it without this. */
size_t stage_add(struct stage *s, uint64_t at, uint32_t block, const uint8_t *p, size_t n) __attribute__((nonnull));

/* The job that writes the run, and begins the next one; NULL when there is nothing, or no memory (then it stays).
 * The caller sets owner and done, and submits it with s->lane. */
struct job *stage_job(struct stage *s, const struct target *t, const struct dc_layout *l) __attribute__((nonnull));

#endif
