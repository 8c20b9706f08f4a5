/* The token bucket, to the nanosecond. */
#include "bucket.h"

#include <assert.h>
#include <stdio.h>

enum { BYTES = 1250 };
#define COST ((int64_t)BYTES * 8 * 1000000000)

static void it_begins_with_a_packet_and_holds_as_many_as_it_is_deep(void)
{
  static const uint32_t depth[][2] = {{0, 1}, {1, 1}, {2, 2}, {4096, 4096}, {4097, 4096}, {UINT32_MAX, 4096}};
  for (unsigned i = 0; i < sizeof depth / sizeof depth[0]; i++) {
    struct bucket b = {.rate = 1000000000};
    bucket_init(&b, BYTES, depth[i][0]);
    assert(b.cost == COST && b.tokens == COST && b.depth == depth[i][1] * COST);
    bucket_fill(&b, 3600 * DC_SEC);
    assert(b.tokens == b.depth);
  }
}

/* From empty, at every rate and around every length of time at which something else is reckoned. */
static void each_nanosecond_brings_its_bits_until_it_is_full(void)
{
  static const uint64_t rate[] = {0, 1, 2, 12345677, 28000001, 999999937, BUCKET_RATE_MAX};
  for (unsigned i = 0; i < sizeof rate / sizeof rate[0]; i++) {
    struct bucket b = {.rate = rate[i]};
    bucket_init(&b, BYTES, 3);
    dc_time whole = rate[i] == 0 ? DC_SEC : (uint64_t)b.depth / rate[i];
    const dc_time span[] = {0, 1, 2, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, whole - 1, whole, whole + 1, 3600 * DC_SEC};
    for (unsigned k = 0; k < sizeof span / sizeof span[0]; k++) {
      b.tokens = 0;
      bucket_fill(&b, span[k]);
      assert(b.tokens == (rate[i] == 0 || span[k] <= whole ? (int64_t)(rate[i] * span[k]) : b.depth));
    }
  }
}

static void it_waits_until_there_is_enough_for_a_packet_and_no_longer(void)
{
  static const uint64_t rate[] = {1, 2, 3, 10000000, 12345677, BUCKET_RATE_MAX};
  struct bucket b = {.rate = 0};
  bucket_init(&b, BYTES, 2);
  assert(bucket_has_packet(&b) && bucket_wait(&b) == 0);
  bucket_take_packet(&b);
  assert(b.tokens == 0 && !bucket_has_packet(&b) && bucket_wait(&b) == DC_NEVER);
  for (unsigned i = 0; i < sizeof rate / sizeof rate[0]; i++) {
    b.rate = rate[i];
    b.tokens = 17;
    dc_time wait = bucket_wait(&b);
    assert(wait > 0 && b.tokens + (int64_t)(rate[i] * wait) >= COST);
    assert(b.tokens + (int64_t)(rate[i] * (wait - 1)) < COST);
  }
}

int main(void)
{
  it_begins_with_a_packet_and_holds_as_many_as_it_is_deep();
  each_nanosecond_brings_its_bits_until_it_is_full();
  it_waits_until_there_is_enough_for_a_packet_and_no_longer();
  puts("bucket ok");
  return 0;
}
