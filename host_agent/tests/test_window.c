/* A tree that slows down is told of once: not while it goes on as before, nor when it has nothing left to send. */
#include "window.h"

#include <stdio.h>

#include "datapath/tests/check.h"

static struct window w;
static dc_time now;
static uint32_t sent;

/* `pieces` in each of so many milliseconds; how often it fell in them. */
static unsigned go(unsigned ms, uint32_t pieces)
{
  unsigned n = 0;
  for (unsigned i = 0; i < ms; i++) {
    now += DC_MS;
    sent += pieces;
    n += window_fell(&w, now, sent, false);
  }
  return n;
}

static void begin(void)
{
  w = (struct window){0};
  now = DC_SEC;
  sent = 0;
  CHECK(!window_fell(&w, now, 0, true));
}

static void a_fall_is_told_once_and_soon(void)
{
  begin();
  CHECK(go(2000, 8) == 0);
  CHECK(go(200, 1) == 1);
  CHECK(go(5000, 1) == 0);
  CHECK(go(2000, 8) == 0 && go(200, 1) == 1); /* back where it was, and a second time */
}

static void a_fifth_less_is_no_fall_and_a_fall_little_by_little_is(void)
{
  begin();
  CHECK(go(2000, 10) == 0 && go(2000, 8) == 0);
  begin();
  CHECK(go(2000, 100) == 0);
  unsigned n = 0;
  for (uint32_t pieces = 70; pieces > 2; pieces = pieces * 7 / 10)
    n += go(40, pieces);
  CHECK(n > 0);
}

static void a_tree_that_runs_dry_begins_anew(void)
{
  begin();
  CHECK(go(2000, 8) == 0);
  for (unsigned i = 0; i < 1000; i++)
    CHECK(!window_fell(&w, now += DC_MS, sent, true));
  CHECK(go(2000, 1) == 0);
  CHECK(go(2000, 8) == 0);
  sent = 3; /* numbers were cut */
  CHECK(go(2000, 1) == 0);
}

static void of_a_tree_that_sends_next_to_nothing_a_window_says_nothing(void)
{
  begin();
  for (unsigned i = 0; i < 50; i++)
    CHECK(go(99, 0) == 0 && go(1, i < 25) == 0);
}

int main(void)
{
  a_fall_is_told_once_and_soon();
  a_fifth_less_is_no_fall_and_a_fall_little_by_little_is();
  a_tree_that_runs_dry_begins_anew();
  of_a_tree_that_sends_next_to_nothing_a_window_says_nothing();
  puts("windows: ok");
  return 0;
}
