/* What a receiver asks for, and when it wakes, to the number and the nanosecond. */
#include <errno.h>
#include <stdio.h>

#include "receivers.h"

/* Packets come one by one. Returns how many numbers the longest interest among them is for. */
static unsigned longest(struct side *s, unsigned packets)
{
  unsigned most = 0;
  dc_time now = 0;
  (void)dc_receiver_poll(s->r, now, in, CAP);
  for (uint32_t seq = 0; seq < packets; seq++) {
    assert(data(s, now += 10 * DC_US, seq) == DC_RX_NEW);
    unsigned n = dc_receiver_poll(s->r, now, in, CAP);
    for (unsigned i = 0; i < n; i++)
      most = in[i].more + 1u > most ? in[i].more + 1u : most;
  }
  return most;
}

static void a_batch_is_half_of_the_credits_and_eight_numbers_at_most(void)
{
  static const uint32_t row[][3] = {{8, 8, 4}, {7, 8, 3}, {3, 8, 1}, {1, 8, 1}, {4, 2, 2}, {64, 9, 8}, {64, 0, 1}};
  for (unsigned i = 0; i < sizeof row / sizeof row[0]; i++) {
    struct side s = make_asking(3000, row[i][0], 3, row[i][1]);
    assert(assign(&s, 0, 3000, 0) == 0 && longest(&s, 256 * 9) == row[i][2]);
    drop(&s);
  }
}

/* From the first question on, however often it was asked since. */
static void how_long_an_answer_took_is_reckoned_from_the_first_question(void)
{
  struct side s = make(10, 1);
  assert(assign(&s, 0, 10, 0) == 0);
  EXPECT(&s, 0, 0, 0);
  EXPECT(&s, 100 * DC_MS, DC_FLAG_RETX, 0);
  EXPECT(&s, 300 * DC_MS, DC_FLAG_RETX, 0);
  assert(data(&s, 420 * DC_MS, 0) == DC_RX_NEW);
  EXPECT(&s, 420 * DC_MS, 0, 1);
  assert(dc_receiver_next_wake(s.r) == 820 * DC_MS);
  EXPECT(&s, 820 * DC_MS, DC_FLAG_RETX, 1);
  assert(dc_receiver_next_wake(s.r) == 1620 * DC_MS); /* beyond the usual bound, as it took 420 ms */
  EXPECT(&s, 1620 * DC_MS, DC_FLAG_RETX, 1);
  assert(dc_receiver_next_wake(s.r) == 2460 * DC_MS); /* twice as long as that, no more */
  drop(&s);
}

/* The path is known: once one that was asked for again has come, the others have as long as it takes. */
static void what_is_lost_with_all_others_is_asked_for_after_a_round_trip(void)
{
  struct side s = make(20, 4);
  assert(assign(&s, 0, 20, 0) == 0);
  EXPECT(&s, 0, 0, 0, 1, 2, 3);
  for (uint32_t q = 0; q < 4; q++)
    assert(data(&s, 50 * DC_MS, q) == DC_RX_NEW);
  EXPECT(&s, 50 * DC_MS, 0, 4, 5, 6, 7);
  dc_receiver_counters(s.r, &c);
  assert(c.srtt == 50 * DC_MS);
  dc_time at = 50 * DC_MS + c.rto;
  assert(dc_receiver_next_wake(s.r) == at);
  EXPECT_NOTHING(&s, at - 1);
  EXPECT(&s, at, DC_FLAG_RETX, 4);
  at += 30 * DC_MS;
  assert(data(&s, at, 4) == DC_RX_NEW);
  EXPECT(&s, at, 0, 8);
  assert(dc_receiver_next_wake(s.r) == at + 50 * DC_MS);
  EXPECT_NOTHING(&s, at + 50 * DC_MS - 1);
  EXPECT(&s, at + 50 * DC_MS, DC_FLAG_RETX, 5, 6, 7);
  dc_receiver_counters(s.r, &c);
  assert(c.by_timeout == 4 && c.retransmitted == 4 && c.by_gap == 0 && c.interests == 13);
  drop(&s);
}

/* What was asked for at the moment when the timer ended is as new as what is asked for later. */
static void what_was_asked_for_when_the_timer_ended_is_not_lost_with_the_others(void)
{
  struct side s = make(20, 4);
  assert(assign(&s, 0, 20, 0) == 0);
  for (uint32_t q = 0; q < 3; q++)
    assert(asked(s.r, 0, in, 1) == 1 && in[0].seq == q);
  assert(asked(s.r, 100 * DC_MS, in, CAP) == 2 && in[0].flags == DC_FLAG_RETX && in[1].seq == 3);
  assert(data(&s, 110 * DC_MS, 0) == DC_RX_NEW);
  EXPECT(&s, 110 * DC_MS, 0, 4);
  EXPECT_NOTHING(&s, 210 * DC_MS - 1);
  EXPECT(&s, 210 * DC_MS, DC_FLAG_RETX, 1, 2);
  drop(&s);
}

