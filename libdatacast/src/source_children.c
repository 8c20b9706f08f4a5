#include "source_children.h"

#include "far.h"

/* A child that nothing was heard of for so long, and that waits for nothing, is not the slowest: it is done. */
#define STILL (150 * DC_MS)

int source_children_of(struct source_children *c, const struct dc_segment *ret)
{
  int oldest = -1;
  for (unsigned i = 0; i < c->n; i++) {
    if (dc_segment_equal(&c->child[i].ret, ret)) {
      c->child[i].used = ++c->uses;
      return (int)i;
    }
    if (c->child[i].pending == 0 && (oldest < 0 || c->child[i].used < c->child[oldest].used))
      oldest = (int)i;
  }
  if (c->n < DC_SOURCE_CHILDREN_MAX)
    oldest = (int)c->n++;
  if (oldest >= 0)
    c->child[oldest] = (struct source_child){.ret = *ret, .used = ++c->uses};
  return oldest;
}

void source_child_heard(struct source_child *c, dc_time now, const struct dc_header *h, uint32_t depth)
{
  uint32_t end = h->seq + h->more + 1, behind = dc_lag_packets(h->lag);
  if (h->seq == 0 || (c->heard != 0 && end > c->end)) /* a copy says nothing new (seed 134897) */
    c->known = h->seq == 0 || c->known > 0 ? 2 : 1;
  c->heard = now;
  c->depth = depth;
  uint32_t low = end > behind ? end - behind : 1;
  if (end < c->end) { /* what it asks for again tells how far the slowest below has come, too (seed 146707) */
    if (c->low != UINT32_MAX && c->low < low)
      c->low = low;
    return;
  }
  c->far = c->low != UINT32_MAX && !c->far && dc_far(c->end, h->seq);
  if (c->far)
    return;
  c->end = end;
  c->low = (h->flags & DC_FLAG_LAST) != 0 ? UINT32_MAX : low;
}

uint32_t source_children_low(const struct source_children *children, dc_time now, uint32_t end, uint32_t *depth)
{
  uint32_t low = end;
  for (unsigned i = 0; i < children->n; i++) {
    const struct source_child *c = &children->child[i];
    if (c->known < 2 || c->low == UINT32_MAX || (c->pending == 0 && now - c->heard > STILL))
      continue;
    uint32_t to = c->end <= children->first ? children->first + 1 : c->end, at = c->low + (end > to ? end - to : 0);
    low = at < low ? at : low;
    *depth = c->depth < *depth ? c->depth : *depth;
  }
  return low;
}
