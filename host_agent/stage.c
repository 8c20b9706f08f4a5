#include "stage.h"

#include <stdlib.h>
#include <string.h>

void stages_close(struct stages *s)
{
  for (uint32_t i = 0; i < s->frees; i++)
    free(s->free[i]);
  free(s->free);
  *s = (struct stages){0};
}

static uint8_t *take(struct stages *s)
{
  if (s->frees > 0)
    return s->free[--s->frees];
  if (s->made >= STAGES_SPARE + s->trees)
    return NULL;
  if (s->made == s->cap) { /* room to give every one back, whatever happens then */
    uint32_t cap = s->cap == 0 ? STAGES_SPARE : 2 * s->cap;
    uint8_t **grown = realloc(s->free, cap * sizeof *grown);
    if (grown == NULL)
      return NULL;
    s->free = grown;
    s->cap = cap;
  }
  uint8_t *bytes = aligned_alloc(4096, STAGE_BYTES);
  s->made += bytes != NULL;
  return bytes;
}

void stages_give(struct stages *s, uint8_t *bytes) { s->free[s->frees++] = bytes; }

bool stages_short(const struct stages *s) { return s->made - s->frees >= s->trees + STAGES_SPARE * 3 / 4; }

bool stage_open(struct stage *s, struct stages *all)
{
  *s = (struct stage){.all = all, .lane = lane_new()};
  all->trees += s->lane != NULL;
  return s->lane != NULL;
}

void stage_close(struct stage *s)
{
  if (s->lane == NULL)
    return;
  if (s->bytes != NULL)
    stages_give(s->all, s->bytes);
  lane_unref(s->lane);
  s->all->trees--;
  *s = (struct stage){.all = s->all};
}

size_t stage_add(struct stage *s, uint64_t at, uint32_t block, const uint8_t *p, size_t n)
{
  if (s->n > 0 && (at != s->at + s->n || block != s->block))
    return 0;
  if (s->bytes == NULL)
    s->bytes = take(s->all);
  if (s->bytes == NULL)
    return 0;
  if (s->n == 0) {
    s->at = at;
    s->block = block;
  }
  n = n < STAGE_BYTES - s->n ? n : STAGE_BYTES - s->n;
  memcpy(s->bytes + s->n, p, n);
  s->n += n;
  return n;
}

struct job *stage_job(struct stage *s, const struct target *t, const struct dc_layout *l)
{
  struct job *j = s->n == 0 ? NULL : job_new(JOB_WRITE);
  if (j == NULL)
    return NULL;
  uint64_t block = (uint64_t)l->piece * l->per_block, from = s->block * block;
  uint64_t to = l->size - from < block ? l->size : from + block;
  j->file = file_ref(t->file);
  j->off = s->at;
  j->len = s->n;
  j->begins = s->at == from;
  j->ends = s->at + s->n == to;
  j->bytes = s->bytes;
  j->stages = s->all;
  j->tag = s->block;
  s->bytes = NULL;
  s->n = 0;
  return j;
}
