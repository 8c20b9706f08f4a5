/* One end of a link, hello by hello: what it says, when, and the moment from which on something is so. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "datacast/bytes.h"
#include "datacast/hello.h"

enum { DOWN = 1, INIT, UP };
enum { OWN = 0xaaaa, PEER = 0xbbbb };
#define T0 (1000 * DC_SEC)

static struct dc_hello h;
static struct dc_hello_cfg cfg;
static uint8_t out[DC_HELLO_LEN];
static uint32_t seq; /* of the neighbour's last hello */

/* Hellos of its own are rare: what it waits for is the neighbour. */
static void start(void)
{
  dc_hello_cfg_default(&cfg);
  cfg.slow = 50 * DC_SEC;
  dc_hello_init(&h, T0, &cfg, OWN);
  seq = 0;
}

/* What the neighbour says. */
struct said {
  uint8_t state;
  uint16_t ms;
  uint32_t to, from;
  uint16_t mtu, away, length; /* length 0: a usual hello */
};

static enum dc_drop says_at(dc_time now, uint32_t number, struct said s)
{
  uint8_t rest[12] = {s.state};
  dc_put16(rest + 2, s.ms);
  dc_put32(rest + 4, s.to);
  dc_put16(rest + 8, s.mtu);
  dc_put16(rest + 10, s.away);
  struct dc_header header = {
      .type = DC_TYPE_HELLO, .length = s.length > 0 ? s.length : 12, .tree = s.from, .seq = number};
  return dc_hello_handle(&h, now, &header, rest);
}

static void says(dc_time now, struct said s) { assert(says_at(now, ++seq, s) == DC_DROP_NONE); }

static const struct said up = {.state = UP, .ms = 100, .to = OWN, .from = PEER};

/* The link is up from now on. */
static void rise(dc_time now)
{
  says(now, up);
  assert(h.state == UP && h.link == DC_LINK_UP && h.up_since == now);
  assert(dc_hello_poll(&h, now, out) == DC_HELLO_LEN);
}

static void what_is_usual(void)
{
  dc_hello_cfg_default(&cfg);
  assert(cfg.fast == 25 * DC_MS && cfg.slow == 250 * DC_MS && cfg.timeout_min == 135 * DC_MS);
  assert(cfg.timeout_intervals == 4 && cfg.busy == 2 * DC_SEC && cfg.hold_min == 50 * DC_MS);
  assert(cfg.hold_max == 5 * DC_SEC && cfg.whole == 2 * DC_SEC && cfg.mtu == 0);
  static const char *const name[] = {"unknown", "up", "silent", "unheard", "?"};
  for (unsigned i = 0; i < 5; i++)
    assert(strcmp(dc_link_name((enum dc_link)i), name[i]) == 0);
  struct dc_hello_cfg least = {.fast = DC_MS, .slow = 2 * DC_MS, .timeout_intervals = 3, .hold_min = 7, .hold_max = 8};
  dc_hello_init(&h, T0, &least, OWN);
  assert(h.cfg.fast == DC_MS && h.cfg.slow == 2 * DC_MS && h.cfg.timeout_intervals == 3 && h.hold == 7);
  assert(h.state == DOWN && h.link == DC_LINK_UNKNOWN && h.carried == -1 && h.polled == DC_NEVER);
  assert(h.heard == T0 && h.hello == T0 && h.next == T0 && h.instance == OWN && !h.met && h.failures == 0);
}

