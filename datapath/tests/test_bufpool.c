/* Buffers come in their sizes, go back to their lists, and the pool keeps its bound. */
#include <string.h>

#include "datapath/bufpool.h"
#include "check.h"

static unsigned given_back;
static void give_back(struct dc_buf *b)
{
  (void)b;
  given_back++;
}

static void sizes_and_owners(void)
{
  struct bufpool p;
  bufpool_init(&p, 9240, 1 << 20);
  struct dc_buf *small = bufpool_get(&p, 100), *middle = bufpool_get(&p, 1500), *large = bufpool_get(&p, 9240);
  CHECK(small->cap >= 100 && small->cap < middle->cap && middle->cap >= 1500 && middle->cap < large->cap);
  CHECK(large->cap >= 9240);
  CHECK(bufpool_get(&p, 9400) == NULL && p.refused == 1);
  CHECK(p.in_use == 3);
  memset(large->data, 0xab, large->cap);
  bufpool_ops.ref(large);
  bufpool_ops.unref(large);
  CHECK(p.in_use == 3);
  struct dc_buf *copy = bufpool_copy(&p, large, 9000);
  CHECK(copy != large && memcmp(copy->data, large->data, 9000) == 0);
  buf_unref(copy);
  buf_unref(large);
  CHECK(p.in_use == 2);
  CHECK(bufpool_get(&p, 9000) == large); /* the last one given back comes first: it is warm */
  buf_unref(small);
  buf_unref(middle);
  buf_unref(NULL);
  bufpool_close(&p);
}

static void bound(void)
{
  struct bufpool p;
  bufpool_init(&p, 9240, 1 << 20);
  struct dc_buf *all[4000];
  unsigned n = 0;
  while (n < 4000 && (all[n] = bufpool_get(&p, 9000)) != NULL)
    n++;
  CHECK(n > 80 && n < 120); /* 1 MiB of 9 KiB each */
  CHECK(p.bytes <= p.limit && p.refused == 1);
  buf_unref(all[--n]);
  CHECK((all[n++] = bufpool_get(&p, 9000)) != NULL);
  while (n > 0)
    buf_unref(all[--n]);
  CHECK(p.in_use == 0);
  bufpool_close(&p);
}

static void lent(void)
{
  struct dc_buf b = {.refs = 1, .give_back = give_back};
  bufpool_ops.ref(&b);
  buf_unref(&b);
  CHECK(given_back == 0);
  buf_unref(&b);
  CHECK(given_back == 1);
}

int main(void)
{
  sizes_and_owners();
  bound();
  lent();
  puts("buffers: ok");
  return 0;
}
