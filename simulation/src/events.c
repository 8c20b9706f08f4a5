/* Events in the order of (time, who): a wheel of buckets for what comes soon, a 4-ary heap for what comes later. The
 * bucket at hand is sorted, so what happens next is known, and its memory can be fetched in time. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

/* Events per bucket that are too many or too few; buckets between two looks; the widest bucket, as a power of two of
 * ns. */
enum { CROWD = 96, LULL = 24, LOOK = 4096, WIDEST = 16 };

static bool before(const struct event *a, const struct event *b)
{
  return a->at < b->at || (a->at == b->at && a->who < b->who);
}

static void *room(void *array, size_t n, size_t *cap, size_t each)
{
  if (n < *cap)
    return array;
  *cap = *cap == 0 ? 1024 : 2 * *cap;
  array = realloc(array, *cap * each);
  if (array == NULL)
    abort();
  return array;
}

/* ---- later: a heap ---- */

static void sink(struct events *e, struct event x)
{
  size_t i = 0;
  for (;;) {
    size_t c = 4 * i + 1;
    if (c >= e->n_later)
      break;
    size_t end = c + 4 < e->n_later ? c + 4 : e->n_later, least = c;
    for (size_t k = c + 1; k < end; k++)
      if (before(&e->later[k], &e->later[least]))
        least = k;
    if (!before(&e->later[least], &x))
      break;
    e->later[i] = e->later[least];
    i = least;
  }
  e->later[i] = x;
}

static void put_later(struct events *e, struct event x)
{
  e->later = room(e->later, e->n_later, &e->cap_later, sizeof x);
  size_t i = e->n_later++;
  while (i > 0 && before(&x, &e->later[(i - 1) / 4])) {
    e->later[i] = e->later[(i - 1) / 4];
    i = (i - 1) / 4;
  }
  e->later[i] = x;
}

static struct event take_later(struct events *e)
{
  struct event first = e->later[0], last = e->later[--e->n_later];
  if (e->n_later > 0)
    sink(e, last);
  return first;
}

/* ---- soon: the wheel ---- */

static void put_soon(struct events *e, struct event x)
{
  size_t b = (x.at >> e->shift) % EVENTS_BUCKETS;
  uint32_t i = e->bucket[b];
  if (i == 0 || e->cell[i].n == EVENTS_CELL) {
    uint32_t fresh = e->free;
    if (fresh != 0) {
      e->free = e->cell[fresh].next;
    } else {
      e->cell = room(e->cell, e->n_cells + 1, &e->cap_cells, sizeof *e->cell);
      fresh = (uint32_t)++e->n_cells; /* cell 0 is nobody's */
    }
    e->cell[fresh].n = 0;
    e->cell[fresh].next = i;
    e->bucket[b] = i = fresh;
    e->full[b / 64] |= UINT64_C(1) << b % 64;
  }
  e->cell[i].event[e->cell[i].n++] = x;
}

/* Append what stands in a bucket to an array, and give back its cells. */
static struct event *empty(struct events *e, size_t b, struct event *to, size_t *n, size_t *cap)
{
  for (uint32_t i = e->bucket[b], next; i != 0; i = next) {
    struct event_cell *c = &e->cell[i];
    next = c->next;
    for (uint32_t k = 0; k < c->n; k++) {
      to = room(to, *n, cap, sizeof *to);
      to[(*n)++] = c->event[k];
    }
    c->next = e->free;
    e->free = i;
  }
  e->bucket[b] = 0;
  e->full[b / 64] &= ~(UINT64_C(1) << b % 64);
  return to;
}

static void put_now(struct events *e, struct event x)
{
  e->now = room(e->now, e->n_now, &e->cap_now, sizeof x);
  size_t i = e->n_now++;
  for (; i > e->at && before(&x, &e->now[i - 1]); i--)
    e->now[i] = e->now[i - 1];
  e->now[i] = x;
}

