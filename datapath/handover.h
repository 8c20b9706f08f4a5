/* Frames of one thread to another: a ring of slots, each with room for the longest frame. One thread gives, one takes.
 *
 * A frame is copied, as the buffer that it came in is its giver's alone. Who takes it has it lent, and the slot is free for the
 * next lap when its last owner is gone. What finds no room is the giver's to count and to drop, as where a receive ring is full. */
#ifndef DATAPATH_HANDOVER_H
#define DATAPATH_HANDOVER_H

#include "datapath/bufpool.h"
#include "datapath/loop.h"

enum { HANDOVER_FRAMES = 1024 /* that may wait, or be lent; a power of two */ };

struct handed {
  struct dc_buf buf; /* first: the buffer is the slot */
  uint32_t len;
  uint16_t port;
  bool full; /* atomic: it is the taker's */
} __attribute__((aligned(128)));

struct handover {
  struct watch bell; /* an eventfd in the taker's loop */
  struct loop *loop;
  uint8_t *bytes;
  uint32_t longest;
  bool rung; /* atomic: the bell was rung since the taker heard it */
  struct {   /* frames so far; given: some since the bell was last rung */
    uint32_t at;
    bool silent;
  } __attribute__((aligned(128))) given, taken; /* a line of the caches for each thread */
  struct handed slot[HANDOVER_FRAMES];
};

/* longest: bytes of a frame. 0 or -errno. */
int handover_open(struct handover *h, struct loop *taker, uint32_t longest) __attribute__((nonnull));
void handover_close(struct handover *h) __attribute__((nonnull)); /* nothing is lent any more */

/* Of who gives. False: no room, or longer than any frame. */
bool handover_give(struct handover *h, uint16_t port, const struct dc_frame *frame) __attribute__((nonnull));
/* After some were given: the taker is to know. */
void handover_ring(struct handover *h) __attribute__((nonnull));

/* Of who takes: up to `most` frames, each with one reference, now the caller's. */
unsigned handover_take(struct handover *h, struct dc_frame *frame, unsigned most) __attribute__((nonnull));

#endif
