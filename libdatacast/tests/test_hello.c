/* Two ends of a link say hello over a channel that can be cut in each direction; time is virtual. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "datacast/bytes.h"
#include "datacast/hello.h"

enum { A, B, QUEUE = 256 };

struct flight {
  dc_time at;
  uint8_t bytes[9000];
};

static struct dc_hello end[2];
static struct flight queue[2][QUEUE]; /* towards end i */
static unsigned queued[2];
static bool cut[2];              /* towards end i */
static unsigned carries[2];      /* towards end i: longer frames are lost */
static unsigned longest;         /* hello that was sent */
static dc_time stalled_until[2]; /* end i does not run before */
static dc_time now, delay;
static dc_time down_at[2]; /* when end i saw its link fail for the first time since cleared */
static unsigned sent[2];

static void start(void)
{
  struct dc_hello_cfg cfg;
  dc_hello_cfg_default(&cfg);
  memset(queued, 0, sizeof queued);
  memset(cut, 0, sizeof cut);
  carries[A] = carries[B] = 9000;
  longest = 0;
  memset(stalled_until, 0, sizeof stalled_until);
  memset(down_at, 0, sizeof down_at);
  memset(sent, 0, sizeof sent);
  now = 1000 * DC_SEC;
  delay = 100 * DC_US;
  dc_hello_init(&end[A], now, &cfg, 0xaaaa);
  dc_hello_init(&end[B], now, &cfg, 0xbbbb);
}

static void turn(int i)
{
  unsigned kept = 0;
  for (unsigned k = 0; k < queued[i]; k++) {
    if (queue[i][k].at > now) {
      queue[i][kept++] = queue[i][k];
      continue;
    }
    struct dc_header h;
    assert(dc_header_parse(queue[i][k].bytes, sizeof queue[i][k].bytes, &h) == DC_DROP_NONE);
    assert(dc_hello_handle(&end[i], now, &h, queue[i][k].bytes + DC_HEADER_LEN) == DC_DROP_NONE);
  }
  queued[i] = kept;
  uint8_t out[DC_HELLO_LEN];
  unsigned n = dc_hello_poll(&end[i], now, out);
  if (n != 0) {
    sent[i]++;
    longest = n > longest ? n : longest;
    if (!cut[!i] && n <= carries[!i]) {
      assert(queued[!i] < QUEUE);
      struct flight *f = &queue[!i][queued[!i]++];
      f->at = now + delay;
      memcpy(f->bytes, out, DC_HELLO_LEN);
    }
  }
  if (end[i].link >= DC_LINK_SILENT && down_at[i] == 0)
    down_at[i] = now;
}

static void run(dc_time span)
{
  for (dc_time until = now + span; now < until; now += 500 * DC_US)
    for (int i = A; i <= B; i++)
      if (now >= stalled_until[i])
        turn(i);
}

static void busy(void)
{
  dc_hello_busy(&end[A], now);
  dc_hello_busy(&end[B], now);
}

static void a_link_comes_up_and_stays(void)
{
  start();
  run(20 * DC_MS);
  assert(end[A].link == DC_LINK_UP && end[B].link == DC_LINK_UP);
  run(10 * DC_SEC);
  assert(end[A].link == DC_LINK_UP && end[A].failures == 0 && end[B].failures == 0);
  assert(sent[A] < 10 * 4 + 8); /* slow while idle */
}

/* Its neighbour is to know at once that hellos come more often now; while it stays busy nothing new is to be said. */
static void who_becomes_busy_says_so_at_once_and_once(void)
{
  start();
  run(10 * DC_SEC); /* slow by now: a quarter of a second until the next one */
  unsigned before = sent[A];
  while (sent[A] == before)
    run(500 * DC_US);
  for (unsigned i = 1; i <= 3; i++) {
    dc_hello_busy(&end[A], now);
    assert((dc_hello_next_wake(&end[A]) <= now) == (i == 1));
    run(DC_MS);
    assert(sent[A] == before + 2);
  }
}

