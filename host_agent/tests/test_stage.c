/* Runs on their way to the file: each within one block, in order, and no more of them than there may be. */
#include "stage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datapath/tests/check.h"

static const struct dc_layout layout = {.size = 10 * 1000 + 1, .piece = 1000, .per_block = 4};
static struct target target;
static uint8_t piece[1000];

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
  struct stages all = {0};
  struct stage s;
  CHECK(stage_open(&s, &all) && stage_job(&s, &target, &layout) == NULL);
  for (uint64_t i = 0; i < 4; i++)
    CHECK(stage_add(&s, i * 1000, 0, piece, 1000));
  CHECK(!stage_add(&s, 4000, 1, piece, 1000)); /* the next block */
  struct job *j = stage_job(&s, &target, &layout);
  CHECK(j->off == 0 && j->len == 4000 && j->begins && j->ends && j->tag == 0);
  end(&all, j, false);
  CHECK(stage_add(&s, 5000, 1, piece, 1000) && !stage_add(&s, 7000, 1, piece, 1000)); /* a hole */
  j = stage_job(&s, &target, &layout);
  CHECK(j->off == 5000 && j->len == 1000 && !j->begins && !j->ends);
  end(&all, j, false);
  CHECK(stage_add(&s, 8000, 2, piece, 1000) && stage_add(&s, 9000, 2, piece, 1000) &&
        stage_add(&s, 10000, 2, piece, 1));
  j = stage_job(&s, &target, &layout);
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
  struct stages all = {0};
  struct stage s;
  CHECK(stage_open(&s, &all));
  for (uint64_t i = 0; i < 4; i++)
    CHECK(stage_add(&s, i * sizeof p, 0, p, sizeof p) == sizeof p);
  memset(p, 7, sizeof p);
  size_t took = stage_add(&s, 4 * sizeof p, 0, p, sizeof p);
  CHECK(took == STAGE_BYTES - 4 * sizeof p && stage_add(&s, STAGE_BYTES, 0, p + took, sizeof p - took) == 0);
  struct job *j = stage_job(&s, &target, &large);
  CHECK(j->off == 0 && j->len == STAGE_BYTES && j->begins && !j->ends && j->bytes[STAGE_BYTES - 1] == 7);
  end(&all, j, false);
  CHECK(stage_add(&s, STAGE_BYTES, 0, p + took, sizeof p - took) == sizeof p - took);
  j = stage_job(&s, &target, &large);
  CHECK(j->off == STAGE_BYTES && j->len == sizeof p - took && !j->begins && !j->ends);
  end(&all, j, false);
  stage_close(&s);
  stages_close(&all);
}

static void runs_are_bounded_and_receivers_hear_of_it_before(void)
{
  struct stages all = {0};
  struct stage s;
  uint8_t *held[STAGES_SPARE + 8];
  unsigned n = 0;
  bool was_short = false;
  CHECK(stage_open(&s, &all));
  while (stage_add(&s, 0, 0, piece, 1000)) {
    struct job *j = stage_job(&s, &target, &layout);
    held[n++] = j->bytes;
    end(&all, j, true);
    was_short |= stages_short(&all);
    CHECK(n <= STAGES_SPARE + 1 && stages_short(&all) == (n > STAGES_SPARE * 3 / 4));
  }
  CHECK(n == STAGES_SPARE + 1 && was_short); /* one for the tree itself */
  while (n > 0)
    stages_give(&all, held[--n]);
  CHECK(!stages_short(&all) && stage_add(&s, 0, 0, piece, 1000));
  stage_close(&s);
  stages_close(&all);
}

int main(void)
{
  target.file = file_new(open("/dev/null", O_WRONLY));
  a_run_ends_with_its_block_and_where_pieces_do_not_follow();
  a_run_is_filled_and_the_piece_goes_on_in_the_next();
  runs_are_bounded_and_receivers_hear_of_it_before();
  file_unref(target.file);
  puts("runs: ok");
  return 0;
}
