/* Timers come in order whatever is set, moved and taken out; watches removed during a round are not called. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"
#include "datapath/loop.h"

enum { TIMERS = 500 };

struct tick {
  struct timer timer; /* first */
  dc_time wanted;
};

static struct tick tick[TIMERS];
static struct loop loop;
static unsigned fired, pending;
static dc_time last;

static void fire(struct timer *t, dc_time now)
{
  struct tick *x = (struct tick *)(void *)t;
  CHECK(x->wanted <= now);
  CHECK(x->wanted >= last);
  CHECK(t->pos == 0);
  last = x->wanted;
  fired++;
  if (--pending == 0)
    loop.stop = true;
}

static void timers(unsigned seed)
{
  srand(seed);
  CHECK(loop_open(&loop) == 0);
  dc_time base = loop_clock();
  fired = pending = 0;
  last = 0;
  for (unsigned i = 0; i < TIMERS; i++)
    tick[i] = (struct tick){.timer = {.fire = fire, .at = DC_NEVER}};
  for (unsigned step = 0; step < 5 * TIMERS; step++) { /* set, move, take out */
    struct tick *x = &tick[rand() % TIMERS];
    x->wanted = rand() % 4 == 0 ? DC_NEVER : base + (dc_time)(rand() % 20000) * DC_US;
    loop_timer(&loop, &x->timer, x->wanted);
  }
  for (unsigned i = 0; i < TIMERS; i++) {
    CHECK((tick[i].timer.pos != 0) == (tick[i].timer.at != DC_NEVER));
    pending += tick[i].timer.pos != 0;
  }
  CHECK(pending == loop.n && pending > 0);
  unsigned expected = pending;
  loop_run(&loop);
  CHECK(fired == expected && loop.n == 0);
  loop_close(&loop);
}

static struct watch one, two;
static unsigned calls;

static void ready(struct watch *w, uint32_t events)
{
  CHECK(events & EPOLLIN);
  CHECK(w->ready == ready);
  calls++;
  loop_unwatch(&loop, w == &one ? &two : &one); /* the other one waits in the same round */
  loop.stop = true;
}

static void removal_in_a_round(void)
{
  int a[2], b[2];
  CHECK(loop_open(&loop) == 0);
  CHECK(pipe(a) == 0 && pipe(b) == 0);
  CHECK(write(a[1], "x", 1) == 1 && write(b[1], "x", 1) == 1);
  one = (struct watch){.fd = a[0], .ready = ready};
  two = (struct watch){.fd = b[0], .ready = ready};
  CHECK(loop_watch(&loop, &one, EPOLLIN) == 0 && loop_watch(&loop, &two, EPOLLIN) == 0);
  loop_run(&loop);
  CHECK(calls == 1);
  loop_bury(&loop, malloc(100));
  loop_bury(&loop, NULL);
  loop_close(&loop); /* under AddressSanitizer: nothing is left */
  close(a[0]), close(a[1]), close(b[0]), close(b[1]);
}

static unsigned rounds;

static void slow_packets(void *arg, dc_time now)
{
  (void)arg;
  (void)now;
  loop.packets = 1;
  loop.busy = true;
  if (++rounds == 3)
    loop.stop = true;
}

static void no_pause_for_few_packets(void)
{
  CHECK(loop_open(&loop) == 0);
  loop.gather_max = 2 * DC_MS;
  loop.round = slow_packets;
  loop.busy = true;
  loop_run(&loop);
  CHECK(loop.gap == 0);
  loop_close(&loop);
}

static void stop_it(struct watch *w, uint32_t events)
{
  (void)w;
  (void)events;
  loop.stop = true;
}

/* Waits for ever where a pause is not ended. */
static void signalling_ends_a_pause(void)
{
  int a[2];
  CHECK(loop_open(&loop) == 0);
  CHECK(pipe(a) == 0 && write(a[1], "x", 1) == 1);
  one = (struct watch){.fd = a[0], .ready = stop_it};
  CHECK(loop_watch(&loop, &one, EPOLLIN) == 0);
  loop.packets = 1;
  loop.gap = 3600 * DC_SEC;
  loop_run(&loop);
  loop_close(&loop);
  close(a[0]), close(a[1]);
}

static dc_time came[2];
static unsigned results;

