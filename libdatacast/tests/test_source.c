/* The source: bucket, merging, duplicates, limits. */
#include <stdio.h>

#include "sources.h"

static void the_bucket_paces_new_data_exactly(void)
{
  dc_source *s = make(10000000, 1); /* 1,250 bytes each ms */
  for (uint32_t i = 0; i < 5; i++)
    ask(s, 1000, i);
  assert(dc_source_poll(s, 1000, tx, CAP) == 1 && tx[0].seq == 0 && tx[0].flags == 0);
  assert(dc_segment_equal(tx[0].ret, &to_a));
  for (uint32_t i = 1; i < 5; i++) {
    dc_time at = 1000 + i * DC_MS;
    assert(dc_source_next_wake(s) == at);
    assert(dc_source_poll(s, at - 1, tx, CAP) == 0 && dc_source_next_wake(s) == at);
    assert(dc_source_poll(s, at, tx, CAP) == 1 && tx[0].seq == i);
  }
  assert(dc_source_next_wake(s) == DC_NEVER);
  dc_source_counters(s, &c);
  assert(c.interests == 5 && c.new_packets == 5 && c.dup_packets == 0 && c.merged == 0 && c.queued == 0 &&
         c.next_seq == 5);
  free(s);
}

static void packets_of_nothing_and_no_burst_are_one(void)
{
  struct dc_source_cfg cfg = {.cc = &dc_cc_datacast, .params = {.rate_init = 8000, .rate_min = 1000, .rate_max = 8000}};
  dc_source *s = dc_source_init(malloc(dc_source_size()), 0, &cfg);
  dc_source_assign(s, 0, 3);
  for (uint32_t i = 0; i < 3; i++)
    ask(s, 0, i);
  assert(dc_source_poll(s, 0, tx, CAP) == 1 && tx[0].seq == 0); /* a byte a millisecond */
  assert(dc_source_poll(s, DC_MS - 1, tx, CAP) == 0);
  assert(dc_source_poll(s, DC_MS, tx, CAP) == 1 && tx[0].seq == 1);
  free(s);
}

/* A queue that lost them would lose them again in a burst. Under the paper's rule everything is answered at once. */
static void what_was_lost_is_sent_again_at_half_of_the_highest_rate(void)
{
  const struct dc_cc_ops *rules[] = {&dc_cc_datacast, &dc_cc_steady};
  for (unsigned k = 0; k < 2; k++) {
    dc_source *s = make_with(rules[k], 100000000, 8, 0, 100);
    for (uint32_t i = 0; i < 4; i++)
      ask(s, 1000, i);
    for (dc_time at = 1000; dc_source_next_wake(s) != DC_NEVER; at = dc_source_next_wake(s))
      dc_source_poll(s, at, tx, CAP);
    dc_time now = DC_SEC, each = 200; /* 1,250 bytes at 50 Gbit/s */
    for (uint32_t i = 0; i < 3; i++)
      ask_from(s, now, i, DC_FLAG_RETX, &to_a);
    ask_from(s, now, 3, 0, &to_a);
    if (k == 0) {
      assert(dc_source_poll(s, now, tx, CAP) == 4);
    } else {
      assert(dc_source_poll(s, now, tx, CAP) == 1 && tx[0].seq == 0 && tx[0].flags == DC_FLAG_DUP);
      assert(dc_source_next_wake(s) > now && dc_source_next_wake(s) <= now + each);
      assert(dc_source_poll(s, now + each / 2, tx, CAP) == 0);
      assert(dc_source_poll(s, now + each, tx, CAP) == 1 && tx[0].seq == 1);
      assert(dc_source_poll(s, now + 2 * each, tx, CAP) == 2 && tx[0].seq == 2 && tx[1].seq == 3);
    }
    assert(dc_source_next_wake(s) == DC_NEVER);
    free(s);
  }
}

