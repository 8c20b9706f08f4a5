#include "waiting.h"

#include <stddef.h>
#include <string.h>

_Static_assert(DC_CHILDREN_MAX % 64 == 0, "a child is a bit in whole words");

/* Sets at first. */
enum { SETS_MIN = 64 };

void dc_waiting_init(struct dc_waiting *w, struct dc_waiting_set *set, struct dc_waiting_entry *more, uint32_t slots)
{
  w->set = set;
  w->more = more;
  w->mask = (dc_waiting_sets(slots) < SETS_MIN ? dc_waiting_sets(slots) : SETS_MIN) - 1;
  w->n = 0;
  if (++w->epoch == 0)
    w->epoch = 1; /* 0 marks a free place */
}

static dc_waiting_tag tag_of(const struct dc_waiting *w, uint32_t seq) { return (uint64_t)w->epoch << 32 | seq; }

static struct dc_waiting_entry *entry_of(const struct dc_waiting *w, uint32_t seq, unsigned way)
{
  uint32_t set = seq & w->mask;
  return way == 0 ? &w->set[set].first : &w->more[(size_t)set * (DC_WAITING_WAYS - 1) + way - 1];
}

/* Whoever has the new bit in his number moves up by as many sets as there were. */
void dc_waiting_grow(struct dc_waiting *w)
{
  uint32_t old = w->mask + 1;
  w->mask += old;
  w->most = w->mask + 1 > w->most ? w->mask + 1 : w->most;
  for (uint32_t set = 0; set < old; set++) {
    unsigned moved = 0;
    for (unsigned way = 0; way < DC_WAITING_WAYS; way++) {
      dc_waiting_tag tag = w->set[set].tag[way];
      if (tag >> 32 != w->epoch || (tag & old) == 0)
        continue;
      *entry_of(w, set + old, moved) = *entry_of(w, set, way);
      w->set[set + old].tag[moved++] = tag;
      w->set[set].tag[way] = 0;
    }
  }
}

struct dc_waiting_entry *dc_waiting_find(const struct dc_waiting *w, uint32_t seq)
{
  const dc_waiting_tag *tag = w->set[seq & w->mask].tag, sought = tag_of(w, seq);
  for (unsigned i = 0; i < DC_WAITING_WAYS; i++)
    if (tag[i] == sought)
      return entry_of(w, seq, i);
  return NULL;
}

struct dc_waiting_entry *dc_waiting_add(struct dc_waiting *w, uint32_t seq, dc_time now, dc_time life)
{
  dc_waiting_tag *tag = w->set[seq & w->mask].tag;
  unsigned at = 0;
  while (at < DC_WAITING_WAYS && tag[at] >> 32 == w->epoch)
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
  tag[at] = tag_of(w, seq);
  struct dc_waiting_entry *e = entry_of(w, seq, at);
  memset(e, 0, sizeof *e);
  return e;
}

void dc_waiting_remove(struct dc_waiting *w, const struct dc_waiting_entry *e)
{
  size_t sets = (size_t)w->mask + 1;
  uintptr_t in_sets = (uintptr_t)e - (uintptr_t)w->set;
  if (in_sets < sets * sizeof *w->set) {
    w->set[in_sets / sizeof *w->set].tag[0] = 0;
  } else {
    size_t i = (size_t)(e - w->more);
    w->set[i / (DC_WAITING_WAYS - 1)].tag[1 + i % (DC_WAITING_WAYS - 1)] = 0;
  }
  w->n--;
}

void dc_waiting_forget_child(struct dc_waiting *w, unsigned child)
{
  for (uint32_t set = 0; set <= w->mask; set++)
    for (unsigned way = 0; way < DC_WAITING_WAYS; way++)
      if (w->set[set].tag[way] >> 32 == w->epoch)
        entry_of(w, set, way)->child[child / 64] &= ~(UINT64_C(1) << child % 64);
}
