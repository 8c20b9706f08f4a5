/* How far apart packets come to the first receiver: what the narrowest link on the way takes, however long they stood in its queue.
 *
 * A round trip does not tell a long path from a queue that was there before: new trees begin behind the packets of the old ones.
 * Packets that come more slowly than they were sent do (packet trains: Jain and Routhier 1986; BBR's delivery rate). */
#ifndef DATACAST_CC_SPACING_H
#define DATACAST_CC_SPACING_H

#include <stdbool.h>
#include <stdint.h>

#include "datacast/time.h"

struct spacing {
  uint32_t packet_bytes, train; /* so many are timed together */
  uint32_t had;                 /* at the end of the last that were timed */
  dc_time at;
  uint64_t rate, before; /* the highest of this round and of the one before; 0: none was timed */
  uint64_t sent, next;   /* at which rate what comes in this round and in the next one was sent */
  bool known;            /* some were timed once */
};

/* Sources of so many credits at least, which come as one train. */
void spacing_init(struct spacing *s, uint32_t packet_bytes, uint32_t credits, uint64_t rate) __attribute__((nonnull));
/* It has had so many. True: those are the first that tell anything. */
bool spacing_seen(struct spacing *s, dc_time now, uint32_t had) __attribute__((nonnull));
/* The rate that the links are known to take, where that is less than what was sent; else more than any. 0: nothing is known yet. */
uint64_t spacing_most(const struct spacing *s) __attribute__((nonnull));
/* A round is over, and `rate` is sent in the next one. Not `told`: there was nothing to send, and it tells nothing. */
void spacing_round(struct spacing *s, uint64_t rate, bool told) __attribute__((nonnull));

#endif
