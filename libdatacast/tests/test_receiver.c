/* What a receiver asks for and when: credits, loss by gap, RTO, reach. */
#include <stdio.h>

#include "receivers.h"

static void credits_bound_what_is_out(void)
{
  struct side s = make(20, 4);
  assert(dc_receiver_idle(s.r) && dc_receiver_next_wake(s.r) == DC_NEVER);
  EXPECT_NOTHING(&s, 0);
  assert(assign(&s, 50, 10, 3) == 0 && assign(&s, 50, 10, 3) == 0 && assign(&s, 59, 2, 0) < 0);
  assert(!dc_receiver_idle(s.r));
  EXPECT(&s, 0, 0, 50, 51, 52, 53);
  EXPECT_NOTHING(&s, 1);
  uint64_t piece = 0;
  struct dc_header h = {.type = DC_TYPE_DATA, .length = PIECE, .seq = 50};
  assert(dc_receiver_handle(s.r, 100, &h, &piece) == DC_RX_NEW && piece == 3 && dc_pieces_has(s.pieces, 3));
  EXPECT(&s, 100, 0, 54);
  for (uint32_t q = 51; q < 60; q++) {
    assert(data(&s, 100 + q, q) == DC_RX_NEW);
    unsigned n = asked(s.r, 100 + q, in, CAP);
    assert(n == (q + 4 <= 59 ? 1u : 0u));
  }
  assert(dc_receiver_idle(s.r) && dc_receiver_next_wake(s.r) == DC_NEVER);
  dc_receiver_counters(s.r, &c);
  assert(c.interests == 10 && c.retransmitted == 0 && c.data == 10 && c.outstanding == 0 && c.next_seq == 60);
  assert(assign(&s, 60, 2, 13) == 0 && !dc_receiver_idle(s.r));
  EXPECT(&s, 500, 0, 60, 61);
  drop(&s);
}

static void low_is_the_first_number_that_is_out(void)
{
  struct side s = make(20, 4);
  assert(assign(&s, 0, 20, 0) == 0);
  EXPECT(&s, 0, 0, 0, 1, 2, 3);
  static const uint32_t comes[] = {2, 0, 1, 4, 3}, low[] = {0, 1, 3, 3, 5};
  for (unsigned i = 0; i < 5; i++) {
    assert(data(&s, DC_US, comes[i]) == DC_RX_NEW && asked(s.r, DC_US, in, CAP) == 1);
    dc_receiver_counters(s.r, &c);
    assert(c.low_seq == low[i]);
  }
  drop(&s);
}

static void numbers_in_a_row_go_into_one_interest(void)
{
  struct side s = make(300, 200);
  dc_pieces_add(s.pieces, 5);
  assert(assign(&s, 1000, 300, 0) == 0);
  assert(dc_receiver_poll(s.r, 0, in, CAP) == 5);
  assert(in[0].seq == 1000 && in[0].more == 4 && in[0].flags == 0); /* 1005 is held */
  assert(in[1].seq == 1006 && in[1].more == DC_RANGE_MORE_MAX);
  assert(in[2].seq == 1070 && in[2].more == DC_RANGE_MORE_MAX);
  assert(in[3].seq == 1134 && in[3].more == DC_RANGE_MORE_MAX);
  assert(in[4].seq == 1198 && in[4].more == 2); /* 200 credits in all */
  dc_receiver_counters(s.r, &c);
  assert(c.interests == 200 && c.outstanding == 200);

  /* Asked again, too; what is asked for first and again never stand in one. */
  for (uint32_t q = 1003; q < 1201; q++)
    if (q != 1005 && q != 1050)
      data(&s, DC_MS, q);
  unsigned n = dc_receiver_poll(s.r, DC_MS, in, CAP);
  assert(n >= 2 && in[0].seq == 1000 && in[0].more == 2 && in[0].flags == DC_FLAG_RETX);
  assert(in[1].seq == 1050 && in[1].more == 0 && in[1].flags == DC_FLAG_RETX);
  assert(in[2].seq == 1201 && in[2].flags == 0);
  drop(&s);
}

