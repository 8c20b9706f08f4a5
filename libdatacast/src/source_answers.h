/* Answers of a source to who asks for what was sent already: outside the bucket, under most rules at a pace of their own. */
#ifndef DATACAST_SOURCE_ANSWERS_H
#define DATACAST_SOURCE_ANSWERS_H

#include <stdbool.h>
#include <stdint.h>

#include "datacast/limits.h"
#include "datacast/time.h"

struct answer {
  uint32_t seq;
  uint16_t child;
  bool lost; /* a queue was full: the answer is paced, or the queue would be full again */
};

struct source_answers {
  uint32_t head, n;
  dc_time repair, any;                    /* the next answer to a loss, and to who fell out of the caches */
  struct answer row[DC_SOURCE_QUEUE_MAX]; /* written before they are read */
};

void source_answers_init(struct source_answers *a) __attribute__((nonnull));

/* Who asks a third time while the second answer waits for its turn gets one. */
bool source_answers_wait(const struct source_answers *a, uint32_t seq, unsigned child) __attribute__((nonnull));
/* The caller has made sure that there is room. */
void source_answers_put(struct source_answers *a, dc_time now, struct answer one) __attribute__((nonnull));
/* Who is furthest behind is answered first: on its way it comes to where the next one waits, and from there one answer
 * serves both. Answered in turn they would all go on side by side, each with packets of its own, and never meet. */
void source_answers_lowest_first(struct source_answers *a) __attribute__((nonnull));
/* When the first may go; there is one. */
dc_time source_answers_due(const struct source_answers *a, dc_time now) __attribute__((nonnull));
struct answer source_answers_take(struct source_answers *a) __attribute__((nonnull));

/* The pace: an answer, or a new packet, was sent that takes the source's link `step`. All that a tree sends fits its part of
 * that link, or the rest would stand in the link's queue, where nobody puts the furthest behind first. */
void source_answers_pace(struct source_answers *a, dc_time now, dc_time step, bool lost) __attribute__((nonnull));
void source_answers_pace_new(struct source_answers *a, dc_time now, dc_time step) __attribute__((nonnull));

#endif
