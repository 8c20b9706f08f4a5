/* Messages between two threads: in order, none twice or lost, as many as there is room for, and the bell wakes. */
#include "datapath/post.h"

#include <pthread.h>

#include "datapath/tests/check.h"

static struct post post;
static struct loop loop;
static uint64_t next, again;

static void counted(void *to, uint64_t n, void *with)
{
  CHECK(to == &post && with == &loop && n == next);
  next++;
}

static bool send_one(uint64_t n, uint32_t spare)
{
  return post_send(&post, &(struct post_message){counted, &post, n, &loop}, spare);
}

static void no_more_than_there_is_room_for_and_some_is_spared(void)
{
  uint64_t n = 0;
  next = 0;
  while (send_one(n, 100))
    n++;
  CHECK(n == POST_MESSAGES - 100);
  while (send_one(n, 0))
    n++;
  CHECK(n == POST_MESSAGES && next == 0);
  post_read(&post);
  CHECK(next == n && send_one(n, 0));
  (void)loop_serve(&loop, loop_clock());
  CHECK(next == n + 1);
}

static void sends_another(void *to, uint64_t n, void *with)
{
  (void)with;
  again++;
  if (n > 0)
    CHECK(post_send(to, &(struct post_message){sends_another, to, n - 1, NULL}, 0));
}

/* What a message sends to its own reader waits for the next turn: a loop has others to look at. */
static void one_turn_runs_what_was_there(void)
{
  CHECK(post_send(&post, &(struct post_message){sends_another, &post, 2, NULL}, 0));
  for (uint64_t turn = 1; turn <= 3; turn++) {
    (void)loop_serve(&loop, loop_clock() + 5 * DC_SEC);
    CHECK(again == turn);
  }
}

enum { MANY = 200000 };

static void *send_many(void *arg)
{
  (void)arg;
  for (uint64_t n = 0; n < MANY;)
    n += send_one(n, 0);
  return NULL;
}

/* It sleeps without a limit whenever there is nothing: a bell that is missed hangs. */
static void another_thread_is_heard_in_order(void)
{
  pthread_t t;
  next = 0;
  CHECK(pthread_create(&t, NULL, send_many, NULL) == 0);
  while (next < MANY)
    (void)loop_serve(&loop, DC_NEVER);
  CHECK(pthread_join(t, NULL) == 0 && next == MANY);
}

int main(void)
{
  CHECK(loop_open(&loop) == 0 && post_open(&post, &loop) == 0);
  no_more_than_there_is_room_for_and_some_is_spared();
  one_turn_runs_what_was_there();
  another_thread_is_heard_in_order();
  post_close(&post);
  loop_close(&loop);
  puts("posts: ok");
  return 0;
}
