#include "shard.h"

#include <errno.h>
#include <sched.h>

int shard_open(struct shard *s, struct loop *home)
{
  int rc = loop_open(&s->loop);
  if (rc < 0)
    return rc;
  rc = sem_init(&s->called, 0, 0) < 0 ? -errno : post_open(&s->wants, &s->loop);
  if (rc == 0)
    rc = post_open(&s->hears, home);
  if (rc == 0) {
    home->round = shard_heed;
    home->arg = s;
  } else {
    shard_close(s);
  }
  return rc;
}

void shard_close(struct shard *s)
{
  post_close(&s->hears);
  post_close(&s->wants);
  loop_close(&s->loop);
}

static void *run_loop(void *arg)
{
  struct shard *s = arg;
  loop_run(&s->loop);
  return NULL;
}

int shard_start(struct shard *s)
{
  s->running = true;
  int rc = pthread_create(&s->thread, NULL, run_loop, s);
  s->running = rc == 0;
  return -rc;
}

static void stop(void *to, uint64_t n, void *with)
{
  (void)n, (void)with;
  ((struct shard *)to)->loop.stop = true;
}

void shard_stop(struct shard *s)
{
  if (!s->running)
    return;
  shard_post(s, stop, s, 0, NULL);
  (void)pthread_join(s->thread, NULL);
  s->running = false;
}

struct call {
  void (*run)(void *arg);
  void *arg;
};

static void called(void *to, uint64_t n, void *with)
{
  struct shard *s = to;
  const struct call *c = with;
  (void)n;
  c->run(c->arg);
  (void)sem_post(&s->called);
}

void shard_post(struct shard *s, void (*run)(void *to, uint64_t n, void *with), void *to, uint64_t n, void *with)
{
  const struct post_message m = {run, to, n, with};
  if (!s->running) {
    run(to, n, with);
    return;
  }
  while (!post_send(&s->wants, &m, 0)) /* it waits for nobody: in a round there is room */
    (void)sched_yield();
}

void shard_call(struct shard *s, void (*run)(void *arg), void *arg)
{
  struct call c = {run, arg};
  if (!s->running) {
    run(arg);
    return;
  }
  shard_post(s, called, s, 0, &c);
  while (sem_wait(&s->called) < 0)
    ; /* EINTR */
}

void shard_heed(void *shard, dc_time now)
{
  (void)now;
  post_read(&((struct shard *)shard)->hears);
}

bool shard_tell(struct shard *s, void (*run)(void *to, uint64_t n, void *with), void *to, uint64_t n, void *with)
{
  const struct post_message m = {run, to, n, with};
  return post_send(&s->hears, &m, SHARD_LINKS);
}
