/* A source's parts by themselves: answers and their pace, who asks, the queues. */
#include "source_answers.h"
#include "source_children.h"
#include "source_queue.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- answers ---- */

static struct source_answers a;
#define STEP (100 * DC_US)

static void put(dc_time now, uint32_t seq, uint16_t child, bool lost)
{
  source_answers_put(&a, now, (struct answer){seq, child, lost});
}

static void an_answer_waits_for_one_number_and_one_child(void)
{
  source_answers_init(&a);
  assert(a.n == 0 && a.head == 0 && a.any == 0 && a.repair == 0 && !source_answers_wait(&a, 0, 0));
  put(1, 5, 1, false);
  put(1, 6, 2, false);
  assert(a.n == 2 && source_answers_wait(&a, 5, 1) && source_answers_wait(&a, 6, 2));
  assert(!source_answers_wait(&a, 5, 2) && !source_answers_wait(&a, 6, 1) && !source_answers_wait(&a, 7, 1));
  assert(source_answers_take(&a).seq == 5 && !source_answers_wait(&a, 5, 1) && source_answers_wait(&a, 6, 2));
}

/* Round the end of the ring, too. */
static void they_come_out_as_they_went_in_or_the_lowest_first(void)
{
  source_answers_init(&a);
  a.head = DC_SOURCE_QUEUE_MAX - 3;
  for (uint32_t i = 0; i < 8; i++)
    put(1, 100 + i * 5 % 8, 0, i % 3 == 0);
  for (uint32_t i = 0; i < 4; i++) {
    struct answer one = source_answers_take(&a);
    assert(one.seq == 100 + i * 5 % 8 && one.lost == (i % 3 == 0));
  }
  for (uint32_t i = 0; i < 4; i++)
    put(1, 200 - i, 0, false);
  static const uint32_t lowest[] = {101, 103, 104, 106, 197, 198, 199, 200};
  for (unsigned i = 0; i < 8; i++) {
    source_answers_lowest_first(&a);
    assert(a.n == 8 - i && source_answers_take(&a).seq == lowest[i]);
  }
}

static void a_pause_is_made_up_for_by_eight_packets_and_no_more(void)
{
  dc_time now = DC_SEC;
  source_answers_init(&a);
  source_answers_pace(&a, now, STEP, false);
  assert(a.any == now - 8 * STEP + STEP && a.repair == 0);
  a.any = now - 8 * STEP; /* exactly as much */
  source_answers_pace(&a, now, STEP, true);
  assert(a.any == now - 7 * STEP && a.repair == now - 8 * 2 * STEP + 2 * STEP);
  a.any = now + 3 * STEP;
  a.repair = now + 5 * STEP;
  source_answers_pace(&a, now, STEP, true);
  assert(a.any == now + 4 * STEP && a.repair == now + 7 * STEP);
}

/* New data takes three fourths of its time from answers that might have gone, and none of those that wait anyway. */
static void new_data_leaves_a_fourth(void)
{
  dc_time now = DC_SEC;
  source_answers_init(&a);
  a.any = now + STEP - 1;
  source_answers_pace_new(&a, now, STEP);
  assert(a.any == now + STEP - 1 + 3 * STEP / 4);
  a.any = now + STEP;
  source_answers_pace_new(&a, now, STEP);
  assert(a.any == now + STEP);
  a.any = 0;
  source_answers_pace_new(&a, now, STEP);
  assert(a.any == now - 8 * STEP + 3 * STEP / 4 && a.repair == 0);
}

