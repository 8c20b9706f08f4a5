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

int main(void)
{
  an_empty_file_has_no_piece_and_is_whole();
  sizes_around_a_piece_and_a_block();
  pieces_are_held_once_and_blocks_become_whole();
  extents_stand_above_each_other();
  extents_have_limits();
  what_was_verified_is_forgotten_first();
  puts("pieces ok");
  return 0;
}
