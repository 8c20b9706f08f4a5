/* What a receiver fetches again, and what it no longer asks for: bad blocks, cuts, leaving, restart. */
#include <stdio.h>

#include "receivers.h"

static void a_bad_block_is_fetched_past_the_caches(void)
{
  struct side s = make(24, 32);
  assert(assign(&s, 10, 12, 0) == 0 && assign(&s, 22, 6, 18) == 0); /* blocks 0, half of 1, part of 2 */
  asked(s.r, 0, in, CAP);
  for (uint32_t q = 10; q < 28; q++)
    assert(data(&s, 10, q) == DC_RX_NEW);
  EXPECT_NOTHING(&s, 10);
  assert(dc_pieces_drop_block(s.pieces, 1) == 4);
  assert(dc_receiver_refetch(s.r, 8, 8) == 4 && !dc_receiver_idle(s.r) && dc_receiver_next_wake(s.r) <= 20);
  EXPECT(&s, 20, DC_FLAG_NOCACHE, 18, 19, 20, 21);
  assert(data(&s, 30, 18) == DC_RX_NEW && data(&s, 30, 20) == DC_RX_NEW && data(&s, 30, 21) == DC_RX_NEW);
  EXPECT(&s, DC_SEC, DC_FLAG_NOCACHE | DC_FLAG_RETX, 19);
  assert(data(&s, DC_SEC, 19) == DC_RX_NEW && dc_receiver_idle(s.r));
  assert(dc_receiver_refetch(s.r, 8, 8) == 0 && dc_receiver_refetch(s.r, 100, 8) == 0); /* nothing is missing */
  drop(&s);
}

static void a_late_bad_block_of_an_old_extent_is_fetched_again(void)
{
  enum { EXTENTS = 3 * DC_EXTENTS_MAX };
  struct side s = make(4 * EXTENTS, 32); /* two blocks of eight pieces take turns: odd ones come over another tree */
  for (uint32_t k = 0; k < EXTENTS; k++) {
    assert(assign(&s, 2 * k, 2, 4 * k) == 0);
    while (asked(s.r, k, in, 1) == 1)
      assert(data(&s, k, in[0].seq) == DC_RX_NEW);
    for (uint64_t p = 4 * k + 2; p < 4 * k + 4; p++)
      dc_pieces_add(s.pieces, p);
    if (k / 2 >= 5 && k % 2 == 1)
      dc_pieces_seal_block(s.pieces, k / 2); /* all but the first five blocks, as soon as they are whole */
  }
  assert(dc_pieces_whole(s.pieces) && dc_receiver_idle(s.r));
  for (uint32_t b = 0; b < 5; b++) {
    assert(dc_pieces_drop_block(s.pieces, b) == 8 && dc_receiver_refetch(s.r, 8 * b, 8) == 4);
    assert(dc_receiver_carries(s.r, 8 * b + 4) && !dc_receiver_carries(s.r, 8 * b + 3));
  }
  unsigned n = asked(s.r, DC_SEC, in, CAP);
  assert(n == 20);
  for (unsigned i = 0; i < n; i++)
    assert(in[i].flags == DC_FLAG_NOCACHE && data(&s, DC_SEC, in[i].seq) == DC_RX_NEW);
  assert(dc_receiver_idle(s.r) && !dc_receiver_carries(s.r, 40)); /* verified: forgotten */
  drop(&s);
}

static void more_bad_blocks_than_ranges_are_all_fetched_again(void)
{
  enum { BLOCKS = 200 };
  struct side s = make(8 * BLOCKS, 32);
  assert(assign(&s, 0, 8 * BLOCKS, 0) == 0);
  while (asked(s.r, 0, in, 1) == 1)
    assert(data(&s, 0, in[0].seq) == DC_RX_NEW);
  for (uint32_t b = 0; b < BLOCKS; b += 2) {
    uint32_t bad = b * 7 % BLOCKS; /* in no order */
    assert(dc_pieces_drop_block(s.pieces, bad) == 8 && dc_receiver_refetch(s.r, 8 * bad, 8) == 8);
  }
  unsigned fetched = 0;
  while (asked(s.r, DC_SEC, in, 1) == 1) {
    assert(in[0].flags == DC_FLAG_NOCACHE && data(&s, DC_SEC, in[0].seq) == DC_RX_NEW);
    fetched++;
  }
  assert(fetched == 8 * BLOCKS / 2 && dc_receiver_idle(s.r) && dc_pieces_whole(s.pieces));
  drop(&s);
}