static void what_was_lost_waits_for_both_clocks_the_others_for_one(void)
{
  dc_time now = DC_SEC;
  source_answers_init(&a);
  put(now, 1, 0, true);
  assert(a.repair == now); /* it begins with a wait, no rest */
  put(now + 1, 2, 0, false);
  assert(a.repair == now);
  assert(source_answers_due(&a, now) == now && source_answers_due(&a, now + 5) == now + 5);
  a.repair = now + 100;
  a.any = now + 50;
  assert(source_answers_due(&a, now) == now + 100);
  a.any = now + 150;
  assert(source_answers_due(&a, now) == now + 150);
  a.any = now + 50;
  assert(source_answers_take(&a).lost && source_answers_due(&a, now) == now + 50);
  assert(source_answers_due(&a, now + 60) == now + 60);
  (void)source_answers_take(&a);
  put(now + 10, 3, 0, true);
  assert(a.repair == now + 100); /* that wait is longer */
}

/* ---- who asks ---- */

static struct source_children c;

static struct dc_segment way(uint16_t port) { return (struct dc_segment){.n = 1, .port = {port}}; }

static int child(uint16_t port)
{
  struct dc_segment ret = way(port);
  return source_children_of(&c, &ret);
}

static void heard(unsigned k, dc_time now, uint32_t seq, uint8_t more, uint8_t lag, uint8_t flags)
{
  struct dc_header h = {.type = DC_TYPE_INTEREST, .seq = seq, .more = more, .lag = lag, .flags = flags};
  source_child_heard(&c.child[k], now, &h, 50 + k);
}

static uint32_t low(dc_time now, uint32_t end, uint32_t *depth)
{
  *depth = 1000;
  return source_children_low(&c, now, end, depth);
}

/* The one used longest ago for which nothing waits. */
static void a_new_one_takes_the_place_of_who_is_not_in_use(void)
{
  memset(&c, 0, sizeof c);
  for (uint16_t i = 0; i < DC_SOURCE_CHILDREN_MAX; i++)
    assert(child(i) == i && c.n == i + 1u);
  for (uint16_t i = 0; i < DC_SOURCE_CHILDREN_MAX; i++)
    c.child[i].pending = 1;
  assert(child(3) == 3 && child(100) == -1);
  for (uint16_t i = 4; i < 8; i++)
    c.child[i].pending = 0;
  assert(child(4) == 4);
  c.child[5].far = true;
  c.child[5].end = c.child[5].low = 9;
  assert(child(100) == 5 && c.n == DC_SOURCE_CHILDREN_MAX);
  assert(!c.child[5].far && c.child[5].end == 0 && c.child[5].low == 0 && c.child[5].ret.port[0] == 100);
  assert(child(101) == 6 && child(102) == 7 && child(103) == 4 && child(104) == 5 && child(101) == 6);
  assert(child(105) == 7);
}

static void it_is_known_what_each_has_asked_for(void)
{
  uint32_t depth;
  memset(&c, 0, sizeof c);
  assert(child(1) == 0 && child(2) == 1 && low(0, 90, &depth) == 90 && depth == 1000);
  heard(0, DC_SEC, 10, 3, dc_lag_code(4), 0);
  heard(0, DC_SEC, 10, 3, dc_lag_code(4), 0); /* a copy says nothing new */
  assert(c.child[0].known == 0 && c.child[0].end == 14 && c.child[0].low == 10 && c.child[0].depth == 50);
  heard(0, DC_SEC, 14, 0, 0, 0);
  assert(c.child[0].known == 1 && c.child[0].end == 15 && c.child[0].low == 15);
  assert(low(DC_SEC, 90, &depth) == 90 && depth == 1000); /* perhaps there is no such child */
  heard(0, DC_SEC + 3, 15, 0, 0, 0);
  assert(c.child[0].known == 2 && c.child[0].heard == DC_SEC + 3);
  assert(low(DC_SEC + 3, 16, &depth) == 16 && depth == 50);
  heard(1, DC_SEC, 0, 0, 0, 0); /* who begins is known at once */
  assert(c.child[1].known == 2 && c.child[1].end == 1 && c.child[1].low == 1);
}

