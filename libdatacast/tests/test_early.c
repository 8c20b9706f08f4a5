/* Interests that came before their numbers: which are kept, and in which order they come out. */
#include "early.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static struct early e;

static struct dc_segment way(uint16_t port) { return (struct dc_segment){.n = 1, .port = {port}}; }

static uint32_t put(uint32_t seq, uint8_t more, uint16_t port)
{
  struct dc_header h = {.type = DC_TYPE_INTEREST, .seq = seq, .more = more, .stops = 1};
  struct dc_segment ret = way(port);
  return early_put(&e, &h, &ret);
}

static bool takes(uint32_t seq, uint8_t more, uint16_t port)
{
  struct early_interest i;
  struct dc_segment ret = way(port);
  return early_take(&e, &i) && i.h.seq == seq && i.h.more == more && dc_segment_equal(&i.ret, &ret);
}

static bool is_empty(void)
{
  struct early_interest i;
  return e.n == 0 && !early_take(&e, &i) && e.n == 0;
}

/* All for one number; and each is kept once. */
static void they_are_told_apart_by_all_that_they_say(void)
{
  memset(&e, 0, sizeof e);
  for (unsigned turn = 0; turn < 2; turn++)
    for (uint16_t i = 0; i < DC_SOURCE_EARLY_MAX; i++)
      assert(put(7, (uint8_t)(i / 2), i % 2) == 0 && e.n == (turn == 0 ? i + 1u : DC_SOURCE_EARLY_MAX));
  for (uint16_t i = 0; i < DC_SOURCE_EARLY_MAX; i++)
    assert(takes(7, (uint8_t)(i / 2), i % 2));
  assert(is_empty());
}

static void the_first_that_came_makes_room_and_says_how_many_it_was_for(void)
{
  memset(&e, 0, sizeof e);
  for (uint32_t i = 0; i < 3 * DC_SOURCE_EARLY_MAX; i++) {
    uint32_t first = i < DC_SOURCE_EARLY_MAX ? 0 : 1 + (i - DC_SOURCE_EARLY_MAX) % 5;
    assert(put(i, (uint8_t)(i % 5), 1) == first);
  }
  for (uint32_t i = 2 * DC_SOURCE_EARLY_MAX; i < 3 * DC_SOURCE_EARLY_MAX; i++)
    assert(takes(i, (uint8_t)(i % 5), 1));
  assert(is_empty());
}

/* What was taken out is not there any more, though its place was not written since. */
static void what_was_taken_out_may_come_again(void)
{
  memset(&e, 0, sizeof e);
  for (uint32_t i = 0; i < DC_SOURCE_EARLY_MAX; i++)
    assert(put(i, 0, 1) == 0);
  assert(takes(0, 0, 1) && put(0, 0, 1) == 0 && e.n == DC_SOURCE_EARLY_MAX);
  for (uint32_t i = 1; i <= DC_SOURCE_EARLY_MAX; i++)
    assert(takes(i % DC_SOURCE_EARLY_MAX, 0, 1));
  assert(is_empty());
}

int main(void)
{
  they_are_told_apart_by_all_that_they_say();
  the_first_that_came_makes_room_and_says_how_many_it_was_for();
  what_was_taken_out_may_come_again();
  puts("early ok");
  return 0;
}
