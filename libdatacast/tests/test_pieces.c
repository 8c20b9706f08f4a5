/* Blocks, pieces and extents. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "datacast/pieces.h"

static dc_pieces *make(const struct dc_layout *l) { return dc_pieces_init(calloc(1, dc_pieces_size(l)), l); }

static void an_empty_file_has_no_piece_and_is_whole(void)
{
  struct dc_layout l = {.size = 0, .piece = 1000, .per_block = 4};
  assert(dc_layout_pieces(&l) == 0 && dc_layout_blocks(&l) == 0 && dc_layout_piece_len(&l, 0) == 0);
  dc_pieces *p = make(&l);
  assert(dc_pieces_whole(p) && !dc_pieces_add(p, 0) && !dc_pieces_block_whole(p, 0));
  free(p);
}

static void sizes_around_a_piece_and_a_block(void)
{
  static const struct {
    uint64_t size, pieces;
    uint32_t blocks, last;
  } rows[] = {
      {1, 1, 1, 1},       {999, 1, 1, 999}, {1000, 1, 1, 1000},  {1001, 2, 1, 1},
      {4000, 4, 1, 1000}, {4001, 5, 2, 1},  {12345, 13, 4, 345}, {UINT64_C(1) << 40, 1099511628, 274877907, 776}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct dc_layout l = {.size = rows[i].size, .piece = 1000, .per_block = 4};
    assert(dc_layout_pieces(&l) == rows[i].pieces);
    assert(dc_layout_blocks(&l) == rows[i].blocks);
    assert(dc_layout_piece_len(&l, rows[i].pieces - 1) == rows[i].last);
    if (rows[i].pieces > 1)
      assert(dc_layout_piece_len(&l, 0) == 1000);
    assert(dc_layout_piece_len(&l, rows[i].pieces) == 0);
  }
}

static void pieces_are_held_once_and_blocks_become_whole(void)
{
  struct dc_layout l = {.size = 130 * 10 + 5, .piece = 10, .per_block = 64}; /* 131 pieces: 64, 64, 3 */
  dc_pieces *p = make(&l);
  for (uint64_t i = 0; i < 131; i++) {
    uint64_t k = i * 37 % 131;
    assert(!dc_pieces_has(p, k) && dc_pieces_add(p, k) && dc_pieces_has(p, k) && !dc_pieces_add(p, k));
    assert(dc_pieces_held(p) == i + 1 && dc_pieces_whole(p) == (i == 130));
  }
  assert(!dc_pieces_add(p, 131) && !dc_pieces_has(p, 131));
  for (uint32_t b = 0; b < 3; b++)
    assert(dc_pieces_block_whole(p, b));
  assert(dc_pieces_drop_block(p, 2) == 3 && dc_pieces_drop_block(p, 2) == 0 && dc_pieces_drop_block(p, 3) == 0);
  assert(!dc_pieces_block_whole(p, 2) && dc_pieces_block_whole(p, 1) && dc_pieces_held(p) == 128);
  assert(dc_pieces_has(p, 127) && !dc_pieces_has(p, 128));
  assert(dc_pieces_drop_block(p, 0) == 64 && dc_pieces_held(p) == 64 && dc_pieces_add(p, 0));
  free(p);
}

static struct dc_extents x;

static int put(uint32_t seq, uint32_t count, uint64_t first)
{
  return dc_extents_append(&x, &(struct dc_extent){seq, count, first});
}

static void extents_stand_above_each_other(void)
{
  uint64_t piece;
  x.n = 0;
  assert(dc_extents_end(&x) == 0 && !dc_extents_piece(&x, 0, &piece));
  assert(put(100, 0, 0) == -EINVAL);
  assert(put(100, 10, 500) == 0 && put(100, 10, 500) == 0 && x.n == 1);
  assert(put(100, 10, 501) == -EINVAL && put(109, 5, 0) == -EINVAL && put(99, 5, 0) == -EINVAL);
  assert(put(110, 5, 0) == 0 && put(115, 1, 7) == 0 && dc_extents_end(&x) == 116);
  assert(!dc_extents_piece(&x, 99, &piece) && !dc_extents_piece(&x, 116, &piece));
  assert(dc_extents_piece(&x, 100, &piece) && piece == 500);
  assert(dc_extents_piece(&x, 109, &piece) && piece == 509);
  assert(dc_extents_piece(&x, 110, &piece) && piece == 0);
  assert(dc_extents_piece(&x, 115, &piece) && piece == 7);
  assert(put(116, 4, 20) == 0);
  dc_extents_cut(&x, 118);
  assert(dc_extents_end(&x) == 118 && dc_extents_piece(&x, 117, &piece) && piece == 21);
  dc_extents_cut(&x, 116);
  assert(x.n == 3 && dc_extents_end(&x) == 116);
  assert(put(200, 10, 40) == 0 && dc_extents_end(&x) == 210); /* what was cut off never comes back: a gap */
  assert(!dc_extents_piece(&x, 116, &piece) && !dc_extents_piece(&x, 199, &piece));
  assert(dc_extents_piece(&x, 200, &piece) && piece == 40 && put(209, 1, 0) == -EINVAL);
  assert(dc_extents_next(&x, 0) == 100 && dc_extents_next(&x, 115) == 115 && dc_extents_next(&x, 116) == 200);
  assert(dc_extents_next(&x, 199) == 200 && dc_extents_next(&x, 209) == 209 && dc_extents_next(&x, 210) == 210);
  dc_extents_cut(&x, 150);
  assert(x.n == 3 && dc_extents_end(&x) == 116);
  dc_extents_cut(&x, 0);
  assert(x.n == 0);
}

