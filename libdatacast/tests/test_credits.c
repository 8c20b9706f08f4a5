/* Credits that follow what the source says that its path holds. */
#include <stdio.h>

#include "receivers.h"

static enum dc_rx_result told(struct side *s, dc_time now, uint32_t seq, uint32_t packets)
{
  struct dc_header h = {.type = DC_TYPE_DATA, .flags = dc_path_flags(packets), .length = PIECE, .tree = 1, .seq = seq};
  uint64_t piece;
  return dc_receiver_handle(s->r, now, &h, &piece);
}

static uint32_t out(struct side *s, dc_time now)
{
  asked(s->r, now, in, CAP);
  dc_receiver_counters(s->r, &c);
  return c.outstanding;
}

static void they_grow_at_once_and_are_given_up_one_by_one(void)
{
  struct side s = make(100000, 16);
  assert(assign(&s, 0, 100000, 0) == 0 && out(&s, 0) == 16);
  assert(told(&s, 1, 0, 0) == DC_RX_NEW && out(&s, 1) == 16);
  assert(told(&s, 1, 1, 48) == DC_RX_NEW && out(&s, 1) == 64);
  assert(told(&s, 1, 2, 512) == DC_RX_NEW && out(&s, 1) == 528);
  uint32_t seq = 3;
  for (uint32_t w = 528; w > 64; w--)
    for (unsigned k = 0; k < 4; k++, seq++) {
      assert(out(&s, 1) == w);
      assert(told(&s, 1, seq, 48) == DC_RX_NEW);
    }
  assert(out(&s, 1) == 64 && told(&s, 1, seq, 48) == DC_RX_NEW && out(&s, 1) == 64);
  assert(told(&s, 1, seq + 1, DC_CREDITS_MAX) == DC_RX_NEW && out(&s, 1) == DC_CREDITS_MAX);
  drop(&s);
}

/* Numbers from `seq` on, but for one: three later ones show that it is lost. */
static void lose(struct side *s, dc_time now, uint32_t seq, uint32_t packets)
{
  for (uint32_t k = 1; k <= 3; k++)
    assert(told(s, now, seq + k, packets) == DC_RX_NEW);
}

static void a_loss_costs_those_beyond_the_plans_and_once_per_window(void)
{
  struct side s = make(100000, 16);
  assert(assign(&s, 0, 100000, 0) == 0 && out(&s, 0) == 16);
  lose(&s, 1, 0, 0);
  assert(out(&s, 1) == 16 && c.by_gap == 1); /* the plan's are never cut */
  assert(told(&s, 1, 0, 0) == DC_RX_NEW && told(&s, 1, 4, 256) == DC_RX_NEW && out(&s, 1) == 272);
  lose(&s, 1, 5, 256);
  lose(&s, 1, 9, 256);
  dc_receiver_counters(s.r, &c);
  assert(c.by_gap == 3 && out(&s, 1) > 0 && told(&s, 1, 5, 256) == DC_RX_NEW && told(&s, 1, 9, 256) == DC_RX_NEW);
  /* What was out stays out: nothing is asked for until it is seven tenths, and what has come back since. */
  uint32_t seq = 13;
  for (dc_receiver_counters(s.r, &c); asked(s.r, 1, in, CAP) == 0; seq++)
    assert(told(&s, 1, seq, 256) == DC_RX_NEW);
  assert(seq >= 13 + 55 && seq <= 13 + 75);
  /* Quickly back to seven eighths of where it was lost, then by one per round trip. */
  for (; out(&s, 1) < 272 / 8 * 7; seq++)
    assert(told(&s, 1, seq, 256) == DC_RX_NEW);
  assert(seq <= 13 + 55 + 4 * 45);
  for (unsigned k = 0; k < 1000; k++, seq++, out(&s, 1))
    assert(told(&s, 1, seq, 256) == DC_RX_NEW);
  assert(out(&s, 1) >= 272 / 8 * 7 + 3 && c.outstanding <= 272 / 8 * 7 + 5);
  dc_receiver_restart(s.r, 2); /* another path */
  assert(told(&s, 2, seq, 256) == DC_RX_NEW && out(&s, 2) == 272);
  drop(&s);
}

static void a_timeout_is_no_full_queue(void)
{
  struct side s = make(1000, 16);
  assert(assign(&s, 0, 1000, 0) == 0 && out(&s, 0) == 16);
  assert(told(&s, DC_MS, 0, 64) == DC_RX_NEW && out(&s, DC_MS) == 80);
  assert(out(&s, DC_SEC) == 80 && c.by_timeout > 0);
  for (uint32_t seq = 1; seq < 9; seq++)
    assert(told(&s, DC_SEC + 1, seq, 64) == DC_RX_NEW);
  assert(out(&s, DC_SEC + 1) == 80);
  drop(&s);
}

int main(void)
{
  they_grow_at_once_and_are_given_up_one_by_one();
  a_loss_costs_those_beyond_the_plans_and_once_per_window();
  a_timeout_is_no_full_queue();
  puts("credits: ok");
  return 0;
}
