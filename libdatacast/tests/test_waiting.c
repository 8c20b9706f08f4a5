/* Waiting interests: who waits for a number, and who does not any more. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "waiting.h"

enum { SLOTS = 64 };
static struct dc_waiting_set set[SLOTS / DC_WAITING_WAYS];
static struct dc_waiting_entry more[SLOTS - SLOTS / DC_WAITING_WAYS];

static bool waits(const struct dc_waiting_entry *e, unsigned child) { return e->child[child / 64] >> child % 64 & 1; }

static void a_child_that_is_forgotten_waits_for_nothing_and_all_others_wait_on(void)
{
  for (unsigned gone = 0; gone < DC_CHILDREN_MAX; gone++) {
    struct dc_waiting w;
    dc_waiting_init(&w, set, more, SLOTS);
    for (uint32_t seq = 0; seq < 8; seq++) {
      struct dc_waiting_entry *e = dc_waiting_add(&w, seq, 0, DC_SEC);
      for (unsigned child = 0; child < DC_CHILDREN_MAX; child++)
        dc_waiting_mark(e, child);
    }
    dc_waiting_forget_child(&w, gone);
    for (uint32_t seq = 0; seq < 8; seq++)
      for (unsigned child = 0; child < DC_CHILDREN_MAX; child++)
        assert(waits(dc_waiting_find(&w, seq), child) == (child != gone));
  }
}

static void a_full_set_gives_way_to_the_oldest_and_only_if_it_is_old(void)
{
  struct dc_waiting w;
  memset(set, 0, sizeof set);
  dc_waiting_init(&w, set, more, SLOTS);
  uint32_t sets = w.mask + 1;
  for (uint32_t i = 0; i < DC_WAITING_WAYS; i++)
    dc_waiting_add(&w, i * sets, 0, DC_SEC)->sent =
        (1 + (i + 1) % DC_WAITING_WAYS) * DC_MS; /* the last is the oldest */
  assert(dc_waiting_add(&w, DC_WAITING_WAYS * sets, DC_SEC, DC_SEC) == NULL);
  assert(dc_waiting_add(&w, DC_WAITING_WAYS * sets, DC_SEC + DC_MS, DC_SEC) != NULL);
  assert(dc_waiting_find(&w, (DC_WAITING_WAYS - 1) * sets) == NULL);
  for (uint32_t i = 0; i < DC_WAITING_WAYS - 1; i++)
    assert(dc_waiting_find(&w, i * sets) != NULL);
}

static void each_place_of_a_set_is_given_back_alone(void)
{
  struct dc_waiting w;
  memset(set, 0, sizeof set);
  dc_waiting_init(&w, set, more, SLOTS);
  uint32_t sets = w.mask + 1, all = sets * DC_WAITING_WAYS;
  for (uint32_t seq = 0; seq < all; seq++)
    assert(dc_waiting_add(&w, seq, 0, DC_SEC) != NULL);
  for (uint32_t seq = 0; seq < all; seq++) {
    dc_waiting_remove(&w, dc_waiting_find(&w, seq));
    assert(w.n == all - 1 && dc_waiting_find(&w, seq) == NULL);
    for (uint32_t other = seq % sets; other < all; other += sets)
      assert((dc_waiting_find(&w, other) != NULL) == (other != seq));
    assert(dc_waiting_add(&w, seq, 0, DC_SEC) != NULL);
  }
}

/* The set's first entry lies behind its tags: a moment in it that reads like one is none. */
static void what_stands_behind_the_tags_is_no_number(void)
{
  struct dc_waiting w;
  memset(set, 0, sizeof set);
  dc_waiting_init(&w, set, more, SLOTS);
  uint32_t sought = 3 * (w.mask + 1);
  struct dc_waiting_entry *e = dc_waiting_add(&w, 0, 0, DC_SEC);
  e->sent = (dc_time)((uint64_t)w.epoch << 32 | sought);
  assert(e == &set[0].first && dc_waiting_find(&w, sought) == NULL);
}

/* As many as fit wait while the table grows from 64 sets to 256, each with a child of its own; what the other half held for the tree before
 * is none. */
static void a_table_that_grows_holds_all_who_waited(void)
{
  enum { MOST = 1024 };
  static struct dc_waiting_set large[MOST / DC_WAITING_WAYS];
  static struct dc_waiting_entry rest[MOST - MOST / DC_WAITING_WAYS];
  struct dc_waiting w = {.epoch = 0};
  for (unsigned tree = 0; tree < 3; tree++) {
    dc_waiting_init(&w, large, rest, MOST);
    assert(w.mask == 63 && !dc_waiting_crowded(&w));
    uint32_t grown = 0, first = 1000 * tree;
    for (uint32_t i = 0; i < MOST; i++) {
      if (dc_waiting_crowded(&w) && w.mask < dc_waiting_sets(MOST) - 1) {
        assert(i == w.mask + 1);
        dc_waiting_grow(&w);
        grown++;
      }
      struct dc_waiting_entry *e = dc_waiting_add(&w, first + i, i, DC_SEC);
      assert(e != NULL);
      e->sent = i;
      dc_waiting_mark(e, i % DC_CHILDREN_MAX);
    }
    assert(grown == 2 && w.mask == 255 && w.n == MOST);
    assert(dc_waiting_add(&w, first + MOST, 0, DC_SEC) == NULL);
    for (uint32_t i = 0; i < MOST; i++) {
      struct dc_waiting_entry *e = dc_waiting_find(&w, first + i);
      assert(e != NULL && e->sent == i && waits(e, i % DC_CHILDREN_MAX));
      if (i % 2 == 0)
        dc_waiting_remove(&w, e);
    }
    for (uint32_t i = 0; i < MOST; i++)
      assert((dc_waiting_find(&w, first + i) != NULL) == (i % 2 != 0));
    assert(w.n == MOST / 2);
  }
}

/* Numbers of one set part when it has a new bit, whatever place they stood in. */
static void those_of_one_set_part_when_it_grows(void)
{
  enum { MOST = 512 };
  static struct dc_waiting_set large[MOST / DC_WAITING_WAYS];
  static struct dc_waiting_entry rest[MOST - MOST / DC_WAITING_WAYS];
  struct dc_waiting w = {.epoch = 0};
  dc_waiting_init(&w, large, rest, MOST);
  static const uint32_t seq[DC_WAITING_WAYS] = {64, 128, 192, 0};
  for (unsigned i = 0; i < DC_WAITING_WAYS; i++)
    dc_waiting_add(&w, seq[i], 0, DC_SEC)->sent = 1 + i;
  dc_waiting_grow(&w);
  for (unsigned i = 0; i < DC_WAITING_WAYS; i++)
    assert(dc_waiting_find(&w, seq[i])->sent == 1 + i);
  for (uint32_t i = 4; i < 8; i++)
    assert(dc_waiting_add(&w, 64 * i, 0, DC_SEC) != NULL);
  assert(w.n == 8 && dc_waiting_add(&w, 64 * 8, 9, DC_SEC) == NULL && dc_waiting_add(&w, 64 * 9, 9, DC_SEC) == NULL);
}

int main(void)
{
  a_table_that_grows_holds_all_who_waited();
  those_of_one_set_part_when_it_grows();
  a_child_that_is_forgotten_waits_for_nothing_and_all_others_wait_on();
  a_full_set_gives_way_to_the_oldest_and_only_if_it_is_old();
  each_place_of_a_set_is_given_back_alone();
  what_stands_behind_the_tags_is_no_number();
  puts("waiting ok");
  return 0;
}
