/* Credits that follow the path: a pipe of known bandwidth and delay, and nothing else. */
#include <assert.h>
#include <stdio.h>

#include "credits.h"
#include "datacast/limits.h"

/* A window over a link that passes one packet per `each` ns after a delay of `rtt`. Returns the window after so
 * many. */
static uint32_t drive_by(struct dc_credits *c, dc_time rtt, dc_time each, unsigned packets, bool dup)
{
  static dc_time done[8192], asked[8192];
  dc_time busy = 0, now = 0;
  uint64_t sent = 0, got = 0;
  while (got < packets) {
    while (sent - got < c->w && sent - got < 8192) {
      busy = (busy > now ? busy : now) + each;
      asked[sent % 8192] = now;
      done[sent % 8192] = busy + rtt;
      sent++;
    }
    now = done[got % 8192];
    dc_credits_step(c);
    dc_credits_sample(c, got, sent, now - asked[got % 8192], dup);
    got++;
  }
  return c->w;
}

static uint32_t drive(struct dc_credits *c, dc_time rtt, dc_time each, unsigned packets)
{
  return drive_by(c, rtt, each, packets, false);
}

/* A path that became short needs fewer: they go one by one, not with every packet; and no time at all is some. */
static void credits_follow_what_the_path_needs(void)
{
  struct dc_credits c;
  dc_credits_init(&c, 16, true);
  uint32_t high = drive(&c, 5 * DC_MS, 12 * DC_US, 60000);
  dc_credits_restart(&c);
  uint32_t goal = c.path[c.far].goal;
  c.w = goal + 2;
  c.got = 0;
  for (int i = 0; i < 3; i++)
    dc_credits_step(&c);
  assert(c.w == goal + 2);
  dc_credits_step(&c);
  assert(c.w == goal + 1);
  c.w = goal - 1;
  dc_credits_step(&c);
  assert(c.w == goal && high > 16);
  dc_credits_sample(&c, 1, 2, 0, false);
  assert(c.path[c.far].shortest == 1);
}

static void fixed_credits_stay(void)
{
  struct dc_credits c;
  dc_credits_init(&c, 16, false);
  assert(drive(&c, 10 * DC_MS, 12 * DC_US, 5000) == 16);
  dc_credits_lost(&c);
  assert(c.w == 16);
}

static void a_short_path_needs_no_more_than_the_least(void)
{
  struct dc_credits c;
  dc_credits_init(&c, 16, true);
  uint32_t w = drive(&c, 20 * DC_US, 120 * DC_US, 5000);
  assert(w >= 16 && w <= 18);
}

static void a_long_path_is_filled(void)
{
  struct dc_credits c;
  dc_credits_init(&c, 16, true);
  uint32_t bdp = (uint32_t)(5 * DC_MS / (12 * DC_US)); /* 416 packets */
  uint32_t w = drive(&c, 5 * DC_MS, 12 * DC_US, 60000);
  if (w < bdp / 10 * 9 || w > 2 * bdp)
    fprintf(stderr, "window %u, bandwidth times delay %u\n", w, bdp);
  assert(w >= bdp / 10 * 9 && w <= 2 * bdp); /* it grows and shrinks by an eighth around it */
}

static void a_near_cache_does_not_spoil_the_way_to_the_source(void)
{
  struct dc_credits c;
  dc_credits_init(&c, 16, true);
  uint32_t bdp = (uint32_t)(5 * DC_MS / (12 * DC_US)), w;
  for (int k = 0; k < 3; k++) {
    c.round = 0; /* numbers begin again with each drive */
    w = drive(&c, 20 * DC_US, 12 * DC_US, 20000);
    assert(w < 32);
    c.round = 0;
    w = drive_by(&c, 5 * DC_MS, 12 * DC_US, 60000, true);
    assert(w >= bdp / 10 * 9 && w <= 2 * bdp);
  }
}

static void many_losses_cut_though_no_queue_shows(void)
{
  struct dc_credits c;
  dc_credits_init(&c, 16, true);
  uint32_t w = drive(&c, 5 * DC_MS, 12 * DC_US, 60000);
  dc_credits_sample(&c, 0, 1, 5 * DC_MS, false);
  dc_credits_lost(&c);
  assert(c.w == w); /* one says nothing */
  for (uint32_t k = 0; k < w / 8; k++)
    dc_credits_lost(&c);
  assert(c.w == w * 3 / 4);
}

static void the_limit_holds(void)
{
  struct dc_credits c;
  dc_credits_init(&c, 16, true);
  assert(drive(&c, 500 * DC_MS, DC_US, 400000) == DC_CREDITS_MAX);
}

int main(void)
{
  credits_follow_what_the_path_needs();
  fixed_credits_stay();
  a_short_path_needs_no_more_than_the_least();
  a_long_path_is_filled();
  a_near_cache_does_not_spoil_the_way_to_the_source();
  many_losses_cut_though_no_queue_shows();
  the_limit_holds();
  puts("credits ok");
  return 0;
}
