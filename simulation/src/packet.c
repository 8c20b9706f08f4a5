/* Frames and what they share, from pools: in use again and again, so that few are ever touched. */
#include "engine.h"

enum { SLAB = 1 << 16, LINE = 64, SLACK = 2048 /* a damaged length may lead a parser so far */ };

/* `each` bytes, a multiple of a cache line, cut from a slab; the others of the slab go to `give`. */
static void *cut(struct pool *pool, size_t each, void (*give)(struct pool *, void *))
{
  char *slab = memory_take(pool->memory, SLAB + SLACK);
  for (size_t at = SLAB / each * each - each; at > 0; at -= each)
    give(pool, slab + at);
  return slab;
}

static size_t lines(size_t n) { return (n + LINE - 1) / LINE * LINE; }

/* ---- packets ---- */

static const uint16_t room_of[SIZES] = {SMALL, MIDDLE, BIG};

static enum size size_for(size_t cap) { return cap <= SMALL ? SIZE_SMALL : cap <= MIDDLE ? SIZE_MIDDLE : SIZE_BIG; }

static void keep(struct pool *pool, struct packet *p, enum size size)
{
  p->size = (uint8_t)size;
  p->next = pool->packet[size];
  pool->packet[size] = p;
}

static void keep_small(struct pool *pool, void *at) { keep(pool, at, SIZE_SMALL); }
static void keep_middle(struct pool *pool, void *at) { keep(pool, at, SIZE_MIDDLE); }
static void keep_big(struct pool *pool, void *at) { keep(pool, at, SIZE_BIG); }

struct packet *packet_new(struct pool *pool, size_t cap)
{
  static void (*const keepers[SIZES])(struct pool *, void *) = {keep_small, keep_middle, keep_big};
  enum size size = size_for(cap);
  struct packet *p = pool->packet[size];
  if (p == NULL) {
    p = cut(pool, lines(sizeof *p + room_of[size]), keepers[size]);
    p->size = (uint8_t)size;
  } else {
    pool->packet[size] = p->next;
  }
  p->next = NULL;
  p->body = NULL;
  p->payload = 0;
  p->start = p->real = p->head = 0;
  p->data = p->tcp = false;
  pool->packets++;
  return p;
}

size_t packet_room(const struct packet *p) { return room_of[p->size]; }

void packet_spend(struct pool *pool, struct packet *p)
{
  keep(pool, p, p->size);
  pool->packets--;
}

void packet_give(struct pool *pool, struct packet *p)
{
  if (p->body != NULL)
    body_give(p->body);
  packet_spend(pool, p);
}

/* ---- bodies ---- */

static void free_body(struct pool *pool, void *at)
{
  struct body *b = at;
  b->big = false;
  b->next = pool->body;
  pool->body = b;
}

static void free_body_big(struct pool *pool, void *at)
{
  struct body *b = at;
  b->big = true;
  b->next = pool->body_big;
  pool->body_big = b;
}

struct body *body_new(struct pool *pool, size_t n)
{
  struct body **list = n <= BODY ? &pool->body : &pool->body_big;
  struct body *b = *list;
  if (b == NULL) {
    b = n <= BODY ? cut(pool, lines(sizeof *b + BODY), free_body)
                  : cut(pool, lines(sizeof *b + BODY_BIG), free_body_big);
    b->big = n > BODY;
  } else {
    *list = b->next;
  }
  b->refs = 1;
  b->n = (uint16_t)n;
  b->payload = 0;
  b->pool = pool;
  pool->bodies++;
  return b;
}

void body_give(struct body *b)
{
  if (--b->refs > 0)
    return;
  b->pool->bodies--;
  (b->big ? free_body_big : free_body)(b->pool, b);
}

/* ---- for the core ---- */

static void take(dc_buf *b) { ((struct body *)(void *)b)->refs++; }
static void give(dc_buf *b) { body_give((struct body *)(void *)b); }

const struct dc_buf_ops packet_ops = {take, give};
