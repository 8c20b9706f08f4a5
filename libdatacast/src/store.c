#include "store.h"

#include <stddef.h>

/* Slots at first, and per packet. */
enum { SLOTS_MIN = 16, PER_PACKET = 4 };

void dc_store_init(struct dc_store *s, struct dc_store_slot *slot, uint32_t slots, uint32_t capacity)
{
  *s = (struct dc_store){.slot = slot,
                         .mask = (slots < SLOTS_MIN ? slots : SLOTS_MIN) - 1,
                         .slots = slots,
                         .oldest = DC_STORE_NONE,
                         .newest = DC_STORE_NONE,
                         .capacity = capacity};
}

const struct dc_store_slot *dc_store_find(const struct dc_store *s, uint32_t seq)
{
  const struct dc_store_slot *at = &s->slot[seq & s->mask];
  return at->buf != NULL && at->seq == seq ? at : NULL;
}

static void take_out(struct dc_store *s, const struct dc_buf_ops *ops, uint32_t i)
{
  struct dc_store_slot *at = &s->slot[i];
  if (at->older == DC_STORE_NONE)
    s->oldest = at->newer;
  else
    s->slot[at->older].newer = at->newer;
  if (at->newer == DC_STORE_NONE)
    s->newest = at->older;
  else
    s->slot[at->newer].older = at->older;

  s->packets--;
  s->bytes -= at->len;
  ops->unref(at->buf);
  at->buf = NULL;
}

bool dc_store_pop(struct dc_store *s, const struct dc_buf_ops *ops)
{
  if (s->oldest == DC_STORE_NONE)
    return false;
  take_out(s, ops, s->oldest);
  return true;
}

void dc_store_drop(struct dc_store *s, const struct dc_buf_ops *ops, uint32_t seq)
{
  if (dc_store_find(s, seq) != NULL)
    take_out(s, ops, seq & s->mask);
}

/* Twice as many slots: whoever has the new bit in his number moves up by as many as there were. */
static void grow(struct dc_store *s)
{
  uint32_t old = s->mask + 1;
  for (uint32_t i = 0; i < old; i++) {
    struct dc_store_slot *from = &s->slot[i], *to = &s->slot[i + old];
    if (from->buf == NULL || (from->seq & old) == 0)
      continue;
    *to = *from;
    from->buf = NULL;
    *(to->older == DC_STORE_NONE ? &s->oldest : &s->slot[to->older].newer) = i + old;
    *(to->newer == DC_STORE_NONE ? &s->newest : &s->slot[to->newer].older) = i + old;
  }
  s->mask = 2 * old - 1;
}

unsigned dc_store_put(struct dc_store *s, const struct dc_buf_ops *ops, uint32_t seq, dc_buf *buf, uint32_t off,
                      uint32_t len)
{
  unsigned evicted = 0;
  while (s->mask + 1 < s->slots && (s->packets + 1) * PER_PACKET > s->mask + 1)
    grow(s);
  uint32_t i = seq & s->mask;
  struct dc_store_slot *at = &s->slot[i];
  if (at->buf != NULL) {
    evicted += at->seq != seq;
    take_out(s, ops, i);
  }
  while ((uint64_t)s->bytes + len > s->capacity && dc_store_pop(s, ops))
    evicted++;

  ops->ref(buf);
  *at = (struct dc_store_slot){
      .buf = buf, .off = off, .len = len, .seq = seq, .older = s->newest, .newer = DC_STORE_NONE};
  if (s->newest == DC_STORE_NONE)
    s->oldest = i;
  else
    s->slot[s->newest].newer = i;
  s->newest = i;
  s->packets++;
  s->bytes += len;
  return evicted;
}
