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
  uint8_t room[6 * DC_SEG_MAX], *ports = room + 2 * DC_SEG_MAX;
  memset(room, ++other, sizeof room); /* what stands before a way and behind it is no part of it */
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

/* The one that was silent for longest, wherever it stands; of two the first. */
static void whoever_was_silent_for_longest_gives_way(void)
{
  static const dc_time heard[][4] = {{100, 120, 110, 0}, {120, 100, 110, 1}, {120, 110, 100, 2}, {100, 100, 100, 0}};
  for (unsigned i = 0; i < 4; i++) {
    c.n = 0;
    for (uint16_t k = 0; k < 3; k++)
      assert(add((uint16_t)(k + 1), heard[i][k]) == k);
    assert(add(4, 100 + DC_SEC) == (int)heard[i][3] && replaced);
    assert(add(4, 100 + DC_SEC) == (int)heard[i][3] && !replaced);
  }
  struct dc_segment way = {.n = 1, .port = {1}}, other = {.n = 1, .port = {2}};
  c.n = 0; /* a table of one */
  assert(add_way(1, 100, &way) == 0 && add_way(1, 99 + DC_SEC, &other) == -1);
  assert(add_way(1, 100 + DC_SEC, &other) == 0 && replaced && c.n == 1);
}

static void what_a_child_tells_counts_when_it_is_new(void)
{
  struct dc_child child = {.seq = 0};
  static const struct {
    uint32_t last;
    uint8_t lag;
    bool new;
    uint32_t seq, asked;
  } row[] = {{10, 3, true, 10, 7},   {10, 5, true, 10, 5},   {9, 4, false, 10, 5}, {9, 3, true, 10, 6},
             {10, 6, true, 10, 4},   {9, 0, true, 10, 9},    {5, 9, false, 10, 9}, {11, 12, true, 11, 0},
             {10, 11, false, 11, 0}, {10, 10, false, 11, 0}, {10, 9, true, 11, 1}, {40, 0, true, 40, 40}};
  for (unsigned i = 0; i < sizeof row / sizeof row[0]; i++) {
    assert(dc_child_tells(&child, row[i].last, dc_lag_code(row[i].lag)) == row[i].new);
    assert(child.seq == row[i].seq && dc_child_asked(&child) == row[i].asked);
  }
}

static void it_is_known_how_often_a_child_was_heard_of(void)
{
  struct dc_child child = {.heard = DC_SEC};
  dc_child_heard(&child, DC_SEC); /* as when it was added */
  assert(child.again == 0 && child.gap == 0);
  for (unsigned i = 1; i < 5; i++) {
    dc_child_heard(&child, DC_SEC + i * 500);
    assert(child.again == (i < 2 ? i : 2) && child.gap == 1 && child.heard == DC_SEC + i * 500);
  }
  dc_child_heard(&child, child.heard + 2 * DC_US);
  assert(child.gap == 1);
  dc_child_heard(&child, child.heard + 9 * DC_US);
  assert(child.gap == 2);
  dc_child_heard(&child, child.heard + DC_SEC + DC_US);
  assert(child.gap == 2 + 999998 / 8);
}

/* Among the near ones, and among those that stand apart. */
static void one_that_asks_is_enough(void)
{
  for (unsigned one = 0; one < 7; one++) {
    memset(c.near, 0, sizeof c.near);
    memset(far, 0, sizeof far);
    c.n = 7;
    for (unsigned i = 0; i < 8; i++)
      dc_child_at(&c, i)->front_len = 5;
    assert(!dc_children_asking(&c));
    dc_child_at(&c, one)->gap = 1;
    assert(dc_children_asking(&c));
    c.n = one;
    assert(!dc_children_asking(&c));
    dc_children_forget_fronts(&c);
    for (unsigned i = 0; i < 8; i++)
      assert(dc_child_at(&c, i)->front_len == (i < one ? 0 : 5));
  }
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
  whoever_was_silent_for_longest_gives_way();
  what_a_child_tells_counts_when_it_is_new();
  it_is_known_how_often_a_child_was_heard_of();
  one_that_asks_is_enough();
  puts("children ok");
  return 0;
}
