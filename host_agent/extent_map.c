#include "extent_map.h"

#include <errno.h>
#include <stdlib.h>

#include "agent_limits.h"

static uint32_t end_of(const struct dc_extent *e) { return e->seq + e->count; }

int extent_map_append(struct extent_map *m, const struct dc_extent *e)
{
  if (e->count == 0 || e->count > UINT32_MAX - e->seq || e->first > UINT64_MAX - e->count)
    return -EINVAL;
  if (m->n > 0) {
    const struct dc_extent *last = &m->e[m->n - 1];
    if (e->seq == last->seq && e->count == last->count && e->first == last->first)
      return 0;
    if (e->seq < end_of(last))
      return -EINVAL;
  }
  if (m->n == m->cap) {
    uint32_t cap = m->cap == 0 ? 16 : 2 * m->cap;
    struct dc_extent *grown = m->n >= SOURCE_EXTENTS_MAX ? NULL : realloc(m->e, cap * sizeof *grown);
    if (grown == NULL)
      return -ENOSPC;
    m->e = grown;
    m->cap = cap;
  }
  m->e[m->n++] = *e;
  return 0;
}

/* Number of extents that begin at or before seq. */
static uint32_t upto(const struct extent_map *m, uint32_t seq)
{
  uint32_t lo = 0, hi = m->n;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (m->e[mid].seq <= seq)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

const struct dc_extent *extent_map_find(const struct extent_map *m, uint32_t seq)
{
  uint32_t k = upto(m, seq);
  return k == 0 || seq - m->e[k - 1].seq >= m->e[k - 1].count ? NULL : &m->e[k - 1];
}

const struct dc_extent *extent_map_from(const struct extent_map *m, uint32_t seq)
{
  uint32_t k = upto(m, seq);
  if (k > 0 && seq - m->e[k - 1].seq < m->e[k - 1].count)
    k--;
  return k == m->n ? NULL : &m->e[k];
}

bool extent_map_piece(const struct extent_map *m, uint32_t seq, uint64_t *piece)
{
  const struct dc_extent *e = extent_map_find(m, seq);
  if (e != NULL)
    *piece = e->first + (seq - e->seq);
  return e != NULL;
}

void extent_map_cut(struct extent_map *m, uint32_t seq)
{
  while (m->n > 0 && m->e[m->n - 1].seq >= seq)
    m->n--;
  if (m->n > 0 && end_of(&m->e[m->n - 1]) > seq)
    m->e[m->n - 1].count = seq - m->e[m->n - 1].seq;
}

uint32_t extent_map_end(const struct extent_map *m) { return m->n == 0 ? 0 : end_of(&m->e[m->n - 1]); }

uint32_t extent_map_mark(const struct extent_map *m, uint32_t seq)
{
  uint32_t k = upto(m, seq);
  if (k > 0) {
    const struct dc_extent *e = &m->e[k - 1];
    uint32_t middle = e->seq + e->count / 2;
    if (seq < middle)
      return middle;
    if (seq < end_of(e))
      return end_of(e);
  }
  if (k == m->n)
    return UINT32_MAX;
  const struct dc_extent *e = &m->e[k];
  return e->count > 1 ? e->seq + e->count / 2 : end_of(e);
}

void extent_map_free(struct extent_map *m)
{
  free(m->e);
  *m = (struct extent_map){NULL, 0, 0};
}