static void a_limit_holds_whatever_the_rule_finds(void)
{
  dc_source *s = make(10000000, 1);
  dc_source_limit(s, 0, 1000000); /* 12 us a byte's thousand: a packet of 1,250 bytes every 10 ms */
  for (uint32_t i = 0; i < 40; i++)
    ask(s, 0, i);
  unsigned sent = 0;
  for (dc_time now = 0; now <= 100 * DC_MS; now += DC_MS)
    sent += dc_source_poll(s, now, tx, CAP);
  dc_source_counters(s, &c);
  assert(c.rate == 1000000);
  unsigned limited = sent;
  dc_source_limit(s, 100 * DC_MS, 0);
  for (dc_time now = 100 * DC_MS; now <= 110 * DC_MS; now += DC_MS)
    sent += dc_source_poll(s, now, tx, CAP);
  dc_source_counters(s, &c);
  assert(c.rate >= 10000000 && sent - limited >= limited - 2);
  free(s);
}

static void tokens_do_not_pile_up_beyond_the_burst(void)
{
  dc_source *s = make(10000000, 3);
  for (uint32_t i = 0; i < 10; i++)
    ask(s, 3600 * DC_SEC, i);
  assert(dc_source_poll(s, 3600 * DC_SEC, tx, CAP) == 3);
  assert(dc_source_poll(s, 3600 * DC_SEC + 2 * DC_MS, tx, CAP) == 2);
  free(s);
}

static void an_interest_that_waits_is_merged(void)
{
  dc_source *s = make(10000000, 1);
  ask(s, 1000, 0);
  ask(s, 1000, 1);
  ask(s, 1000, 1);
  ask_from(s, 1000, 1, DC_FLAG_RETX, &to_b);
  ask_from(s, 1000, 1, 0, &to_b);
  assert(dc_source_poll(s, 1000, tx, CAP) == 1);
  dc_source_counters(s, &c);
  assert(c.merged == 3 && c.duplicates == 0 && c.rate == 10000000 && c.queued == 1);
  /* One packet per return segment, each paid for. */
  unsigned n = dc_source_poll(s, 1000 + DC_MS, tx, CAP);
  assert(n == 1 && tx[0].seq == 1 && dc_segment_equal(tx[0].ret, &to_a));
  n = dc_source_poll(s, 1000 + 2 * DC_MS, tx, CAP);
  assert(n == 1 && tx[0].seq == 1 && tx[0].flags == 0 && dc_segment_equal(tx[0].ret, &to_b));
  dc_source_counters(s, &c);
  assert(c.queued == 0 && c.new_packets == 3);
  free(s);
}

static void who_was_sent_it_asks_for_a_duplicate_though_others_still_wait(void)
{
  dc_source *s = make(10000000, 1);
  ask(s, 1000, 0);
  ask_from(s, 1000, 0, 0, &to_b);
  assert(dc_source_poll(s, 1000, tx, CAP) == 1 && dc_segment_equal(tx[0].ret, &to_a));
  ask(s, 1000, 0); /* lost, while b waits for tokens */
  assert(dc_source_poll(s, 1000, tx, CAP) == 1 && tx[0].flags == DC_FLAG_DUP && dc_segment_equal(tx[0].ret, &to_a));
  dc_source_cut(s, 0);
  assert(dc_source_poll(s, DC_SEC, tx, CAP) == 0); /* b's is cut off; that it was sent is not forgotten */
  dc_source_assign(s, 0, 10);
  ask(s, DC_SEC, 0);
  assert(dc_source_poll(s, DC_SEC, tx, CAP) == 1 && tx[0].flags == DC_FLAG_DUP);
  dc_source_counters(s, &c);
  assert(c.duplicates == 2 && c.dup_packets == 2 && c.new_packets == 1 && c.merged == 1 && c.queued == 0);
  free(s);
}