static void a_neighbour_that_never_speaks_is_not_watched(void)
{
  start();
  cut[A] = cut[B] = true;
  run(5 * DC_SEC);
  assert(end[A].link == DC_LINK_UNKNOWN && end[A].failures == 0);
}

static void silence_in_one_direction_is_seen_at_both_ends(void)
{
  start();
  run(100 * DC_MS);
  busy();
  run(500 * DC_MS);
  dc_time when = now;
  cut[B] = true; /* nothing reaches B any more */
  run(300 * DC_MS);
  assert(end[B].link == DC_LINK_SILENT && down_at[B] - when <= 136 * DC_MS);
  assert(end[A].link == DC_LINK_UNHEARD && down_at[A] - when <= 137 * DC_MS);
  cut[B] = false;
  run(500 * DC_MS);
  assert(end[A].link == DC_LINK_UP && end[B].link == DC_LINK_UP);
}

/* A neighbour's hellos come early and late in turn by `stray`; then none for 870 ms. What does A say of the link? */
static enum dc_link after_a_pause(dc_time stray)
{
  start();
  for (unsigned i = 0; i < 40; i++) {
    delay = i % 2 == 0 ? 100 * DC_US : stray;
    for (unsigned before = sent[B]; sent[B] == before;)
      run(500 * DC_US);
  }
  run(delay + DC_MS);
  cut[A] = true;
  run(870 * DC_MS);
  return end[A].link;
}

static void a_neighbour_whose_hellos_stray_is_given_more_time(void)
{
  assert(after_a_pause(100 * DC_US) == DC_LINK_SILENT);
  assert(after_a_pause(60 * DC_MS) == DC_LINK_UP);
}

static void data_counts_as_a_sign_of_life(void)
{
  start();
  run(100 * DC_MS);
  busy();
  run(200 * DC_MS);
  cut[A] = true; /* hellos to A are stuck behind data that arrives */
  for (int i = 0; i < 400; i++) {
    dc_hello_heard(&end[A], now);
    run(1 * DC_MS);
  }
  assert(end[A].failures == 0 && end[B].failures == 0);
}

static void a_process_that_did_not_run_blames_nobody(void)
{
  start();
  run(100 * DC_MS);
  busy();
  run(200 * DC_MS);
  cut[A] = true;
  stalled_until[A] = now + 80 * DC_MS; /* A sleeps, and its arrivals with it */
  run(81 * DC_MS);
  cut[A] = false;
  run(200 * DC_MS);
  assert(end[A].failures == 0);
}

static void a_restarted_neighbour_is_noticed_and_trusted_again(void)
{
  start();
  run(100 * DC_MS);
  struct dc_hello_cfg cfg;
  dc_hello_cfg_default(&cfg);
  dc_hello_init(&end[B], now, &cfg, 0xbbbc);
  run(20 * DC_MS);
  assert(end[A].failures == 1);
  run(1 * DC_SEC);
  assert(end[A].link == DC_LINK_UP && end[B].link == DC_LINK_UP);
}

/* B says that it goes, goes, and comes back as another run after `gone`; when A saw its link fail, or 0. */
static dc_time left_and_came_back(dc_time away, dc_time gone)
{
  struct dc_hello_cfg cfg;
  dc_hello_cfg_default(&cfg);
  start();
  run(100 * DC_MS);
  busy();
  run(200 * DC_MS);
  dc_hello_leave(&end[B], now, away);
  run(2 * DC_MS);
  dc_time when = now;
  stalled_until[B] = now + gone;
  run(gone);
  dc_hello_init(&end[B], now, &cfg, 0xbbbc);
  run(50 * DC_MS);
  if (down_at[A] == 0)
    assert(end[A].link == DC_LINK_UP && end[B].link == DC_LINK_UP && end[A].failures == 0 && end[A].away_until <= now);
  run(500 * DC_MS); /* from now on it is watched as ever */
  cut[A] = true;
  run(2 * DC_SEC);
  assert(end[A].link == DC_LINK_SILENT);
  return down_at[A] > when + gone + 100 * DC_MS ? 0 : down_at[A] - when;
}

