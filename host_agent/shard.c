#include "shard.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>

/* The home loop's hook for each round, before what was buried is freed: who has ended a tree hears all that it told. */
static void heed(void *shards, dc_time now)
{
  struct shards *all = shards;
  (void)now;
  for (unsigned i = 0; i < all->n; i++)
    post_read(&all->one[i].hears);
}

static int open_one(struct shard *s, unsigned index, struct loop *home)
{
  s->index = index;
  int rc = loop_open(&s->loop);
  if (rc == 0 && sem_init(&s->called, 0, 0) < 0)
    rc = -errno;
  if (rc == 0)
    rc = post_open(&s->wants, &s->loop);
  return rc == 0 ? post_open(&s->hears, home) : rc;
}

int shards_open(struct shards *all, unsigned n, struct loop *home)
{
  int rc = 0;
  while (rc == 0 && all->n < n) {
    rc = open_one(&all->one[all->n], all->n, home);
    all->n++;
  }
  home->round = heed;
  home->arg = all;
  if (rc < 0)
    shards_close(all);
  return rc;
}

void shards_close(struct shards *all)
{
  while (all->n > 0) {
    struct shard *s = &all->one[--all->n];
    post_close(&s->hears);
    post_close(&s->wants);
    loop_close(&s->loop);
  }
}

static void *run_loop(void *arg)
{
  struct shard *s = arg;
  char name[16];
  snprintf(name, sizeof name, "frames %u", s->index);
  (void)pthread_setname_np(pthread_self(), name);
  loop_run(&s->loop);
  return NULL;
}

/* The nth processor of those that this program may use. */
static void pin(struct shard *s)
{
  cpu_set_t may, one;
  if (sched_getaffinity(0, sizeof may, &may) < 0)
    return;
  unsigned n = s->index % (unsigned)CPU_COUNT(&may);
  for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &may) || n-- > 0)
      continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)pthread_setaffinity_np(s->thread, sizeof one, &one); /* anywhere it works as well, only slower */
    return;
  }
}

int shards_start(struct shards *all)
{
  if (sched_getscheduler(0) & SCHED_RESET_ON_FORK)
    log_warn("the threads of the frames have no real-time priority: start the agent without --reset-on-fork");
  for (unsigned i = 0; i < all->n; i++) {
    struct shard *s = &all->one[i];
    s->running = true;
    int rc = pthread_create(&s->thread, NULL, run_loop, s);
    s->running = rc == 0;
    if (rc != 0)
      return -rc;
    if (all->n > 1)
      pin(s);
  }
  return 0;
}

static void stop(void *arg) { ((struct shard *)arg)->loop.stop = true; }

void shards_stop(struct shards *all)
{
  for (unsigned i = 0; i < all->n; i++) {
    struct shard *s = &all->one[i];
    if (!s->running)
      continue;
    shard_call(s, stop, s);
    (void)pthread_join(s->thread, NULL);
    s->running = false;
  }
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
  const struct post_message m = {called, s, 0, &c};
  if (!s->running) {
    run(arg);
    return;
  }
  while (!post_send_urgent(&s->wants, &m))
    (void)sched_yield();
  while (sem_wait(&s->called) < 0)
    ; /* EINTR */
}

struct turn {
  void (*run)(struct shard *s, void *arg);
  struct shard *shard;
  void *arg;
};

static void take_turn(void *arg)
{
  const struct turn *t = arg;
  t->run(t->shard, t->arg);
}

void shards_call(struct shards *all, void (*run)(struct shard *s, void *arg), void *arg)
{
  for (unsigned i = 0; i < all->n; i++) {
    struct turn t = {run, &all->one[i], arg};
    shard_call(&all->one[i], take_turn, &t);
  }
}

bool shard_tell(struct shard *s, void (*run)(void *to, uint64_t n, void *with), void *to, uint64_t n, void *with)
{
  const struct post_message m = {run, to, n, with};
  return post_send(&s->hears, &m, SHARD_LINKS);
}