static void hellos_go_at_the_interval_that_they_announce(void)
{
  struct dc_header header;
  dc_hello_cfg_default(&cfg);
  cfg.mtu = 1400;
  dc_hello_init(&h, T0, &cfg, OWN);
  dc_time now = T0;
  for (uint32_t i = 1; i <= 3; i++, now += 250 * DC_MS) {
    assert(dc_hello_next_wake(&h) == now && (i == 1 || dc_hello_poll(&h, now - 1, out) == 0));
    assert(dc_hello_poll(&h, now, out) == DC_HELLO_LEN && h.next == now + 250 * DC_MS);
    assert(dc_header_parse(out, DC_HELLO_LEN, &header) == DC_DROP_NONE && header.type == DC_TYPE_HELLO);
    assert(header.length == 12 && header.tree == OWN && header.seq == i);
    const uint8_t *rest = out + DC_HEADER_LEN;
    assert(rest[0] == DOWN && rest[1] == 0 && dc_get16(rest + 2) == 250 && dc_get32(rest + 4) == 0);
    assert(dc_get16(rest + 8) == 1400 && dc_get16(rest + 10) == 0);
  }
  dc_hello_busy(&h, now += DC_MS);
  assert(h.next == now && h.busy_until == now + 2 * DC_SEC);
  dc_time until = h.busy_until;
  assert(dc_hello_poll(&h, now, out) == DC_HELLO_LEN && dc_get16(out + DC_HEADER_LEN + 2) == 25);
  assert(h.next == now + 25 * DC_MS);
  assert(dc_hello_poll(&h, until - 1, out) > 0 && h.next == until - 1 + 25 * DC_MS);
  assert(dc_hello_poll(&h, until + 30 * DC_MS, out) > 0 && dc_get16(out + DC_HEADER_LEN + 2) == 250);
  h.next = until - DC_MS;
  h.busy_until = until;
  assert(dc_hello_poll(&h, until, out) > 0 && h.next == until + 250 * DC_MS); /* that moment is none of it */
  dc_hello_busy(&h, until - 1);
  assert(h.next == until + 250 * DC_MS); /* it is already */
  h.busy_until = until;
  dc_hello_busy(&h, until);
  assert(h.next == until);
  h.cfg.fast = h.cfg.slow;
  h.next = until + DC_SEC;
  dc_hello_busy(&h, until + 10 * DC_SEC);
  assert(h.next == until + DC_SEC); /* there is no shorter interval to tell of */
}

/* What it says of the neighbour: whom it hears. */
static void a_hello_names_the_neighbour_and_its_own_state(void)
{
  start();
  struct said s = up;
  s.state = DOWN;
  says(T0, s);
  assert(dc_hello_poll(&h, T0, out) > 0);
  assert(out[DC_HEADER_LEN] == INIT && dc_get32(out + DC_HEADER_LEN + 4) == PEER);
  says(T0 + 1, up);
  assert(dc_hello_poll(&h, T0 + 1, out) > 0 && out[DC_HEADER_LEN] == UP);
  h.next = dc_hello_next_wake(&h);
  assert(dc_hello_poll(&h, h.next, out) > 0); /* it is silent: not heard any more */
  assert(out[DC_HEADER_LEN] == DOWN && dc_get32(out + DC_HEADER_LEN + 4) == 0);
}

/* Of what it is, what the neighbour says that it is, and whether that one hears it: what it is then. */
static void the_three_states_follow_the_neighbours(void)
{
  static const struct {
    uint8_t from, theirs, to;
    bool hears;
  } row[] = {{DOWN, DOWN, INIT, true}, {DOWN, INIT, UP, true},    {DOWN, UP, UP, true},     {DOWN, DOWN, INIT, false},
             {DOWN, UP, INIT, false},  {DOWN, INIT, INIT, false}, {INIT, DOWN, INIT, true}, {INIT, INIT, UP, true},
             {INIT, UP, UP, true},     {INIT, UP, INIT, false},   {UP, INIT, UP, true},     {UP, UP, UP, true},
             {UP, UP, UP, false},      {UP, INIT, UP, false}};
  for (unsigned i = 0; i < sizeof row / sizeof row[0]; i++) {
    start();
    struct said s = up;
    if (row[i].from != DOWN) {
      s.state = row[i].from == UP ? UP : DOWN;
      says(T0, s);
    }
    assert(h.state == row[i].from);
    h.next = T0 + DC_SEC;
    s.state = row[i].theirs;
    s.to = row[i].hears ? OWN : 0xdddd;
    says(T0 + 5, s);
    assert(h.state == row[i].to && h.heard == T0 + 5 && h.hello == T0 + 5 && h.met);
    assert(h.next == (row[i].from != row[i].to ? T0 + 5 : T0 + DC_SEC)); /* what is new is said at once */
    assert(h.failures == 0);
  }
  start();
  rise(T0);
  struct said s = up;
  s.state = DOWN;
  says(T0 + 5, s); /* it does not hear us any more */
  assert(h.state == DOWN && h.link == DC_LINK_UNHEARD && h.failures == 1 && h.met && h.next == T0 + 5);
  start();
  rise(T0);
  s = up;
  s.from = 0xbbbc;
  says(T0 + 5, s); /* another run of it */
  assert(h.link == DC_LINK_UNHEARD && h.failures == 1 && h.peer_instance == 0xbbbc);
}

