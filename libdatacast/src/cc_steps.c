#include "cc_steps.h"

#include "datacast/wire.h"

/* Packets of a path that are told at once, as interests for 64 each: 24. */
enum { AT_ONCE = 1536 };

void steps_init(struct steps *s, uint32_t plan)
{
  *s = (struct steps){.plan = plan};
  for (unsigned i = 0; i < STEPS; i++)
    s->step[i].w = plan;
}

uint32_t steps_had(const struct steps *s, uint32_t asked)
{
  for (unsigned i = STEPS - 1; i > 0; i--) {
    uint64_t seq = s->step[i].seq, w = s->step[i].w, before = s->step[i - 1].w;
    if (asked <= seq + before)
      continue;
    uint64_t n = asked > w ? asked - w : 0, slow = seq + (asked - seq - before) * 4 / 3;
    if (w >= before)
      return (uint32_t)(n > seq ? n : seq);
    return (uint32_t)(n < slow ? n : slow);
  }
  return asked > s->step[0].w ? asked - s->step[0].w : 0;
}

uint32_t steps_out(const struct steps *s, uint32_t asked) { return asked - steps_had(s, asked); }

void steps_want(struct steps *s, uint64_t packets)
{
  uint8_t most = dc_path_flags(packets < DC_PATH_MAX ? (uint32_t)packets : DC_PATH_MAX);
  if (most > s->next)
    s->next = most;
  else if (s->next >= 0x20 && most + 0x20 <= s->next)
    s->next = (uint8_t)(s->next - 0x10);
}

/* Has the slowest taken this step? */
static bool taken(const struct steps *s, unsigned i, uint32_t low)
{
  uint32_t before = s->step[i - 1].w, w = s->step[i].w;
  return steps_had(s, low) >= s->step[i].seq + (w < before ? 4 * (before - w) : 0);
}

/* One that gives up credits is on its way alone, and so is one that takes many. */
static bool may_step(const struct steps *s, uint32_t w, uint32_t low)
{
  const uint32_t last = s->step[STEPS - 1].w;
  return taken(s, STEPS - 1, low) ||
         (w > last && w - s->plan <= AT_ONCE && last >= s->step[STEPS - 2].w && taken(s, 1, low));
}

/* What is to be told next: all that is asked for with more credits goes out at once, and has to fit the queues on its way. */
static uint8_t next_of(const struct steps *s)
{
  uint8_t last = dc_path_flags(s->step[STEPS - 1].w - s->plan), most = (uint8_t)(last + 0x10);
  if (dc_path_packets(most) < AT_ONCE)
    most = dc_path_flags(AT_ONCE);
  return last < 0xf0 && s->next > most ? most : s->next;
}

uint8_t steps_tell(struct steps *s, uint32_t sent, uint32_t low)
{
  uint32_t w = s->plan + dc_path_packets(next_of(s)), last = s->step[STEPS - 1].w;
  if (w != last && may_step(s, w, low)) {
    for (unsigned i = 1; i < STEPS; i++)
      s->step[i - 1] = s->step[i];
    s->step[STEPS - 1].seq = sent;
    s->step[STEPS - 1].w = last = w;
  }
  return dc_path_flags(last - s->plan);
}
