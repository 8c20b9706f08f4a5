/* Do others fill the queue? A cable of 50 Mbit/s whose queue holds the packets of a group, and of others or none. */
#include "cc_others.h"

#include <assert.h>
#include <stdio.h>

#include "datacast/wire.h"

enum { PLAN = 25, CABLE = 50000000 };

static struct others o;
static struct steps credits;
static uint32_t sent;

static void begin(void)
{
  o = (struct others){0};
  steps_init(&credits, PLAN);
  sent = 0;
  for (unsigned k = 0; k < 20; k++) /* alone: all waits at the source */
    assert(!others_found(&o, &credits, CABLE, 3) && others_try(&o, &credits) == 0);
}

/* A round in which so much was taken with all credits on their way. */
static bool one_round(uint64_t taken)
{
  uint32_t w = steps_told(&credits);
  bool found = others_found(&o, &credits, taken, w);
  steps_want(&credits, others_try(&o, &credits));
  sent += 1000;
  steps_tell(&credits, sent, sent);
  return found;
}

static uint64_t beside(uint32_t packets)
{
  uint32_t w = steps_told(&credits);
  return (uint64_t)CABLE * w / (w + packets);
}

static void beside_others_a_few_credits_more_bring_more(void)
{
  begin();
  unsigned rounds = 0;
  while (!one_round(beside(75)))
    assert(++rounds < 4);
  assert(rounds == 3 && steps_told(&credits) == PLAN + 32);
}

/* What others leave may also be theirs by right: who has three tenths of what there is tries nothing. */
static void who_has_enough_asks_for_no_more(void)
{
  begin();
  for (unsigned k = 0; k < 1000; k++)
    assert(!one_round(beside(55)) && steps_told(&credits) == PLAN);
}

/* The cable carries a fifth from now on: to ask for more fills a queue of one's own. It is given back, and not tried again for sixteen rounds. */
static void a_slower_cable_is_nobody_else(void)
{
  begin();
  unsigned more = 0, last = 0, longest = 0;
  for (unsigned k = 0; k < 1000; k++) {
    assert(!one_round(CABLE / 5));
    if (steps_told(&credits) == PLAN)
      continue;
    more++;
    longest = k - last > longest ? k - last : longest;
    last = k;
    assert(steps_told(&credits) == PLAN + 32);
  }
  assert(more > 100 && more < 200 && longest > 14 && longest < 24);
}

/* Credits may be all out, and none of them in a queue: then it is the source that has little to send. */
static void a_source_that_waits_tries_nothing(void)
{
  begin();
  for (unsigned k = 0; k < 100; k++)
    assert(!others_found(&o, &credits, CABLE / 10, PLAN / 2) && others_try(&o, &credits) == 0);
}

static void what_is_tried_is_given_back_when_somebody_is_behind(void)
{
  begin();
  assert(!one_round(beside(75)) && !one_round(beside(75)) && steps_told(&credits) == PLAN + 32);
  others_forget(&o, &credits);
  for (unsigned k = 0; k < 8; k++) {
    steps_want(&credits, others_try(&o, &credits));
    sent += 1000;
    steps_tell(&credits, sent, sent);
  }
  assert(steps_told(&credits) == PLAN);
}

int main(void)
{
  beside_others_a_few_credits_more_bring_more();
  who_has_enough_asks_for_no_more();
  a_slower_cable_is_nobody_else();
  a_source_that_waits_tries_nothing();
  what_is_tried_is_given_back_when_somebody_is_behind();
  puts("others: ok");
  return 0;
}
