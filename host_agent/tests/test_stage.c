/* Runs on their way to the file: each within one block, in order, and no more of them than there may be. */
#include "stage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datapath/tests/check.h"

static const struct dc_layout layout = {.size = 10 * 1000 + 1, .piece = 1000, .per_block = 4};
static struct file *target;
static uint8_t piece[1000];

/* As the shard does it: there is room, or nothing is taken. */
static size_t add(struct stage *s, uint64_t at, uint32_t block, const uint8_t *p, size_t n)
{
  CHECK(stage_ready(s));
  return stage_add(s, at, block, p, n);
}

/* The job is dropped; its bytes go back unless `hold`. */
static void end(struct stages *all, struct job *j, bool hold)
{
  if (!hold)
    stages_give(all, j->bytes);
  file_unref(j->file);
  free(j);
}

static void a_run_ends_with_its_block_and_where_pieces_do_not_follow(void)
{
  struct stages all;
  stages_open(&all);
  struct stage s;
  CHECK(stage_open(&s, &all) && stage_job(&s, target, &layout) == NULL);
  for (uint64_t i = 0; i < 4; i++)
    CHECK(add(&s, i * 1000, 0, piece, 1000));
  CHECK(!add(&s, 4000, 1, piece, 1000)); /* the next block */
  struct job *j = stage_job(&s, target, &layout);
  CHECK(j->off == 0 && j->len == 4000 && j->begins && j->ends && j->tag == 0);
  end(&all, j, false);
  CHECK(add(&s, 5000, 1, piece, 1000) && !add(&s, 7000, 1, piece, 1000)); /* a hole */
  j = stage_job(&s, target, &layout);
  CHECK(j->off == 5000 && j->len == 1000 && !j->begins && !j->ends);
  end(&all, j, false);
  CHECK(add(&s, 8000, 2, piece, 1000) && add(&s, 9000, 2, piece, 1000) && add(&s, 10000, 2, piece, 1));
  j = stage_job(&s, target, &layout);
  CHECK(j->begins && j->ends && j->len == 2001); /* the last block, shorter than the others */
  end(&all, j, false);
  stage_close(&s);
  CHECK(all.trees == 0);
  stages_close(&all);
}

static void a_run_is_filled_and_the_piece_goes_on_in_the_next(void)
{
  static const struct dc_layout large = {.size = 900000, .piece = 60000, .per_block = 15};
  static uint8_t p[60000];
  struct stages all;
  stages_open(&all);
  struct stage s;
  CHECK(stage_open(&s, &all));
  for (uint64_t i = 0; i < 4; i++)
    CHECK(add(&s, i * sizeof p, 0, p, sizeof p) == sizeof p);
  memset(p, 7, sizeof p);
  size_t took = add(&s, 4 * sizeof p, 0, p, sizeof p);
  CHECK(took == STAGE_BYTES - 4 * sizeof p);
  struct job *j = stage_job(&s, target, &large);
  CHECK(j->off == 0 && j->len == STAGE_BYTES && j->begins && !j->ends && j->bytes[STAGE_BYTES - 1] == 7);
  end(&all, j, false);
  CHECK(stage_add(&s, STAGE_BYTES, 0, p + took, sizeof p - took) == sizeof p - took); /* it was made room for before */
  j = stage_job(&s, target, &large);
  CHECK(j->off == STAGE_BYTES && j->len == sizeof p - took && !j->begins && !j->ends);
  end(&all, j, false);
  stage_close(&s);
  stages_close(&all);
}

static void runs_are_bounded_and_receivers_hear_of_it_before(void)
{
  struct stages all;
  struct stage s;
  uint8_t *held[STAGES_SPARE + 8];
  unsigned n = 0;
  bool was_short = false;
  stages_open(&all);
  CHECK(stage_open(&s, &all));
  while (stage_ready(&s)) {
    CHECK(stage_add(&s, 0, 0, piece, 1000) == 1000);
    struct job *j = stage_job(&s, target, &layout);
    held[n++] = j->bytes;
    end(&all, j, true);
    was_short |= stages_short(&all);
    CHECK(n <= STAGES_SPARE + 2 && stages_short(&all) == (n > STAGES_SPARE * 3 / 4 + 1));
  }
  CHECK(n == STAGES_SPARE + 2 && was_short); /* two for the tree itself */
  while (n > 0)
    stages_give(&all, held[--n]);
  CHECK(!stages_short(&all) && add(&s, 0, 0, piece, 1000));
  stage_close(&s);
  stages_close(&all);
}

/* A piece that does not follow, or fills the run, has a run and a job to go to: nothing of it is dropped once it counts as held. */
static void what_is_ready_takes_any_piece(void)
{
  struct stages all;
  struct stage s;
  stages_open(&all);
  CHECK(stage_open(&s, &all) && add(&s, 0, 0, piece, 1000) == 1000);
  uint8_t *others[STAGES_SPARE + 8];
  struct stage other;
  unsigned n = 0;
  CHECK(stage_ready(&s) && stage_open(&other, &all));
  for (struct job *j; stage_ready(&other); others[n++] = j->bytes, end(&all, j, true)) {
    CHECK(stage_add(&other, 0, 0, piece, 1000) == 1000);
    j = stage_job(&other, target, &layout);
  }
  CHECK(stage_add(&s, 5000, 1, piece, 1000) == 0); /* none is left for others, and this one goes on */
  struct job *j = stage_job(&s, target, &layout);
  CHECK(j != NULL && stage_add(&s, 5000, 1, piece, 1000) == 1000);
  end(&all, j, false);
  j = stage_job(&s, target, &layout);
  CHECK(j != NULL && j->off == 5000);
  end(&all, j, false);
  while (n > 0)
    stages_give(&all, others[--n]);
  stage_close(&other);
  stage_close(&s);
  stages_close(&all);
}

int main(void)
{
  target = file_new(open("/dev/null", O_WRONLY));
  a_run_ends_with_its_block_and_where_pieces_do_not_follow();
  a_run_is_filled_and_the_piece_goes_on_in_the_next();
  runs_are_bounded_and_receivers_hear_of_it_before();
  what_is_ready_takes_any_piece();
  file_unref(target);
  puts("runs: ok");
  return 0;
}
