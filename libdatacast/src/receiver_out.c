#include "receiver_out.h"

#include <stddef.h>
#include <string.h>

void out_init(struct receiver_out *o)
{
  memset(o, 0, offsetof(struct receiver_out, slot));
  for (unsigned i = 0; i < LISTS; i++)
    o->list[i].head = o->list[i].tail = NONE;
  memset(o->head, 0xff, sizeof o->head);
  o->free = NONE;
}

uint16_t out_find(const struct receiver_out *o, uint32_t seq)
{
  uint16_t i = o->head[seq % HEADS];
  while (i != NONE && o->slot[i].seq != seq)
    i = o->slot[i].chain;
  return i;
}

static void leave(struct receiver_out *o, uint16_t i)
{
  struct out_slot *s = &o->slot[i];
  *(s->prev == NONE ? &o->list[s->list].head : &o->slot[s->prev].next) = s->next;
  *(s->next == NONE ? &o->list[s->list].tail : &o->slot[s->next].prev) = s->prev;
  o->list[s->list].n--;
}

static void join(struct receiver_out *o, uint16_t i, enum out_list to)
{
  struct out_slot *s = &o->slot[i];
  s->list = (uint8_t)to;
  s->prev = o->list[to].tail;
  s->next = NONE;
  *(s->prev == NONE ? &o->list[to].head : &o->slot[s->prev].next) = i;
  o->list[to].tail = i;
  o->list[to].n++;
}

void out_move(struct receiver_out *o, uint16_t i, enum out_list to)
{
  leave(o, i);
  join(o, i, to);
}

uint16_t out_take(struct receiver_out *o, dc_time now, uint32_t seq)
{
  uint16_t i = o->free;
  if (i == NONE)
    i = o->touched++;
  else
    o->free = o->slot[i].chain;
  o->slot[i] = (struct out_slot){.sent = now, .order = o->order++, .seq = seq, .chain = o->head[seq % HEADS]};
  o->head[seq % HEADS] = i;
  join(o, i, FRESH);
  return i;
}

void out_release(struct receiver_out *o, uint16_t i)
{
  leave(o, i);
  uint16_t *at = &o->head[o->slot[i].seq % HEADS];
  while (*at != i)
    at = &o->slot[*at].chain;
  *at = o->slot[i].chain;
  o->slot[i].chain = o->free;
  o->free = i;
}

void out_prefetch(const struct receiver_out *o, uint32_t seq, unsigned step)
{
  if (step == 0) {
    __builtin_prefetch(o, 1);
    return;
  }
  __builtin_prefetch(&o->head[seq % HEADS], 1);
  if (o->free != NONE)
    __builtin_prefetch(&o->slot[o->free], 1);
  if (o->list[FRESH].head != NONE)
    __builtin_prefetch(&o->slot[o->list[FRESH].head], 1);
  if (o->list[FRESH].tail != NONE)
    __builtin_prefetch(&o->slot[o->list[FRESH].tail], 1);
}
