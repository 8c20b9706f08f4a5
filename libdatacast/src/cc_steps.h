/* Steps of credits: what receivers were told to have out, and so what they have had.
 *
 * A receiver asks for one more number when it has got one, so what it has asked for, less its credits w, is what it has had. The source
 * changes w on the way, with the flags of a packet. Receivers follow from that packet on: at once when w grows, and by one with every
 * fourth packet when it falls. While few such steps are on their way what each has had can still be told, so the next one waits for them. */
#ifndef DATACAST_CC_STEPS_H
#define DATACAST_CC_STEPS_H

#include <stdbool.h>
#include <stdint.h>

enum { STEPS = 4 }; /* that receivers may not have heard of yet */

struct steps {
  uint32_t plan; /* credits that they have beside what the path holds */
  struct {
    uint32_t seq, w; /* receivers have w credits from this packet on */
  } step[STEPS];
  uint8_t next; /* flags: what the path holds, as it is to be told */
};

void steps_init(struct steps *s, uint32_t plan) __attribute__((nonnull));
/* What a receiver has had that has asked for so many. */
uint32_t steps_had(const struct steps *s, uint32_t asked) __attribute__((nonnull));
/* Credits that it has out. */
uint32_t steps_out(const struct steps *s, uint32_t asked) __attribute__((nonnull));
/* The path holds so many packets: more is told at once, less only where it is two of the flags' steps, and one at a time. */
void steps_want(struct steps *s, uint64_t packets) __attribute__((nonnull));
/* Flags of the packet before which `sent` were sent, the slowest receiver having asked for `low`: the next step, if it may be taken. */
uint8_t steps_tell(struct steps *s, uint32_t sent, uint32_t low) __attribute__((nonnull));

#endif
