/* Blocks of a source's file that were read for their digests and are kept until they are sent: hashed and sent from one
 * read. A packet's payload is a piece of the block itself, lent to the port; a block's memory serves the next one when its
 * source and its last packet have let it go. How much one host keeps so is bounded; what has no room is read again.
 *
 * Blocks are taken in the home loop and let go wherever their last owner is; pieces are one shard's. */
#ifndef AGENT_AHEAD_H
#define AGENT_AHEAD_H

#include <stddef.h>

#include "datacast/pieces.h"
#include "datapath/bufpool.h"

struct ahead; /* of one file */

struct ahead_block {
  struct ahead *of;
  uint32_t refs; /* atomic: its source's, a reading thread's, and one for each piece that a port holds */
  uint8_t *bytes;
  struct ahead_block *next;
  struct dc_buf piece[];
};

/* `room`: bytes that all files of the host may take together from now on; it outlives them. NULL without memory. */
struct ahead *ahead_new(size_t *room, const struct dc_layout *l) __attribute__((nonnull));
/* No more blocks are taken; it goes with the last of them. */
void ahead_close(struct ahead *a);

/* A block to read into, owned once; NULL: there is no room for it. */
struct ahead_block *ahead_take(struct ahead *a) __attribute__((nonnull));
void ahead_unref(struct ahead_block *b);

/* Piece `i` of the block, owned once more: `data` is its first byte. */
struct dc_buf *ahead_piece(struct ahead_block *b, uint32_t i) __attribute__((nonnull));

#endif
