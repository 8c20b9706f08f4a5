/* The slowest receiver, as its source knows it: what it has had, how fast, and what stands on its way.
 *
 * A receiver asks for one more number when it has got one, and interests tell how many numbers the slowest has not asked for yet
 * (lag). The source gave them their credits, so what the slowest has asked for, less these, is what it has had: nothing is searched. */
#ifndef DATACAST_CC_SLOWEST_H
#define DATACAST_CC_SLOWEST_H

#include "cc_packets.h"
#include "cc_steps.h"
#include "datacast/cc.h"

enum { ALONE = 4 }; /* packets that it may be behind by chance */

/* Round trips: one begins when the one before is over, and is over when somebody has had more than was sent before it. */
struct trips {
  dc_time begun, least; /* the shortest that was seen; 0: none yet */
  uint32_t until;
};

struct slowest {
  uint64_t rate; /* R, as far as known */
  uint32_t packet_bytes;
  struct steps credits;
  struct trips rounds, trips; /* of the first to ask; of the slowest (hosts that take turns, test_busy_hosts.py) */
  uint32_t front, low;        /* what the first and the slowest have asked for */
  uint32_t sent, depth;       /* packets sent; what the least store on its way holds */
  uint32_t stale;             /* packets that it only seems to be behind */
  dc_time moved;              /* when it last asked for more */
  struct {
    dc_time at;
    uint32_t had, sent;
    bool edge; /* it had got something just then, where it was waited for in silence before (range, 100 ms: 0.957) */
  } since;     /* begin of the measurement */
};

void slowest_init(struct slowest *q, dc_time now, uint32_t packet_bytes, uint32_t credits) __attribute__((nonnull));
/* What is told with one number that is asked for anew. Where another one is the slowest now, its measurement begins. */
void slowest_heard(struct slowest *q, dc_time now, const struct dc_cc_event *e) __attribute__((nonnull));

static inline uint32_t slowest_had(const struct slowest *q) { return steps_had(&q->credits, q->low); }
static inline uint32_t first_had(const struct slowest *q) { return steps_had(&q->credits, q->front); }
/* What the way to it holds at R: no more than its credits, however long it stood still when it was timed. */
uint64_t slowest_path(const struct slowest *q) __attribute__((nonnull));
/* Packets on their way to it beyond that: x. */
int64_t slowest_excess(const struct slowest *q) __attribute__((nonnull));
/* How far behind the first it is. */
uint32_t slowest_lag(const struct slowest *q) __attribute__((nonnull));
/* How large its excess may be; and where it is held: X. */
uint64_t slowest_room(const struct slowest *q) __attribute__((nonnull));
uint64_t slowest_target(const struct slowest *q) __attribute__((nonnull));

void slowest_measure_from(struct slowest *q, dc_time now) __attribute__((nonnull));
/* Packets that it has had since. */
static inline uint32_t slowest_moved(const struct slowest *q) { return slowest_had(q) - q->since.had; }
/* Has it taken all that was sent since, at the same small distance? Then its rate is not known, and the distance may be none. */
bool slowest_in_step(struct slowest *q) __attribute__((nonnull));

static inline dc_time trips_took(struct trips *t, dc_time now, uint32_t sent)
{
  dc_time took = now > t->begun ? now - t->begun : 1;
  t->begun = now;
  t->until = sent;
  return took;
}

static inline void trips_seen(struct trips *t, dc_time took)
{
  t->least = t->least == 0 || took < t->least ? took : t->least;
}

#endif