/* Both fail by turns else, each by what the other said of the moment before. Found by fuzzing. */
static void who_has_failed_wants_to_be_heard_again(void)
{
  start();
  struct said down = up, init = up;
  down.state = DOWN;
  init.state = INIT;
  rise(T0);
  says(T0 + 1, down);
  dc_time held = h.held_until;
  assert(h.state == DOWN && h.link == DC_LINK_UNHEARD);
  says(held, up); /* it has not heard of that yet */
  assert(h.state == INIT && h.link == DC_LINK_UNHEARD && h.next == held);
  says(held + 1, down); /* now it has */
  assert(h.state == INIT && h.failures == 1);
  says(held + 2, init);
  assert(h.state == UP && h.link == DC_LINK_UP);
}

static void an_old_number_is_refused_a_very_old_one_is_anothers(void)
{
  start();
  seq = 1000;
  rise(T0);
  assert(h.peer_seq == 1001);
  assert(says_at(T0, 1001, up) == DC_DROP_UNWANTED && says_at(T0, 1000, up) == DC_DROP_UNWANTED);
  assert(says_at(T0, 1001 - 63, up) == DC_DROP_UNWANTED && h.peer_seq == 1001);
  assert(says_at(T0, 1001 - 64, up) == DC_DROP_NONE && h.peer_seq == 1001 - 64);
  assert(says_at(T0, 1001, up) == DC_DROP_NONE);
  struct said s = up;
  s.from = OWN;
  assert(says_at(T0, 2000, s) == DC_DROP_UNWANTED);
  s.from = PEER;
  for (s.state = 0; s.state <= 4; s.state += 4)
    assert(says_at(T0, 2000, s) == DC_DROP_RESERVED);
  s.state = UP;
  s.ms = 0;
  assert(says_at(T0, 2000, s) == DC_DROP_RESERVED);
  s.ms = 1;
  s.length = 7;
  assert(says_at(T0, 2000, s) == DC_DROP_TRUNCATED);
  s.length = 8;
  assert(says_at(T0, 2000, s) == DC_DROP_NONE && h.peer_interval == DC_MS);
}

/* How long after the last frame the neighbour counts as silent. */
static dc_time patience(void) { return dc_hello_next_wake(&h) - h.heard; }

static void silence_is_three_intervals_and_four_times_as_much_as_they_stray(void)
{
  start();
  rise(T0);
  assert(h.deviation == 0 && patience() == 300 * DC_MS);
  dc_time now = T0;
  says(now += 140 * DC_MS, up);
  assert(h.deviation == 10 * DC_MS && patience() == 340 * DC_MS);
  says(now += 100 * DC_MS, up);
  assert(h.deviation == 7500 * DC_US && patience() == 330 * DC_MS);
  says(now += 60 * DC_MS, up); /* earlier is astray, too */
  assert(h.deviation == (3 * 7500 * DC_US + 40 * DC_MS) / 4);
  says(now += 400 * DC_MS, up);
  assert(patience() == 400 * DC_MS); /* four intervals at most */
  struct said s = up;
  s.ms = 20;
  says(now += 100 * DC_MS, s);                           /* it says another one: that it strays is not known of that */
  assert(h.deviation == 0 && patience() == 135 * DC_MS); /* and never sooner than this */
  s.ms = 45;
  says(now += 100 * DC_MS, s);
  assert(patience() == 135 * DC_MS);
  s.ms = 46;
  says(now += 100 * DC_MS, s);
  assert(patience() == 138 * DC_MS);
  dc_hello_heard(&h, now + 7);
  assert(h.heard == now + 7 && h.hello == now && patience() == 138 * DC_MS);
}