void events_push(struct events *e, dc_time at, uint32_t who)
{
  struct event x = {at, who};
  uint64_t b = at >> e->shift;
  if (b <= e->open) {
    put_now(e, x);
    e->seen++;
  } else if (b - e->open < EVENTS_BUCKETS) {
    put_soon(e, x);
  } else {
    put_later(e, x);
  }
}

/* Number of the next bucket of the wheel that is not empty, or UINT64_MAX. */
static uint64_t next_soon(const struct events *e)
{
  size_t start = (e->open + 1) % EVENTS_BUCKETS, word = start / 64;
  uint64_t bits = e->full[word] & ~UINT64_C(0) << start % 64;
  for (size_t i = 0; i <= EVENTS_BUCKETS / 64; i++) {
    if (bits != 0) {
      size_t b = word * 64 + (size_t)__builtin_ctzll(bits);
      return e->open + 1 + (b - start) % EVENTS_BUCKETS;
    }
    word = (word + 1) % (EVENTS_BUCKETS / 64);
    bits = e->full[word];
  }
  return UINT64_MAX;
}

/* Shell's sort: a bucket holds some dozens. */
static void sort(struct event *x, size_t n)
{
  static const size_t gaps[] = {1750, 701, 301, 132, 57, 23, 10, 4, 1};
  for (size_t g = 0; g < sizeof gaps / sizeof gaps[0]; g++)
    for (size_t gap = gaps[g], i = gap; i < n; i++) {
      struct event e = x[i];
      size_t k = i;
      for (; k >= gap && before(&e, &x[k - gap]); k -= gap)
        x[k] = x[k - gap];
      x[k] = e;
    }
}

/* What stands in the heap and belongs into the bucket at hand. */
static void take_due(struct events *e)
{
  while (e->n_later > 0 && e->later[0].at >> e->shift <= e->open)
    put_now(e, take_later(e));
}

/* Wider or narrower buckets, so that they hold some events each. Nothing depends on the width but speed. */
static void fit(struct events *e)
{
  uint64_t each = e->seen / e->looks;
  e->looks = 0;
  e->seen = 0;
  uint32_t shift = each > CROWD && e->shift > 0       ? e->shift - 1
                   : each < LULL && e->shift < WIDEST ? e->shift + 1
                                                      : e->shift;
  if (shift == e->shift)
    return;
  struct event *all = NULL;
  size_t n = 0, cap = 0;
  for (size_t b = 0; b < EVENTS_BUCKETS; b++)
    all = empty(e, b, all, &n, &cap);
  /* Nothing before the end of the bucket that was left is to come: the new one at hand begins there or earlier. */
  dc_time left = (e->open + 1) << e->shift;
  e->shift = shift;
  e->open = left == 0 ? 0 : (left - 1) >> shift;
  for (size_t i = 0; i < n; i++)
    events_push(e, all[i].at, all[i].who);
  free(all);
  take_due(e);
}

/* Sort the next bucket that holds something; false when there is none. */
static bool open_next(struct events *e)
{
  e->at = e->n_now = 0;
  if (++e->looks >= LOOK || e->seen >= LOOK * CROWD)
    fit(e);
  if (e->n_now > 0) /* it moved into the bucket at hand */
    return true;
  uint64_t b = next_soon(e);
  if (e->n_later > 0 && e->later[0].at >> e->shift < b)
    b = e->later[0].at >> e->shift;
  if (b == UINT64_MAX)
    return false;
  e->open = b;
  e->now = empty(e, b % EVENTS_BUCKETS, e->now, &e->n_now, &e->cap_now);
  sort(e->now, e->n_now);
  take_due(e);
  e->seen += e->n_now;
  return true;
}

bool events_ready(struct events *e) { return e->at < e->n_now || open_next(e); }

void events_free(struct events *e)
{
  free(e->now);
  free(e->cell);
  free(e->later);
}