static void a_cut_takes_back_what_was_not_delivered(void)
{
  struct side s = make(40, 8);
  assert(assign(&s, 0, 20, 0) == 0 && assign(&s, 20, 20, 20) == 0);
  EXPECT(&s, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7);
  assert(data(&s, 5, 0) == DC_RX_NEW);
  dc_receiver_cut(s.r, 5);
  dc_receiver_counters(s.r, &c);
  assert(c.outstanding == 4 && c.next_seq == 5);
  EXPECT_NOTHING(&s, 6);
  for (uint32_t q = 1; q < 5; q++)
    assert(data(&s, 7, q) == DC_RX_NEW);
  assert(dc_receiver_idle(s.r) && dc_receiver_next_wake(s.r) == DC_NEVER);
  assert(data(&s, 8, 5) == DC_RX_UNKNOWN && dc_pieces_held(s.pieces) == 5);
  dc_receiver_cut(s.r, 0);
  assert(assign(&s, 1000, 5, 30) == 0); /* after a whole cut the numbers start anew */
  EXPECT(&s, 9, 0, 1000, 1001, 1002, 1003, 1004);
  drop(&s);
}

static void a_cut_takes_back_what_was_asked_for_again(void)
{
  struct side s = make(40, 8);
  assert(assign(&s, 0, 20, 0) == 0);
  EXPECT(&s, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7);
  for (uint32_t q = 5; q < 8; q++)
    assert(data(&s, 5, q) == DC_RX_NEW);
  assert(asked(s.r, 5, in, CAP) == 8 && in[0].seq == 0 && in[0].flags == DC_FLAG_RETX); /* and 8, 9, 10 */
  dc_receiver_cut(s.r, 0);
  dc_receiver_counters(s.r, &c);
  assert(c.outstanding == 0 && dc_receiver_idle(s.r) && dc_receiver_next_wake(s.r) == DC_NEVER);
  EXPECT_NOTHING(&s, 100 * DC_SEC);
  drop(&s);
}

static void a_cut_ends_what_was_to_be_fetched_again(void)
{
  struct side s = make(24, 32);
  assert(assign(&s, 0, 24, 0) == 0 && asked(s.r, 0, in, CAP) == 24);
  for (uint32_t q = 0; q < 24; q++)
    assert(data(&s, 1, q) == DC_RX_NEW);
  for (uint32_t b = 0; b < 3; b++)
    assert(dc_pieces_drop_block(s.pieces, b) == 8 && dc_receiver_refetch(s.r, 8 * b, 8) == 8);
  dc_receiver_cut(s.r, 12); /* in the second block, before the third */
  assert(assign(&s, 18, 6, 18) == 0);
  unsigned n = asked(s.r, 2, in, CAP);
  assert(n == 18);
  for (unsigned i = 0; i < n; i++)
    assert(in[i].seq < 12 ? in[i].flags == DC_FLAG_NOCACHE : in[i].seq >= 18 && in[i].flags == 0);
  for (uint32_t q = 0; q < 12; q++)
    assert(data(&s, 3, q) == DC_RX_NEW);
  for (uint32_t q = 18; q < 24; q++)
    assert(data(&s, 3, q) == DC_RX_NEW);
  assert(dc_receiver_idle(s.r) && data(&s, 4, 12) == DC_RX_UNKNOWN);
  drop(&s);
}

