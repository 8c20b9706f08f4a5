/* The children of a tree, and how many numbers wait for them, by themselves. */
#include "children.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "datacast/bytes.h"

#include "waiting.h"

static struct dc_child far[DC_CHILDREN_FAR];
static struct dc_children c = {.far = far};
static bool replaced;

static int add_way(unsigned max, dc_time now, const struct dc_segment *way)
{
  static uint8_t other;
  uint8_t ports[2 * DC_SEG_MAX];
  memset(ports, ++other, sizeof ports); /* what stands behind a way is no part of it */
  for (unsigned i = 0; i < way->n; i++)
    dc_put16(ports + 2 * i, way->port[i]);
  struct dc_segment_view seen = {.n = way->n, .local = way->local, .ports = ports};
  return dc_children_add(&c, max, now, DC_SEC, &seen, &replaced);
}

static int add(uint16_t port, dc_time now)
{
  struct dc_segment way = {.local = true, .n = 1, .port = {port}};
  return add_way(3, now, &way);
}

static void each_way_is_one_child(void)
{
  c.n = 0;
  assert(add(1, 0) == 0 && add(2, 0) == 1 && add(1, 5) == 0 && c.n == 2 && !replaced);
  assert(c.near[0].heard == 0); /* to be looked up is not to be heard */
}

/* What stands behind the last child is another tree's, whose table this was. */
static void a_table_that_is_used_again_is_empty(void)
{
  c.n = 0;
  c.near[0].lag = 77;
  c.near[0].gap = 77;
  assert(add(1, 9) == 0 && c.n == 1);
  assert(c.near[0].heard == 9 && c.near[0].lag == 0 && c.near[0].gap == 0);
}

static void who_is_silent_for_longest_gives_way_but_not_too_soon(void)
{
  c.n = 0;
  for (uint16_t port = 1; port <= 3; port++)
    add(port, 100 + 10 * (dc_time)(port % 3)); /* 110, 120, 100 */
  assert(add(4, 99 + DC_SEC) == -1 && !replaced && c.n == 3);
  assert(add(4, 100 + DC_SEC) == 2 && replaced && c.near[2].heard == 100 + DC_SEC);
  assert(add(3, 109 + DC_SEC) == -1 && add(3, 110 + DC_SEC) == 0 && replaced);
  struct dc_segment way = {.n = 0};
  c.n = 0;
  assert(add_way(0, 5 * DC_SEC, &way) == -1);
}

/* More of them than there are hints: they take each other's, and are found all the same. Those that differ in a port that no
 * hint looks at have one hint for all. */
static void every_child_is_found_among_many(uint8_t ports, uint8_t differ_in)
{
  enum { MANY = 100 };
  struct dc_segment way = {.local = true, .n = ports};
  c.n = 0;
  for (unsigned turn = 0; turn < 3; turn++)
    for (uint16_t i = 0; i < MANY; i++) {
      way.port[differ_in] = (uint16_t)(turn < 2 ? i : i / 2 * 13 % MANY);
      assert(add_way(MANY, 0, &way) == way.port[differ_in]);
    }
  assert(c.n == MANY);
  way.local = false;
  assert(add_way(MANY, 0, &way) == -1); /* it ends elsewhere: another one */
}

static void the_time_between_interests_is_smoothed(void)
{
  struct dc_child child = {.heard = 0};
  dc_child_heard(&child, 80 * DC_US);
  assert(child.gap == 80 && child.heard == 80 * DC_US);
  dc_child_heard(&child, (80 + 160) * DC_US);
  assert(child.gap == 90);
  dc_child_heard(&child, (80 + 160 + 10) * DC_US);
  assert(child.gap == 80);
  dc_child_heard(&child, 100 * DC_SEC);
  assert(child.gap == 80 + (1000000 - 80) / 8); /* a second at most */
}

/* An epoch marks whose a place is; when they have all been used, none is 0, which marks a free place. */
static void the_last_epoch_is_followed_by_one(void)
{
  static struct dc_waiting_set set[8 / DC_WAITING_WAYS];
  static struct dc_waiting_entry more[8 - 8 / DC_WAITING_WAYS];
  struct dc_waiting w = {.epoch = UINT32_MAX - 1};
  dc_waiting_init(&w, set, more, 8);
  assert(w.epoch == UINT32_MAX && dc_waiting_find(&w, 0) == NULL);
  dc_waiting_init(&w, set, more, 8);
  assert(w.epoch == 1 && dc_waiting_find(&w, 0) == NULL);
}

int main(void)
{
  each_way_is_one_child();
  a_table_that_is_used_again_is_empty();
  who_is_silent_for_longest_gives_way_but_not_too_soon();
  every_child_is_found_among_many(2, 1);
  every_child_is_found_among_many(3, 1);
  the_time_between_interests_is_smoothed();
  the_last_epoch_is_followed_by_one();
  puts("children ok");
  return 0;
}
