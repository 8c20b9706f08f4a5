#include "cc_others.h"

#include "datacast/wire.h"

enum {
  SHOWS = 3, /* rounds: what is told is asked for in the next, sent in the one after it, and has come in the third */
  PAUSE = 16 /* after a try that brought nothing */
};

uint32_t others_try(const struct others *o, const struct steps *credits)
{
  return o->before == 0 ? 0 : dc_path_packets((uint8_t)(dc_path_flags(o->before - credits->plan) + 0x10));
}

void others_forget(struct others *o, struct steps *credits)
{
  if (o->before != 0)
    steps_back(credits, o->before);
  o->before = 0;
  o->rest = 0;
}

bool others_found(struct others *o, struct steps *credits, uint64_t taken, uint64_t queued)
{
  uint32_t w = steps_told(credits);
  o->best = taken > o->best ? taken : o->best;
  if (o->rest > 0) {
    o->rest--;
    return false;
  }
  if (o->before == 0) {
    if (taken >= o->best / 10 * 3 || queued < w / 4 * 3)
      return false;
    o->before = w;
    o->rate = taken;
    o->rest = SHOWS - 1;
    return false;
  }
  /* A fourth of what all of a queue's being theirs would bring. */
  if (w > o->before && taken >= o->rate + o->rate / 4 * (w - o->before) / o->before) {
    o->before = 0;
    return true;
  }
  others_forget(o, credits);
  o->rest = PAUSE;
  return false;
}