/* Receivers that are far behind, each somewhere else, must meet: the source fills their link with the one that is last. */
static void who_is_furthest_behind_is_answered_first_and_all_at_the_highest_rate(void)
{
  const struct dc_cc_ops *rules[] = {&dc_cc_datacast, &dc_cc_steady};
  for (unsigned k = 0; k < 2; k++) {
    dc_source *s = make_with(rules[k], 100000000, 64, 0, 100);
    dc_time now = 1000, each = 100; /* 1,250 bytes at 100 Gbit/s */
    for (uint32_t i = 0; i < 64; i++)
      ask(s, now, i);
    for (dc_time at = now; dc_source_next_wake(s) != DC_NEVER; now = at = dc_source_next_wake(s))
      dc_source_poll(s, at, tx, CAP);
    now = DC_SEC;
    for (uint32_t i = 0; i < 20; i++)
      ask_from(s, now, 40 + i, 0, &to_a);
    for (uint32_t i = 0; i < 20; i++)
      ask_from(s, now, 10 + i, 0, &to_b);
    for (uint32_t i = 0; i < 20; i++) /* whose answer waits is answered once */
      ask_from(s, now, 10 + i, DC_FLAG_RETX, &to_b);
    unsigned n = dc_source_poll(s, now, tx, CAP);
    if (k == 0) {
      assert(n == 40 && tx[0].seq == 40 && tx[20].seq == 10);
    } else {
      assert(n >= 1 && n <= 9);
      for (unsigned i = 0; i < n; i++)
        assert(tx[i].seq == 10 + i && dc_segment_equal(tx[i].ret, &to_b));
      assert(dc_source_next_wake(s) > now && dc_source_next_wake(s) <= now + each);
      for (; n < 40; n++) {
        now += each;
        assert(dc_source_poll(s, now, tx, CAP) == 1 && tx[0].seq == (n < 20 ? 10 + n : 20 + n));
      }
    }
    assert(dc_source_next_wake(s) == DC_NEVER);
    free(s);
  }
}

static void a_duplicate_is_answered_at_once_and_halves_the_rate(void)
{
  dc_source *s = make(10000000, 1);
  ask(s, 1000, 0);
  ask(s, 1000, 1);
  assert(dc_source_poll(s, 1000, tx, CAP) == 1);
  ask_from(s, 1001, 0, 0, &to_b);
  assert(dc_source_next_wake(s) == 1001);
  assert(dc_source_poll(s, 1001, tx, CAP) == 1 && tx[0].seq == 0 && tx[0].flags == DC_FLAG_DUP);
  assert(dc_segment_equal(tx[0].ret, &to_b));
  dc_source_counters(s, &c);
  assert(c.rate == 5000000 && c.duplicates == 1 && c.dup_packets == 1 && c.refetches == 0);
  assert(dc_source_next_wake(s) <= 1000 + 2 * DC_MS); /* the waiting one is paced at the new rate */
  assert(dc_source_poll(s, 1000 + DC_MS, tx, CAP) == 0);
  assert(dc_source_poll(s, 1000 + 2 * DC_MS, tx, CAP) == 1 && tx[0].seq == 1);
  free(s);
}

static void a_refetch_past_the_caches_is_no_congestion(void)
{
  dc_source *s = make(10000000, 4);
  ask(s, 1000, 0);
  assert(dc_source_poll(s, 1000, tx, CAP) == 1);
  ask_from(s, 2000, 0, DC_FLAG_NOCACHE, &to_a);
  assert(dc_source_poll(s, 2000, tx, CAP) == 1 && tx[0].flags == DC_FLAG_DUP);
  dc_source_counters(s, &c);
  assert(c.rate == 10000000 && c.refetches == 1 && c.duplicates == 1);
  ask_from(s, 3000, 1, DC_FLAG_NOCACHE, &to_a); /* never sent: as any other */
  assert(dc_source_poll(s, DC_SEC, tx, CAP) == 1 && tx[0].flags == 0 && tx[0].seq == 1);
  free(s);
}