static void who_said_that_it_will_be_away_has_not_failed(void)
{
  assert(left_and_came_back(5 * DC_SEC, 3 * DC_SEC) == 0);
  assert(left_and_came_back(5 * DC_SEC, 20 * DC_MS) == 0); /* sooner than its silence would have been noticed */
  assert(left_and_came_back(0, 20 * DC_MS) != 0);          /* it had said nothing */
}

static void who_stays_away_longer_than_it_said_has_failed(void)
{
  dc_time failed = left_and_came_back(DC_SEC, 3 * DC_SEC);
  assert(failed >= 990 * DC_MS && failed <= 1010 * DC_MS);
  failed = left_and_came_back(60 * DC_SEC, 20 * DC_SEC); /* nor is anybody waited for for ever */
  assert(failed >= DC_HELLO_AWAY_MAX - 10 * DC_MS && failed <= DC_HELLO_AWAY_MAX + 10 * DC_MS);
}

/* Both ends are upgraded: A is back just before B goes, and hears nothing of B but that it goes. */
static void who_comes_back_waits_for_who_is_about_to_go(void)
{
  struct dc_hello_cfg cfg;
  dc_hello_cfg_default(&cfg);
  start();
  run(100 * DC_MS);
  busy();
  dc_hello_leave(&end[A], now, 5 * DC_SEC);
  run(2 * DC_MS);
  stalled_until[A] = now + 500 * DC_MS;
  run(500 * DC_MS);
  dc_hello_leave(&end[B], now, 5 * DC_SEC);
  queued[A] = 0;
  dc_hello_init(&end[A], now, &cfg, 0xaaab);
  run(5 * DC_MS);
  assert(end[A].link == DC_LINK_UP);
  stalled_until[B] = now + 3 * DC_SEC;
  run(3 * DC_SEC);
  dc_hello_init(&end[B], now, &cfg, 0xbbbc);
  run(50 * DC_MS);
  for (int i = A; i <= B; i++)
    assert(end[i].link == DC_LINK_UP && down_at[i] == 0);
}

static void who_changes_its_mind_is_watched_again(void)
{
  start();
  run(100 * DC_MS);
  dc_hello_leave(&end[B], now, 8 * DC_SEC);
  run(2 * DC_MS);
  assert(end[A].away_until > now + 7 * DC_SEC);
  dc_hello_leave(&end[B], now, 0);
  run(2 * DC_MS);
  assert(end[A].away_until <= now);
}

/* Its next run speaks but does not hear: it is waited for no longer than it said. */
static void who_comes_back_deaf_has_failed_in_the_end(void)
{
  struct dc_hello_cfg cfg;
  dc_hello_cfg_default(&cfg);
  start();
  run(100 * DC_MS);
  dc_hello_leave(&end[B], now, DC_SEC);
  run(2 * DC_MS);
  dc_hello_init(&end[B], now, &cfg, 0xbbbc);
  cut[B] = true;
  run(900 * DC_MS);
  assert(end[A].link == DC_LINK_UP);
  run(600 * DC_MS);
  assert(end[A].link == DC_LINK_UNHEARD);
}

static void a_flapping_link_is_held_longer_each_time(void)
{
  start();
  run(100 * DC_MS);
  dc_time hold = 0;
  for (int i = 0; i < 6; i++) {
    for (int k = 0; k < 40; k++) {
      busy();
      run(250 * DC_MS);
    }
    assert(end[A].link == DC_LINK_UP);
    cut[A] = cut[B] = true;
    run(400 * DC_MS);
    assert(end[A].link == DC_LINK_SILENT && end[A].hold > hold);
    hold = end[A].hold;
    cut[A] = cut[B] = false;
  }
}

