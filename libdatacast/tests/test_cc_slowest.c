/* What a source knows of its slowest receiver, from counts. */
#include "cc_slowest.h"

#include <assert.h>
#include <stdio.h>

enum { CREDITS = 16, PACKET = 1500, STORE = 40 };
#define GIGABIT UINT64_C(1000000000)

static struct slowest q;
static dc_time now;

/* So many were sent, the first has asked for `front` and the slowest for `lag` less. */
static void hear(uint32_t sent, uint32_t front, uint32_t lag)
{
  q.sent = sent;
  slowest_heard(&q, now, &(struct dc_cc_event){.seq = front - 1, .next_seq = sent, .lag = lag, .depth = STORE});
}

static void begin(void)
{
  now = DC_SEC;
  slowest_init(&q, now, PACKET, CREDITS);
  q.rate = GIGABIT;
  trips_seen(&q.rounds, 60 * DC_US); /* five packets */
}

static void what_it_has_had_is_what_it_asked_for_less_its_credits(void)
{
  begin();
  hear(100, 116, 10);
  assert(first_had(&q) == 100 && slowest_had(&q) == 90 && slowest_lag(&q) == 10);
  assert(slowest_path(&q) == 5 && slowest_excess(&q) == 10 - 5);
  assert(slowest_room(&q) == STORE + CREDITS - 5);
  assert(slowest_target(&q) == CREDITS); /* less than three quarters of the room */
}

static void a_path_holds_no_more_than_its_credits(void)
{
  begin();
  trips_seen(&q.trips, DC_SEC); /* of the slowest itself, which stood still */
  hear(100, 116, 10);
  assert(slowest_path(&q) == CREDITS && slowest_room(&q) == STORE);
}

static void another_one_is_measured_from_now_on(void)
{
  begin();
  hear(100, 116, 10);
  slowest_measure_from(&q, now);
  now += DC_MS;
  hear(108, 124, 10);
  assert(slowest_moved(&q) == 8 && q.moved == now && q.since.at < now);
  hear(108, 124, 11); /* a step in how it is told */
  assert(slowest_moved(&q) == 8 && q.since.at < now);
  hear(108, 124, 12);
  assert(slowest_moved(&q) == 0 && q.since.at == now);
}

static void a_small_distance_that_stays_is_none(void)
{
  begin();
  hear(100, 116, 5);
  slowest_measure_from(&q, now);
  hear(108, 124, 5);
  assert(!slowest_in_step(&q)); /* perhaps a host that was held up, and is behind by that from now on */
  hear(108, 124, 4);
  assert(slowest_in_step(&q) && slowest_lag(&q) == 0 && slowest_excess(&q) == 4 - 5 - 4);
  slowest_measure_from(&q, now);
  hear(116, 132, 12);
  assert(!slowest_in_step(&q) && slowest_lag(&q) == 8);
  hear(116, 132, 8);
  slowest_measure_from(&q, now);
  hear(120, 136, 8); /* half of what it may be behind: with so few credits nothing would be left */
  assert(slowest_in_step(&q) && slowest_lag(&q) == 0);
  hear(120, 136, 1); /* and shrinks at once */
  hear(120, 136, 4);
  assert(slowest_lag(&q) == 3);
}

int main(void)
{
  what_it_has_had_is_what_it_asked_for_less_its_credits();
  a_path_holds_no_more_than_its_credits();
  another_one_is_measured_from_now_on();
  a_small_distance_that_stays_is_none();
  puts("cc_slowest ok");
  return 0;
}
