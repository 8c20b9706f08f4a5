/* Which piece every sequence number of a source's tree carries: extents as in the core, but as many as a large file
 * needs, and with gaps (what was cut off after it had been sent is never given another piece). */
#ifndef AGENT_EXTENT_MAP_H
#define AGENT_EXTENT_MAP_H

#include "datacast/pieces.h"

struct extent_map {
  struct dc_extent *e;
  uint32_t n, cap;
};

/* 0 (also for the last extent again), -EINVAL when it overlaps what is there or is empty, -ENOSPC at the limit. */
int extent_map_append(struct extent_map *m, const struct dc_extent *e) __attribute__((nonnull));
/* The extent that holds seq, or NULL. Valid until the next change. */
const struct dc_extent *extent_map_find(const struct extent_map *m, uint32_t seq) __attribute__((nonnull));
/* The same, or the first one after it. */
const struct dc_extent *extent_map_from(const struct extent_map *m, uint32_t seq) __attribute__((nonnull));
bool extent_map_piece(const struct extent_map *m, uint32_t seq, uint64_t *piece) __attribute__((nonnull));
void extent_map_cut(struct extent_map *m, uint32_t seq) __attribute__((nonnull));
uint32_t extent_map_end(const struct extent_map *m) __attribute__((nonnull));
/* The first point behind `seq` where progress is told: the middle or the end of an extent; UINT32_MAX: none. */
uint32_t extent_map_mark(const struct extent_map *m, uint32_t seq) __attribute__((nonnull));
void extent_map_free(struct extent_map *m) __attribute__((nonnull));

#endif