static void nonsense_is_refused(void)
{
  start();
  run(50 * DC_MS);
  struct dc_header h = {.type = DC_TYPE_HELLO, .length = 8, .tree = 0xcccc, .seq = 1};
  uint8_t rest[8] = {9, 0, 0, 25, 0, 0, 0, 0};
  assert(dc_hello_handle(&end[A], now, &h, rest) == DC_DROP_RESERVED); /* no such state */
  rest[0] = 1, rest[1] = 1;
  assert(dc_hello_handle(&end[A], now, &h, rest) == DC_DROP_RESERVED);
  rest[1] = 0, rest[3] = 0;
  assert(dc_hello_handle(&end[A], now, &h, rest) == DC_DROP_RESERVED); /* no interval */
  rest[3] = 25, h.tree = 0xaaaa;
  assert(dc_hello_handle(&end[A], now, &h, rest) == DC_DROP_UNWANTED); /* its own */
  h.tree = 0xbbbb, h.seq = 1;
  assert(dc_hello_handle(&end[A], now, &h, rest) == DC_DROP_UNWANTED); /* old */
  h.length = 4;
  assert(dc_hello_handle(&end[A], now, &h, rest) == DC_DROP_TRUNCATED);
  h.length = 8, h.type = DC_TYPE_DATA;
  assert(dc_hello_handle(&end[A], now, &h, rest) == DC_DROP_TYPE);
  assert(end[A].link == DC_LINK_UP);
}

static void a_forged_hello_from_far_ahead_does_not_silence_the_neighbour(void)
{
  start();
  run(100 * DC_MS);
  struct dc_header h = {.type = DC_TYPE_HELLO, .length = 8, .tree = 0xbbbb, .seq = 1000};
  uint8_t rest[8] = {1, 0, 0x7d, 0x0a, 0, 0, 0, 0}; /* down, and the next one in 32 s */
  assert(dc_hello_handle(&end[A], now, &h, rest) == DC_DROP_NONE && end[A].link == DC_LINK_UNHEARD);
  run(1 * DC_SEC);
  assert(end[A].link == DC_LINK_UP && end[B].link == DC_LINK_UP && end[A].peer_interval <= DC_SEC);
}

static void long_hellos_try_what_both_ends_take(void)
{
  start();
  end[A].cfg.mtu = 9216;
  end[B].cfg.mtu = 9000;
  run(100 * DC_MS);
  assert(longest == 9000 && end[A].carried == 9000 && end[B].carried == 9000);
  unsigned before = sent[A];
  run(20 * DC_SEC);
  assert(sent[A] - before < 20 * 4 + 8); /* they come in place of others */
  carries[B] = 1500;                     /* a device between, in one direction */
  run(9 * DC_SEC);
  assert(end[A].link == DC_LINK_UP && end[B].link == DC_LINK_UP);
  assert(end[B].carried == 0 && end[A].carried == 9000);
  carries[B] = 9000;
  run(3 * DC_SEC);
  assert(end[B].carried == 9000);
}

static void nothing_is_said_of_a_neighbour_that_does_not_tell_its_mtu(void)
{
  start();
  end[A].cfg.mtu = 9000;
  run(20 * DC_SEC);
  assert(longest == DC_HELLO_LEN && end[A].carried == -1 && end[B].carried == -1);
  /* As one of an earlier version, whose hello ends before the MTU. */
  struct dc_header h = {.type = DC_TYPE_HELLO, .length = 8, .tree = 0xbbbb, .seq = end[B].seq + 100};
  uint8_t rest[8] = {3, 0, 0, 250, 0, 0, 0xaa, 0xaa};
  assert(dc_hello_handle(&end[A], now, &h, rest) == DC_DROP_NONE && end[A].link == DC_LINK_UP);
}

static void a_tunnel_s_hellos_are_all_long(void)
{
  start();
  for (int i = A; i <= B; i++) {
    end[i].cfg.mtu = 1460;
    end[i].cfg.whole = 0;
    carries[i] = 1400;
  }
  run(5 * DC_SEC);
  assert(end[A].link == DC_LINK_UNKNOWN && end[B].link == DC_LINK_UNKNOWN);
  carries[A] = carries[B] = 1460;
  run(1 * DC_SEC);
  assert(end[A].link == DC_LINK_UP && end[A].carried == 1460);
}

