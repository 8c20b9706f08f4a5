/* When requests are made again. */
#include <assert.h>
#include <stdio.h>

#include "again.h"

#define S UINT64_C(1000000000)

static void what_fails_is_tried_so_often(void)
{
  struct again a = {0};
  long least[] = {100, 200, 400, 800, 1600};
  for (unsigned i = 0; i < 5; i++)
    assert(again_failed(&a, 6, 0) == least[i]);
  assert(again_failed(&a, 6, 0) == -1 && again_failed(&a, 6, 0) == -1);
}

static void who_failed_together_comes_back_apart(void)
{
  for (uint64_t chance = 0; chance < 300; chance++) {
    struct again a = {0};
    long ms = again_failed(&a, 2, chance);
    assert(ms == 100 + (long)(chance % 101));
  }
}

static void who_refuses_is_asked_until_patience_ends_and_not_before_it_says(void)
{
  struct again a = {0};
  assert(again_refused(&a, 10 * S, 0, 30 * S, 7, 50) == 7150);
  assert(again_refused(&a, 18 * S, 0, 30 * S, 0, 0) == 100 && again_refused(&a, 18 * S, 0, 30 * S, 0, 0) == 200);
  for (unsigned i = 0; i < 20; i++)
    assert(again_refused(&a, 20 * S, 0, 30 * S, 0, 0) <= 4000);
  assert(again_refused(&a, 39 * S, 0, 30 * S, 0, 0) == 1000); /* the last one is at the end */
  assert(again_refused(&a, 39 * S, 0, 30 * S, 2, 0) == -1);   /* later than that */
  assert(again_refused(&a, 40 * S, 0, 30 * S, 0, 0) == -1);
  assert(again_refused(&a, 40 * S, 25 * S, 30 * S, 0, 0) > 0); /* others had something of it meanwhile */
  struct again never = {0};
  assert(again_refused(&never, 1 * S, 0, 30 * S, UINT64_MAX, 0) == -1);
  assert(again_refused(&never, 1 * S, 0, 0, 0, 0) == -1);
}

static void what_came_is_a_new_beginning_unless_it_crawled(void)
{
  struct again a = {0};
  for (unsigned i = 0; i < 4; i++)
    (void)again_failed(&a, 6, 0);
  again_came(&a, 5000, 10 * S, 1024);
  assert(again_failed(&a, 6, 0) == 1600);
  again_came(&a, 5000, 1 * S, 1024);
  assert(again_failed(&a, 6, 0) == 100);
}

int main(void)
{
  what_fails_is_tried_so_often();
  who_failed_together_comes_back_apart();
  who_refuses_is_asked_until_patience_ends_and_not_before_it_says();
  what_came_is_a_new_beginning_unless_it_crawled();
  puts("again: ok");
  return 0;
}