/* Had one of the others come, too, they are late and no more. */
static void what_is_late_waits_for_the_timer_alone(void)
{
  struct side s = make(20, 4);
  assert(assign(&s, 0, 20, 0) == 0);
  EXPECT(&s, 0, 0, 0, 1, 2, 3);
  EXPECT(&s, 100 * DC_MS, DC_FLAG_RETX, 0);
  assert(data(&s, 110 * DC_MS, 0) == DC_RX_NEW);
  EXPECT(&s, 110 * DC_MS, 0, 4);
  assert(dc_receiver_next_wake(s.r) == 210 * DC_MS); /* half of the timer, of a path that is not known */
  assert(data(&s, 120 * DC_MS, 1) == DC_RX_NEW);
  EXPECT(&s, 120 * DC_MS, 0, 5);
  dc_receiver_counters(s.r, &c);
  assert(c.srtt == 120 * DC_MS && dc_receiver_next_wake(s.r) == 100 * DC_MS + c.rto);
  drop(&s);
}

static void who_has_left_waits_for_what_is_out_and_no_longer(void)
{
  struct side s = make(20, 4);
  assert(assign(&s, 0, 20, 0) == 0);
  EXPECT(&s, 0, 0, 0, 1, 2, 3);
  EXPECT(&s, 100 * DC_MS, DC_FLAG_RETX, 0);
  dc_receiver_leave(s.r);
  assert(dc_receiver_next_wake(s.r) == 200 * DC_MS);
  EXPECT_NOTHING(&s, 200 * DC_MS);
  dc_receiver_counters(s.r, &c);
  assert(c.outstanding == 1 && c.by_timeout == 4 && !dc_receiver_idle(s.r));
  EXPECT_NOTHING(&s, 1000 * DC_MS);
  dc_receiver_counters(s.r, &c);
  assert(c.outstanding == 0 && c.by_timeout == 5 && dc_receiver_next_wake(s.r) == DC_NEVER && dc_receiver_idle(s.r));
  drop(&s);
}

static void all_held(struct side *s, uint32_t count)
{
  assert(assign(s, 0, count, 0) == 0 && asked(s->r, 0, in, CAP) == count);
  for (uint32_t q = 0; q < count; q++)
    assert(data(s, 1, q) == DC_RX_NEW);
}

/* Who fetches a bad block again asks until it has it, gone or not. */
static void who_has_left_still_fetches_again_what_was_bad(void)
{
  struct side s = make(16, 4);
  assert(assign(&s, 0, 16, 0) == 0);
  EXPECT(&s, 0, 0, 0, 1, 2, 3);
  assert(data(&s, 1, 0) == DC_RX_NEW && data(&s, 1, 1) == DC_RX_NEW);
  assert(dc_pieces_drop_block(s.pieces, 0) == 2 && dc_receiver_refetch(s.r, 0, 2) == 2);
  EXPECT(&s, 2, DC_FLAG_NOCACHE, 0, 1);
  dc_receiver_leave(s.r);
  EXPECT(&s, DC_SEC, DC_FLAG_NOCACHE | DC_FLAG_RETX, 0, 1);
  assert(data(&s, DC_SEC, 0) == DC_RX_NEW && data(&s, DC_SEC, 1) == DC_RX_NEW);
  dc_receiver_counters(s.r, &c);
  assert(c.outstanding == 0 && dc_receiver_idle(s.r) && dc_receiver_next_wake(s.r) == DC_NEVER);
  drop(&s);
}

/* Also with what is fetched again, when nothing is left behind it. */
static void the_last_of_what_is_fetched_again_says_so(void)
{
  struct side s = make(16, 32);
  all_held(&s, 16);
  assert(dc_pieces_drop_block(s.pieces, 0) == 8 && dc_receiver_refetch(s.r, 0, 8) == 8);
  assert(dc_receiver_next_wake(s.r) == 1);
  assert(dc_receiver_poll(s.r, 2, in, 1) == 1 && in[0].seq == 0 && in[0].flags == DC_FLAG_NOCACHE);
  assert(dc_receiver_next_wake(s.r) == 2); /* more is to be fetched */
  assert(dc_receiver_poll(s.r, 3, in, CAP) == 1 && in[0].seq == 1 && in[0].more == 6);
  assert(in[0].flags == (DC_FLAG_NOCACHE | DC_FLAG_LAST));
  dc_receiver_counters(s.r, &c);
  assert(c.interests == 24 && c.retransmitted == 0 && c.outstanding == 8 && dc_receiver_next_wake(s.r) > 3);
  drop(&s);
}

