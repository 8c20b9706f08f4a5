/* Do others fill the queue on the way, or is it one's own?
 *
 * In both all credits are on their way, and come back late. A few credits more tell: in one's own queue they bring nothing, beside
 * others they bring rate. They are tried where little is left of what was taken before, and given back where they brought nothing. */
#ifndef DATACAST_CC_OTHERS_H
#define DATACAST_CC_OTHERS_H

#include <stdbool.h>
#include <stdint.h>

#include "cc_steps.h"

struct others {
  uint64_t best, rate; /* the most that was taken in a round; what was taken before the try */
  uint32_t before;     /* credits then; 0: none more are tried */
  uint8_t rest;        /* rounds until it shows, or until the next try */
};

/* A round is over in which so much was taken (bit/s); so many packets stand in queues. Are there others, as a try says that is over? */
bool others_found(struct others *o, struct steps *credits, uint64_t taken, uint64_t queued) __attribute__((nonnull));
/* Packets of a path that are told at least while credits are tried; else 0. */
uint32_t others_try(const struct others *o, const struct steps *credits) __attribute__((nonnull));
/* A try that is not over says nothing any more. */
void others_forget(struct others *o, struct steps *credits) __attribute__((nonnull));

#endif
