/* Memory in huge pages: a large network is walked through in no order, and each step would miss the processor's page
 * tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine.h"

enum { LINE = 64, HUGE = 1 << 21 };

struct chunk {
  struct chunk *next;
  size_t size;
};

static size_t up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

/* Zeroed, and not really there until it is touched. */
static struct chunk *map(size_t size, bool huge)
{
  size_t more = huge ? size + HUGE : size;
  char *p = mmap(NULL, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    abort();
  if (huge)
    madvise(p, more, MADV_HUGEPAGE); /* where there are none, small ones do */
  struct chunk *c = (struct chunk *)(void *)p;
  c->size = more;
  return c;
}

/* What the machine can give now; SIZE_MAX where it does not say. */
static size_t available(void)
{
  FILE *f = fopen("/proc/meminfo", "r");
  char line[128];
  unsigned long long kb = 0;
  while (f != NULL && kb == 0 && fgets(line, sizeof line, f) != NULL)
    sscanf(line, "MemAvailable: %llu", &kb);
  if (f != NULL)
    fclose(f);
  return kb == 0 ? SIZE_MAX : (size_t)kb * 1024;
}

int memory_room(sim *s, double bytes)
{
  struct memory *m = &s->memory;
  if (m->limit == 0)
    m->limit = available();
  double all = (double)m->taken + bytes;
  if (all <= (double)m->limit)
    return 0;
  snprintf(s->text, sizeof s->text,
           "this needs %.1f GiB of memory or more, %.1f GiB are available: take a smaller group, file or network",
           all / (1 << 30), (double)m->limit / (1 << 30));
  return sim_fail(s, s->text);
}

void *memory_take(struct memory *m, size_t bytes)
{
  bytes = up(bytes, LINE);
  if (bytes > m->left) {
    size_t size = up(bytes + LINE, m->huge ? 16 * HUGE : HUGE / 8);
    struct chunk *c = map(size, m->huge);
    c->next = m->chunks;
    m->chunks = c;
    m->at = (char *)c + LINE;
    m->left = size - LINE;
  }
  void *p = m->at;
  m->at += bytes;
  m->left -= bytes;
  m->taken += bytes;
  return p;
}

void memory_free(struct memory *m)
{
  for (struct chunk *c = m->chunks, *next; c != NULL; c = next) {
    next = c->next;
    munmap(c, c->size);
  }
}

void *grow(void *array, int n, size_t each)
{
  if (n > 0 && (n & (n - 1)) != 0)
    return array;
  size_t bytes = (n == 0 ? 1 : 2 * (size_t)(unsigned)n) * each;
  bytes = up(bytes, bytes >= HUGE ? HUGE : LINE);
  void *more = aligned_alloc(bytes >= HUGE ? HUGE : LINE, bytes);
  if (more == NULL)
    abort();
  if (bytes >= HUGE)
    madvise(more, bytes, MADV_HUGEPAGE);
  if (n > 0)
    memcpy(more, array, (size_t)(unsigned)n * each);
  free(array);
  return more;
}
