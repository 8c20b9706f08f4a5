#include "wants.h"

#include <stdlib.h>
#include <string.h>

#include "agent_limits.h"

bool wants_row(const json_t *r, uint32_t from, uint32_t blocks, uint32_t *first, uint32_t *count)
{
  const json_t *a = json_array_get(r, 0), *b = json_array_get(r, 1);
  if (json_array_size(r) != 2 || !json_is_integer(a) || !json_is_integer(b))
    return false;
  json_int_t x = json_integer_value(a), n = json_integer_value(b);
  if (x < (json_int_t)from || x >= (json_int_t)blocks || n < 1 || n > (json_int_t)blocks - x)
    return false;
  *first = (uint32_t)x;
  *count = (uint32_t)n;
  return true;
}

bool wants_read(const json_t *v, const struct dc_layout *l, uint8_t **skip, struct fault *why)
{
  uint32_t blocks = dc_layout_blocks(l), at = 0;
  *skip = NULL;
  if (v == NULL)
    return true;
  if (!json_is_array(v) || json_array_size(v) > WANTS_MAX)
    return fault_set(why, "bad_request", "wants must be a list of at most %d rows", WANTS_MAX);
  uint8_t *left = malloc(blocks > 0 ? blocks : 1);
  if (left == NULL)
    return fault_set(why, "io", "out of memory for %u blocks", blocks);
  memset(left, 1, blocks > 0 ? blocks : 1);
  for (size_t i = 0; i < json_array_size(v); i++) {
    uint32_t first, count;
    if (!wants_row(json_array_get(v, i), at, blocks, &first, &count)) {
      free(left);
      return fault_set(why, "bad_request", "wants[%zu] is no [first, count] behind the last one, within %u blocks", i,
                       blocks);
    }
    memset(left + first, 0, count);
    at = first + count;
  }
  if (memchr(left, 1, blocks) == NULL) {
    free(left);
    return true;
  }
  *skip = left;
  return true;
}

uint64_t wants_bytes(const uint8_t *skip, const struct dc_layout *l)
{
  uint64_t block = (uint64_t)l->piece * l->per_block, bytes = l->size;
  uint32_t blocks = dc_layout_blocks(l);
  for (uint32_t b = 0; skip != NULL && b < blocks; b++)
    if (skip[b])
      bytes -= l->size - b * block < block ? l->size - b * block : block;
  return bytes;
}

bool wants_same(const uint8_t *a, const uint8_t *b, uint32_t blocks)
{
  return a == NULL || b == NULL ? a == b : memcmp(a, b, blocks) == 0;
}
