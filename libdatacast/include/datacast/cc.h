/* Rate control of a source: one small struct of functions per rule (the paper's section 5.2 is `datacast`). */
#ifndef DATACAST_CC_H
#define DATACAST_CC_H

#include <stdbool.h>
#include <stdint.h>

#include "datacast/time.h"

struct dc_cc_params {
  uint64_t rate_init;    /* bit/s of whole frames */
  uint64_t rate_min;     /* bit/s */
  uint64_t rate_max;     /* bit/s, the source's link */
  uint64_t delta;        /* bit/s added per interval */
  dc_time interval;      /* T */
  uint32_t packet_bytes; /* a full data packet on the wire */
  uint32_t credits; /* what receivers may have out beyond what was told that the path holds, 0 when it is not known */
};

/* What a source learns from one number that is asked for. Positions are counts, in the order of sequence numbers: gaps
 * between numbers, and numbers far ahead of the others, do not show. */
struct dc_cc_event {
  bool duplicate; /* asks for what was already sent */
  bool retx;
  uint32_t lag;      /* so many of the numbers asked for the slowest has not asked for yet */
  uint32_t seq;      /* its position: of a duplicate among the numbers sent; else that of the newest one asked for */
  uint32_t next_seq; /* how many numbers were sent so far */
  uint32_t depth;    /* packets that the caches this interest asks for hold (C / packet), at least 1 */
  bool dry;          /* all that there is had been asked for and sent since the last one */
  bool last;         /* there is nothing new to ask for after this */
};

#define DC_CC_STATE 448 /* bytes a rule may keep */

struct dc_cc_ops {
  const char *name;
  bool spreads_repairs; /* what is asked for again is sent at the highest rate, what was lost at half of it, and to whom
                           is furthest behind first; else at once, and in turn */
  void (*init)(void *state, dc_time now, const struct dc_cc_params *p);
  void (*interest)(void *state, dc_time now, const struct dc_cc_event *e);
  void (*tick)(void *state, dc_time now); /* called at or after next_tick; may come late and then catches up */
  dc_time (*next_tick)(const void *state);
  uint64_t (*rate)(const void *state); /* bit/s */
  /* What the path holds, for receivers (DC_FLAG_PATH), from the packet on before which `sent` were sent; NULL: never told. */
  uint8_t (*told)(void *state, uint32_t sent, uint64_t limit);
};

extern const struct dc_cc_ops dc_cc_datacast; /* r <- r/2 on a duplicate, r <- r + delta after T without one */
extern const struct dc_cc_ops dc_cc_steady;   /* holds the slowest receiver at a steady lag in the caches */

/* By name; NULL when unknown. dc_cc_name(i) lists them, the default first, NULL after the last. */
const struct dc_cc_ops *dc_cc_find(const char *name) __attribute__((nonnull));
const char *dc_cc_name(unsigned i);

#endif
