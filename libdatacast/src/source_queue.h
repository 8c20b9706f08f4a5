/* The numbers that wait for tokens at a source, each once, with all who asked for it. */
#ifndef DATACAST_SOURCE_QUEUE_H
#define DATACAST_SOURCE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "datacast/limits.h"

/* HOLES, the numbers below what was sent already, go first: their first interests were lost on the way, and receivers that
 * have all around them wait for them. */
enum { HOLES, AHEAD, QUEUES };

struct waiting {
  uint32_t seq;
  uint16_t chain;    /* next in the hash */
  uint16_t children; /* who asked: a bit for each child */
  uint16_t served;   /* who was sent it while others wait: they ask for a duplicate next time */
};

struct fifo {
  uint32_t head, n;
  struct waiting w[DC_SOURCE_QUEUE_MAX]; /* written before they are read */
};

/* A number is found through a hash, which names its place in the queues, plus one. */
enum { PLACES = QUEUES * DC_SOURCE_QUEUE_MAX, HEADS = PLACES, NONE = 0 };
_Static_assert((HEADS & (HEADS - 1)) == 0 && PLACES <= UINT16_MAX, "a place is a head's 16 bits");

struct source_queue {
  uint32_t n; /* in both, at most DC_SOURCE_QUEUE_MAX */
  struct fifo fifo[QUEUES];
  uint16_t head[HEADS];
};

void source_queue_init(struct source_queue *q) __attribute__((nonnull));

static inline struct waiting *source_queue_first(struct source_queue *q, unsigned which)
{
  return &q->fifo[which].w[q->fifo[which].head];
}

struct waiting *source_queue_find(struct source_queue *q, uint32_t seq) __attribute__((nonnull));
/* At the end. False: full. */
bool source_queue_add(struct source_queue *q, unsigned which, uint32_t seq, unsigned child) __attribute__((nonnull));
/* The first one leaves. */
void source_queue_shift(struct source_queue *q, unsigned which) __attribute__((nonnull));
/* Which of the two goes on: not both are empty. */
unsigned source_queue_next(const struct source_queue *q) __attribute__((nonnull));

#endif