/* What is out already is not fetched a second time, nor more than there are credits for. */
static void what_is_fetched_again_keeps_to_the_credits(void)
{
  struct side s = make(16, 4);
  assert(assign(&s, 0, 16, 0) == 0);
  EXPECT(&s, 0, 0, 0, 1, 2, 3);
  for (uint32_t q = 0; q < 3; q++)
    assert(data(&s, 1, q) == DC_RX_NEW);
  assert(dc_pieces_drop_block(s.pieces, 0) == 3 && dc_receiver_refetch(s.r, 0, 8) == 4);
  EXPECT(&s, 2, DC_FLAG_NOCACHE, 0, 1, 2); /* 3 is out */
  assert(dc_receiver_next_wake(s.r) > 2);
  assert(dc_receiver_refetch(s.r, 1, 1) == 1);
  EXPECT_NOTHING(&s, 3);
  assert(data(&s, 4, 3) == DC_RX_NEW && data(&s, 4, 0) == DC_RX_NEW);
  EXPECT(&s, 4, 0, 4, 5);
  drop(&s);
}

/* Each part of an extent that was asked for already, and no number of another one. */
static void what_is_fetched_again_is_what_is_missing_of_each_extent(void)
{
  for (uint32_t first = 0; first < 24; first++)
    for (uint32_t count = 1; first + count <= 24; count++) {
      struct side s = make(24, 32);
      assert(assign(&s, 100, 8, 4) == 0 && assign(&s, 200, 6, 14) == 0); /* pieces 4 to 11 and 14 to 19 */
      assert(asked(s.r, 0, in, CAP) == 14);
      for (unsigned i = 0; i < 14; i++)
        assert(data(&s, 1, i < 8 ? 100 + i : 192 + i) == DC_RX_NEW);
      uint32_t missing = 0;
      for (uint32_t b = 0; b < 3; b++)
        dc_pieces_drop_block(s.pieces, b);
      for (uint32_t p = first; p < first + count; p++) {
        bool carried = (p >= 4 && p < 12) || (p >= 14 && p < 20);
        missing += carried;
        assert(dc_receiver_carries(s.r, p) == carried);
      }
      assert(dc_receiver_refetch(s.r, first, count) == missing);
      unsigned n = asked(s.r, 2, in, CAP);
      assert(n == missing);
      for (unsigned i = 0; i < n; i++) {
        uint64_t p = in[i].seq < 200 ? in[i].seq - 96 : in[i].seq - 186;
        assert(in[i].flags == DC_FLAG_NOCACHE && p >= first && p < first + count && !dc_pieces_has(s.pieces, p));
      }
      drop(&s);
    }
}

/* As many blocks as there are ranges to fetch again, and one or two more. */
static void each_bad_block_is_fetched_again_whole_however_many(void)
{
  for (uint32_t bad = 63; bad <= 66; bad++) {
    struct side s = make(8 * 200, 2000);
    all_held(&s, 8 * 200);
    for (uint32_t b = 0; b < bad; b++)
      assert(dc_pieces_drop_block(s.pieces, 3 * b) == 8 && dc_receiver_refetch(s.r, 24 * b, 8) == 8);
    for (unsigned fetched = 0; fetched < 8 * bad; fetched++) {
      assert(asked(s.r, 2, in, 1) == 1 && in[0].flags == DC_FLAG_NOCACHE);
      assert(data(&s, 2, in[0].seq) == DC_RX_NEW);
    }
    EXPECT_NOTHING(&s, 2);
    assert(dc_pieces_whole(s.pieces) && dc_receiver_idle(s.r));
    drop(&s);
  }
}

/* Of as many extents as are remembered the first is not over. */
static void an_extent_of_which_something_is_out_is_not_forgotten(void)
{
  struct side s = make(2 * DC_EXTENTS_MAX, 8);
  for (uint32_t k = 0; k < DC_EXTENTS_MAX; k++) {
    assert(assign(&s, 2 * k, 2, 2 * k) == 0);
    (void)asked(s.r, 1, in, CAP);
    for (uint32_t q = 2 * k; q < 2 * k + 2; q++)
      assert(q == 1 || data(&s, 1, q) == DC_RX_NEW);
  }
  (void)asked(s.r, 1, in, CAP);
  assert(assign(&s, 2 * DC_EXTENTS_MAX, 1, 0) == -ENOSPC);
  assert(data(&s, 2, 1) == DC_RX_NEW);
  EXPECT_NOTHING(&s, 2);
  assert(assign(&s, 2 * DC_EXTENTS_MAX, 1, 0) == 0 && !dc_receiver_carries(s.r, 1) && dc_receiver_carries(s.r, 2));
  drop(&s);
}

