/* A receiver in one tree: credits, RTO of RFC 6298, loss by gap (the paper's section 5.2, design.md section 5).
 *
 * Asks in order of sequence numbers for the pieces that are not held yet, never has more than w interests out. A tree
 * is a FIFO path: three later data packets mean a loss. Several receivers of one group share one dc_pieces.
 *
 * Polling order: handle() what arrived, then poll(), then sleep until next_wake(). */
#ifndef DATACAST_RECEIVER_H
#define DATACAST_RECEIVER_H

#include "datacast/pieces.h"
#include "datacast/time.h"
#include "datacast/wire.h"

struct dc_receiver_cfg {
  uint32_t credits; /* w, at most DC_CREDITS_MAX */
  uint32_t batch;   /* asked for at once while packets come without a gap or a pause; at most DC_BATCH_MAX */
  dc_time rto_min, rto_max, rto_init;
  uint32_t reorder; /* later packets that make a loss (3) */
};

void dc_receiver_cfg_default(struct dc_receiver_cfg *cfg) __attribute__((nonnull));

enum dc_rx_result {
  DC_RX_NEW,       /* keep the payload: it is piece *piece */
  DC_RX_DUPLICATE, /* held already */
  DC_RX_UNKNOWN,   /* never assigned to this tree */
  DC_RX_LENGTH,    /* the payload's length is not the piece's */
  DC_RX_UNASKED    /* nothing was asked for under this number: whoever sent it is not believed */
};

struct dc_receiver_counters {
  uint64_t interests, retransmitted; /* numbers asked for; retransmitted ones among them */
  uint64_t by_gap, by_timeout;       /* why */
  uint64_t data, duplicates, unknown, bad_length, unasked;
  uint32_t outstanding, credits;
  dc_time srtt, rto;
  uint32_t next_seq; /* next one to ask for */
  uint32_t low_seq;  /* none below it is out */
};

typedef struct dc_receiver dc_receiver;
size_t dc_receiver_size(void);
/* `pieces` is shared by the group's trees and outlives the receiver. */
dc_receiver *dc_receiver_init(void *memory, dc_time now, const struct dc_receiver_cfg *cfg, dc_pieces *pieces)
    __attribute__((nonnull));

/* An announcement: the tree goes on with these pieces. As dc_extents_append, but that of more than DC_EXTENTS_MAX
 * extents those with sealed blocks are forgotten, then the oldest that nothing is out for. */
int dc_receiver_assign(dc_receiver *r, const struct dc_extent *e) __attribute__((nonnull));
/* Nothing from `seq` on is asked for in this tree any more (its rest goes to other trees). */
void dc_receiver_cut(dc_receiver *r, uint32_t seq) __attribute__((nonnull));
/* Others wait for this receiver here: what was not asked for yet it will get elsewhere, and what is out may still come but
 * is not asked for again. For good: later announcements are another's. */
void dc_receiver_leave(dc_receiver *r) __attribute__((nonnull));
/* After a route changed or the tree stood still: everything out is asked for again at once. */
void dc_receiver_restart(dc_receiver *r, dc_time now) __attribute__((nonnull));
/* A block failed its checksum and dc_pieces_drop_block was called: ask again, past the caches, for the pieces of it
 * that this tree carried. Returns how many will be asked for. A piece that no tree carries as far as it remembers
 * (dc_receiver_carries) has to be assigned again. */
uint32_t dc_receiver_refetch(dc_receiver *r, uint64_t first_piece, uint32_t count) __attribute__((nonnull));
bool dc_receiver_carries(const dc_receiver *r, uint64_t piece) __attribute__((nonnull));

/* A hint for bursts: data with this number will be handled soon. Fetches what that will touch into the processor's
 * cache, in two steps, 0 and some packets later 1. Changes nothing and may be left out. */
void dc_receiver_prefetch(const dc_receiver *r, uint32_t seq, unsigned step) __attribute__((nonnull));

/* A data packet of this tree. On DC_RX_NEW the piece is marked as held. */
enum dc_rx_result dc_receiver_handle(dc_receiver *r, dc_time now, const struct dc_header *h, uint64_t *piece)
    __attribute__((nonnull));

struct dc_interest { /* for the numbers seq to seq + more */
  uint32_t seq;
  uint8_t flags; /* DC_FLAG_RETX, DC_FLAG_NOCACHE, DC_FLAG_LAST */
  uint8_t more;
};

unsigned dc_receiver_poll(dc_receiver *r, dc_time now, struct dc_interest *out, unsigned cap) __attribute__((nonnull));
dc_time dc_receiver_next_wake(const dc_receiver *r) __attribute__((nonnull));
/* Everything assigned so far is held. */
bool dc_receiver_idle(const dc_receiver *r) __attribute__((nonnull));
void dc_receiver_counters(const dc_receiver *r, struct dc_receiver_counters *out) __attribute__((nonnull));

#endif