/* Behind its last number are others' extents, of which it holds all, and then one more of its own. */
static void the_last_interest_says_so(void)
{
  struct side s = make(100, 4);
  for (uint64_t piece = 6; piece < 40; piece++)
    dc_pieces_add(s.pieces, piece);
  assert(assign(&s, 0, 40, 0) == 0);
  assert(dc_receiver_poll(s.r, 0, in, CAP) == 1 && in[0].more == 3 && in[0].flags == 0);
  data(&s, 1, 0);
  assert(dc_receiver_poll(s.r, 1, in, CAP) == 1 && in[0].seq == 4 && in[0].flags == 0);
  data(&s, 2, 1);
  assert(dc_receiver_poll(s.r, 2, in, CAP) == 1 && in[0].seq == 5 && in[0].flags == DC_FLAG_LAST); /* credits are out */
  data(&s, 3, 2);
  assert(dc_receiver_poll(s.r, 3, in, CAP) == 0);
  assert(assign(&s, 40, 60, 40) == 0);
  assert(dc_receiver_poll(s.r, 4, in, CAP) == 1 && in[0].seq == 40 && in[0].flags == 0);
  drop(&s);
}

/* Packets come one by one, and each that is asked for comes sixteen later. Returns the longest interest of them. */
static unsigned longest(struct side *s, dc_time *now, uint32_t *seq, unsigned packets)
{
  unsigned most = 0;
  for (unsigned k = 0; k < packets; k++) {
    data(s, *now += 10 * DC_US, (*seq)++);
    unsigned n = dc_receiver_poll(s->r, *now, in, CAP);
    assert(n <= 1);
    most = n > 0 && in[0].more + 1u > most ? in[0].more + 1u : most;
  }
  return most;
}

static void who_gets_packets_steadily_asks_in_batches(void)
{
  struct side s = make_asking(20000, 16, 3, 4);
  assert(assign(&s, 2, 20000, 0) == 0);
  dc_time now = 0;
  uint32_t seq = 2;
  assert(dc_receiver_poll(s.r, now, in, CAP) == 1 && in[0].more == 15);
  assert(longest(&s, &now, &seq, 200) == 1);
  assert(longest(&s, &now, &seq, 256) == 2);
  assert(longest(&s, &now, &seq, 256) == 3);
  assert(longest(&s, &now, &seq, 1000) == 4);
  /* All begin at the same numbers, and fill the credits. */
  while (dc_receiver_poll(s.r, now, in, CAP) == 0)
    data(&s, now += 10 * DC_US, seq++);
  assert(in[0].seq % 4 == 0 && in[0].more == 3 && in[0].seq + 4 - seq == 16);
  /* What is lost is asked for at once, and then each alone. */
  uint32_t lost = seq++;
  for (unsigned k = 0; k < 3; k++)
    data(&s, now += 10 * DC_US, seq++);
  assert(dc_receiver_poll(s.r, now, in, CAP) == 2 && in[0].seq == lost && in[0].more == 0 &&
         in[0].flags == DC_FLAG_RETX);
  data(&s, now += 10 * DC_US, lost);
  dc_receiver_poll(s.r, now, in, CAP);
  assert(longest(&s, &now, &seq, 200) == 1);
  /* So it is after a pause. */
  assert(longest(&s, &now, &seq, 2000) == 4);
  now += 5 * DC_MS;
  data(&s, now, seq++);
  dc_receiver_poll(s.r, now, in, CAP);
  assert(longest(&s, &now, &seq, 200) == 1);
  /* And after a timeout. */
  assert(longest(&s, &now, &seq, 2000) == 4);
  now = dc_receiver_next_wake(s.r);
  assert(dc_receiver_poll(s.r, now, in, CAP) >= 1 && in[0].flags == DC_FLAG_RETX);
  data(&s, now += 10 * DC_US, seq++);
  dc_receiver_poll(s.r, now, in, CAP);
  assert(longest(&s, &now, &seq, 200) == 1);
  drop(&s);
}

static void the_last_batch_is_what_is_left(void)
{
  struct side s = make_asking(2002, 16, 3, 4);
  assert(assign(&s, 0, 2002, 0) == 0);
  dc_time now = 0;
  uint32_t seq = 0;
  dc_receiver_poll(s.r, now, in, CAP);
  longest(&s, &now, &seq, 1980);
  while (in[0].seq < 2000)
    longest(&s, &now, &seq, 1);
  assert(in[0].seq == 2000 && in[0].more == 1 && in[0].flags == DC_FLAG_LAST);
  drop(&s);
}