static void what_is_asked_for_again_moves_the_lowest_up_alone(void)
{
  memset(&c, 0, sizeof c);
  assert(child(1) == 0);
  heard(0, DC_SEC, 0, 0, 0, 0);
  heard(0, DC_SEC, 40, 0, dc_lag_code(20), 0);
  assert(c.child[0].end == 41 && c.child[0].low == 21);
  heard(0, DC_SEC, 30, 4, dc_lag_code(10), 0); /* up to 25 */
  assert(c.child[0].end == 41 && c.child[0].low == 25);
  heard(0, DC_SEC, 30, 4, dc_lag_code(12), 0); /* from before */
  assert(c.child[0].end == 41 && c.child[0].low == 25);
  heard(0, DC_SEC, 40, 0, dc_lag_code(18), 0); /* the furthest once more: as it says now */
  assert(c.child[0].end == 41 && c.child[0].low == 23);
  heard(0, DC_SEC, 41, 0, dc_lag_code(60), 0); /* behind the first */
  assert(c.child[0].low == 1);
  heard(0, DC_SEC, 41, 0, dc_lag_code(42), 0); /* at it */
  assert(c.child[0].low == 1);
  heard(0, DC_SEC, 42, 0, 0, DC_FLAG_LAST);
  assert(c.child[0].end == 43 && c.child[0].low == UINT32_MAX);
  heard(0, DC_SEC, 20, 0, 0, 0); /* it has asked for all, and asks for one again */
  assert(c.child[0].low == UINT32_MAX);
}

static void one_number_far_ahead_is_not_believed_two_are(void)
{
  memset(&c, 0, sizeof c);
  assert(child(1) == 0);
  heard(0, DC_SEC, 5, 0, 0, 0);
  heard(0, DC_SEC, 6 + 64, 0, 0, 0); /* as far as it may be */
  assert(!c.child[0].far && c.child[0].end == 71);
  heard(0, DC_SEC, 71 + 65, 0, 0, 0);
  assert(c.child[0].far && c.child[0].end == 71);
  heard(0, DC_SEC, 71, 0, 0, 0);
  assert(!c.child[0].far && c.child[0].end == 72);
  heard(0, DC_SEC, 72 + 65, 0, 0, 0);
  heard(0, DC_SEC, 72 + 66, 0, 0, 0);
  assert(!c.child[0].far && c.child[0].end == 72 + 67);
}

/* Of those that are known, ask for more, and wait for something or were heard of lately. */
static void the_lowest_of_all_counts_while_it_is_there(void)
{
  uint32_t depth;
  memset(&c, 0, sizeof c);
  for (uint16_t i = 0; i < 3; i++) {
    assert(child(i) == i);
    heard(i, DC_SEC, 0, 0, 0, 0);
  }
  heard(2, DC_SEC, 1, 19, 0, 0); /* 0 and 1 are at 1, this one at 20 */
  c.first = 20;
  heard(0, DC_SEC + DC_MS, 1, 9, 0, 0); /* 11 */
  heard(1, DC_SEC + 2 * DC_MS, 1, 14, 0, 0);
  c.first = 5; /* all but number 0 is one batch: ends are no distance */
  assert(low(DC_SEC + 2 * DC_MS, 21, &depth) == 21 && depth == 50);
  c.first = 12; /* 0 has nothing of it: it is two behind */
  assert(low(DC_SEC + 2 * DC_MS, 21, &depth) == 11 + 8 && depth == 50);
  c.first = 10; /* up to where it has asked */
  assert(low(DC_SEC + 2 * DC_MS, 21, &depth) == 21);
  c.first = 11;
  assert(low(DC_SEC + 2 * DC_MS, 21, &depth) == 20);
  c.first = 12;
  dc_time gone = DC_SEC + DC_MS + 150 * DC_MS;
  assert(low(gone, 21, &depth) == 19 && depth == 50);
  assert(low(gone + 1, 21, &depth) == 21 && depth == 51); /* silent, and waits for nothing */
  c.child[0].pending = 1;
  assert(low(gone + DC_SEC, 21, &depth) == 19 && depth == 50);
  c.child[0].low = UINT32_MAX;
  assert(low(gone, 21, &depth) == 21 && depth == 51);
}