static void result(struct watch *w, uint32_t events)
{
  char c;
  (void)events;
  CHECK(read(w->fd, &c, 1) == 1);
  came[results++] = loop_clock();
  loop.packets++;
  loop.stop = results == 2;
}

/* Of a loop without a hook: what a handler has counted makes it pause as well. */
static void results_gather(void)
{
  int a[2];
  CHECK(loop_open(&loop) == 0);
  CHECK(pipe(a) == 0 && write(a[1], "xy", 2) == 2);
  one = (struct watch){.fd = a[0], .ready = result};
  CHECK(loop_watch_packets(&loop, &one, EPOLLIN) == 0);
  loop.round = NULL;
  loop.rate_since = loop_clock();
  loop.gap = 5 * DC_MS;
  loop_run(&loop);
  CHECK(came[1] - came[0] >= 4 * DC_MS);
  loop_close(&loop);
  close(a[0]), close(a[1]);
}

enum { CONNECTIONS = 20 };
static struct watch connection[CONNECTIONS];
static unsigned turns[CONNECTIONS], since_hook;

/* As a handshake of TLS: it takes its time, and there is more to do afterwards. */
static void shake(struct watch *w, uint32_t events)
{
  (void)events;
  for (dc_time until = loop_clock() + DC_MS; loop_clock() < until;)
    ;
  CHECK(since_hook++ == 0);
  turns[w - connection]++;
}

static void hook(void *arg, dc_time now)
{
  (void)arg;
  (void)now;
  since_hook = 0;
  loop.stop = true;
  for (unsigned i = 0; i < CONNECTIONS; i++)
    if (turns[i] < 2)
      loop.stop = false;
  CHECK(++rounds < 10 * CONNECTIONS);
}

static void packets_have_their_turn_between_connections_that_take_long(void)
{
  int p[CONNECTIONS][2];
  CHECK(loop_open(&loop) == 0);
  loop.round = hook;
  rounds = 0;
  for (unsigned i = 0; i < CONNECTIONS; i++) {
    CHECK(pipe(p[i]) == 0 && write(p[i][1], "x", 1) == 1);
    connection[i] = (struct watch){.fd = p[i][0], .ready = shake};
    CHECK(loop_watch(&loop, &connection[i], EPOLLIN) == 0);
  }
  loop_run(&loop);
  loop_close(&loop);
  for (unsigned i = 0; i < CONNECTIONS; i++)
    close(p[i][0]), close(p[i][1]);
}

static unsigned slept, woke;

static bool has_come(void *arg, bool sleeps)
{
  CHECK(arg == &loop);
  *(sleeps ? &slept : &woke) += 1;
  return true;
}

static void counted(void *arg, dc_time now)
{
  (void)arg, (void)now;
  loop.busy = ++rounds == 2;
  loop.stop = rounds == 3;
}

/* Waits for ever where it does not ask. Who is busy does not sleep, and is not asked. */
static void what_has_come_already_is_not_waited_for(void)
{
  CHECK(loop_open(&loop) == 0);
  rounds = 0;
  loop.arg = &loop;
  loop.round = counted;
  loop.sleeps = has_come;
  loop_run(&loop);
  CHECK(rounds == 3 && slept == 2 && woke == 2);
  loop_close(&loop);
}

/* Whoever opens several loops closes all of them when one of them fails. */
static void one_that_could_not_be_opened_closes_nobody_else_s_descriptor(void)
{
  struct rlimit most;
  int next = dup(0), other;
  CHECK(next >= 0 && close(next) == 0 && getrlimit(RLIMIT_NOFILE, &most) == 0);
  struct rlimit few = {.rlim_cur = (rlim_t)next + 1, .rlim_max = most.rlim_max};
  CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0 && loop_open(&loop) == -EMFILE && setrlimit(RLIMIT_NOFILE, &most) == 0);
  other = dup(0);
  CHECK(other == next);
  loop_close(&loop);
  CHECK(close(other) == 0);
}

int main(void)
{
  for (unsigned seed = 1; seed <= 5; seed++)
    timers(seed);
  removal_in_a_round();
  no_pause_for_few_packets();
  signalling_ends_a_pause();
  results_gather();
  what_has_come_already_is_not_waited_for();
  packets_have_their_turn_between_connections_that_take_long();
  one_that_could_not_be_opened_closes_nobody_else_s_descriptor();
  puts("loop: ok");
  return 0;
}