static void what_was_not_asked_for_is_not_taken(void)
{
  struct side s = make(20, 4);
  assert(assign(&s, 0, 20, 0) == 0);
  EXPECT(&s, 0, 0, 0, 1, 2, 3);
  assert(data(&s, 10, 4) == DC_RX_UNASKED && data(&s, 10, 19) == DC_RX_UNASKED); /* planted ahead of time */
  assert(!dc_pieces_has(s.pieces, 4) && !dc_pieces_has(s.pieces, 19));
  assert(data(&s, 20, 0) == DC_RX_NEW && data(&s, 20, 0) == DC_RX_DUPLICATE);
  EXPECT(&s, 20, 0, 4);
  assert(data(&s, 30, 4) == DC_RX_NEW);
  dc_receiver_counters(s.r, &c);
  assert(c.unasked == 2 && c.data == 3 && c.duplicates == 1);

  /* One that was asked for twice is answered twice at worst; what was cut off is not taken any more. */
  EXPECT(&s, 40, 0, 5);
  dc_receiver_restart(s.r, 40);
  EXPECT(&s, 40, DC_FLAG_RETX, 1, 2, 3, 5);
  assert(data(&s, 50, 1) == DC_RX_NEW && data(&s, 50, 1) == DC_RX_DUPLICATE);
  dc_receiver_cut(s.r, 2);
  assert(data(&s, 60, 2) == DC_RX_UNKNOWN);
  drop(&s);
}

static void what_is_held_is_not_asked_for(void)
{
  struct side s = make(12, 16);
  for (uint64_t k = 0; k < 12; k++)
    if (k % 3 != 1)
      dc_pieces_add(s.pieces, k);
  assert(assign(&s, 0, 12, 0) == 0);
  EXPECT(&s, 0, 0, 1, 4, 7, 10);
  dc_pieces_add(s.pieces, 4); /* another tree was faster: not asked for again */
  assert(data(&s, 10, 7) == DC_RX_NEW);
  EXPECT(&s, 100 * DC_MS, DC_FLAG_RETX, 1);
  assert(data(&s, 101 * DC_MS, 1) == DC_RX_NEW);
  EXPECT(&s, 102 * DC_MS, DC_FLAG_RETX, 10);
  assert(data(&s, 103 * DC_MS, 10) == DC_RX_NEW);
  EXPECT_NOTHING(&s, 103 * DC_MS);
  assert(dc_receiver_idle(s.r) && dc_pieces_whole(s.pieces));
  assert(data(&s, 104 * DC_MS, 4) == DC_RX_DUPLICATE);
  drop(&s);
}

static void three_later_packets_make_a_loss_once(void)
{
  struct side s = make(40, 8);
  assert(assign(&s, 0, 40, 0) == 0);
  EXPECT(&s, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7);
  assert(data(&s, 1 * DC_MS, 1) == DC_RX_NEW && data(&s, 1 * DC_MS, 2) == DC_RX_NEW);
  EXPECT(&s, 1 * DC_MS, 0, 8, 9);
  assert(data(&s, 2 * DC_MS, 3) == DC_RX_NEW);
  unsigned n = asked(s.r, 2 * DC_MS, in, CAP);
  assert(n == 2 && in[0].seq == 0 && in[0].flags == DC_FLAG_RETX && in[1].seq == 10 && in[1].flags == 0);
  dc_time t = 2 * DC_MS;
  for (uint32_t q = 4; q < 14; q++) { /* lost again: nothing but the timer helps now */
    t += 100 * DC_US;
    assert(data(&s, t, q) == DC_RX_NEW);
    n = asked(s.r, t, in, CAP);
    assert(n == 1 && in[0].flags == 0);
  }
  dc_receiver_counters(s.r, &c);
  assert(c.by_gap == 1 && c.by_timeout == 0 && c.retransmitted == 1 && c.outstanding == 8);
  assert(dc_receiver_next_wake(s.r) == 2 * DC_MS + c.rto && c.rto >= 10 * DC_MS);
  for (uint32_t q = 14; q < 21; q++)
    assert(data(&s, t, q) == DC_RX_NEW);
  n = asked(s.r, t, in, CAP);
  assert(n == 7);
  assert(asked(s.r, 2 * DC_MS + c.rto - 1, in, CAP) == 0);
  n = asked(s.r, 2 * DC_MS + c.rto, in, CAP);
  assert(n >= 1 && in[0].seq == 0 && in[0].flags == DC_FLAG_RETX);
  drop(&s);
}

