/* The content store of one tree: a FIFO of C bytes, indexed by sequence number (the paper's section 5.3).
 *
 * Names are numbers: a packet stands in slot seq & mask, and a list through the slots keeps the order of arrival. New
 * packets push the oldest out. Two packets that need one slot (sequence numbers a whole ring apart) cannot both stay:
 * the later one wins. The ring grows with what is in it, up to its limit: a store of 14 jumbo packets touches 2 KB of
 * slots, not all there are. */
#ifndef DATACAST_STORE_H
#define DATACAST_STORE_H

#include <stdbool.h>

#include "datacast/buf.h"

struct dc_store_slot {
  dc_buf *buf;  /* NULL: empty */
  uint32_t off; /* of the Datacast header */
  uint32_t len; /* payload bytes */
  uint32_t seq;
  uint32_t older, newer; /* slots in order of arrival; DC_STORE_NONE at the ends */
};

#define DC_STORE_NONE UINT32_MAX

struct dc_store {
  struct dc_store_slot *slot; /* the caller's, zeroed */
  uint32_t mask;              /* of the slots in use now */
  uint32_t slots;             /* most that may be */
  uint32_t oldest, newest;
  uint32_t packets;
  uint32_t bytes;    /* payload */
  uint32_t capacity; /* C */
};

/* `slots` is a power of two; the slots are empty. */
void dc_store_init(struct dc_store *s, struct dc_store_slot *slot, uint32_t slots, uint32_t capacity)
    __attribute__((nonnull));

/* The packet, or NULL. */
const struct dc_store_slot *dc_store_find(const struct dc_store *s, uint32_t seq) __attribute__((nonnull));

/* Take in a packet as the newest, in place of one of the same number; `len` is at most the capacity. Takes a reference
 * of its own. Returns how many other packets had to go. */
unsigned dc_store_put(struct dc_store *s, const struct dc_buf_ops *ops, uint32_t seq, dc_buf *buf, uint32_t off,
                      uint32_t len) __attribute__((nonnull(1, 2)));

/* Forget one packet, when it is there. */
void dc_store_drop(struct dc_store *s, const struct dc_buf_ops *ops, uint32_t seq) __attribute__((nonnull));

/* Forget the oldest packet; false when there is none. */
bool dc_store_pop(struct dc_store *s, const struct dc_buf_ops *ops) __attribute__((nonnull));

#endif
