#include "children.h"

#include <stddef.h>
#include <string.h>

#include "datacast/bytes.h"

#define GAP_MAX 1000000u /* us */

_Static_assert(DC_CHILDREN_MAX <= UINT8_MAX + 1, "a hint names a child in a byte");
_Static_assert(offsetof(struct dc_child, ret.port[7]) == 64, "a child with a segment of up to seven ports is one line");

/* FNV-1a over what makes a segment. */
static uint32_t segment_hash(const struct dc_segment_view *s)
{
  uint32_t h = (2166136261u ^ s->n ^ (s->local ? 0x100u : 0u)) * 16777619u;
  for (unsigned i = 0; i < s->n; i++)
    h = (h ^ dc_get16(s->ports + 2 * i)) * 16777619u;
  return h;
}

static bool is(const struct dc_segment *a, const struct dc_segment_view *b)
{
  if (a->n != b->n || a->local != b->local)
    return false;
  for (unsigned i = 0; i < b->n; i++)
    if (a->port[i] != dc_get16(b->ports + 2 * i))
      return false;
  return true;
}

/* Children mostly differ in their first or in their last port: no hash of all of it is made for one that was found before. */
static uint8_t *hint_of(struct dc_children *c, const struct dc_segment_view *ret)
{
  unsigned ends = ret->n == 0 ? 0 : dc_get16(ret->ports) + 5u * dc_get16(ret->ports + 2 * (ret->n - 1u));
  return &c->hint[(ends + ret->n) % DC_CHILDREN_HINTS];
}

int dc_children_add(struct dc_children *c, unsigned max, dc_time now, dc_time stale, const struct dc_segment_view *ret,
                    bool *replaced)
{
  uint8_t *hint = hint_of(c, ret);
  *replaced = false;
  if (*hint < c->n && is(&dc_child_at(c, *hint)->ret, ret))
    return *hint;
  uint32_t hash = segment_hash(ret), i;
  for (i = 0; i < c->n; i++)
    if (c->hash[i] == hash && is(&dc_child_at(c, i)->ret, ret)) {
      *hint = (uint8_t)i;
      return (int)i;
    }

  if (c->n < max) {
    c->n++;
  } else {
    i = 0;
    for (uint32_t k = 1; k < c->n; k++)
      if (dc_child_at(c, k)->heard < dc_child_at(c, i)->heard)
        i = k;
    if (c->n == 0 || now - dc_child_at(c, i)->heard < stale)
      return -1;
    *replaced = true;
  }
  *hint = (uint8_t)i;
  c->hash[i] = hash;
  memset(dc_child_at(c, i), 0, sizeof(struct dc_child));
  dc_segment_read(ret, &dc_child_at(c, i)->ret);
  dc_child_at(c, i)->heard = now;
  return (int)i;
}

void dc_children_forget_fronts(struct dc_children *c)
{
  for (uint32_t i = 0; i < c->n; i++)
    dc_child_at(c, i)->front_len = 0;
}

bool dc_children_asking(const struct dc_children *c)
{
  for (uint32_t i = 0; i < c->n; i++)
    if (dc_child_at(c, i)->gap != 0)
      return true;
  return false;
}

bool dc_child_tells(struct dc_child *child, uint32_t last, uint8_t lag)
{
  uint32_t behind = dc_lag_packets(lag), low = last > behind ? last - behind : 0;
  if (last >= child->seq) {
    child->seq = last;
    child->lag = lag;
    return true;
  }
  if (low <= dc_child_asked(child))
    return false;
  child->lag = dc_lag_code(child->seq - low);
  return true;
}

void dc_child_heard(struct dc_child *child, dc_time now)
{
  if (child->heard == now) /* as when it was added */
    return;
  dc_time silent = (now - child->heard) / DC_US;
  uint32_t gap = silent > GAP_MAX ? GAP_MAX : silent == 0 ? 1 : (uint32_t)silent;
  uint32_t was = child->gap;
  child->heard = now;
  child->again = child->again == 0 ? 1 : 2;
  if (was == 0 || gap <= was)
    gap = was == 0 ? gap : was - (was - gap) / 8;
  else
    gap = was + (gap - was) / 8;
  child->gap = gap & DC_CHILD_GAP;
}
