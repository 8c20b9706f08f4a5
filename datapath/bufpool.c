#include "datapath/bufpool.h"

#include <stdlib.h>
#include <string.h>

#include "datacast/wire.h"

enum { CHUNK_BYTES = 128 << 10, SMALL = 512, MIDDLE = 2304 };

static void ref(dc_buf *b) { b->refs++; }

static void unref(dc_buf *b)
{
  if (--b->refs > 0)
    return;
  if (b->pool == NULL) {
    b->give_back(b);
    return;
  }
  unsigned k = 0;
  while (b->pool->size[k] != b->cap)
    k++;
  b->pool->in_use--;
  b->next = b->pool->free[k];
  b->pool->free[k] = b;
}

const struct dc_buf_ops bufpool_ops = {.ref = ref, .unref = unref};

void bufpool_init(struct bufpool *p, uint32_t largest, size_t limit)
{
  memset(p, 0, sizeof *p);
  p->limit = limit;
  p->size[0] = SMALL;
  p->size[1] = MIDDLE;
  p->size[2] = (largest + 63) / 64 * 64;
  if (p->size[2] <= MIDDLE)
    p->size[2] = MIDDLE + 64;
}

void bufpool_close(struct bufpool *p)
{
  for (uint32_t i = 0; i < p->nchunks; i++)
    free(p->chunk[i]);
  free(p->chunk);
  memset(p, 0, sizeof *p);
}

static bool grow(struct bufpool *p, unsigned k)
{
  size_t each = sizeof(struct dc_buf) + p->size[k];
  each = (each + 63) / 64 * 64;
  size_t n = CHUNK_BYTES / each > 0 ? CHUNK_BYTES / each : 1;
  if (p->bytes + n * each > p->limit)
    return false;
  if (p->nchunks == p->chunk_cap) {
    uint32_t cap = p->chunk_cap == 0 ? 64 : 2 * p->chunk_cap;
    void **chunk = realloc(p->chunk, cap * sizeof *chunk);
    if (chunk == NULL)
      return false;
    p->chunk = chunk;
    p->chunk_cap = cap;
  }
  uint8_t *mem = aligned_alloc(64, n * each);
  if (mem == NULL)
    return false;
  p->chunk[p->nchunks++] = mem;
  p->bytes += n * each;
  for (size_t i = 0; i < n; i++) {
    struct dc_buf *b = (struct dc_buf *)(void *)(mem + i * each);
    memset(b, 0, sizeof *b);
    b->cap = p->size[k];
    b->mem = (uint8_t *)(b + 1);
    b->pool = p;
    b->next = p->free[k];
    p->free[k] = b;
  }
  return true;
}

static unsigned size_for(const struct bufpool *p, uint32_t bytes)
{
  unsigned k = 0;
  while (k < BUF_SIZES && p->size[k] < bytes)
    k++;
  return k;
}

uint32_t bufpool_size(const struct bufpool *p, uint32_t bytes)
{
  unsigned k = size_for(p, bytes);
  return p->size[k < BUF_SIZES ? k : BUF_SIZES - 1];
}

struct dc_buf *bufpool_get(struct bufpool *p, uint32_t bytes)
{
  unsigned k = size_for(p, bytes);
  if (k == BUF_SIZES || (p->free[k] == NULL && !grow(p, k))) {
    p->refused++;
    return NULL;
  }
  struct dc_buf *b = p->free[k];
  p->free[k] = b->next;
  p->in_use++;
  b->refs = 1;
  b->data = b->mem;
  b->next = NULL;
  return b;
}

struct dc_buf *bufpool_copy(struct bufpool *p, const struct dc_buf *b, uint32_t len)
{
  struct dc_buf *c = bufpool_get(p, len);
  if (c != NULL)
    memcpy(c->data, b->data, len);
  return c;
}

void frame_copy(uint8_t *to, const struct dc_frame *f)
{
  static const uint8_t none[6];
  const struct dc_buf *b = f->buf;
  uint32_t head = b != NULL && b->whole != NULL ? BUF_HEAD : f->len;
  memcpy(to, f->data, head);
  if (head < f->len)
    memcpy(to + head, b->whole + head, f->len - head);
  if (f->ethertype != 0 && f->len >= DC_ETHER_LEN)
    dc_ether_write(to, none, none, f->ethertype);
}