static void who_leaves_a_tree_takes_what_still_comes_and_asks_for_nothing(void)
{
  struct side s = make(40, 8);
  assert(assign(&s, 0, 20, 0) == 0);
  EXPECT(&s, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7);
  for (uint32_t q = 0; q < 3; q++)
    assert(data(&s, 5, q) == DC_RX_NEW);
  dc_receiver_counters(s.r, &c);
  assert(c.low_seq <= 3);
  dc_receiver_leave(s.r);
  EXPECT_NOTHING(&s, 6);
  assert(data(&s, 7, 4) == DC_RX_NEW && data(&s, 7, 9) == DC_RX_UNKNOWN);
  assert(assign(&s, 20, 20, 20) == 0); /* another's */
  EXPECT_NOTHING(&s, 8);
  EXPECT_NOTHING(&s, 100 * DC_SEC); /* nor when a timer ends */
  dc_receiver_counters(s.r, &c);
  assert(c.outstanding == 0 && c.retransmitted == 0 && dc_receiver_next_wake(s.r) == DC_NEVER);
  drop(&s);
}

/* A member that was out of touch: it hears of what came after a cut, not of the cut. */
static void after_a_cut_numbers_go_on_above_a_gap(void)
{
  struct side told = make(40, 8), untold = make(40, 8);
  assert(assign(&told, 0, 20, 0) == 0 && assign(&untold, 0, 20, 0) == 0);
  EXPECT(&told, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7);
  asked(untold.r, 0, in, CAP);
  dc_receiver_cut(told.r, 4);
  assert(assign(&told, 1000000020, 20, 4) == 0 && assign(&untold, 1000000020, 20, 4) == 0);
  for (uint32_t q = 0; q < 4; q++)
    assert(data(&told, 10, q) == DC_RX_NEW && data(&untold, 10, q) == DC_RX_NEW);
  asked(untold.r, 10, in, CAP);
  EXPECT(&told, 10, 0, 1000000020, 1000000021, 1000000022, 1000000023, 1000000024, 1000000025, 1000000026, 1000000027);
  uint64_t piece;
  struct dc_header h = {.type = DC_TYPE_DATA, .length = PIECE, .seq = 1000000020};
  assert(dc_receiver_handle(told.r, 20, &h, &piece) == DC_RX_NEW && piece == 4);
  h.seq = 4; /* from a cache, or late: what it names is what it always named */
  assert(dc_receiver_handle(untold.r, 20, &h, &piece) == DC_RX_NEW && piece == 4);
  assert(dc_receiver_handle(told.r, 20, &h, &piece) == DC_RX_UNKNOWN);
  assert(!dc_receiver_idle(told.r));
  for (uint32_t q = 1000000021; q < 1000000040; q++) {
    assert(data(&told, 30, q) == DC_RX_NEW);
    asked(told.r, 30, in, CAP);
  }
  assert(dc_receiver_idle(told.r));
  drop(&told);
  drop(&untold);
}

static void a_restart_asks_for_everything_again(void)
{
  struct side s = make(40, 4);
  assert(assign(&s, 0, 40, 0) == 0);
  EXPECT(&s, 0, 0, 0, 1, 2, 3);
  assert(data(&s, 5, 1) == DC_RX_NEW);
  EXPECT(&s, 5, 0, 4);
  dc_receiver_restart(s.r, 10);
  assert(dc_receiver_next_wake(s.r) == 10);
  EXPECT(&s, 10, DC_FLAG_RETX, 0, 2, 3, 4);
  dc_receiver_counters(s.r, &c);
  assert(c.outstanding == 4 && c.by_gap == 0 && c.by_timeout == 0);
  drop(&s);
}

/* Before it the timer had run out, and one number was asked for again to see whether the path is slow. Of the other path that
 * says nothing: its timer doubles once for a flight. */
static void a_restart_forgets_that_the_path_was_being_tried(void)
{
  struct side s = make(10, 3);
  assert(assign(&s, 0, 3, 0) == 0);
  EXPECT(&s, 0, 0, 0, 1, 2);
  EXPECT(&s, 100 * DC_MS, DC_FLAG_RETX, 0);
  dc_receiver_restart(s.r, 150 * DC_MS);
  unsigned n = asked(s.r, 150 * DC_MS, in, 1);
  assert(n == 1 && asked(s.r, 240 * DC_MS, in, CAP) == 2);
  assert(asked(s.r, 250 * DC_MS, in, CAP) == 1); /* the first is late: 200 ms from now on */
  assert(asked(s.r, 440 * DC_MS, in, CAP) == 2); /* were sent before that: say nothing new */
  dc_receiver_counters(s.r, &c);
  assert(c.rto == 200 * DC_MS);
  drop(&s);
}