static void a_link_is_silent_from_that_moment_on(void)
{
  start();
  rise(T0);
  assert(h.next == T0 + 50 * DC_SEC && dc_hello_next_wake(&h) == T0 + 300 * DC_MS);
  assert(dc_hello_poll(&h, T0 + 300 * DC_MS - 1, out) == 0 && h.link == DC_LINK_UP);
  assert(dc_hello_poll(&h, T0 + 300 * DC_MS, out) > 0 && h.link == DC_LINK_SILENT); /* and says so at once */
  assert(h.state == DOWN && !h.met && h.failures == 1 && dc_hello_next_wake(&h) == T0 + 300 * DC_MS + 50 * DC_SEC);
  assert(dc_hello_poll(&h, T0 + 10 * DC_SEC, out) == 0 && h.failures == 1);

  start(); /* one that was not up yet has not failed */
  struct said s = up;
  s.state = DOWN;
  says(T0, s);
  assert(h.state == INIT && dc_hello_poll(&h, T0, out) > 0);
  assert(dc_hello_poll(&h, T0 + 300 * DC_MS, out) == 0 && h.state == DOWN && !h.met);
  assert(h.link == DC_LINK_UNKNOWN && h.failures == 0);
}

/* Half an interval late is late. */
static void a_poll_that_came_too_late_blames_nobody(void)
{
  start();
  rise(T0);
  assert(h.polled == T0 + 300 * DC_MS && h.heard == T0);
  dc_time late = h.polled + cfg.fast / 2;
  h.met = false; /* else it is silent */
  (void)dc_hello_poll(&h, late, out);
  assert(h.heard == T0);
  start();
  rise(T0);
  h.met = false;
  (void)dc_hello_poll(&h, late + 1, out);
  assert(h.heard == T0 + cfg.fast / 2 + 1);
  h.heard = late + 100;
  (void)dc_hello_poll(&h, late + 50, out);
  assert(h.heard == late + 50);
}

static void who_fails_again_is_trusted_later_each_time(void)
{
  static const unsigned hold[] = {50, 100, 200, 400, 450, 450};
  start();
  h.cfg.hold_max = 450 * DC_MS;
  dc_time now = T0;
  struct said s = up, again = up;
  again.state = INIT;
  for (unsigned i = 0; i < sizeof hold / sizeof hold[0]; i++) {
    says(now, again);
    assert(h.state == UP);
    s.state = DOWN;
    says(now += DC_MS, s);
    assert(h.failures == i + 1 && h.held_until == now + hold[i] * DC_MS);
    now = h.held_until;
    says(now - 1, up);
    assert(h.state == DOWN && h.link == DC_LINK_UNHEARD);
  }
  says(now, again);
  assert(h.state == UP && h.hold == 450 * DC_MS);
  now += 64 * h.cfg.slow; /* not forgiven yet */
  h.heard = now;
  says(now, s);
  assert(h.held_until == now + 450 * DC_MS);
  says(now = h.held_until, again);
  says(now += 64 * h.cfg.slow + 1, s);
  assert(h.held_until == now + 50 * DC_MS && h.hold == 100 * DC_MS);
}

/* ---- away ---- */