static void extents_have_limits(void)
{
  x.n = 0;
  assert(put(UINT32_MAX - 5, 6, 0) == -EINVAL);
  x.n = 0;
  assert(put(UINT32_MAX - 5, 5, 0) == 0 && dc_extents_end(&x) == UINT32_MAX && put(UINT32_MAX, 1, 5) == -EINVAL);
  x.n = 0;
  assert(put(1, UINT32_MAX, 0) == -EINVAL && put(0, 1, UINT64_MAX) == -EINVAL);
  for (uint32_t i = 0; i < DC_EXTENTS_MAX; i++)
    assert(put(2 * i, 2, 1000 * (uint64_t)i) == 0);
  assert(put(2 * DC_EXTENTS_MAX, 2, 0) == -ENOSPC);
  for (uint32_t s = 0; s < 2 * DC_EXTENTS_MAX; s++) {
    uint64_t piece;
    assert(dc_extents_piece(&x, s, &piece) && piece == 1000 * (uint64_t)(s / 2) + s % 2);
  }
}

static void what_was_verified_is_forgotten_first(void)
{
  const struct dc_layout l = {.size = 100, .piece = 1, .per_block = 10};
  dc_pieces *p = make(&l);
  uint64_t piece;
  x.n = 0;
  assert(put(0, 5, 20) == 0 && put(5, 10, 30) == 0 && put(15, 10, 45) == 0 && put(25, 5, 60) == 0 &&
         put(30, 10, 70) == 0);
  dc_pieces_seal_block(p, 3);
  dc_pieces_seal_block(p, 7);
  dc_pieces_seal_block(p, 10); /* there is none */
  assert(dc_pieces_sealed(p, 30, 10) && !dc_pieces_sealed(p, 30, 11) && !dc_pieces_sealed(p, 90, 11) &&
         !dc_pieces_sealed(p, 0, 0));
  assert(dc_pieces_add(p, 30) && dc_pieces_drop_block(p, 3) == 0 && dc_pieces_has(p, 30));
  dc_extents_forget(&x, 4, p);
  assert(x.n == 5); /* the oldest is not over */
  dc_extents_forget(&x, 30, p);
  assert(x.n == 4 && !dc_extents_piece(&x, 5, &piece) && !dc_extents_piece(&x, 14, &piece)); /* a gap */
  assert(dc_extents_piece(&x, 4, &piece) && piece == 24 && dc_extents_piece(&x, 15, &piece) && piece == 45);
  dc_extents_forget(&x, 30, p);
  assert(x.n == 3 && !dc_extents_piece(&x, 4, &piece)); /* nothing verified is left: the oldest */
  dc_extents_forget(&x, UINT32_MAX, p);
  dc_extents_forget(&x, UINT32_MAX, p);
  dc_extents_forget(&x, UINT32_MAX, p);
  assert(x.n == 1 && dc_extents_end(&x) == 40); /* the end is not forgotten */
  free(p);
}

static void layouts_of_nothing_and_of_more_than_can_be_counted(void)
{
  struct dc_layout l = {.size = 10, .piece = 0, .per_block = 1};
  assert(dc_layout_pieces(&l) == 0 && dc_layout_blocks(&l) == 0 && dc_layout_piece_len(&l, 0) == 0);
  l.piece = 1;
  assert(dc_layout_pieces(&l) == 10 && dc_layout_blocks(&l) == 10 && dc_layout_piece_len(&l, 9) == 1);
  l.per_block = 0;
  assert(dc_layout_pieces(&l) == 10 && dc_layout_blocks(&l) == 0);
  l = (struct dc_layout){.size = UINT64_C(1) << 32, .piece = 1, .per_block = 1};
  assert(dc_layout_blocks(&l) == UINT32_MAX && dc_layout_piece_len(&l, (UINT64_C(1) << 32) - 1) == 1);
  l.size--;
  assert(dc_layout_blocks(&l) == UINT32_MAX);
  l.size--;
  assert(dc_layout_blocks(&l) == UINT32_MAX - 1);
  l = (struct dc_layout){.size = 10000, .piece = 1000, .per_block = 4};
  assert(dc_layout_piece_len(&l, UINT64_C(1) << 63) == 0); /* 1,000 times as much is 0, in 64 bits */
}

