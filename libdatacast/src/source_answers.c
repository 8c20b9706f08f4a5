#include "source_answers.h"

/* Of what is asked for again so many are looked at; so many may be answered at once after a pause. */
enum { LOOK = 256, AT_ONCE = 8 };

static uint32_t place(const struct source_answers *a, uint32_t i) { return (a->head + i) % DC_SOURCE_QUEUE_MAX; }

void source_answers_init(struct source_answers *a)
{
  a->head = a->n = 0;
  a->repair = a->any = 0;
}

bool source_answers_wait(const struct source_answers *a, uint32_t seq, unsigned child)
{
  for (uint32_t i = 0; i < a->n && i < LOOK; i++) {
    const struct answer *one = &a->row[place(a, i)];
    if (one->seq == seq && one->child == child)
      return true;
  }
  return false;
}

void source_answers_put(struct source_answers *a, dc_time now, struct answer one)
{
  if (a->n == 0 && a->repair < now)
    a->repair = now; /* what is made up for is a wait, no rest */
  a->row[place(a, a->n++)] = one;
}

void source_answers_lowest_first(struct source_answers *a)
{
  struct answer *head = &a->row[a->head], *least = head;
  for (uint32_t i = 1; i < a->n && i < LOOK; i++) {
    struct answer *one = &a->row[place(a, i)];
    least = one->seq < least->seq ? one : least;
  }
  struct answer one = *least;
  *least = *head;
  *head = one;
}

dc_time source_answers_due(const struct source_answers *a, dc_time now)
{
  dc_time at = a->row[a->head].lost && a->repair > a->any ? a->repair : a->any;
  return at > now ? at : now;
}

struct answer source_answers_take(struct source_answers *a)
{
  struct answer one = a->row[a->head];
  a->head = place(a, 1);
  a->n--;
  return one;
}

/* What a process that ran late could not send is made up for, up to AT_ONCE packets. */
static void take_time(dc_time *clock, dc_time now, dc_time step, dc_time taken)
{
  if (*clock + AT_ONCE * step < now)
    *clock = now - AT_ONCE * step;
  *clock += taken;
}

/* What was lost comes at half of that. */
void source_answers_pace(struct source_answers *a, dc_time now, dc_time step, bool lost)
{
  take_time(&a->any, now, step, step);
  if (lost)
    take_time(&a->repair, now, 2 * step, 2 * step);
}

/* New data leaves less for answers, but never less than a fourth. */
void source_answers_pace_new(struct source_answers *a, dc_time now, dc_time step)
{
  take_time(&a->any, now, step, a->any < now + step ? step - step / 4 : 0);
}