static void senseless_settings_are_mended_and_states_have_names(void)
{
  struct dc_hello_cfg cfg = {.hold_min = DC_MS};
  struct dc_hello h;
  dc_hello_init(&h, DC_SEC, &cfg, 1);
  assert(h.cfg.fast == DC_MS && h.cfg.slow == DC_MS && h.cfg.timeout_intervals == 3);
  assert(strcmp(dc_link_name(DC_LINK_UP), "up") == 0 && strcmp(dc_link_name(DC_LINK_SILENT), "silent") == 0);
  assert(strcmp(dc_link_name((enum dc_link)77), "?") == 0);
}

static void a_link_that_stayed_up_long_is_held_as_at_first(void)
{
  start();
  run(100 * DC_MS);
  dc_time first = end[A].hold;
  for (int i = 0; i < 3; i++) {
    cut[A] = cut[B] = true;
    run(2 * DC_SEC);
    cut[A] = cut[B] = false;
    run(3 * DC_SEC);
  }
  assert(end[A].link == DC_LINK_UP && end[A].hold == 8 * first);
  run(64 * 250 * DC_MS + DC_SEC);
  cut[A] = cut[B] = true;
  run(2 * DC_SEC);
  assert(end[A].link == DC_LINK_SILENT && end[A].hold == 2 * first);
}

/* It says that it hears, but whom? What was here before it heard of us. */
static void a_neighbour_that_hears_another_is_not_up_yet(void)
{
  start();
  struct dc_header h = {.type = DC_TYPE_HELLO, .length = 8, .tree = 0xbbbb, .seq = 1};
  uint8_t rest[8] = {3, 0, 0, 25, 0, 0, 0xdd, 0xdd};
  assert(dc_hello_handle(&end[A], now, &h, rest) == DC_DROP_NONE && end[A].link == DC_LINK_UNKNOWN);
  rest[6] = rest[7] = 0xaa, h.seq = 2;
  assert(dc_hello_handle(&end[A], now, &h, rest) == DC_DROP_NONE && end[A].link == DC_LINK_UP);
}

static void a_hello_says_at_most_what_its_fields_can(void)
{
  start();
  uint8_t out[DC_HELLO_LEN];
  end[A].cfg.mtu = 70000;
  end[A].cfg.whole = 0;
  assert(dc_hello_poll(&end[A], now, out) == 65000);
  end[A].cfg.mtu = 65536;
  end[A].cfg.fast = end[A].cfg.slow = 65536 * DC_MS;
  now += DC_SEC;
  assert(dc_hello_poll(&end[A], now, out) == 65000);
  assert(dc_get16(out + DC_HEADER_LEN + 2) == 65535 && dc_get16(out + DC_HEADER_LEN + 8) == 65535);
  dc_hello_heard(&end[A], now + DC_SEC); /* from a clock that is ahead */
  (void)dc_hello_poll(&end[A], now, out);
  assert(end[A].heard == now);
}

int main(void)
{
  senseless_settings_are_mended_and_states_have_names();
  a_link_that_stayed_up_long_is_held_as_at_first();
  a_neighbour_that_hears_another_is_not_up_yet();
  a_hello_says_at_most_what_its_fields_can();
  long_hellos_try_what_both_ends_take();
  nothing_is_said_of_a_neighbour_that_does_not_tell_its_mtu();
  a_tunnel_s_hellos_are_all_long();
  a_link_comes_up_and_stays();
  who_becomes_busy_says_so_at_once_and_once();
  a_neighbour_that_never_speaks_is_not_watched();
  silence_in_one_direction_is_seen_at_both_ends();
  a_neighbour_whose_hellos_stray_is_given_more_time();
  data_counts_as_a_sign_of_life();
  a_process_that_did_not_run_blames_nobody();
  a_restarted_neighbour_is_noticed_and_trusted_again();
  a_flapping_link_is_held_longer_each_time();
  who_said_that_it_will_be_away_has_not_failed();
  who_stays_away_longer_than_it_said_has_failed();
  who_comes_back_waits_for_who_is_about_to_go();
  who_changes_its_mind_is_watched_again();
  who_comes_back_deaf_has_failed_in_the_end();
  nonsense_is_refused();
  a_forged_hello_from_far_ahead_does_not_silence_the_neighbour();
  puts("test_hello: ok");
  return 0;
}
