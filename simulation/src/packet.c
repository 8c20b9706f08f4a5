#include <stdlib.h>

#include "engine.h"

/* Packets go back to their pool through the core's ops, which know no simulator: the pool stands in front. */
struct holder {
  struct pool *pool;
  struct packet p;
};

struct packet *packet_new(struct pool *pool, size_t cap)
{
  struct packet **list = cap <= SMALL ? &pool->small : &pool->big;
  struct packet *p = *list;
  size_t room = cap <= SMALL ? SMALL : BIG;
  if (p != NULL) {
    *list = p->next;
  } else {
    struct holder *h = malloc(sizeof *h + room);
    if (h == NULL)
      abort();
    h->pool = pool;
    p = &h->p;
    p->cap = (uint16_t)room;
  }
  p->refs = 1;
  p->payload = 0;
  p->data = p->tcp = false;
  p->next = NULL;
  pool->alive++;
  return p;
}

static void take(dc_buf *b) { ((struct packet *)(void *)b)->refs++; }

static void give(dc_buf *b)
{
  struct packet *p = (struct packet *)(void *)b;
  if (--p->refs > 0)
    return;
  struct pool *pool = ((struct holder *)(void *)((char *)p - offsetof(struct holder, p)))->pool;
  struct packet **list = p->cap == SMALL ? &pool->small : &pool->big;
  p->next = *list;
  *list = p;
  pool->alive--;
}

const struct dc_buf_ops packet_ops = {take, give};

void pool_free(struct pool *pool)
{
  struct packet **lists[] = {&pool->small, &pool->big};
  for (int i = 0; i < 2; i++)
    for (struct packet *p = *lists[i], *next; p != NULL; p = next) {
      next = p->next;
      free((char *)p - offsetof(struct holder, p));
    }
}