/* What is new takes 300 ms, what is asked for again `took`. How long does the second such number's timer last? */
static dc_time ends_after(dc_time took)
{
  struct side s = make(40, 5);
  assert(assign(&s, 0, 40, 0) == 0 && asked(s.r, 0, in, CAP) == 5);
  assert(data(&s, 300 * DC_MS, 0) == DC_RX_NEW);
  for (uint32_t q = 2; q < 5; q++)
    assert(data(&s, 300 * DC_MS, q) == DC_RX_NEW);
  assert(asked(s.r, 300 * DC_MS, in, CAP) == 5 && in[0].seq == 1 && in[0].flags == DC_FLAG_RETX);
  struct dc_header h = {.type = DC_TYPE_DATA, .flags = DC_FLAG_DUP, .length = PIECE, .tree = 1, .seq = 1};
  uint64_t piece;
  assert(dc_receiver_handle(s.r, 300 * DC_MS + took, &h, &piece) == DC_RX_NEW);
  EXPECT(&s, 300 * DC_MS + took, 0, 9);
  for (uint32_t q = 6; q < 9; q++)
    assert(data(&s, 600 * DC_MS, q) == DC_RX_NEW);
  assert(asked(s.r, 600 * DC_MS, in, CAP) == 4 && in[0].seq == 5 && in[0].flags == DC_FLAG_RETX);
  dc_receiver_counters(s.r, &c);
  assert(c.rto == 600 * DC_MS);
  dc_time at = dc_receiver_next_wake(s.r) - 600 * DC_MS;
  drop(&s);
  return at;
}

/* Else the two timers are one. */
static void what_is_asked_for_again_has_its_timer_where_that_is_shorter_than_an_eighth(void)
{
  assert(ends_after(24 * DC_MS) == 72 * DC_MS);
  assert(ends_after(25 * DC_MS) > 75 * DC_MS);
}

/* All that was asked for comes in its turn but one, which the timer alone finds. Then what has credits goes at once. */
static void a_timer_that_ends_while_packets_come_ends_batches(void)
{
  struct side s = make_asking(8000, 16, 1000000, 4);
  static uint32_t queue[9000];
  uint32_t from = 0, to = 0, lost = UINT32_MAX;
  dc_time now = 0;
  assert(assign(&s, 0, 8000, 0) == 0);
  unsigned most = 0, since = 0;
  do {
    unsigned n = dc_receiver_poll(s.r, now, in, CAP);
    for (unsigned i = 0; i < n; i++) {
      since += since > 0 || (lost != UINT32_MAX && in[i].seq == lost);
      most = since > 3 && in[i].more + 1u > most ? in[i].more + 1u : most;
      for (uint32_t k = 0; k <= in[i].more; k++)
        queue[to++] = in[i].seq + k;
    }
    if (from == 1500)
      lost = queue[from++];
    now += 10 * DC_US;
    (void)data(&s, now, queue[from++]);
  } while (since < 100);
  dc_receiver_counters(s.r, &c);
  assert(most == 1 && c.by_timeout == 1 && c.by_gap == 0);
  drop(&s);
}

/* It sleeps where it may ask for no more. */
static void who_has_come_as_far_as_it_may_waits_for_the_first(void)
{
  struct side s = make(DC_RECEIVER_REACH + 100, 16);
  assert(assign(&s, 0, DC_RECEIVER_REACH + 100, 0) == 0);
  dc_time t = 0;
  for (unsigned n = 1; n > 0; t++) {
    n = asked(s.r, t, in, CAP);
    for (unsigned k = 0; k < n; k++)
      assert(in[k].seq == 0 || data(&s, t, in[k].seq) == DC_RX_NEW);
  }
  dc_receiver_counters(s.r, &c);
  assert(c.next_seq == DC_RECEIVER_REACH && c.low_seq == 0 && dc_receiver_next_wake(s.r) > t);
  drop(&s);
}