static void a_range_is_as_good_as_an_interest_for_each_number(void)
{
  dc_source *s = make_with(&dc_cc_datacast, 100000000000u, 64, 10, 10);
  struct dc_header h = {.type = DC_TYPE_INTEREST, .tree = 1, .seq = 12, .more = 3, .stops = 1};
  dc_source_handle(s, 1000, &h, &to_a);
  assert(dc_source_poll(s, DC_MS, tx, 2) == 2 && tx[0].seq == 12 && tx[1].seq == 13);
  h.seq = 8; /* 8 and 9 do not exist, 10 and 11 are new, 12 and 13 were sent, 14 and 15 wait, 16 and 17 are new */
  h.more = 9;
  dc_source_handle(s, DC_MS, &h, &to_a);
  dc_source_counters(s, &c);
  assert(c.interests == 14 && c.drop[DC_DROP_BEYOND] == 2 && c.duplicates == 2 && c.merged == 2 && c.queued == 6);
  unsigned n = dc_source_poll(s, 2 * DC_MS, tx, CAP);
  assert(n == 8 && tx[0].flags == DC_FLAG_DUP && tx[0].seq == 12 && tx[1].flags == DC_FLAG_DUP && tx[1].seq == 13);
  uint32_t seen = 0;
  for (unsigned i = 2; i < n; i++)
    seen |= 1u << tx[i].seq;
  assert(seen == (1u << 10 | 1u << 11 | 1u << 14 | 1u << 15 | 1u << 16 | 1u << 17));
  h.seq = 100;
  dc_source_handle(s, 2 * DC_MS, &h, &to_a);
  h.seq = UINT32_MAX; /* no header says so: it would go beyond the last number */
  dc_source_handle(s, 2 * DC_MS, &h, &to_a);
  dc_source_counters(s, &c);
  assert(c.drop[DC_DROP_BEYOND] == 2 && c.drop[DC_DROP_RANGE] == 1 && c.queued == 0);
  free(s);
}

static void interests_out_of_range_are_counted(void)
{
  dc_source *s = make_with(&dc_cc_datacast, 1000000000, 1, 100, 100);
  ask(s, 1000, 99);
  ask(s, 1000, 199);
  dc_source_counters(s, &c);
  assert(c.drop[DC_DROP_BEYOND] == 1 && c.queued == 1);
  assert(dc_source_poll(s, 1000, tx, CAP) == 1 && tx[0].seq == 199);
  free(s);
}

static void what_was_cut_off_is_not_sent(void)
{
  dc_source *s = make(10000000, 1);
  for (uint32_t i = 0; i < 10; i++)
    ask(s, 1000, i);
  dc_source_cut(s, 2);
  unsigned sent = 0;
  for (dc_time t = 0; t < 20 * DC_MS; t += DC_MS)
    sent += dc_source_poll(s, 1000 + t, tx, CAP);
  dc_source_counters(s, &c);
  assert(sent == 2 && c.queued == 0 && c.drop[DC_DROP_BEYOND] == 8 && dc_source_next_wake(s) == DC_NEVER);
  free(s);
}

static void a_full_queue_refuses_and_stays_consistent(void)
{
  dc_source *s = make(10000000, 1);
  for (uint32_t i = 0; i < DC_SOURCE_QUEUE_MAX + 10; i++)
    ask(s, 1000, i);
  dc_source_counters(s, &c);
  assert(c.queued == DC_SOURCE_QUEUE_MAX && c.drop[DC_DROP_QUEUE] == 10);
  dc_time t = 1000;
  for (uint32_t next = 0; next < DC_SOURCE_QUEUE_MAX;) {
    unsigned n = dc_source_poll(s, t, tx, CAP);
    for (unsigned k = 0; k < n; k++)
      assert(tx[k].seq == next++);
    t = dc_source_next_wake(s);
    if (t == DC_NEVER)
      assert(next == DC_SOURCE_QUEUE_MAX);
  }
  ask(s, 100 * DC_SEC, DC_SOURCE_QUEUE_MAX + 3); /* refused before, so it is new, not a duplicate */
  dc_source_counters(s, &c);
  assert(c.duplicates == 0 && c.queued == 1);
  free(s);
}