static void two_later_packets_are_reordering(void)
{
  struct side s = make(300, 8);
  assert(assign(&s, 0, 300, 0) == 0);
  for (uint32_t q = 0; q < 300; q += 3) { /* every three come in reverse */
    asked(s.r, q * DC_US, in, CAP);
    for (uint32_t k = 3; k-- > 0;)
      assert(data(&s, q * DC_US, q + k) == DC_RX_NEW);
  }
  dc_receiver_counters(s.r, &c);
  assert(c.retransmitted == 0 && c.by_gap == 0 && dc_receiver_idle(s.r));
  drop(&s);
}

static void the_timer_backs_off_and_only_clean_samples_count(void)
{
  struct side s = make(10, 1);
  assert(assign(&s, 0, 10, 0) == 0);
  EXPECT(&s, 0, 0, 0);
  assert(dc_receiver_next_wake(s.r) == 100 * DC_MS); /* rto_init */
  EXPECT_NOTHING(&s, 100 * DC_MS - 1);
  EXPECT(&s, 100 * DC_MS, DC_FLAG_RETX, 0);
  assert(dc_receiver_next_wake(s.r) == 300 * DC_MS);
  EXPECT(&s, 300 * DC_MS, DC_FLAG_RETX, 0);
  assert(dc_receiver_next_wake(s.r) == 700 * DC_MS);
  EXPECT(&s, 700 * DC_MS, DC_FLAG_RETX, 0);
  assert(dc_receiver_next_wake(s.r) == 1200 * DC_MS); /* rto_max */
  assert(data(&s, 701 * DC_MS, 0) == DC_RX_NEW);      /* which sending does it answer? no sample */
  dc_receiver_counters(s.r, &c);
  assert(c.srtt == 0 && c.rto == 500 * DC_MS && c.by_timeout == 3);
  EXPECT(&s, 701 * DC_MS, 0, 1);
  assert(data(&s, 741 * DC_MS, 1) == DC_RX_NEW); /* R = 40 ms: srtt 40, rttvar 20, rto 120 */
  dc_receiver_counters(s.r, &c);
  assert(c.srtt == 40 * DC_MS && c.rto == 120 * DC_MS);
  EXPECT(&s, 741 * DC_MS, 0, 2);
  assert(data(&s, 821 * DC_MS, 2) == DC_RX_NEW); /* R = 80: rttvar 3/4*20+40/4 = 25, srtt 45, rto 145 */
  dc_receiver_counters(s.r, &c);
  assert(c.srtt == 45 * DC_MS && c.rto == 145 * DC_MS);
  drop(&s);
}

static void the_timer_follows_a_path_that_turns_out_slow(void)
{
  struct side s = make(120, 1);
  assert(assign(&s, 0, 120, 0) == 0);
  dc_time now = 0, trip = 50 * DC_MS;
  for (uint32_t q = 0; q < 120; q++) { /* a queue grows, until an answer takes four times rto_max */
    EXPECT(&s, now, 0, q);
    assert(dc_receiver_next_wake(s.r) > now + trip);
    now += trip;
    assert(data(&s, now, q) == DC_RX_NEW);
    trip = trip < 2 * DC_SEC ? trip * 105 / 100 : 2 * DC_SEC;
  }
  dc_receiver_counters(s.r, &c);
  assert(c.by_timeout == 0 && c.rto > 2 * DC_SEC && c.rto <= 4 * DC_SEC);
  drop(&s);
}

static void the_timer_doubles_once_per_flight(void)
{
  struct side s = make(10, 3);
  assert(assign(&s, 0, 4, 0) == 0);
  assert(asked(s.r, 0, in, 1) == 1);
  assert(asked(s.r, 100 * DC_MS, in, 1) == 1 && in[0].flags == DC_FLAG_RETX); /* from now on the RTO is 200 ms */
  assert(data(&s, 100 * DC_MS, 0) == DC_RX_NEW);                              /* no sample */
  unsigned n = asked(s.r, 100 * DC_MS, in, 1);
  n += asked(s.r, 110 * DC_MS, in, 1);
  n += asked(s.r, 120 * DC_MS, in, 1);
  assert(n == 3);
  EXPECT(&s, 300 * DC_MS, DC_FLAG_RETX, 1); /* 400 ms */
  assert(data(&s, 310 * DC_MS, 1) == DC_RX_NEW);
  EXPECT(&s, 510 * DC_MS, DC_FLAG_RETX, 2, 3); /* sent before that: says nothing new */
  dc_receiver_counters(s.r, &c);
  assert(c.rto == 400 * DC_MS && c.by_timeout == 4);
  EXPECT(&s, 910 * DC_MS, DC_FLAG_RETX, 2, 3);
  dc_receiver_counters(s.r, &c);
  assert(c.rto == 500 * DC_MS);
  drop(&s);
}

