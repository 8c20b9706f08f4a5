#include "waiting.h"

#include <stddef.h>
#include <string.h>

_Static_assert(DC_CHILDREN_MAX % 64 == 0, "a child is a bit in whole words");

void dc_waiting_init(struct dc_waiting *w, struct dc_waiting_entry *entry, uint32_t slots)
{
  w->entry = entry;
  w->mask = slots / DC_WAITING_WAYS - 1;
  w->n = 0;
  if (++w->epoch == 0)
    w->epoch = 1; /* 0 marks a free entry */
}

static struct dc_waiting_entry *set_of(const struct dc_waiting *w, uint32_t seq)
{
  return &w->entry[(size_t)(seq & w->mask) * DC_WAITING_WAYS];
}

struct dc_waiting_entry *dc_waiting_find(const struct dc_waiting *w, uint32_t seq)
{
  struct dc_waiting_entry *set = set_of(w, seq);
  for (unsigned i = 0; i < DC_WAITING_WAYS; i++)
    if (set[i].epoch == w->epoch && set[i].seq == seq)
      return &set[i];
  return NULL;
}

struct dc_waiting_entry *dc_waiting_add(struct dc_waiting *w, uint32_t seq, dc_time now, dc_time life)
{
  struct dc_waiting_entry *set = set_of(w, seq);
  struct dc_waiting_entry *e = &set[0];
  for (unsigned i = 0; i < DC_WAITING_WAYS; i++) {
    if (set[i].epoch != w->epoch) {
      e = &set[i];
      break;
    }
    if (set[i].sent < e->sent)
      e = &set[i];
  }

  if (e->epoch == w->epoch) {
    if (now - e->sent < life)
      return NULL;
  } else {
    w->n++;
  }
  memset(e, 0, sizeof *e);
  e->seq = seq;
  e->epoch = w->epoch;
  return e;
}

void dc_waiting_remove(struct dc_waiting *w, struct dc_waiting_entry *e)
{
  e->epoch = 0;
  w->n--;
}

void dc_waiting_forget_child(struct dc_waiting *w, unsigned child)
{
  size_t entries = ((size_t)w->mask + 1) * DC_WAITING_WAYS;
  for (size_t i = 0; i < entries; i++)
    w->entry[i].child[child / 64] &= ~(UINT64_C(1) << child % 64);
}
