#include "below.h"

#include <stdlib.h>
#include <string.h>

/* FNV-1a. Who made up another member's name with the same hash would tell of somebody that the group does not have. */
static uint64_t mix(uint64_t hash, const char *text)
{
  for (;; text++) {
    hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    if (*text == '\0') /* it counts, too: it stands between the two names */
      return hash;
  }
}

static uint64_t hash_of(const char *child, const char *member)
{
  return mix(mix(UINT64_C(0xcbf29ce484222325), child), member);
}

/* Where it is, or where it belongs. */
static uint32_t place(const struct below *h, uint64_t pair)
{
  uint32_t from = 0, to = h->n;
  while (from < to) {
    uint32_t middle = (from + to) / 2;
    if (h->pair[middle] < pair)
      from = middle + 1;
    else
      to = middle;
  }
  return from;
}

bool below_has(const struct below *h, const char *child, const char *member)
{
  uint64_t pair = hash_of(child, member);
  uint32_t at = place(h, pair);
  return at < h->n && h->pair[at] == pair;
}

static bool grow(struct below *h)
{
  if (h->n < h->room)
    return true;
  uint32_t room = h->room == 0 ? 16 : 2 * h->room;
  uint64_t *pair = realloc(h->pair, room * sizeof *pair);
  if (pair == NULL)
    return false;
  h->pair = pair;
  h->room = room;
  return true;
}

static void add(struct below *h, uint64_t pair)
{
  uint32_t at = place(h, pair);
  if (at < h->n && h->pair[at] == pair)
    return;
  if (h->n == BELOW_MAX)
    h->n = at = 0;
  if (!grow(h))
    return;
  memmove(h->pair + at + 1, h->pair + at, (h->n - at) * sizeof pair);
  h->pair[at] = pair;
  h->n++;
}

void below_note(struct below *h, const char *child, const json_t *tree)
{
  add(h, hash_of(child, json_string_value(json_object_get(tree, "n"))));
  const json_t *c = json_object_get(tree, "c");
  for (size_t i = 0; i < json_array_size(c); i++)
    below_note(h, child, json_array_get(c, i));
}

void below_clear(struct below *h)
{
  free(h->pair);
  *h = (struct below){0};
}