/* ---- what waits ---- */

static struct source_queue q;

static void the_lower_of_both_queues_goes_first(void)
{
  source_queue_init(&q);
  assert(q.n == 0 && source_queue_find(&q, 0) == NULL);
  assert(source_queue_add(&q, AHEAD, 9, 3) && source_queue_next(&q) == AHEAD);
  assert(source_queue_add(&q, HOLES, 4, 0) && source_queue_next(&q) == HOLES);
  assert(source_queue_find(&q, 9)->children == 8 && source_queue_find(&q, 4)->children == 1);
  assert(source_queue_find(&q, 9)->served == 0 && q.n == 2);
  source_queue_shift(&q, HOLES);
  assert(q.n == 1 && source_queue_find(&q, 4) == NULL && source_queue_find(&q, 9) != NULL);
  assert(source_queue_add(&q, HOLES, 11, 0) && source_queue_next(&q) == AHEAD);
  source_queue_shift(&q, AHEAD);
  assert(source_queue_next(&q) == HOLES && source_queue_first(&q, HOLES)->seq == 11);
}

/* Numbers with one head, in both queues, round the end of each. */
static void each_is_found_whichever_leaves_first(void)
{
  source_queue_init(&q);
  for (unsigned turn = 0; turn < 5; turn++) {
    q.fifo[HOLES].head = q.fifo[AHEAD].head = DC_SOURCE_QUEUE_MAX - 2;
    for (uint32_t i = 0; i < 6; i++)
      assert(source_queue_add(&q, i % 2, 7 + i * HEADS, i));
    unsigned left = 6;
    uint32_t gone[QUEUES] = {0, 1};
    while (left > 0) {
      unsigned which = q.fifo[(turn + left) % 2].n > 0 ? (turn + left) % 2 : (turn + left + 1) % 2;
      assert(source_queue_first(&q, which)->seq == 7 + gone[which] * HEADS);
      source_queue_shift(&q, which);
      gone[which] += 2;
      left--;
      assert(q.n == left);
      for (uint32_t i = 0; i < 6; i++) {
        struct waiting *w = source_queue_find(&q, 7 + i * HEADS);
        assert((w != NULL) == (i >= gone[i % 2]) && (w == NULL || w->children == 1u << i));
      }
    }
  }
}

static void both_together_hold_as_many_as_there_is_room_for(void)
{
  source_queue_init(&q);
  for (uint32_t i = 0; i < DC_SOURCE_QUEUE_MAX; i++)
    assert(source_queue_add(&q, i % 2, i, 0));
  assert(!source_queue_add(&q, HOLES, DC_SOURCE_QUEUE_MAX, 0) && q.n == DC_SOURCE_QUEUE_MAX);
  for (uint32_t i = 0; i < DC_SOURCE_QUEUE_MAX; i++)
    assert(source_queue_find(&q, i)->seq == i);
  source_queue_shift(&q, AHEAD);
  assert(source_queue_add(&q, HOLES, DC_SOURCE_QUEUE_MAX, 0) && q.fifo[HOLES].n == DC_SOURCE_QUEUE_MAX / 2 + 1);
}

int main(void)
{
  an_answer_waits_for_one_number_and_one_child();
  they_come_out_as_they_went_in_or_the_lowest_first();
  a_pause_is_made_up_for_by_eight_packets_and_no_more();
  new_data_leaves_a_fourth();
  what_was_lost_waits_for_both_clocks_the_others_for_one();
  a_new_one_takes_the_place_of_who_is_not_in_use();
  it_is_known_what_each_has_asked_for();
  what_is_asked_for_again_moves_the_lowest_up_alone();
  one_number_far_ahead_is_not_believed_two_are();
  the_lowest_of_all_counts_while_it_is_there();
  the_lower_of_both_queues_goes_first();
  each_is_found_whichever_leaves_first();
  both_together_hold_as_many_as_there_is_room_for();
  puts("source's parts ok");
  return 0;
}