static void what_is_late_is_not_asked_for_twice(void)
{
  struct side s = make(50, 24);
  assert(assign(&s, 0, 50, 0) == 0);
  assert(asked(s.r, 0, in, CAP) == 24);
  EXPECT(&s, 100 * DC_MS, DC_FLAG_RETX, 0);
  EXPECT_NOTHING(&s, 300 * DC_MS - 1);
  EXPECT(&s, 300 * DC_MS, DC_FLAG_RETX, 0, 1);
  for (uint32_t q = 0; q < 24; q++) /* the path is as slow as that, and nothing was lost */
    assert(data(&s, 350 * DC_MS + q * DC_MS, q) == DC_RX_NEW);
  dc_receiver_counters(s.r, &c);
  assert(c.retransmitted == 3 && c.by_timeout == 3 && c.by_gap == 0 && c.srtt > 350 * DC_MS);
  dc_receiver_restart(s.r, 400 * DC_MS); /* another path, of which nothing is known */
  assert(asked(s.r, 400 * DC_MS, in, CAP) == 24);
  EXPECT(&s, 500 * DC_MS, DC_FLAG_RETX, 24);
  assert(data(&s, 501 * DC_MS, 24) == DC_RX_NEW); /* somebody answers */
  assert(asked(s.r, 501 * DC_MS, in, CAP) == 1);
  EXPECT_NOTHING(&s, 601 * DC_MS - 1);
  assert(asked(s.r, 601 * DC_MS, in, CAP) == 23); /* and the others do not come: they were lost */
  dc_receiver_counters(s.r, &c);
  assert(c.retransmitted == 3 + 1 + 23);
  drop(&s);
}

static void a_path_without_variance_leaves_the_timer_room(void)
{
  struct side s = make(500, 1);
  assert(assign(&s, 0, 500, 0) == 0);
  for (uint32_t q = 0; q < 500; q++) {
    EXPECT(&s, q * 40 * DC_MS, 0, q);
    assert(data(&s, (q + 1) * 40 * DC_MS, q) == DC_RX_NEW);
  }
  dc_receiver_counters(s.r, &c);
  assert(c.srtt == 40 * DC_MS && c.rto == 60 * DC_MS && c.by_timeout == 0);
  drop(&s);
}

static void variance_is_forgotten_slowly(void)
{
  struct side s = make(500, 1);
  assert(assign(&s, 0, 500, 0) == 0);
  for (uint32_t q = 0; q < 10; q++) {
    EXPECT(&s, q * 40 * DC_MS, 0, q);
    assert(data(&s, (q + 1) * 40 * DC_MS, q) == DC_RX_NEW);
  }
  dc_receiver_counters(s.r, &c); /* rttvar began at 20 ms and lost a 64th of itself nine times */
  assert(c.srtt == 40 * DC_MS && c.rto > 105 * DC_MS && c.rto < 112 * DC_MS);
  drop(&s);
}

static void strange_data_is_counted_and_refused(void)
{
  struct side s = make(10, 4);
  uint64_t piece;
  assert(assign(&s, 100, 10, 0) == 0);
  EXPECT(&s, 0, 0, 100, 101, 102, 103);
  struct dc_header h = {.type = DC_TYPE_DATA, .length = PIECE - 1, .seq = 100};
  assert(dc_receiver_handle(s.r, 1, &h, &piece) == DC_RX_LENGTH && !dc_pieces_has(s.pieces, 0));
  EXPECT(&s, 1, DC_FLAG_RETX | DC_FLAG_NOCACHE, 100); /* a cache may hold the damaged one (campaign seed 4355) */
  assert(data(&s, 1, 99) == DC_RX_UNKNOWN && data(&s, 1, 110) == DC_RX_UNKNOWN &&
         data(&s, 1, UINT32_MAX) == DC_RX_UNKNOWN);
  assert(data(&s, 1, 109) == DC_RX_UNASKED); /* right, but who knows from whom */
  assert(data(&s, 1, 100) == DC_RX_NEW && data(&s, 1, 100) == DC_RX_DUPLICATE);
  dc_receiver_counters(s.r, &c);
  assert(c.unknown == 3 && c.bad_length == 1 && c.duplicates == 1 && c.data == 2 && c.unasked == 1 &&
         c.outstanding == 3);
  drop(&s);
}

