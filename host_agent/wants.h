/* Which blocks of the file a member is about, where it is not all of them. */
#ifndef AGENT_WANTS_H
#define AGENT_WANTS_H

#include <jansson.h>

#include "datacast/pieces.h"
#include "datapath/log.h"

/* `v`: a list of [first, count] in blocks, ascending, none touching a block twice; NULL: all blocks. *skip becomes a byte
 * per block, 1 for those left out, owned by the caller; NULL when there are none. False with *why. */
bool wants_read(const json_t *v, const struct dc_layout *l, uint8_t **skip, struct fault *why)
    __attribute__((nonnull(2, 3, 4)));
/* One row of such a list, at or behind block `from`. False: it is none. */
bool wants_row(const json_t *r, uint32_t from, uint32_t blocks, uint32_t *first, uint32_t *count)
    __attribute__((nonnull(4, 5)));
/* Bytes of the file without the blocks left out. */
uint64_t wants_bytes(const uint8_t *skip, const struct dc_layout *l) __attribute__((nonnull(2)));
/* The same blocks? */
bool wants_same(const uint8_t *a, const uint8_t *b, uint32_t blocks);

#endif
