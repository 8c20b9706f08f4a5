/* What is asked of a thread of frames is run by it while it runs, and by who asks before and afterwards. */
#include "shard.h"

#include <stdio.h>

#include "datapath/tests/check.h"

enum { POSTS = 1000 };

static struct loop home;
static struct shards shards;
static pthread_t ran_in;
static uint64_t ran, sum;

static void posted(void *to, uint64_t n, void *with)
{
  CHECK(to == &shards && with == &home && n == ran);
  ran_in = pthread_self();
  ran++;
}

static void counted(void *arg)
{
  sum = ran;
  *(pthread_t *)arg = pthread_self();
}

static void post(unsigned times)
{
  for (uint64_t n = ran; times > 0; times--)
    shard_post(&shards.one[0], posted, &shards, n++, &home);
}

/* As many as there may be. */
static void each_thread_has_a_processor_of_its_own(void)
{
  cpu_set_t may, of[SHARDS_MAX];
  CHECK(sched_getaffinity(0, sizeof may, &may) == 0);
  CHECK(loop_open(&home) == 0 && shards_open(&shards, SHARDS_MAX, &home) == 0 && shards_start(&shards) == 0);
  for (unsigned i = 0; i < SHARDS_MAX; i++)
    CHECK(pthread_getaffinity_np(shards.one[i].thread, sizeof of[i], &of[i]) == 0 && CPU_COUNT(&of[i]) == 1);
  CHECK(CPU_EQUAL(&of[0], &of[1]) == (CPU_COUNT(&may) == 1));
  shards_stop(&shards);
  shards_close(&shards);
  loop_close(&home);
}

int main(void)
{
  pthread_t called_in, me = pthread_self();
  CHECK(loop_open(&home) == 0 && shards_open(&shards, 1, &home) == 0);
  post(1);
  CHECK(ran == 1 && pthread_equal(ran_in, me));

  CHECK(shards_start(&shards) == 0);
  post(POSTS);
  shard_call(&shards.one[0], counted, &called_in);
  CHECK(!pthread_equal(called_in, me) && sum == 1 + POSTS && pthread_equal(ran_in, called_in)); /* in their order */
  post(1);

  shards_stop(&shards); /* hears what was posted before it */
  CHECK(ran == 2 + POSTS && pthread_equal(ran_in, called_in));
  post(1);
  CHECK(ran == 3 + POSTS && pthread_equal(ran_in, me));
  shard_call(&shards.one[0], counted, &called_in);
  CHECK(pthread_equal(called_in, me) && sum == ran);
  shards_stop(&shards);
  shards_close(&shards);
  loop_close(&home);
  each_thread_has_a_processor_of_its_own();
  puts("shards: ok");
  return 0;
}
