/* A token bucket. Tokens are bits times 10^9, rate times nanoseconds, so that nothing is ever rounded. */
#ifndef DATACAST_BUCKET_H
#define DATACAST_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "datacast/time.h"

/* bit/s, at most. */
#define BUCKET_RATE_MAX ((uint64_t)1 << 42)
/* Packets that it holds, at most: 4096 * 64 KiB * 8 * 10^9 < 2^62. */
#define BUCKET_DEPTH_MAX 4096u

struct bucket {
  int64_t tokens, cost, depth; /* cost: of a packet */
  uint64_t rate;               /* bit/s, at most BUCKET_RATE_MAX */
};

/* With a packet's worth in it, and room for `depth` packets of so many bytes. */
void bucket_init(struct bucket *b, uint32_t packet_bytes, uint32_t depth) __attribute__((nonnull));
void bucket_fill(struct bucket *b, dc_time dt) __attribute__((nonnull));
static inline bool bucket_has_packet(const struct bucket *b) { return b->tokens >= b->cost; }
static inline void bucket_take_packet(struct bucket *b) { b->tokens -= b->cost; }
/* Until there is enough for a packet; DC_NEVER at rate 0. */
dc_time bucket_wait(const struct bucket *b) __attribute__((nonnull));

#endif
