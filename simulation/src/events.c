#include <stdlib.h>

#include "engine.h"

static bool before(const struct event *a, const struct event *b)
{
  return a->at < b->at || (a->at == b->at && a->who < b->who);
}

static void sink(struct events *e, struct event x)
{
  size_t i = 0;
  for (;;) {
    size_t c = 4 * i + 1;
    if (c >= e->n)
      break;
    size_t end = c + 4 < e->n ? c + 4 : e->n, least = c;
    for (size_t k = c + 1; k < end; k++)
      if (before(&e->heap[k], &e->heap[least]))
        least = k;
    if (!before(&e->heap[least], &x))
      break;
    e->heap[i] = e->heap[least];
    i = least;
  }
  e->heap[i] = x;
}

void events_push(struct events *e, dc_time at, uint32_t who)
{
  if (e->n == e->cap) {
    e->cap = e->cap == 0 ? 1024 : 2 * e->cap;
    e->heap = realloc(e->heap, e->cap * sizeof *e->heap);
    if (e->heap == NULL)
      abort();
  }
  struct event x = {at, who};
  size_t i = e->n++;
  while (i > 0 && before(&x, &e->heap[(i - 1) / 4])) {
    e->heap[i] = e->heap[(i - 1) / 4];
    i = (i - 1) / 4;
  }
  e->heap[i] = x;
}

void events_pop(struct events *e)
{
  struct event last = e->heap[--e->n];
  if (e->n > 0)
    sink(e, last);
}

void events_postpone(struct events *e, dc_time at) { sink(e, (struct event){at, e->heap[0].who}); }
