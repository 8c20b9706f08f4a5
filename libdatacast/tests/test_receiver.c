/* The receiver: credits, loss by gap, RTO, refetch, cut, restart. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "datacast/receiver.h"
#include "datacast/wire.h"

enum { CAP = DC_CREDITS_MAX, PIECE = 100 };

static struct dc_interest in[CAP];
static struct dc_receiver_counters c;

struct side {
  struct dc_layout layout;
  dc_pieces *pieces;
  dc_receiver *r;
};

static struct side make_with(uint64_t pieces, uint32_t credits, uint32_t reorder)
{
  struct side s = {.layout = {.size = pieces * PIECE, .piece = PIECE, .per_block = 8}};
  struct dc_receiver_cfg cfg;
  dc_receiver_cfg_default(&cfg);
  assert(cfg.reorder == 3);
  cfg.credits = credits;
  cfg.reorder = reorder;
  s.pieces = dc_pieces_init(calloc(1, dc_pieces_size(&s.layout)), &s.layout);
  s.r = dc_receiver_init(malloc(dc_receiver_size()), 0, &cfg, s.pieces);
  return s;
}

static struct side make(uint64_t pieces, uint32_t credits) { return make_with(pieces, credits, 3); }

static void drop(struct side *s)
{
  free(s->r);
  free(s->pieces);
}

/* Polls, and takes ranges apart: one entry per number. */
static unsigned asked(dc_receiver *r, dc_time now, struct dc_interest *to, unsigned cap)
{
  static struct dc_interest range[CAP];
  unsigned n = 0, ranges = dc_receiver_poll(r, now, range, cap);
  for (unsigned i = 0; i < ranges; i++) {
    assert(range[i].more <= DC_RANGE_MORE_MAX);
    for (uint32_t k = 0; k <= range[i].more; k++) {
      assert(n < CAP);
      to[n++] = (struct dc_interest){.seq = range[i].seq + k, .flags = range[i].flags};
    }
  }
  return n;
}

static int assign(struct side *s, uint32_t seq, uint32_t count, uint64_t first)
{
  return dc_receiver_assign(s->r, &(struct dc_extent){seq, count, first});
}

static enum dc_rx_result data(struct side *s, dc_time now, uint32_t seq)
{
  struct dc_header h = {.type = DC_TYPE_DATA, .length = PIECE, .tree = 1, .seq = seq};
  uint64_t piece;
  return dc_receiver_handle(s->r, now, &h, &piece);
}

/* Polls and checks that exactly the given numbers come out with the given flags. */
#define EXPECT(s, now, flag, ...)                                                                                      \
  do {                                                                                                                 \
    const uint32_t want_[] = {__VA_ARGS__};                                                                            \
    unsigned n_ = asked((s)->r, now, in, CAP);                                                                         \
    assert(n_ == sizeof want_ / sizeof want_[0]);                                                                      \
    for (unsigned k_ = 0; k_ < n_; k_++)                                                                               \
      assert(in[k_].seq == want_[k_] && in[k_].flags == (flag));                                                       \
  } while (0)
#define EXPECT_NOTHING(s, now) assert(asked((s)->r, now, in, CAP) == 0)

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
  EXPECT(&s, 100 * DC_MS, DC_FLAG_RETX, 1, 10);
  assert(data(&s, 101 * DC_MS, 1) == DC_RX_NEW && data(&s, 101 * DC_MS, 10) == DC_RX_NEW);
  EXPECT_NOTHING(&s, 101 * DC_MS);
  assert(dc_receiver_idle(s.r) && dc_pieces_whole(s.pieces));
  assert(data(&s, 102 * DC_MS, 4) == DC_RX_DUPLICATE);
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

static void the_timer_doubles_once_per_flight(void)
{
  struct side s = make(10, 3);
  assert(assign(&s, 0, 3, 0) == 0);
  unsigned n = asked(s.r, 0, in, 1);
  n += asked(s.r, 10 * DC_MS, in, 1);
  n += asked(s.r, 20 * DC_MS, in, 1);
  assert(n == 3);
  EXPECT(&s, 100 * DC_MS, DC_FLAG_RETX, 0); /* and from now on the RTO is 200 ms */
  EXPECT(&s, 210 * DC_MS, DC_FLAG_RETX, 1); /* sent before that: says nothing new */
  EXPECT(&s, 220 * DC_MS, DC_FLAG_RETX, 2);
  dc_receiver_counters(s.r, &c);
  assert(c.rto == 200 * DC_MS && c.by_timeout == 3);
  EXPECT(&s, 300 * DC_MS, DC_FLAG_RETX, 0);
  dc_receiver_counters(s.r, &c);
  assert(c.rto == 400 * DC_MS);
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

static void what_makes_no_sense_is_taken_for_the_nearest_that_does(void)
{
  struct side s = make_with(8, 0, 0); /* one credit; one later packet makes a loss */
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

static void nothing_is_asked_for_beyond_the_reach(void)
{
  struct side s = make(40000, 16);
  assert(assign(&s, 0, 40000, 0) == 0);
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
  numbers_in_a_row_go_into_one_interest();
  what_was_not_asked_for_is_not_taken();
  what_is_held_is_not_asked_for();
  three_later_packets_make_a_loss_once();
  two_later_packets_are_reordering();
  the_timer_backs_off_and_only_clean_samples_count();
  the_timer_doubles_once_per_flight();
  variance_is_forgotten_slowly();
  a_path_without_variance_leaves_the_timer_room();
  strange_data_is_counted_and_refused();
  a_bad_block_is_fetched_past_the_caches();
  a_late_bad_block_of_an_old_extent_is_fetched_again();
  more_bad_blocks_than_ranges_are_all_fetched_again();
  a_cut_takes_back_what_was_not_delivered();
  a_cut_ends_what_was_to_be_fetched_again();
  what_makes_no_sense_is_taken_for_the_nearest_that_does();
  a_hint_changes_nothing();
  who_leaves_a_tree_takes_what_still_comes_and_asks_for_nothing();
  after_a_cut_numbers_go_on_above_a_gap();
  a_restart_asks_for_everything_again();
  nothing_is_asked_for_beyond_the_reach();
  a_small_array_loses_nothing();
  for (uint64_t seed = 3; seed < 60; seed++)
    a_bad_path_is_survived(seed);
  puts("receiver ok");
  return 0;
}
