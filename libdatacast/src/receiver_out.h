/* The interests of a receiver that are out, each in a slot, found by its number.
 *
 * Slots are found through a hash whose heads lie side by side for neighbouring numbers, and stand in one of three lists, each
 * in the order of sending. */
#ifndef DATACAST_RECEIVER_OUT_H
#define DATACAST_RECEIVER_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "datacast/limits.h"
#include "datacast/time.h"

enum out_list {
  FRESH,   /* sent once: later data that arrives counts against the first ones (loss by gap) */
  RETRIED, /* sent again: only the timer counts from now on */
  LOST,    /* to be sent again at the next poll */
  LISTS
};
enum { SLOTS = DC_CREDITS_MAX, HEADS = SLOTS, NONE = 0xffff };

struct out_slot {
  dc_time sent;
  uint64_t order; /* of the first sending */
  uint32_t seq;
  uint32_t later;  /* packets that arrived though they were asked for later */
  uint32_t before; /* microseconds from the first sending to the last one */
  uint16_t chain;  /* next in the hash, or next free slot */
  uint16_t prev, next;
  uint8_t list;
  bool retried, nocache;
};

struct receiver_out {
  uint64_t order;         /* of the next sending */
  uint16_t free, touched; /* slots given back; slots that were ever in use */
  struct {
    uint16_t head, tail;
    uint32_t n;
  } list[LISTS];
  uint16_t head[HEADS];
  struct out_slot slot[SLOTS]; /* touched when they are needed first */
};

void out_init(struct receiver_out *o) __attribute__((nonnull));
static inline uint32_t out_count(const struct receiver_out *o)
{
  return o->list[FRESH].n + o->list[RETRIED].n + o->list[LOST].n;
}
/* The slot of this number, or NONE. */
uint16_t out_find(const struct receiver_out *o, uint32_t seq) __attribute__((nonnull));
/* A slot for a number that is asked for now, FRESH. The caller has made sure that one is free: fewer than SLOTS are out. */
uint16_t out_take(struct receiver_out *o, dc_time now, uint32_t seq) __attribute__((nonnull));
/* To the end of a list. */
void out_move(struct receiver_out *o, uint16_t i, enum out_list to) __attribute__((nonnull));
void out_release(struct receiver_out *o, uint16_t i) __attribute__((nonnull));
/* As dc_receiver_prefetch. */
void out_prefetch(const struct receiver_out *o, uint32_t seq, unsigned step) __attribute__((nonnull));

#endif
