/* What losses allow: CUBIC's curve, against RFC 9438's own figures. */
#include "cc_cubic.h"

#include <assert.h>
#include <stdio.h>

enum { PACKET = 1500 };

static const uint64_t link = 100000000;
static const dc_time trip = 100 * DC_MS; /* 833 packets */
static struct cubic c;

static void cut(dc_time now, uint64_t rate, uint64_t least)
{
  assert(cubic_new(&c, c.sent, c.sent + 1));
  cubic_cut(&c, now, rate, least);
}

static bool near(uint64_t rate, double part)
{
  return (double)rate > (part - 0.004) * (double)link && (double)rate < (part + 0.004) * (double)link;
}

static void a_window_of_losses_is_one(void)
{
  cubic_init(&c, link);
  assert(!cubic_bounds(&c));
  assert(cubic_new(&c, 70, 100));
  cubic_cut(&c, DC_SEC, link, 0);
  assert(cubic_bounds(&c) && near(c.most, 0.7));
  assert(!cubic_new(&c, 99, 200)); /* sent before it was answered */
  assert(cubic_new(&c, 100, 200));
  assert(!cubic_new(&c, 199, 300)); /* looked at, and perhaps not answered */
}

/* Three tenths are 250 packets, which are back after (250 / 0.4) ^ 1/3 = 8.5 s: half of that curve is flat. */
static void it_comes_back_along_the_curve(void)
{
  cubic_init(&c, link);
  cut(DC_SEC, link, 0);
  uint64_t before = 0;
  for (dc_time t = DC_SEC; t < 30 * DC_SEC; t += trip) {
    cubic_grow(&c, t, trip, 1, PACKET);
    assert(c.most >= before && c.most <= link);
    before = c.most;
    if (t == 5 * DC_SEC + DC_SEC / 2)
      assert(near(c.most, 1 - 0.4 * 4.05 * 4.05 * 4.05 / 833));
    if (t == 7 * DC_SEC)
      assert(near(c.most, 1 - 0.4 * 2.55 * 2.55 * 2.55 / 833) && cubic_bounds(&c));
  }
  assert(!cubic_bounds(&c));
}

/* Who has less than the last time leaves the rest to others: the curve is flat at 0.85 of that. */
static void who_has_less_leaves_the_rest_to_others(void)
{
  cubic_init(&c, link);
  cut(DC_SEC, link, 0);
  cut(2 * DC_SEC, link / 10 * 7, 0);
  assert(near(c.most, 0.49));
  for (dc_time t = 2 * DC_SEC; t <= 8 * DC_SEC; t += trip)
    cubic_grow(&c, t, trip, 1, PACKET);
  assert(near(c.most, 0.595)); /* K is 5.98 s */
  cut(8 * DC_SEC, link, 0);    /* more than the last time: it is there where it was */
  assert(near(c.most, 0.7) && c.ceiling == link);
}

/* Of 8 packets three tenths are 2.5, after 1.8 s; Reno has them back after five round trips. */
static void a_short_path_comes_back_as_reno_does(void)
{
  for (unsigned times = 1; times <= 2; times++) {
    cubic_init(&c, link);
    dc_time now = DC_SEC;
    cut(now, link, 0);
    for (unsigned rounds = 4 / times; rounds > 0; rounds--)
      cubic_grow(&c, now += DC_MS, DC_MS, times, PACKET);
    assert(near(c.most, 0.7 + 4 * 0.53 / 8.333));
    cubic_grow(&c, now += 2 * DC_MS, DC_MS, times, PACKET);
    assert(!cubic_bounds(&c));
  }
}

static void a_part_is_left_however_often_something_is_lost(void)
{
  cubic_init(&c, link);
  for (unsigned k = 1; k <= 100; k++) {
    cut(k * DC_SEC, c.most, link / 3);
    assert(c.most >= link / 3);
  }
  assert(c.most == link / 3 && c.since == DC_SEC && c.cut == 100 * DC_SEC);
  cubic_grow(&c, 100 * DC_SEC + trip, trip, 1, PACKET);
  cubic_grow(&c, UINT64_MAX, trip, 2, PACKET); /* hours are no more than half a minute */
  assert(!cubic_bounds(&c));
}

int main(void)
{
  a_window_of_losses_is_one();
  it_comes_back_along_the_curve();
  who_has_less_leaves_the_rest_to_others();
  a_short_path_comes_back_as_reno_does();
  a_part_is_left_however_often_something_is_lost();
  puts("cubic: ok");
  return 0;
}
