/* Blocks and sequence numbers.
 *
 * A file of `size` bytes is cut into pieces of `piece` bytes (one data packet's payload each; the last may be shorter)
 * and into blocks of `per_block` pieces (the unit of the manifest's digests; the last may be shorter). An empty file
 * has no piece. The master assigns extents, runs of pieces, to trees; a tree's sequence numbers run on over them. */
#ifndef DATACAST_PIECES_H
#define DATACAST_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datacast/limits.h"

struct dc_layout {
  uint64_t size;      /* bytes of the file */
  uint32_t piece;     /* payload bytes of a full data packet */
  uint32_t per_block; /* pieces of a full block */
};

uint64_t dc_layout_pieces(const struct dc_layout *l) __attribute__((nonnull));
uint32_t dc_layout_blocks(const struct dc_layout *l) __attribute__((nonnull));
/* Bytes of piece `i`: l->piece but for the last one. */
uint32_t dc_layout_piece_len(const struct dc_layout *l, uint64_t i) __attribute__((nonnull));

/* Which pieces are held. Threads may share one. */
typedef struct dc_pieces dc_pieces;
size_t dc_pieces_size(const struct dc_layout *l) __attribute__((nonnull));
/* In zeroed memory, align 8. */
dc_pieces *dc_pieces_init(void *memory, const struct dc_layout *l) __attribute__((nonnull));
/* A hint: this piece will be added soon. */
void dc_pieces_prefetch(const dc_pieces *p, uint64_t piece) __attribute__((nonnull));
bool dc_pieces_has(const dc_pieces *p, uint64_t piece) __attribute__((nonnull));
/* Mark as held; true if it was new. */
bool dc_pieces_add(dc_pieces *p, uint64_t piece) __attribute__((nonnull));
/* Forget the pieces of a block (its checksum failed). Returns how many were held; 0 for a sealed one. */
uint32_t dc_pieces_drop_block(dc_pieces *p, uint32_t block) __attribute__((nonnull));
bool dc_pieces_block_whole(const dc_pieces *p, uint32_t block) __attribute__((nonnull));
/* The block was verified: it is never dropped, and nobody has to remember any more which tree carried it. */
void dc_pieces_seal_block(dc_pieces *p, uint32_t block) __attribute__((nonnull));
/* All blocks that hold a part of [first, first + count) are sealed. */
bool dc_pieces_sealed(const dc_pieces *p, uint64_t first, uint64_t count) __attribute__((nonnull));
uint64_t dc_pieces_held(const dc_pieces *p) __attribute__((nonnull));
bool dc_pieces_whole(const dc_pieces *p) __attribute__((nonnull));
const struct dc_layout *dc_pieces_layout(const dc_pieces *p) __attribute__((nonnull));

/* A run of pieces on a tree: sequence seq + i carries piece first + i, for i < count. */
struct dc_extent {
  uint32_t seq;
  uint32_t count;
  uint64_t first;
};

/* A tree's extents, in order of sequence numbers. Each one appended stands above the last; there are gaps where numbers
 * were cut off, for those never come back, and where extents were forgotten. */
struct dc_extents {
  uint32_t n;
  struct dc_extent e[DC_EXTENTS_MAX];
};

/* Append; -EINVAL when it begins below the end of the last one or count is 0, -ENOSPC when full, 0 also when it is
 * exactly the extent last appended (announcements may be repeated). */
int dc_extents_append(struct dc_extents *x, const struct dc_extent *e) __attribute__((nonnull));
/* Piece that `seq` carries; false when it is not assigned (or was forgotten). */
bool dc_extents_piece(const struct dc_extents *x, uint32_t seq, uint64_t *piece) __attribute__((nonnull));
/* The first number from `seq` on that is assigned; dc_extents_end when there is none. */
uint32_t dc_extents_next(const struct dc_extents *x, uint32_t seq) __attribute__((nonnull));
/* First sequence number not assigned yet; 0 when there is none at all. */
uint32_t dc_extents_end(const struct dc_extents *x) __attribute__((nonnull));
/* Make room: forget the extents before `seq` whose blocks are sealed, or, when there is none, the oldest one before
 * `seq`. The last extent always stays: what comes stands above it. */
void dc_extents_forget(struct dc_extents *x, uint32_t seq, const dc_pieces *p) __attribute__((nonnull));
/* Take back what was assigned from `seq` on. */
void dc_extents_cut(struct dc_extents *x, uint32_t seq) __attribute__((nonnull));

#endif
