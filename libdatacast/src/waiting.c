#include "waiting.h"

#include <stddef.h>
#include <string.h>

_Static_assert(DC_CHILDREN_MAX % 64 == 0, "a child is a bit in whole words");

void dc_waiting_init(struct dc_waiting *w, dc_waiting_tag *tag, struct dc_waiting_entry *entry, uint32_t slots)
{
  w->tag = tag;
  w->entry = entry;
  w->mask = slots / DC_WAITING_WAYS - 1;
  w->n = 0;
  if (++w->epoch == 0)
    w->epoch = 1; /* 0 marks a free place */
}

static dc_waiting_tag tag_of(const struct dc_waiting *w, uint32_t seq) { return (uint64_t)w->epoch << 32 | seq; }

static struct dc_waiting_entry *entry_of(const struct dc_waiting *w, uint32_t seq, unsigned way)
{
  return &w->entry[(size_t)way * (w->mask + 1) + (seq & w->mask)];
}

struct dc_waiting_entry *dc_waiting_find(const struct dc_waiting *w, uint32_t seq)
{
  const dc_waiting_tag *set = &w->tag[(size_t)(seq & w->mask) * DC_WAITING_WAYS], sought = tag_of(w, seq);
  for (unsigned i = 0; i < DC_WAITING_WAYS; i++)
    if (set[i] == sought)
      return entry_of(w, seq, i);
  return NULL;
}

struct dc_waiting_entry *dc_waiting_add(struct dc_waiting *w, uint32_t seq, dc_time now, dc_time life)
{
  dc_waiting_tag *set = &w->tag[(size_t)(seq & w->mask) * DC_WAITING_WAYS];
  unsigned at = 0;
  while (at < DC_WAITING_WAYS && set[at] >> 32 == w->epoch)
    at++;
  if (at < DC_WAITING_WAYS) {
    w->n++;
  } else {
    at = 0;
    for (unsigned i = 1; i < DC_WAITING_WAYS; i++)
      if (entry_of(w, seq, i)->sent < entry_of(w, seq, at)->sent)
        at = i;
    if (now - entry_of(w, seq, at)->sent < life)
      return NULL;
  }
  set[at] = tag_of(w, seq);
  struct dc_waiting_entry *e = entry_of(w, seq, at);
  memset(e, 0, sizeof *e);
  return e;
}

void dc_waiting_remove(struct dc_waiting *w, const struct dc_waiting_entry *e)
{
  size_t i = (size_t)(e - w->entry), sets = (size_t)w->mask + 1;
  w->tag[i % sets * DC_WAITING_WAYS + i / sets] = 0;
  w->n--;
}

void dc_waiting_forget_child(struct dc_waiting *w, unsigned child)
{
  size_t entries = ((size_t)w->mask + 1) * DC_WAITING_WAYS;
  for (size_t i = 0; i < entries; i++)
    w->entry[i].child[child / 64] &= ~(UINT64_C(1) << child % 64);
}