/* An interest far ahead of all others, from whoever: it is one number, and the others stay what they are. */
static void one_interest_far_ahead_changes_nothing_for_the_others(void)
{
  const struct dc_cc_ops *rules[] = {&dc_cc_datacast, &dc_cc_steady};
  for (unsigned k = 0; k < 2; k++) {
    dc_source *s = make_with(rules[k], 100000000, 4, 0, 4000000000u);
    dc_source *alone = make_with(rules[k], 100000000, 4, 0, 1000000);
    struct dc_source_counters d;
    ask_from(s, 1000, 3999999999u, 0, &to_b);
    assert(dc_source_poll(s, 1000, tx, CAP) == 1 && tx[0].seq == 3999999999u);
    for (uint32_t seq = 0; seq < 5000; seq++) {
      dc_time now = DC_MS + seq * 200 * DC_US;
      ask(s, now, seq);
      ask(alone, now, seq);
      if (seq == 2500)
        ask_from(s, now, 1234567890, 0, &to_b);
      for (unsigned n = dc_source_poll(s, now, tx, CAP), i = 0; i < n; i++)
        assert((tx[i].flags & DC_FLAG_MASK) == 0);
      dc_source_poll(alone, now, tx, CAP);
    }
    dc_source_counters(s, &c);
    dc_source_counters(alone, &d);
    assert(c.duplicates == 0 && d.duplicates == 0 && c.queued <= 1);
    assert(c.rate >= d.rate * 9 / 10 && c.rate <= d.rate * 11 / 10);
    /* A real duplicate is one, near or far. */
    ask(s, 10 * DC_SEC, 4000);
    ask_from(s, 10 * DC_SEC, 3999999999u, 0, &to_b);
    dc_source_counters(s, &c);
    assert(c.duplicates == 2);
    free(s);
    free(alone);
  }
}

/* Numbers far apart, more of them than the source has runs for: those between are never lost by the thousand. */
static void what_was_sent_is_remembered_run_by_run(void)
{
  dc_source *s = make_with(&dc_cc_datacast, 100000000000u, 64, 0, 4000000000u);
  dc_time now = DC_SEC;
  for (uint32_t i = 0; i < 3000; i++, now += DC_MS) {
    ask(s, now, 1000000 + 2 * i);
    assert(dc_source_poll(s, now, tx, CAP) == 1 && tx[0].flags == 0);
  }
  for (uint32_t i = 0; i < 1000; i++, now += DC_MS) { /* all below, one after another */
    ask(s, now, i);
    assert(dc_source_poll(s, now, tx, CAP) == 1 && tx[0].seq == i && tx[0].flags == 0);
  }
  for (uint32_t i = 0; i < 3000; i++, now += DC_MS) {
    ask(s, now, 1000000 + 2 * i);
    assert(dc_source_poll(s, now, tx, CAP) == 1 && tx[0].flags == DC_FLAG_DUP); /* none is forgotten */
  }
  dc_source_counters(s, &c);
  assert(c.duplicates == 3000 && c.new_packets == 4000);
  free(s);
}

/* A number never comes back after a cut: what is between the cut and the next extent does not exist. */
static void numbers_that_were_cut_off_do_not_exist_any_more(void)
{
  dc_source *s = make_with(&dc_cc_datacast, 100000000000u, 64, 0, 100);
  dc_source_cut(s, 40);
  dc_source_assign(s, 100, 50);
  dc_source_assign(s, 100, 50); /* said again */
  dc_source_assign(s, 20, 10);  /* known */
  for (uint32_t seq = 38; seq < 103; seq++)
    ask(s, DC_SEC, seq);
  dc_source_counters(s, &c);
  assert(c.drop[DC_DROP_BEYOND] == 60 && c.queued == 5);
  assert(dc_source_poll(s, DC_SEC, tx, CAP) == 5 && tx[1].seq == 39 && tx[2].seq == 100);
  ask(s, DC_SEC,
      50); /* a member that has not heard of the cut asks again and again: no duplicate, no cut of the rate */
  ask_from(s, DC_SEC, 50, DC_FLAG_RETX, &to_a);
  dc_source_counters(s, &c);
  assert(c.duplicates == 0 && c.drop[DC_DROP_BEYOND] == 62);
  free(s);
}

