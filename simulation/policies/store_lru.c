/* The content store with least-recently-used replacement, for the experiment `cachepolicy` only (the paper's
 * section 6.2.4): the core's own store, but a packet that is found becomes the newest. */
#define dc_store_find fifo_find
#include "../../libdatacast/src/store.c"
#undef dc_store_find

const struct dc_store_slot *dc_store_find(const struct dc_store *s, uint32_t seq);

const struct dc_store_slot *dc_store_find(const struct dc_store *found, uint32_t seq)
{
  const struct dc_store_slot *hit = fifo_find(found, seq);
  if (hit == NULL || hit->newer == DC_STORE_NONE)
    return hit;
  struct dc_store *s = (struct dc_store *)(uintptr_t)found; /* looking is using here */
  uint32_t i = seq & s->mask;
  struct dc_store_slot *at = &s->slot[i];
  *(at->older == DC_STORE_NONE ? &s->oldest : &s->slot[at->older].newer) = at->newer;
  s->slot[at->newer].older = at->older;
  at->older = s->newest;
  at->newer = DC_STORE_NONE;
  s->slot[s->newest].newer = i;
  s->newest = i;
  return hit;
}
