/* The content store with least-frequently-used replacement, for the experiment `cachepolicy` only (the paper's section
 * 6.2.4): the list of the core's own store is kept in the order of use counts, oldest first among equals. */
#define dc_store_find fifo_find
#define dc_store_put fifo_put
#include "../../libdatacast/src/store.c"
#undef dc_store_find
#undef dc_store_put

#include <stdlib.h>

enum { STORES = 1 << 16 };

/* Use counts stand beside the stores, found by the address of a store's slots. */
static struct {
  const struct dc_store_slot *slot;
  uint32_t mask, *uses;
} side[STORES];

static uint32_t *uses_of(const struct dc_store *s)
{
  size_t i = ((uintptr_t)s->slot >> 6) * UINT64_C(0x9e3779b97f4a7c15) >> 48;
  while (side[i].slot != NULL && side[i].slot != s->slot)
    i = (i + 1) % STORES;
  if (side[i].slot == NULL || side[i].mask < s->mask) {
    free(side[i].uses);
    side[i].slot = s->slot;
    side[i].mask = s->mask;
    side[i].uses = calloc((size_t)s->mask + 1, sizeof *side[i].uses);
    if (side[i].uses == NULL)
      abort();
  }
  return side[i].uses;
}

/* Put a packet of the list where its use count belongs. */
static void sort_in(struct dc_store *s, uint32_t i)
{
  const uint32_t *uses = uses_of(s);
  struct dc_store_slot *at = &s->slot[i];
  *(at->older == DC_STORE_NONE ? &s->oldest : &s->slot[at->older].newer) = at->newer;
  *(at->newer == DC_STORE_NONE ? &s->newest : &s->slot[at->newer].older) = at->older;
  uint32_t after = s->newest;
  while (after != DC_STORE_NONE && uses[after] > uses[i])
    after = s->slot[after].older;
  at->older = after;
  at->newer = after == DC_STORE_NONE ? s->oldest : s->slot[after].newer;
  *(at->older == DC_STORE_NONE ? &s->oldest : &s->slot[at->older].newer) = i;
  *(at->newer == DC_STORE_NONE ? &s->newest : &s->slot[at->newer].older) = i;
}

const struct dc_store_slot *dc_store_find(const struct dc_store *s, uint32_t seq);
unsigned dc_store_put(struct dc_store *s, const struct dc_buf_ops *ops, uint32_t seq, dc_buf *buf, uint32_t off,
                      uint32_t len);

const struct dc_store_slot *dc_store_find(const struct dc_store *found, uint32_t seq)
{
  const struct dc_store_slot *hit = fifo_find(found, seq);
  if (hit != NULL) {
    uses_of(found)[seq & found->mask]++;
    sort_in((struct dc_store *)(uintptr_t)found, seq & found->mask); /* looking is using here */
  }
  return hit;
}

unsigned dc_store_put(struct dc_store *s, const struct dc_buf_ops *ops, uint32_t seq, dc_buf *buf, uint32_t off,
                      uint32_t len)
{
  while (s->mask + 1 < s->slots) /* old packets stay, so new ones must not need their slots */
    grow(s);
  unsigned evicted = fifo_put(s, ops, seq, buf, off, len);
  uses_of(s)[seq & s->mask] = 0;
  sort_in(s, seq & s->mask);
  return evicted;
}