static void old_return_segments_make_room_for_new_ones(void)
{
  dc_source *s = make(100000000000u, 64);
  for (uint16_t i = 0; i < 5 * DC_SOURCE_CHILDREN_MAX; i++) { /* routes that change: one in use at a time */
    struct dc_segment seg = {.n = 1, .local = true, .port = {i}};
    ask_from(s, i * DC_MS, i, 0, &seg);
    assert(dc_source_poll(s, i * DC_MS, tx, CAP) == 1 && tx[0].ret->port[0] == i);
  }
  unsigned refused = 0;
  for (uint16_t i = 0; i < DC_SOURCE_CHILDREN_MAX + 4; i++) { /* all in use at once */
    struct dc_segment seg = {.n = 1, .local = false, .port = {i}};
    ask_from(s, DC_SEC, 1000u + i, 0, &seg);
    dc_source_counters(s, &c);
    refused = (unsigned)c.drop[DC_DROP_CHILDREN];
  }
  assert(refused == 4);
  free(s);
}

/* Nothing waits for them any more: their places are free. */
static void return_segments_of_what_was_cut_off_make_room(void)
{
  dc_source *s = make(10000000, 1);
  ask(s, 1000, 0);
  assert(dc_source_poll(s, 1000, tx, CAP) == 1); /* the bucket is empty */
  for (unsigned again = 0; again < 2; again++) {
    for (uint16_t i = 0; i < DC_SOURCE_CHILDREN_MAX; i++) {
      struct dc_segment seg = {.n = 1, .local = again == 1, .port = {i}};
      ask_from(s, 1000, 100u + i, 0, &seg);
    }
    dc_source_counters(s, &c);
    assert(c.drop[DC_DROP_CHILDREN] == 0 && c.queued == DC_SOURCE_CHILDREN_MAX);
    dc_source_cut(s, 100);
    assert(dc_source_poll(s, 1000 + DC_SEC, tx, CAP) == 0);
    dc_source_counters(s, &c);
    assert(c.queued == 0);
    dc_source_assign(s, 100, 100);
    ask(s, 1000 + DC_SEC, 1); /* and again */
    assert(dc_source_poll(s, 1000 + DC_SEC, tx, CAP) == 1);
  }
  free(s);
}

static void small_arrays_lose_nothing(void)
{
  dc_source *s = make(100000000000u, 64);
  for (uint32_t i = 0; i < 10; i++)
    ask(s, 1000, i);
  uint32_t next = 0;
  dc_time t = 2 * DC_US;
  while (next < 10) {
    t += DC_US;
    unsigned n = dc_source_poll(s, t, tx, 1);
    assert(n <= 1);
    if (n == 1)
      assert(tx[0].seq == next++);
  }
  for (uint32_t i = 0; i < 10; i++)
    ask(s, t, i);
  for (uint32_t i = 0; i < 10; i++)
    assert(dc_source_poll(s, t, tx, 1) == 1 && tx[0].seq == i && tx[0].flags == DC_FLAG_DUP);
  assert(dc_source_poll(s, t, tx, 1) == 0);
  free(s);
}

/* New data at an eighth of the link, and more to answer than fits: what does not fit waits here, where the furthest behind
 * comes first, and not in the link's queue. A poll that comes late loses nothing of it. */