/* Though it was not asked since: others brought it, whichever came last. */
static void who_has_all_is_idle_before_it_asks(void)
{
  for (uint64_t last = 0; last < 24; last++) {
    struct side s = make(24, 4);
    assert(assign(&s, 10, 12, 0) == 0 && assign(&s, 30, 12, 12) == 0 && !dc_receiver_idle(s.r));
    for (uint64_t p = 1; p <= 24; p++) {
      assert(!dc_receiver_idle(s.r));
      dc_pieces_add(s.pieces, (p + last) % 24);
    }
    assert(dc_receiver_idle(s.r));
    EXPECT_NOTHING(&s, 1);
    assert(dc_receiver_idle(s.r) && dc_receiver_next_wake(s.r) == DC_NEVER);
    dc_receiver_counters(s.r, &c);
    assert(c.next_seq == 42 && c.low_seq == 42 && c.interests == 0);
    drop(&s);
  }
}

/* Of what is to be fetched again all, a part, or nothing is left. */
static void a_cut_leaves_of_what_is_fetched_again_what_stands_before_it(void)
{
  for (uint32_t cut = 7; cut <= 17; cut++) {
    struct side s = make(24, 32);
    all_held(&s, 24);
    assert(dc_pieces_drop_block(s.pieces, 1) == 8 && dc_receiver_refetch(s.r, 8, 8) == 8);
    dc_receiver_cut(s.r, cut);
    assert(dc_receiver_idle(s.r) == (cut <= 8));
    unsigned left = cut <= 8 ? 0 : cut >= 16 ? 8 : cut - 8;
    assert(asked(s.r, 2, in, CAP) == left && (left == 0 || (in[0].seq == 8 && in[left - 1].seq == 7 + left)));
    dc_receiver_counters(s.r, &c);
    assert(c.next_seq == cut && c.low_seq <= cut);
    drop(&s);
  }
}

static void what_was_refused_moves_nothing(void)
{
  struct side s = make(24, 4);
  assert(assign(&s, 1000, 0, 0) < 0 && assign(&s, 0, 8, 0) == 0);
  EXPECT(&s, 0, 0, 0, 1, 2, 3);
  drop(&s);
}

static void what_comes_damaged_is_counted_whoever_asked(void)
{
  struct side s = make(10, 4);
  struct dc_header h = {.type = DC_TYPE_DATA, .length = PIECE + 1, .seq = 0};
  uint64_t piece;
  assert(assign(&s, 0, 10, 0) == 0);
  EXPECT(&s, 0, 0, 0, 1, 2, 3);
  assert(data(&s, 1, 0) == DC_RX_NEW);
  assert(dc_receiver_handle(s.r, 1, &h, &piece) == DC_RX_LENGTH); /* of what it has */
  EXPECT(&s, 1, 0, 4);
  h.seq = 9;
  assert(dc_receiver_handle(s.r, 1, &h, &piece) == DC_RX_UNASKED);
  h.seq = 2;
  assert(dc_receiver_handle(s.r, 1, &h, &piece) == DC_RX_LENGTH);
  dc_receiver_counters(s.r, &c);
  assert(c.bad_length == 2 && c.unasked == 1 && c.data == 1 && c.outstanding == 4 && c.by_gap == 0);
  assert(dc_receiver_next_wake(s.r) == 1);
  EXPECT(&s, 2, DC_FLAG_RETX | DC_FLAG_NOCACHE, 2);
  drop(&s);
}

int main(void)
{
  a_batch_is_half_of_the_credits_and_eight_numbers_at_most();
  how_long_an_answer_took_is_reckoned_from_the_first_question();
  what_is_lost_with_all_others_is_asked_for_after_a_round_trip();
  what_was_asked_for_when_the_timer_ended_is_not_lost_with_the_others();
  who_has_left_still_fetches_again_what_was_bad();
  what_is_late_waits_for_the_timer_alone();
  who_has_left_waits_for_what_is_out_and_no_longer();
  the_last_of_what_is_fetched_again_says_so();
  what_is_fetched_again_keeps_to_the_credits();
  what_is_fetched_again_is_what_is_missing_of_each_extent();
  each_bad_block_is_fetched_again_whole_however_many();
  an_extent_of_which_something_is_out_is_not_forgotten();
  what_is_asked_for_again_has_its_timer_where_that_is_shorter_than_an_eighth();
  a_timer_that_ends_while_packets_come_ends_batches();
  who_has_come_as_far_as_it_may_waits_for_the_first();
  who_has_all_is_idle_before_it_asks();
  a_cut_leaves_of_what_is_fetched_again_what_stands_before_it();
  what_was_refused_moves_nothing();
  what_comes_damaged_is_counted_whoever_asked();
  puts("receiver's moments ok");
  return 0;
}
