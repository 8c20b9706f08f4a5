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
  assert(told(&s, 1, seq + 1, DC_PATH_MAX) == DC_RX_NEW && out(&s, 1) == 16 + DC_PATH_MAX);
  drop(&s);
  s = make(100000, DC_CREDITS_MAX - 1000);
  assert(assign(&s, 0, 100000, 0) == 0 && out(&s, 0) == DC_CREDITS_MAX - 1000);
  assert(told(&s, 1, 0, 1024) == DC_RX_NEW && out(&s, 1) == DC_CREDITS_MAX);
  drop(&s);
}

/* Who had fewer than the others would look as if it were behind: a loss is the source's to answer. */
static void a_loss_costs_none(void)
{
  struct side s = make(100000, 16);
  assert(assign(&s, 0, 100000, 0) == 0 && out(&s, 0) == 16);
  assert(told(&s, 1, 0, 256) == DC_RX_NEW && out(&s, 1) == 272);
  for (uint32_t seq = 2; seq <= 4; seq++) /* three later ones show that 1 is lost */
    assert(told(&s, 1, seq, 256) == DC_RX_NEW);
  assert(out(&s, 1) == 272 && c.by_gap == 1);
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

/* Of four packets in a row, as the source says that its path holds less. */
static void those_that_came_before_a_credit_too_few_do_not_count(void)
{
  struct side s = make(1000, 16);
  assert(assign(&s, 0, 1000, 0) == 0 && out(&s, 0) == 16);
  uint32_t seq = 0;
  assert(told(&s, 1, seq++, 48) == DC_RX_NEW && out(&s, 1) == 64);
  for (unsigned turn = 0; turn < 3; turn++) {
    for (unsigned k = 0; k < 3; k++)
      assert(told(&s, 1, seq++, 32) == DC_RX_NEW && out(&s, 1) == 64);
    assert(told(&s, 1, seq++, 48) == DC_RX_NEW && out(&s, 1) == 64);
  }
  for (unsigned k = 0; k < 4; k++)
    assert(told(&s, 1, seq++, 32) == DC_RX_NEW && out(&s, 1) == (k < 3 ? 64 : 63));
  drop(&s);
}

int main(void)
{
  they_grow_at_once_and_are_given_up_one_by_one();
  a_loss_costs_none();
  a_timeout_is_no_full_queue();
  those_that_came_before_a_credit_too_few_do_not_count();
  puts("credits: ok");
  return 0;
}