static void answers_and_new_data_share_the_link(void)
{
  struct dc_source_cfg cfg = {.cc = &spreading,
                              .params = {.rate_init = 1, .rate_max = 100000000, .packet_bytes = 1250},
                              .burst_packets = 4}; /* ten packets each ms */
  said = 12500000;
  dc_source *s = dc_source_init(malloc(dc_source_size()), 1000, &cfg);
  dc_source_assign(s, 0, 1000000);
  dc_time now = 1000;
  for (uint32_t i = 0; i < 200; i++) /* what will be asked for again */
    ask(s, now, i);
  for (unsigned sent = 0; sent < 200; now += 800 * DC_US)
    sent += dc_source_poll(s, now, tx, CAP);
  unsigned fresh = 0, again = 0, lost = 0;
  for (unsigned i = 0; i < 1000; i++) {
    now += i % 10 == 0 ? 700 * DC_US : i % 10 == 1 ? 0 : 100 * DC_US; /* runs late now and then */
    ask(s, now, 200 + i);
    if (i < 500)
      ask_from(s, now, i % 200, 0, &to_b), ask_from(s, now, (i + 100) % 200, 0, &to_b);
    else
      ask_from(s, now, i % 200, DC_FLAG_RETX, &to_b);
    for (unsigned n; (n = dc_source_poll(s, now, tx, CAP)) > 0;)
      for (unsigned k = 0; k < n; k++) {
        fresh += !(tx[k].flags & DC_FLAG_DUP);
        again += i < 500 && (tx[k].flags & DC_FLAG_DUP);
        lost += i >= 900 && (tx[k].flags & DC_FLAG_DUP);
      }
    if (i == 499) { /* 75 ms: 750 packets fit */
      assert(fresh >= 85 && fresh <= 100);
      assert(fresh + again >= 700 && fresh + again <= 790);
    }
  }
  assert(lost >= 65 && lost <= 80); /* half of what fits in 15 ms */
  free(s);
}

/* A rule that has something to tell receivers. */
static uint32_t told_from;
static uint8_t rule_told(void *state, uint32_t sent, uint64_t limit)
{
  (void)state;
  told_from = sent;
  return limit == 0 ? 0x50 : 0x30;
}

static void every_packet_says_what_the_path_holds(void)
{
  struct dc_cc_ops telling = rule;
  telling.told = rule_told;
  said = 100000000;
  dc_source *s = make_with(&telling, said, 8, 0, 100);
  dc_time now = DC_SEC;
  ask(s, now, 0);
  assert(dc_source_poll(s, now, tx, CAP) == 1 && tx[0].flags == 0x50 && told_from == 0);
  ask(s, now, 0); /* an answer and new data in one batch */
  for (uint32_t seq = 1; seq < 4; seq++)
    ask(s, now, seq);
  dc_source_limit(s, now, said);
  assert(dc_source_poll(s, now, tx, CAP) == 4 && told_from == 1);
  for (unsigned i = 0; i < 4; i++)
    assert((tx[i].flags & DC_FLAG_PATH) == 0x30 && ((tx[i].flags & DC_FLAG_DUP) != 0) == (tx[i].seq == 0));
  free(s);
}

/* New packets in so many ms, with so many interests each ms for what was sent before. */
static unsigned carried(dc_source *s, dc_time *now, unsigned ms, uint32_t *seq, unsigned again)
{
  unsigned fresh = 0;
  for (unsigned i = 0; i < ms; i++) {
    *now += DC_MS;
    for (unsigned k = 0; k < 20; k++) /* what waits is merged */
      ask(s, *now, *seq + fresh + k);
    for (unsigned k = 0; k < again; k++)
      ask_from(s, *now, k, 0, &to_b);
    for (unsigned n; (n = dc_source_poll(s, *now, tx, CAP)) > 0;)
      for (unsigned k = 0; k < n; k++)
        fresh += !(tx[k].flags & DC_FLAG_DUP);
  }
  *seq += fresh;
  return fresh;
}

