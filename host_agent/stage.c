#include "stage.h"

#include <stdlib.h>
#include <string.h>

#include "datapath/lock.h"

void stages_open(struct stages *s)
{
  *s = (struct stages){0};
  lock_open(&s->lock);
}

void stages_close(struct stages *s)
{
  for (uint32_t i = 0; i < s->frees; i++)
    free(s->free[i]);
  free(s->free);
  *s = (struct stages){0};
}

static uint8_t *make(struct stages *s)
{
  if (s->made >= STAGES_SPARE + 2 * s->trees)
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

static uint8_t *take(struct stages *s)
{
  pthread_mutex_lock(&s->lock);
  uint8_t *bytes = s->frees > 0 ? s->free[--s->frees] : make(s);
  pthread_mutex_unlock(&s->lock);
  return bytes;
}

void stages_give(struct stages *s, uint8_t *bytes)
{
  pthread_mutex_lock(&s->lock);
  s->free[s->frees++] = bytes;
  pthread_mutex_unlock(&s->lock);
}

bool stages_short(struct stages *s)
{
  pthread_mutex_lock(&s->lock);
  bool is = s->made - s->frees >= 2 * s->trees + STAGES_SPARE * 3 / 4;
  pthread_mutex_unlock(&s->lock);
  return is;
}

static void count(struct stages *s, int trees)
{
  pthread_mutex_lock(&s->lock);
  s->trees += (uint32_t)trees;
  pthread_mutex_unlock(&s->lock);
}

bool stage_open(struct stage *s, struct stages *all)
{
  *s = (struct stage){.all = all, .lane = lane_new()};
  if (s->lane != NULL)
    count(all, 1);
  return s->lane != NULL;
}

void stage_close(struct stage *s)
{
  if (s->lane == NULL)
    return;
  if (s->bytes != NULL)
    stages_give(s->all, s->bytes);
  if (s->next != NULL)
    stages_give(s->all, s->next);
  free(s->job);
  free(s->next_job);
  lane_unref(s->lane);
  count(s->all, -1);
  *s = (struct stage){.all = s->all};
}

bool stage_ready(struct stage *s)
{
  if (s->bytes == NULL)
    s->bytes = take(s->all);
  if (s->job == NULL)
    s->job = job_new(JOB_WRITE);
  if (s->n == 0)
    return s->bytes != NULL && s->job != NULL;
  if (s->next == NULL)
    s->next = take(s->all);
  if (s->next_job == NULL)
    s->next_job = job_new(JOB_WRITE);
  return s->next != NULL && s->next_job != NULL;
}

size_t stage_add(struct stage *s, uint64_t at, uint32_t block, const uint8_t *p, size_t n)
{
  if (s->n > 0 && (at != s->at + s->n || block != s->block))
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

struct job *stage_job(struct stage *s, struct file *f, const struct dc_layout *l)
{
  struct job *j = s->job;
  if (s->n == 0)
    return NULL;
  uint64_t block = (uint64_t)l->piece * l->per_block, from = s->block * block;
  uint64_t to = l->size - from < block ? l->size : from + block;
  j->file = file_ref(f);
  j->off = s->at;
  j->len = s->n;
  j->begins = s->at == from;
  j->ends = s->at + s->n == to;
  j->bytes = s->bytes;
  j->stages = s->all;
  j->tag = s->block;
  s->job = s->next_job;
  s->next_job = NULL;
  s->bytes = s->next;
  s->next = NULL;
  s->n = 0;
  return j;
}
