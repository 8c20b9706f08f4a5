#include "early.h"

static bool known(const struct early *e, const struct dc_header *h, const struct dc_segment *ret)
{
  uint32_t place = e->head, same = 0;
  for (uint32_t i = 0; i < DC_SOURCE_EARLY_MAX; i++) /* mostly none: all at once, free rows too */
    same += e->seq[i] == h->seq;
  if (same == 0)
    return false;
  for (uint32_t i = 0; i < e->n; i++, place = (place + 1) % DC_SOURCE_EARLY_MAX)
    if (e->seq[place] == h->seq && e->row[place].h.more == h->more && dc_segment_equal(&e->row[place].ret, ret))
      return true;
  return false;
}

uint32_t early_put(struct early *e, const struct dc_header *h, const struct dc_segment *ret)
{
  if (known(e, h, ret))
    return 0;
  uint32_t lost = 0;
  struct early_interest oldest;
  if (e->n == DC_SOURCE_EARLY_MAX && early_take(e, &oldest))
    lost = oldest.h.more + 1u;
  uint32_t place = (e->head + e->n++) % DC_SOURCE_EARLY_MAX;
  e->row[place] = (struct early_interest){*h, *ret};
  e->seq[place] = h->seq;
  return lost;
}

bool early_take(struct early *e, struct early_interest *to)
{
  if (e->n == 0)
    return false;
  *to = e->row[e->head];
  e->head = (e->head + 1) % DC_SOURCE_EARLY_MAX;
  e->n--;
  return true;
}