static void patience_lasts_its_time_and_rests(void)
{
  struct dc_source_cfg cfg = {.cc = &rule,
                              .params = {.rate_init = 1, .rate_max = 100000000, .packet_bytes = 1250},
                              .burst_packets = 8,
                              .patience = 300 * DC_MS};
  said = 50000000; /* five packets each ms */
  dc_source *s = dc_source_init(malloc(dc_source_size()), 1000, &cfg);
  dc_source_assign(s, 0, 1000000);
  dc_time now = 1000;
  uint32_t seq = 0;
  assert(carried(s, &now, 400, &seq, 0) >= 1990 && dc_source_bore(s) == 0);
  said = 30000000; /* not so much less */
  assert(carried(s, &now, 100, &seq, 0) <= 310 && dc_source_bore(s) == 0);
  said = 50000000;
  carried(s, &now, 400, &seq, 0);
  said = 5000000; /* for a moment: a host stood still */
  assert(carried(s, &now, 35, &seq, 0) <= 30 && dc_source_bore(s) == 0);
  said = 50000000;
  carried(s, &now, 30, &seq, 0);
  said = 5000000; /* and for longer */
  assert(carried(s, &now, 45, &seq, 0) <= 50 && dc_source_bore(s) == 1);
  assert(carried(s, &now, 290, &seq, 0) >= 1400 && dc_source_bore(s) == 1);
  carried(s, &now, 20, &seq, 0);
  assert(carried(s, &now, 100, &seq, 0) <= 60); /* over */
  said = 50000000;
  carried(s, &now, 1000, &seq, 0);
  said = 5000000;
  assert(carried(s, &now, 100, &seq, 0) <= 60 && dc_source_bore(s) == 1); /* it rests */
  said = 50000000;
  carried(s, &now, 3000, &seq, 0);
  said = 5000000;
  carried(s, &now, 40, &seq, 0);
  /* Who takes two of the five packets a millisecond once more is not borne with: some duplicates, and that is it. */
  assert(carried(s, &now, 100, &seq, 2) <= 100 && dc_source_bore(s) == 2);
  free(s);
}

static void a_tree_that_has_just_begun_or_ran_dry_has_no_patience(void)
{
  struct dc_source_cfg cfg = {.cc = &rule,
                              .params = {.rate_init = 1, .rate_max = 100000000, .packet_bytes = 1250},
                              .burst_packets = 8,
                              .patience = 300 * DC_MS};
  said = 50000000;
  dc_source *s = dc_source_init(malloc(dc_source_size()), 1000, &cfg);
  dc_source_assign(s, 0, 1000000);
  dc_time now = 1000;
  uint32_t seq = 0;
  carried(s, &now, 100, &seq, 0);
  said = 5000000;
  assert(carried(s, &now, 100, &seq, 0) <= 60 && dc_source_bore(s) == 0);
  said = 50000000;
  carried(s, &now, 400, &seq, 0);
  now += DC_SEC; /* nothing was asked for */
  carried(s, &now, 10, &seq, 0);
  said = 5000000;
  assert(carried(s, &now, 100, &seq, 0) <= 80 && dc_source_bore(s) == 0);
  free(s);
}

int main(void)
{
  packets_of_nothing_and_no_burst_are_one();
  answers_and_new_data_share_the_link();
  every_packet_says_what_the_path_holds();
  patience_lasts_its_time_and_rests();
  a_tree_that_has_just_begun_or_ran_dry_has_no_patience();
  the_bucket_paces_new_data_exactly();
  what_was_lost_is_sent_again_at_half_of_the_highest_rate();
  a_limit_holds_whatever_the_rule_finds();
  tokens_do_not_pile_up_beyond_the_burst();
  an_interest_that_waits_is_merged();
  who_was_sent_it_asks_for_a_duplicate_though_others_still_wait();
  who_is_furthest_behind_is_answered_first_and_all_at_the_highest_rate();
  a_duplicate_is_answered_at_once_and_halves_the_rate();
  a_refetch_past_the_caches_is_no_congestion();
  a_range_is_as_good_as_an_interest_for_each_number();
  interests_out_of_range_are_counted();
  what_was_cut_off_is_not_sent();
  a_full_queue_refuses_and_stays_consistent();
  one_interest_far_ahead_changes_nothing_for_the_others();
  what_was_sent_is_remembered_run_by_run();
  numbers_that_were_cut_off_do_not_exist_any_more();
  old_return_segments_make_room_for_new_ones();
  return_segments_of_what_was_cut_off_make_room();
  small_arrays_lose_nothing();
  puts("source ok");
  return 0;
}