static void what_makes_no_sense_is_taken_for_the_nearest_that_does(void)
{
  struct side s =
      make_asking(8, 0, 0, 9); /* one credit; one later packet makes a loss; no more at once than there are credits */
  assert(assign(&s, 0, 8, 0) == 0);
  EXPECT(&s, 0, 0, 0);
  drop(&s);
  s = make_with(8, 4, 0);
  assert(assign(&s, 0, 8, 0) == 0);
  EXPECT(&s, 0, 0, 0, 1, 2, 3);
  assert(data(&s, 1, 1) == DC_RX_NEW && asked(s.r, 1, in, CAP) == 2);
  assert(in[0].seq == 0 && in[0].flags == DC_FLAG_RETX && in[1].seq == 4 && in[1].flags == 0);
  drop(&s);
  s = make(DC_CREDITS_MAX + 8, DC_CREDITS_MAX + 1);
  assert(assign(&s, 0, DC_CREDITS_MAX + 8, 0) == 0 && asked(s.r, 0, in, CAP) == DC_CREDITS_MAX);
  dc_receiver_counters(s.r, &c);
  assert(c.outstanding == DC_CREDITS_MAX);
  EXPECT_NOTHING(&s, 0);
  drop(&s);
}

static void a_hint_changes_nothing(void)
{
  struct dc_receiver_counters after;
  struct side s = make(20, 4);
  assert(assign(&s, 0, 20, 0) == 0);
  for (uint32_t q = 0; q < 20; q++) {
    asked(s.r, q, in, CAP);
    dc_receiver_counters(s.r, &c);
    dc_receiver_prefetch(s.r, q, 0);
    dc_receiver_prefetch(s.r, q, 1);
    dc_receiver_prefetch(s.r, 1000 + q, 1); /* no piece */
    dc_receiver_counters(s.r, &after);
    assert(c.outstanding == after.outstanding && c.next_seq == after.next_seq && data(&s, q, q) == DC_RX_NEW);
  }
  assert(dc_pieces_whole(s.pieces));
  drop(&s);
}

static void nothing_is_asked_for_beyond_the_reach(void)
{
  struct side s = make(DC_RECEIVER_REACH + 8000, 16);
  assert(assign(&s, 0, DC_RECEIVER_REACH + 8000, 0) == 0);
  uint32_t highest = 0;
  for (dc_time t = 0; t < 60000; t++) { /* number 0 never comes */
    unsigned n = asked(s.r, t, in, CAP);
    for (unsigned k = 0; k < n; k++) {
      if (in[k].seq > highest)
        highest = in[k].seq;
      if (in[k].seq != 0)
        assert(data(&s, t, in[k].seq) == DC_RX_NEW);
    }
  }
  assert(highest == DC_RECEIVER_REACH - 1);
  assert(data(&s, 60001, 0) == DC_RX_NEW);
  assert(asked(s.r, 60001, in, CAP) == 16 && in[0].seq == DC_RECEIVER_REACH);
  drop(&s);
}

static void a_small_array_loses_nothing(void)
{
  struct side s = make(50, 16);
  assert(assign(&s, 0, 50, 0) == 0);
  for (uint32_t q = 0; q < 16; q++) {
    assert(dc_receiver_next_wake(s.r) == 0);
    assert(asked(s.r, 0, in, 1) == 1 && in[0].seq == q);
  }
  assert(asked(s.r, 0, in, 1) == 0 && dc_receiver_next_wake(s.r) == 100 * DC_MS);
  drop(&s);
}

