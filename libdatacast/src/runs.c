#include "runs.h"

#include <string.h>

/* Runs that begin at or before `number`. */
static uint32_t upto(const struct dc_runs *r, uint32_t number)
{
  if (r->n == 0 || number >= r->run[r->n - 1].begin)
    return r->n; /* mostly */
  uint32_t lo = 0, hi = r->n;
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    if (r->run[mid].begin <= number)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

bool dc_runs_has(const struct dc_runs *r, uint32_t number)
{
  uint32_t k = upto(r, number);
  return k > 0 && number < r->run[k - 1].end;
}

/* Two neighbours become one. */
static void join(struct dc_runs *r, uint32_t k)
{
  r->run[k].end = r->run[k + 1].end;
  r->n--;
  memmove(&r->run[k + 1], &r->run[k + 2], (r->n - k - 1) * sizeof r->run[0]);
}

static void make_room(struct dc_runs *r)
{
  uint32_t least = 0;
  for (uint32_t k = 1; k + 1 < r->n; k++)
    if (r->run[k + 1].begin - r->run[k].end < r->run[least + 1].begin - r->run[least].end)
      least = k;
  join(r, least);
}

void dc_runs_add(struct dc_runs *r, uint32_t begin, uint32_t end)
{
  uint32_t k = upto(r, begin);
  bool below = k > 0 && r->run[k - 1].end == begin, above = k < r->n && r->run[k].begin == end;
  if (below) {
    r->run[k - 1].end = end;
    if (above)
      join(r, k - 1);
    return;
  }
  if (above) {
    r->run[k].begin = begin;
    return;
  }
  if (r->n == DC_RUNS_MAX) {
    make_room(r);
    if (dc_runs_has(r, begin)) /* the gap that it would have stood in is no more */
      return;
    k = upto(r, begin);
  }
  memmove(&r->run[k + 1], &r->run[k], (r->n - k) * sizeof r->run[0]);
  r->run[k] = (struct dc_run){begin, end};
  r->n++;
}

void dc_runs_cut(struct dc_runs *r, uint32_t from)
{
  while (r->n > 0 && r->run[r->n - 1].begin >= from)
    r->n--;
  if (r->n > 0 && r->run[r->n - 1].end > from)
    r->run[r->n - 1].end = from;
}

uint32_t dc_runs_above(const struct dc_runs *r, uint32_t number)
{
  uint32_t n = 0;
  for (uint32_t k = r->n; k > 0 && r->run[k - 1].end > number; k--) {
    const struct dc_run *x = &r->run[k - 1];
    n += x->begin > number ? x->end - x->begin : x->end - number - 1;
  }
  return n;
}

uint32_t dc_runs_end(const struct dc_runs *r) { return r->n == 0 ? 0 : r->run[r->n - 1].end; }