static void who_says_that_it_goes_is_waited_for(void)
{
  start();
  rise(T0);
  struct said s = up;
  s.away = 4000;
  says(T0, s);
  assert(h.awaited && h.away_until == T0 + 4 * DC_SEC && dc_hello_next_wake(&h) == T0 + 4 * DC_SEC);
  s.away = 1;
  says(T0, s);
  assert(h.awaited && dc_hello_next_wake(&h) == T0 + 400 * DC_MS); /* its silence alone lasts longer */
  s.away = 10001;
  says(T0, s);
  assert(h.away_until == T0 + 10 * DC_SEC);
  (void)dc_hello_poll(&h, T0 + 9 * DC_SEC, out);
  assert(h.awaited && h.link == DC_LINK_UP);
  struct said back = up; /* another run, which does not hear us yet */
  back.from = 0xbbbc;
  back.to = 0;
  h.next = T0 + 40 * DC_SEC;
  says(T0 + 9 * DC_SEC, back);
  assert(h.link == DC_LINK_UP && h.failures == 0 && h.next == T0 + 9 * DC_SEC); /* it hears at once that it is heard */
  assert(h.away_until == T0 + 10 * DC_SEC);
  h.next = T0 + 40 * DC_SEC;
  back.to = OWN;
  back.state = INIT;
  says(T0 + 9 * DC_SEC + 1, back);
  assert(h.away_until == T0 + 10 * DC_SEC && h.next == T0 + 40 * DC_SEC);
  back.state = UP;
  says(T0 + 9 * DC_SEC + 2, back); /* here */
  assert(h.away_until == T0 + 9 * DC_SEC + 2 && !h.awaited);
  back.state = DOWN;
  says(T0 + 9 * DC_SEC + 3, back);
  assert(h.failures == 1);
}

static void who_is_away_longer_has_failed(void)
{
  start();
  rise(T0);
  struct said s = up;
  s.away = 4000;
  says(T0, s);
  h.polled = T0 + 4 * DC_SEC; /* as it runs all the time */
  assert(dc_hello_poll(&h, T0 + 4 * DC_SEC - 1, out) == 0 && h.link == DC_LINK_UP && h.awaited);
  (void)dc_hello_poll(&h, T0 + 4 * DC_SEC, out);
  assert(h.link == DC_LINK_SILENT && !h.awaited && h.away_until == 0);
  start();
  rise(T0);
  says(T0, s);
  s.away = 0;
  s.state = DOWN;
  says(T0 + 4 * DC_SEC - 1, s); /* the next run of it: until then it may say what it likes */
  assert(h.link == DC_LINK_UP);
  says(T0 + 4 * DC_SEC, s);
  assert(h.link == DC_LINK_UNHEARD && h.away_until == 0 && !h.awaited);
}

static void who_goes_says_for_how_long(void)
{
  static const struct {
    dc_time away;
    uint16_t ms;
  } row[] = {{0, 0}, {DC_MS - 1, 0}, {1500 * DC_MS, 1500}, {10 * DC_SEC, 10000}, {11 * DC_SEC, 10000}};
  start();
  for (unsigned i = 0; i < sizeof row / sizeof row[0]; i++) {
    h.next = T0 + 40 * DC_SEC;
    dc_hello_leave(&h, T0 + i, row[i].away);
    assert(h.next == T0 + i && dc_hello_poll(&h, T0 + i, out) > 0);
    assert(dc_get16(out + DC_HEADER_LEN + 10) == row[i].ms);
  }
}

/* ---- long ones ---- */

static unsigned next_length(dc_time now)
{
  h.next = now;
  return dc_hello_poll(&h, now, out);
}

static void a_long_hello_goes_now_and_then_as_both_ends_take_it(void)
{
  start();
  h.cfg.mtu = 9000;
  struct said s = up;
  s.mtu = 1500;
  s.state = DOWN;
  says(T0, s);
  assert(h.peer_mtu == 1500 && next_length(T0) == DC_HELLO_LEN); /* it is not up */
  s.state = UP;
  says(T0, s);
  assert(next_length(T0) == 1500 && h.whole_next == T0 + 2 * DC_SEC);
  h.heard = T0 + 2 * DC_SEC;
  assert(next_length(T0 + 2 * DC_SEC - 1) == DC_HELLO_LEN && next_length(T0 + 2 * DC_SEC) == 1500);
  s.mtu = 9001;
  says(T0 + 5 * DC_SEC, s);
  assert(next_length(T0 + 5 * DC_SEC) == 9000 && dc_get16(out + DC_AT_LENGTH) == 9000 - DC_HEADER_LEN);
  s.mtu = 0;
  says(T0 + 10 * DC_SEC, s);
  assert(next_length(T0 + 10 * DC_SEC) == DC_HELLO_LEN);
  s.mtu = 20;
  says(T0 + 15 * DC_SEC, s);
  assert(next_length(T0 + 15 * DC_SEC) == DC_HELLO_LEN);
  s.mtu = 1500;
  s.length = 11; /* one byte too short to say */
  says(T0 + 16 * DC_SEC, s);
  assert(h.peer_mtu == 0);
}