/* Number 0 never comes; 8,192 has its place in the table by which what is out is found, and 16,384 would have. */
static void numbers_with_one_place_in_the_table_are_told_apart(void)
{
  enum { FAR = 2 * DC_CREDITS_MAX };
  struct side s = make(2 * FAR, 64);
  assert(assign(&s, 0, 2 * FAR, 0) == 0);
  bool out[2 * FAR] = {false};
  for (dc_time t = 0; t < 2000; t++) {
    unsigned n = asked(s.r, t, in, CAP);
    for (unsigned k = 0; k < n; k++)
      if (in[k].seq != 0 && in[k].seq < FAR)
        assert(data(&s, t, in[k].seq) == DC_RX_NEW);
      else
        out[in[k].seq] = true;
  }
  assert(out[0] && out[FAR] && !out[2 * FAR - 1]);
  assert(data(&s, 2000, 0) == DC_RX_NEW); /* behind the other in its chain */
  assert(data(&s, 2000, FAR) == DC_RX_NEW && data(&s, 2000, 0) == DC_RX_DUPLICATE);
  drop(&s);
}

/* A path that loses, repeats and delays: everything arrives, and the books balance all the way. */
static void a_bad_path_is_survived(uint64_t seed)
{
  struct side s = make(5000, 1 + (uint32_t)(seed % 40));
  struct flying {
    dc_time at;
    uint32_t seq;
  } fly[2 * CAP];
  unsigned flying = 0;
  uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
  for (uint32_t k = 0; k < 25; k++)
    assert(assign(&s, 7 + k * 200, 200, (uint64_t)(24 - k) * 200) == 0);
  dc_time t = 0;
  while (!dc_pieces_whole(s.pieces)) {
    unsigned n = asked(s.r, t, in, 1 + (unsigned)(x % 20));
    for (unsigned k = 0; k < n; k++) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      if (x % 100 < 5)
        continue;
      for (uint64_t copies = x % 50 == 7 ? 2 : 1; copies > 0 && flying < 2 * CAP; copies--)
        fly[flying++] =
            (struct flying){t + 100 * DC_US + (x >> 32) % (x % 20 == 3 ? 5 * DC_MS : 10 * DC_US), in[k].seq};
    }
    dc_receiver_counters(s.r, &c);
    assert(c.outstanding <= c.credits && c.interests <= c.retransmitted + 5000);
    dc_time wake = dc_receiver_next_wake(s.r);
    unsigned first = 0;
    for (unsigned k = 1; k < flying; k++)
      if (fly[k].at < fly[first].at)
        first = k;
    assert(flying > 0 || wake != DC_NEVER); /* it never sleeps for good */
    if (flying > 0 && fly[first].at <= wake) {
      t = fly[first].at > t ? fly[first].at : t;
      enum dc_rx_result got = data(&s, t, fly[first].seq);
      assert(got == DC_RX_NEW || got == DC_RX_DUPLICATE);
      fly[first] = fly[--flying];
    } else
      t = wake > t ? wake : t;
    assert(t < 1000 * DC_SEC);
  }
  asked(s.r, t, in, CAP);
  dc_receiver_counters(s.r, &c);
  assert(c.by_gap > 0 || c.credits < 8); /* with few credits nothing comes later */
  assert(c.by_timeout > 0 && c.data - c.duplicates == 5000);
  drop(&s);
}

int main(void)
{
  credits_bound_what_is_out();
  low_is_the_first_number_that_is_out();
  numbers_in_a_row_go_into_one_interest();
  the_last_interest_says_so();
  who_gets_packets_steadily_asks_in_batches();
  the_last_batch_is_what_is_left();
  what_was_not_asked_for_is_not_taken();
  what_is_held_is_not_asked_for();
  three_later_packets_make_a_loss_once();
  two_later_packets_are_reordering();
  the_timer_backs_off_and_only_clean_samples_count();
  the_timer_follows_a_path_that_turns_out_slow();
  the_timer_doubles_once_per_flight();
  what_is_late_is_not_asked_for_twice();
  a_path_without_variance_leaves_the_timer_room();
  variance_is_forgotten_slowly();
  strange_data_is_counted_and_refused();
  what_makes_no_sense_is_taken_for_the_nearest_that_does();
  a_hint_changes_nothing();
  nothing_is_asked_for_beyond_the_reach();
  a_small_array_loses_nothing();
  numbers_with_one_place_in_the_table_are_told_apart();
  for (uint64_t seed = 3; seed < 60; seed++)
    a_bad_path_is_survived(seed);
  puts("receiver ok");
  return 0;
}
