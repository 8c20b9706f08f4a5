#include "early.h"

static struct early_interest *at(struct early *e, uint32_t i) { return &e->row[(e->head + i) % DC_SOURCE_EARLY_MAX]; }

uint32_t early_put(struct early *e, const struct dc_header *h, const struct dc_segment *ret)
{
  for (uint32_t i = 0; i < e->n; i++) {
    const struct early_interest *known = at(e, i);
    if (known->h.seq == h->seq && known->h.more == h->more && dc_segment_equal(&known->ret, ret))
      return 0;
  }
  uint32_t lost = 0;
  struct early_interest oldest;
  if (e->n == DC_SOURCE_EARLY_MAX && early_take(e, &oldest))
    lost = oldest.h.more + 1u;
  *at(e, e->n++) = (struct early_interest){*h, *ret};
  return lost;
}

bool early_take(struct early *e, struct early_interest *to)
{
  if (e->n == 0)
    return false;
  *to = *at(e, 0);
  e->head = (e->head + 1) % DC_SOURCE_EARLY_MAX;
  e->n--;
  return true;
}