/* A bit for each piece and each block, in whole words, and a count for each block. */
static void memory_is_for_all_pieces_and_blocks(void)
{
  static const struct {
    uint64_t pieces;
    uint32_t per_block;
    size_t bytes;
  } row[] = {{1, 1000, 8 + 8 + 4},    {64, 1000, 8 + 8 + 4},     {65, 1000, 16 + 8 + 4},
             {64, 1, 8 + 8 + 64 * 4}, {65, 1, 16 + 16 + 65 * 4}, {128, 2, 16 + 8 + 64 * 4}};
  struct dc_layout l = {.size = 0, .piece = 10, .per_block = 1};
  size_t none = dc_pieces_size(&l);
  for (unsigned i = 0; i < sizeof row / sizeof row[0]; i++) {
    l.size = row[i].pieces * 10;
    l.per_block = row[i].per_block;
    assert(dc_pieces_size(&l) - none == row[i].bytes);
  }
}

/* Each block by itself, in every place of a word. */
static void a_block_is_sealed_alone(void)
{
  enum { BLOCKS = 140 };
  const struct dc_layout l = {.size = 2 * BLOCKS - 1, .piece = 1, .per_block = 2};
  dc_pieces *p = make(&l);
  assert(dc_pieces_layout(p)->size == l.size && dc_pieces_layout(p)->per_block == 2);
  for (uint32_t b = 0; b < BLOCKS; b += 3)
    dc_pieces_seal_block(p, b);
  for (uint64_t i = 0; i < 2 * BLOCKS - 1; i++)
    assert(dc_pieces_sealed(p, i, 1) == (i / 2 % 3 == 0) && dc_pieces_add(p, i));
  assert(dc_pieces_whole(p) && !dc_pieces_sealed(p, 2 * BLOCKS - 1, 1));
  for (uint32_t b = 0; b < BLOCKS; b++) {
    uint32_t held = b + 1 < BLOCKS ? 2 : 1;
    assert(dc_pieces_block_whole(p, b) && dc_pieces_drop_block(p, b) == (b % 3 == 0 ? 0 : held));
    assert(dc_pieces_block_whole(p, b) == (b % 3 == 0));
    assert(dc_pieces_has(p, 2 * (uint64_t)b) == (b % 3 == 0));
  }
  assert(!dc_pieces_block_whole(p, BLOCKS) && dc_pieces_held(p) == 47 * 2);
  for (uint32_t b = 0; b < BLOCKS; b++)
    dc_pieces_seal_block(p, b);
  assert(dc_pieces_sealed(p, 0, 2 * BLOCKS - 1) && !dc_pieces_sealed(p, 0, 2 * BLOCKS) && !dc_pieces_sealed(p, 1, 0));
  assert(!dc_pieces_sealed(p, 1, UINT64_MAX));
  free(p);
}

/* All blocks that a part of it lies in. */
static void a_run_is_sealed_when_each_of_its_blocks_is(void)
{
  const struct dc_layout l = {.size = 100, .piece = 1, .per_block = 10};
  dc_pieces *p = make(&l);
  for (uint32_t b = 3; b <= 5; b++)
    dc_pieces_seal_block(p, b);
  for (uint64_t first = 0; first < 100; first++)
    for (uint64_t count = 1; count <= 100 - first; count++)
      assert(dc_pieces_sealed(p, first, count) == (first >= 30 && first + count <= 60));
  free(p);
}

static void a_cut_takes_what_begins_behind_it_and_the_end_of_what_does_not(void)
{
  static const uint32_t cut[][3] = {{30, 3, 30}, {29, 3, 29}, {21, 3, 21}, {20, 2, 18}, {19, 2, 18}, {18, 2, 18},
                                    {17, 2, 17}, {11, 2, 11}, {10, 1, 10}, {1, 1, 1},   {0, 0, 0},   {31, 3, 30}};
  for (unsigned i = 0; i < sizeof cut / sizeof cut[0]; i++) {
    x.n = 0;
    assert(put(0, 10, 100) == 0 && put(10, 8, 200) == 0 && put(20, 10, 300) == 0);
    dc_extents_cut(&x, cut[i][0]);
    assert(x.n == cut[i][1] && dc_extents_end(&x) == cut[i][2]);
  }
}

static void an_extent_may_end_with_the_last_piece_there_could_be(void)
{
  x.n = 0;
  assert(put(0, 5, UINT64_MAX - 4) == -EINVAL && put(0, 5, UINT64_MAX - 5) == 0);
  x.n = 0;
  assert(put(7, 5, 0) == 0 && put(7, 4, 0) == -EINVAL && put(8, 5, 0) == -EINVAL && put(7, 5, 1) == -EINVAL);
  assert(put(11, 1, 0) == -EINVAL && put(12, 1, 0) == 0 && x.n == 2);
}

int main(void)
{
  an_empty_file_has_no_piece_and_is_whole();
  sizes_around_a_piece_and_a_block();
  pieces_are_held_once_and_blocks_become_whole();
  extents_stand_above_each_other();
  extents_have_limits();
  what_was_verified_is_forgotten_first();
  layouts_of_nothing_and_of_more_than_can_be_counted();
  memory_is_for_all_pieces_and_blocks();
  a_block_is_sealed_alone();
  a_run_is_sealed_when_each_of_its_blocks_is();
  a_cut_takes_what_begins_behind_it_and_the_end_of_what_does_not();
  an_extent_may_end_with_the_last_piece_there_could_be();
  puts("pieces ok");
  return 0;
}
