/* The receiver's timer by itself, to the nanosecond. */
#include "receiver_timer.h"

#include <assert.h>
#include <stdio.h>

static const struct dc_receiver_cfg cfg = {.rto_min = 10 * DC_MS, .rto_init = 100 * DC_MS, .rto_max = 500 * DC_MS};

static struct receiver_timer started(void)
{
  struct receiver_timer t = {.srtt = 7 * DC_SEC, .rttvar = 7 * DC_SEC, .late = 7 * DC_SEC, .measured = true};
  timer_restart(&t, &cfg);
  assert(!t.measured && t.late == 0 && t.rto == 100 * DC_MS);
  return t;
}

static void clean(struct receiver_timer *t, dc_time took) { timer_answered(t, &cfg, took, true); }

static void answers_are_smoothed(void)
{
  struct receiver_timer t = started();
  clean(&t, 40 * DC_MS);
  assert(t.measured && t.late == 40 * DC_MS && t.srtt == 40 * DC_MS && t.rttvar == 20 * DC_MS);
  assert(t.rto == 120 * DC_MS);
  clean(&t, 80 * DC_MS); /* farther off than they were: a fourth of it */
  assert(t.srtt == 45 * DC_MS && t.rttvar == 25 * DC_MS && t.rto == 145 * DC_MS);
  clean(&t, 29 * DC_MS); /* nearer: a 64th */
  assert(t.srtt == 43 * DC_MS && t.rttvar == 24859375 && t.rto == 43 * DC_MS + 4 * 24859375);
  clean(&t, DC_MS); /* earlier is as far off as later */
  assert(t.rttvar == (3 * 24859375 + 42 * DC_MS) / 4);
}

static void the_timer_has_half_as_much_again_where_nothing_varies(void)
{
  struct receiver_timer t = started();
  for (unsigned i = 0; i < 150; i++)
    clean(&t, 80 * DC_MS);
  assert(4 * t.rttvar < 40 * DC_MS && t.srtt == 80 * DC_MS && t.rto == 120 * DC_MS);
}

static void it_stays_within_its_bounds(void)
{
  struct receiver_timer t = started();
  clean(&t, DC_MS);
  assert(t.rto == 10 * DC_MS);
  t = started();
  clean(&t, 200 * DC_MS);
  assert(t.rto == 500 * DC_MS);
  t = started();
  clean(&t, 600 * DC_MS); /* the path takes longer than the bound: twice as long as it is */
  assert(t.rto == 1200 * DC_MS);
}

static void it_doubles_up_to_its_bound(void)
{
  static const unsigned rto[] = {200, 400, 500, 500};
  struct receiver_timer t = started();
  for (unsigned i = 0; i < 4; i++) {
    timer_back_off(&t, &cfg);
    assert(t.rto == rto[i] * DC_MS);
  }
}

/* How long it may be is known from an answer to what was asked for again, too; how long the path is is not. */
static void its_bound_follows_the_latest_answer(void)
{
  struct receiver_timer t = started();
  timer_answered(&t, &cfg, 900 * DC_MS, false);
  assert(!t.measured && t.late == 900 * DC_MS && t.rto == 100 * DC_MS);
  for (unsigned i = 0; i < 6; i++)
    timer_back_off(&t, &cfg);
  assert(t.rto == 1800 * DC_MS);

  t = started();
  clean(&t, 600 * DC_MS);
  timer_answered(&t, &cfg, 100 * DC_MS, false); /* the path is longer than that */
  assert(t.late == 100 * DC_MS && t.srtt == 600 * DC_MS);
  for (unsigned i = 0; i < 6; i++)
    timer_back_off(&t, &cfg);
  assert(t.rto == 1200 * DC_MS);
  timer_answered(&t, &cfg, 700 * DC_MS, false);
  timer_back_off(&t, &cfg);
  assert(t.rto == 1400 * DC_MS);
  timer_restart(&t, &cfg); /* another path: nothing is known of it */
  for (unsigned i = 0; i < 6; i++)
    timer_back_off(&t, &cfg);
  assert(t.rto == 500 * DC_MS);
}

int main(void)
{
  answers_are_smoothed();
  the_timer_has_half_as_much_again_where_nothing_varies();
  it_stays_within_its_bounds();
  it_doubles_up_to_its_bound();
  its_bound_follows_the_latest_answer();
  puts("receiver's timer ok");
  return 0;
}
