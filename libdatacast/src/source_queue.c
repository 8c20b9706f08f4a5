#include "source_queue.h"

#include <stddef.h>
#include <string.h>

void source_queue_init(struct source_queue *q)
{
  q->n = 0;
  for (unsigned i = 0; i < QUEUES; i++)
    q->fifo[i].head = q->fifo[i].n = 0;
  memset(q->head, NONE, sizeof q->head);
}

static struct waiting *at_place(struct source_queue *q, uint16_t place)
{
  return &q->fifo[(place - 1u) / DC_SOURCE_QUEUE_MAX].w[(place - 1u) % DC_SOURCE_QUEUE_MAX];
}

struct waiting *source_queue_find(struct source_queue *q, uint32_t seq)
{
  for (uint16_t p = q->head[seq % HEADS]; p != NONE; p = at_place(q, p)->chain)
    if (at_place(q, p)->seq == seq)
      return at_place(q, p);
  return NULL;
}

bool source_queue_add(struct source_queue *q, unsigned which, uint32_t seq, unsigned child)
{
  if (q->n == DC_SOURCE_QUEUE_MAX) /* bounds each of the two */
    return false;
  struct fifo *f = &q->fifo[which];
  uint32_t at = (f->head + f->n++) % DC_SOURCE_QUEUE_MAX;
  uint16_t *head = &q->head[seq % HEADS];
  q->n++;
  f->w[at] = (struct waiting){.seq = seq, .chain = *head, .children = (uint16_t)(1u << child)};
  *head = (uint16_t)(which * DC_SOURCE_QUEUE_MAX + at + 1);
  return true;
}

void source_queue_shift(struct source_queue *q, unsigned which)
{
  struct fifo *f = &q->fifo[which];
  const struct waiting *first = source_queue_first(q, which);
  uint16_t place = (uint16_t)(which * DC_SOURCE_QUEUE_MAX + f->head + 1);
  uint16_t *at = &q->head[first->seq % HEADS];
  while (*at != place)
    at = &at_place(q, *at)->chain;
  *at = first->chain;
  f->head = (f->head + 1) % DC_SOURCE_QUEUE_MAX;
  f->n--;
  q->n--;
}

/* The lower number. Numbers that waited before one damaged interest asked for a far one are ahead still, and what is asked for
 * since then are holes: these had gone first, for ever. */
unsigned source_queue_next(const struct source_queue *q)
{
  const struct fifo *holes = &q->fifo[HOLES], *ahead = &q->fifo[AHEAD];
  if (holes->n == 0 || ahead->n == 0)
    return holes->n > 0 ? HOLES : AHEAD;
  return holes->w[holes->head].seq < ahead->w[ahead->head].seq ? HOLES : AHEAD;
}