static void what_was_not_asked_for_yet_is_asked_for_in_its_turn_alone(void)
{
  struct side s = make(20, 4);
  assert(assign(&s, 0, 20, 0) == 0);
  EXPECT(&s, 0, 0, 0, 1, 2, 3);
  for (uint32_t q = 0; q < 4; q++)
    assert(data(&s, 10, q) == DC_RX_NEW);
  assert(dc_pieces_drop_block(s.pieces, 0) == 4);
  assert(dc_receiver_refetch(s.r, 0, 8) == 4); /* of eight that are missing */
  unsigned total = 0, again = 0;
  for (dc_time t = 11; t < 40; t++) {
    unsigned n = asked(s.r, t, in, CAP);
    for (unsigned k = 0; k < n; k++, total++) {
      assert((in[k].flags == DC_FLAG_NOCACHE) == (in[k].seq < 4));
      again += in[k].seq < 4;
      assert(data(&s, t, in[k].seq) == DC_RX_NEW);
    }
  }
  assert(again == 4 && total == 20 && dc_receiver_idle(s.r));
  drop(&s);
}

static enum dc_rx_result repaired(struct side *s, dc_time now, uint32_t seq)
{
  struct dc_header h = {.type = DC_TYPE_DATA, .flags = DC_FLAG_DUP, .length = PIECE, .tree = 1, .seq = seq};
  uint64_t piece;
  return dc_receiver_handle(s->r, now, &h, &piece);
}

/* New numbers wait for seconds at a source whose front waits for this receiver; what is asked again is answered before them. */
static void repairs_have_a_timer_of_their_own_where_new_numbers_wait(void)
{
  struct side s = make(400, 5);
  assert(assign(&s, 0, 400, 0) == 0);
  dc_time now = 0, trip = 50 * DC_MS;
  uint32_t q = 0;
  assert(asked(s.r, now, in, CAP) == 5);
  for (; q < 120; q++) {
    now += trip / 5;
    assert(data(&s, now, q) == DC_RX_NEW);
    EXPECT(&s, now, 0, q + 5);
    trip = trip < 2 * DC_SEC ? trip * 105 / 100 : 2 * DC_SEC;
  }
  dc_receiver_counters(s.r, &c);
  assert(c.rto > 2 * DC_SEC);
  for (uint32_t lost = 120; lost <= 124; lost += 4) {
    for (q = lost + 1; q <= lost + 3; q++) {
      now += 10 * DC_MS;
      assert(data(&s, now, q) == DC_RX_NEW);
      unsigned n = asked(s.r, now, in, CAP);
      assert(n >= 1 && (in[0].flags == DC_FLAG_RETX) == (q == lost + 3));
    }
    if (lost == 120)
      assert(repaired(&s, now + 20 * DC_MS, lost) == DC_RX_NEW); /* 20 ms, give or take 10 */
  }
  assert(dc_receiver_next_wake(s.r) == now + 60 * DC_MS);
  EXPECT(&s, now + 60 * DC_MS, DC_FLAG_RETX, 124);
  assert(dc_receiver_next_wake(s.r) == now + 180 * DC_MS); /* its timer has doubled, the other one's not */
  dc_receiver_counters(s.r, &c);
  assert(c.rto > 2 * DC_SEC && c.rto < 4 * DC_SEC);
  drop(&s);
}

int main(void)
{
  repairs_have_a_timer_of_their_own_where_new_numbers_wait();
  what_was_not_asked_for_yet_is_asked_for_in_its_turn_alone();
  a_bad_block_is_fetched_past_the_caches();
  a_late_bad_block_of_an_old_extent_is_fetched_again();
  more_bad_blocks_than_ranges_are_all_fetched_again();
  a_cut_takes_back_what_was_not_delivered();
  a_cut_takes_back_what_was_asked_for_again();
  a_cut_ends_what_was_to_be_fetched_again();
  who_leaves_a_tree_takes_what_still_comes_and_asks_for_nothing();
  after_a_cut_numbers_go_on_above_a_gap();
  a_restart_asks_for_everything_again();
  a_restart_forgets_that_the_path_was_being_tried();
  puts("receiver again ok");
  return 0;
}
