/* A tree that slows down is told of once: not while it goes on as before, nor when it has nothing left to send. */
#include "window.h"

#include <stdio.h>

#include "datapath/tests/check.h"

static struct window w;
static dc_time now;
static uint32_t sent, bore;

/* `pieces` in each of so many milliseconds; how often it fell in them. */
static unsigned go(unsigned ms, uint32_t pieces)
{
  unsigned n = 0;
  for (unsigned i = 0; i < ms; i++) {
    now += DC_MS;
    sent += pieces;
    n += window_slowed(&w, now, sent, false, bore);
  }
  return n;
}

static void begin(void)
{
  w = (struct window){0};
  now = DC_SEC;
  sent = bore = 0;
  CHECK(!window_slowed(&w, now, 0, true, bore));
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
    CHECK(!window_slowed(&w, now += DC_MS, sent, true, bore));
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

static void what_it_bears_is_told_once_and_not_again_where_its_window_fell(void)
{
  begin();
  CHECK(go(2000, 8) == 0);
  bore++;
  CHECK(go(1, 8) == 1 && go(2000, 8) == 0);
  const struct window kept = w;
  const dc_time then = now;
  const uint32_t had = sent;
  unsigned ms = 1;
  while (ms < 1000 && go(1, 1) == 0)
    ms++;
  w = kept;
  now = then;
  sent = had;
  CHECK(go(ms - 1, 1) == 0);
  bore++; /* at the moment at which its window falls */
  CHECK(go(1, 1) == 1 && go(5000, 1) == 0);
}

int main(void)
{
  a_fall_is_told_once_and_soon();
  a_fifth_less_is_no_fall_and_a_fall_little_by_little_is();
  a_tree_that_runs_dry_begins_anew();
  of_a_tree_that_sends_next_to_nothing_a_window_says_nothing();
  what_it_bears_is_told_once_and_not_again_where_its_window_fell();
  puts("windows: ok");
  return 0;
}
