#include "bucket.h"

#define UNIT INT64_C(1000000000)
/* At any rate a step of so many ns needs no check for overflow. */
#define STEP ((dc_time)1 << 20)

void bucket_init(struct bucket *b, uint32_t packet_bytes, uint32_t depth)
{
  if (depth == 0)
    depth = 1;
  if (depth > BUCKET_DEPTH_MAX)
    depth = BUCKET_DEPTH_MAX;
  b->cost = (int64_t)packet_bytes * 8 * UNIT;
  b->depth = b->cost * depth;
  b->tokens = b->cost;
}

void bucket_fill(struct bucket *b, dc_time dt)
{
  if (dt > STEP && b->rate > 0 && dt > (uint64_t)(b->depth - b->tokens) / b->rate)
    b->tokens = b->depth;
  else
    b->tokens += (int64_t)(b->rate * dt);
  if (b->tokens > b->depth)
    b->tokens = b->depth;
}

dc_time bucket_wait(const struct bucket *b)
{
  if (bucket_has_packet(b))
    return 0;
  if (b->rate == 0)
    return DC_NEVER;
  uint64_t missing = (uint64_t)(b->cost - b->tokens);
  return (missing + b->rate - 1) / b->rate;
}
