#include "ahead.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "datapath/lock.h"

/* Of what all files' blocks share: taken once for a block, not for its pieces. */
static pthread_mutex_t lock;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

static void open_it(void) { lock_open(&lock); }

struct ahead {
  uint32_t refs; /* the file's, and one of each block that is out */
  bool closed;
  uint32_t piece, per_block;
  size_t *room;
  struct ahead_block *free; /* the one used last comes first: the processor's cache may still have it */
};

static size_t block_bytes(const struct ahead *a) { return (size_t)a->piece * a->per_block; }

/* With its pieces' heads. */
static size_t taken(const struct ahead *a)
{
  return block_bytes(a) + sizeof(struct ahead_block) + a->per_block * sizeof(struct dc_buf);
}

struct ahead *ahead_new(size_t *room, const struct dc_layout *l)
{
  pthread_once(&opened, open_it);
  struct ahead *a = malloc(sizeof *a);
  if (a != NULL)
    *a = (struct ahead){.refs = 1, .piece = l->piece, .per_block = l->per_block, .room = room};
  return a;
}

static void unref_all(struct ahead *a)
{
  if (--a->refs == 0)
    free(a);
}

static void free_block(struct ahead_block *b)
{
  *b->of->room += taken(b->of);
  free(b->bytes);
  free(b);
}

void ahead_close(struct ahead *a)
{
  if (a == NULL)
    return;
  pthread_mutex_lock(&lock);
  a->closed = true;
  for (struct ahead_block *b = a->free, *next; b != NULL; b = next) {
    next = b->next;
    free_block(b);
  }
  a->free = NULL;
  unref_all(a);
  pthread_mutex_unlock(&lock);
}

static struct ahead_block *make(struct ahead *a)
{
  size_t bytes = taken(a);
  if (bytes > *a->room)
    return NULL;
  struct ahead_block *b = calloc(1, bytes - block_bytes(a));
  uint8_t *mem = b == NULL ? NULL : aligned_alloc(4096, (block_bytes(a) + 4095) / 4096 * 4096);
  if (mem == NULL) {
    free(b);
    return NULL;
  }
  *a->room -= bytes;
  b->of = a;
  b->bytes = mem;
  return b;
}

struct ahead_block *ahead_take(struct ahead *a)
{
  pthread_mutex_lock(&lock);
  struct ahead_block *b = a->free;
  if (b != NULL)
    a->free = b->next;
  else
    b = make(a);
  if (b != NULL) {
    b->refs = 1;
    a->refs++;
  }
  pthread_mutex_unlock(&lock);
  return b;
}

void ahead_unref(struct ahead_block *b)
{
  if (b == NULL || __atomic_sub_fetch(&b->refs, 1, __ATOMIC_ACQ_REL) > 0)
    return;
  struct ahead *a = b->of;
  pthread_mutex_lock(&lock);
  if (a->closed) {
    free_block(b);
  } else {
    b->next = a->free;
    a->free = b;
  }
  unref_all(a);
  pthread_mutex_unlock(&lock);
}

static void back(struct dc_buf *piece) { ahead_unref((struct ahead_block *)(void *)piece->mem); }

struct dc_buf *ahead_piece(struct ahead_block *b, uint32_t i)
{
  struct dc_buf *p = &b->piece[i];
  if (p->refs++ > 0) /* on its way to somebody else */
    return p;
  __atomic_add_fetch(&b->refs, 1, __ATOMIC_RELAXED);
  *p = (struct dc_buf){.refs = 1,
                       .cap = b->of->piece,
                       .data = b->bytes + (size_t)i * b->of->piece,
                       .mem = (uint8_t *)b, /* where it goes back to */
                       .give_back = back,
                       .stays = true};
  return p;
}
