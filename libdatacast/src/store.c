#include "store.h"

#include <stddef.h>

void dc_store_init(struct dc_store *s, struct dc_store_slot *slot, uint32_t slots, uint64_t capacity)
{
  *s = (struct dc_store){
      .slot = slot, .mask = slots - 1, .oldest = DC_STORE_NONE, .newest = DC_STORE_NONE, .capacity = capacity};
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

unsigned dc_store_put(struct dc_store *s, const struct dc_buf_ops *ops, uint32_t seq, dc_buf *buf, uint32_t off,
                      uint32_t len)
{
  unsigned evicted = 0;
  uint32_t i = seq & s->mask;
  struct dc_store_slot *at = &s->slot[i];
  if (at->buf != NULL) {
    evicted += at->seq != seq;
    take_out(s, ops, i);
  }
  while (s->bytes + len > s->capacity && dc_store_pop(s, ops))
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
