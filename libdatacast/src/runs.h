/* A set of numbers as runs of neighbours: what a source was given, what it has sent.
 *
 * Numbers mostly come in order, so there are few runs. When they are too many, the two with the least between them become
 * one: whoever asks for every other number to break the set up gains the numbers between those he asked for, no more. */
#ifndef DATACAST_RUNS_H
#define DATACAST_RUNS_H

#include <stdbool.h>
#include <stdint.h>

enum { DC_RUNS_MAX = 1024 };

struct dc_run {
  uint32_t begin, end; /* [begin, end) */
};

struct dc_runs {
  uint32_t n;
  struct dc_run run[DC_RUNS_MAX]; /* in order, none touches the next */
};

bool dc_runs_has(const struct dc_runs *r, uint32_t number) __attribute__((nonnull));
/* Add [begin, end); none of them may be there already. */
void dc_runs_add(struct dc_runs *r, uint32_t begin, uint32_t end) __attribute__((nonnull));
/* Take out everything from `from` on. */
void dc_runs_cut(struct dc_runs *r, uint32_t from) __attribute__((nonnull));
/* How many are above `number`. */
uint32_t dc_runs_above(const struct dc_runs *r, uint32_t number) __attribute__((nonnull));
/* One past the highest; 0 when there is none. */
uint32_t dc_runs_end(const struct dc_runs *r) __attribute__((nonnull));

#endif