static void what_came_whole_of_late_is_told(void)
{
  start();
  h.cfg.mtu = 9000;
  struct said s = up;
  s.mtu = 1500;
  says(T0, s);
  (void)dc_hello_poll(&h, T0, out);
  assert(h.whole == 0 && h.carried == -1);
  h.heard = h.polled = T0 + 8 * DC_SEC;
  (void)dc_hello_poll(&h, T0 + 8 * DC_SEC, out);
  assert(h.carried == -1); /* four long ones may be lost */
  h.heard = h.polled = T0 + 8 * DC_SEC + 1;
  (void)dc_hello_poll(&h, T0 + 8 * DC_SEC + 1, out);
  assert(h.carried == 0);
  s.length = 13;
  says(T0 + 9 * DC_SEC, s);
  assert(h.whole == DC_HELLO_LEN + 1 && h.whole_heard == T0 + 9 * DC_SEC);
  s.length = 0;
  says(T0 + 10 * DC_SEC, s); /* a usual one between */
  assert(h.whole == DC_HELLO_LEN + 1 && h.whole_heard == T0 + 9 * DC_SEC);
  h.heard = h.polled = T0 + 17 * DC_SEC;
  (void)dc_hello_poll(&h, T0 + 17 * DC_SEC, out);
  assert(h.carried == DC_HELLO_LEN + 1);
  h.heard = h.polled = T0 + 17 * DC_SEC + 1;
  (void)dc_hello_poll(&h, T0 + 17 * DC_SEC + 1, out);
  assert(h.carried == 0);
  h.cfg.mtu = DC_HELLO_LEN; /* neither end takes more than a usual one: nothing to say */
  (void)dc_hello_poll(&h, T0 + 17 * DC_SEC + 2, out);
  assert(h.carried == -1);
  h.cfg.mtu = 9000;
  h.peer_mtu = DC_HELLO_LEN;
  (void)dc_hello_poll(&h, T0 + 17 * DC_SEC + 3, out);
  assert(h.carried == -1);
  h.cfg.whole = 0; /* all are: then as often as hellos go */
  h.cfg.slow = 3 * DC_SEC;
  h.heard = h.polled = T0 + 21 * DC_SEC;
  (void)dc_hello_poll(&h, T0 + 21 * DC_SEC, out);
  assert(h.carried == DC_HELLO_LEN + 1);
  h.heard = h.polled = T0 + 21 * DC_SEC + 1;
  (void)dc_hello_poll(&h, T0 + 21 * DC_SEC + 1, out);
  assert(h.carried == -1);
}

int main(void)
{
  what_is_usual();
  hellos_go_at_the_interval_that_they_announce();
  a_hello_names_the_neighbour_and_its_own_state();
  the_three_states_follow_the_neighbours();
  who_has_failed_wants_to_be_heard_again();
  an_old_number_is_refused_a_very_old_one_is_anothers();
  silence_is_three_intervals_and_four_times_as_much_as_they_stray();
  a_link_is_silent_from_that_moment_on();
  a_poll_that_came_too_late_blames_nobody();
  who_fails_again_is_trusted_later_each_time();
  who_says_that_it_goes_is_waited_for();
  who_is_away_longer_has_failed();
  who_goes_says_for_how_long();
  a_long_hello_goes_now_and_then_as_both_ends_take_it();
  what_came_whole_of_late_is_told();
  puts("hello's moments ok");
  return 0;
}
