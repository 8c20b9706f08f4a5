/* Steps of credits beside receivers that take them. */
#include "cc_steps.h"

#include <assert.h>
#include <stdio.h>

#include "datacast/wire.h"

enum { PLAN = 48, PACKETS = 400000 };

static uint8_t flags[PACKETS]; /* that a packet carried */

struct receiver {
  uint32_t got, w, asked, fell;
};

static uint32_t random_below(uint32_t n)
{
  static uint64_t x = 88172645463325252u;
  x ^= x << 13, x ^= x >> 7, x ^= x << 17;
  return (uint32_t)(x % n);
}

/* As receiver.c does: at once when credits grow, by one with every fourth packet when they fall. */
static void take(struct receiver *r)
{
  uint32_t goal = PLAN + dc_path_packets(flags[r->got++]);
  if (r->w <= goal)
    r->w = goal, r->fell = 0;
  else if (++r->fell % 4 == 0)
    r->w--;
  if (r->asked < r->got + r->w)
    r->asked = r->got + r->w;
}

static void nothing_is_told_of_a_short_path(void)
{
  struct steps s;
  steps_init(&s, PLAN);
  steps_want(&s, 16);
  assert(steps_tell(&s, 0, PLAN) == 0);
  assert(steps_had(&s, PLAN) == 0 && steps_had(&s, 10) == 0 && steps_had(&s, 1000) == 1000 - PLAN);
  assert(steps_out(&s, 1000) == PLAN);
}

/* The path becomes longer and shorter by chance, and the slower one of two receivers is hundreds of packets behind. */
static void what_receivers_have_had_is_known_whatever_they_were_told(void)
{
  struct steps s;
  struct receiver fast = {.w = PLAN, .asked = PLAN}, slow = fast;
  uint32_t heard = PLAN + 1, changes = 0, least = DC_PATH_MAX, most = 0, path = 0;
  steps_init(&s, PLAN);
  for (uint32_t n = 0; n < PACKETS; n++) {
    if (n % 500 == 0)
      path = n % 80000 < 20000 ? DC_PATH_MAX : random_below(4) == 0 ? random_below(3000) : random_below(300);
    if (n % 50 == 0)
      steps_want(&s, path);
    flags[n] = steps_tell(&s, n, slow.asked);
    changes += n > 0 && flags[n] != flags[n - 1];
    least = dc_path_packets(flags[n]) < least ? dc_path_packets(flags[n]) : least;
    most = dc_path_packets(flags[n]) > most ? dc_path_packets(flags[n]) : most;
    take(&fast);
    if (n >= 300)
      for (unsigned k = 0; k < 2 && slow.got < n; k++)
        if (random_below(10) < 7)
          take(&slow);
    for (; heard < fast.asked;
         heard++) /* of what it asks for at once, when it is told of more credits, each number in turn */
      assert(steps_had(&s, heard) <= fast.got && steps_had(&s, heard) + 1 >= fast.got);
    const struct receiver *both[] = {&fast, &slow};
    for (unsigned i = 0; i < 2; i++) {
      uint32_t had = steps_had(&s, both[i]->asked);
      assert(had + 1 >= both[i]->got && had <= both[i]->got + 1); /* a fourth of a packet that is given up is none */
      assert(steps_out(&s, both[i]->asked) == both[i]->asked - had);
    }
  }
  assert(changes > 100 && least <= 64 && most == dc_path_packets(dc_path_flags(DC_PATH_MAX)));
}

/* Longer is told at once; shorter where it is shorter by two steps of the flags, one at a time, or each jitter would be told. */
static void less_is_told_late(void)
{
  struct steps s;
  steps_init(&s, 0);
  steps_want(&s, 100);
  assert(dc_path_packets(s.next) == 128);
  steps_want(&s, 96);
  assert(dc_path_packets(s.next) == 128);
  steps_want(&s, 64);
  assert(dc_path_packets(s.next) == 96);
  steps_want(&s, UINT64_MAX);
  assert(dc_path_packets(s.next) == DC_PATH_MAX);
  for (unsigned k = 0; k < 20; k++)
    steps_want(&s, 0);
  assert(dc_path_packets(s.next) == 32);
}

/* Four may be on their way when credits grow; one that gives up some goes alone. */
static void steps_wait_for_the_slowest(void)
{
  struct steps s;
  steps_init(&s, PLAN);
  for (unsigned k = 0; k < 8; k++) {
    steps_want(&s, 32u << k);
    uint8_t told = steps_tell(&s, 10 + k, PLAN);
    assert(dc_path_packets(told) == 32u << (k < STEPS - 1 ? k : STEPS - 2));
  }
  steps_init(&s, PLAN);
  steps_want(&s, 512);
  assert(dc_path_packets(steps_tell(&s, 5, PLAN)) == 512);
  steps_want(&s, 0);
  assert(dc_path_packets(steps_tell(&s, 10, PLAN)) == 512); /* nobody has asked for more than the plan's */
  assert(dc_path_packets(steps_tell(&s, 10, PLAN + 600)) == 384);
  steps_want(&s, 0);
  assert(dc_path_packets(steps_tell(&s, 700, 700)) == 384); /* 128 are given up, with 512 packets */
  assert(dc_path_packets(steps_tell(&s, 700, 10 + 512 + PLAN + 384)) == 256);
}

/* Beyond what fits the queues as interests at once a path becomes longer by one step of the flags at a time, each when the slowest has
 * taken the one before. */
static void a_long_path_is_told_step_by_step(void)
{
  struct steps s;
  steps_init(&s, PLAN);
  steps_want(&s, DC_PATH_MAX);
  assert(dc_path_packets(steps_tell(&s, 10, PLAN)) == 1536);
  assert(dc_path_packets(steps_tell(&s, 11, PLAN)) == 1536);
  assert(dc_path_packets(steps_tell(&s, 60, PLAN + 9)) == 1536);
  assert(dc_path_packets(steps_tell(&s, 61, PLAN + 10)) == 3072);
  assert(dc_path_packets(steps_tell(&s, 1700, PLAN + 1536 + 60)) == 3072);
  assert(dc_path_packets(steps_tell(&s, 2000, PLAN + 1536 + 61)) == 6144);
  assert(dc_path_packets(steps_tell(&s, 9000, PLAN + 3072 + 1999)) == 6144);
  assert(dc_path_packets(steps_tell(&s, 9000, PLAN + 3072 + 2000)) == DC_PATH_MAX);
}

int main(void)
{
  nothing_is_told_of_a_short_path();
  what_receivers_have_had_is_known_whatever_they_were_told();
  less_is_told_late();
  steps_wait_for_the_slowest();
  a_long_path_is_told_step_by_step();
  puts("steps: ok");
  return 0;
}
