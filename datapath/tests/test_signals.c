/* Which signals end a daemon, and that one under nohup goes on when its terminal is closed, as one whose file may not grow. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "datapath/signals.h"

/* What a daemon makes of one signal, whose disposition was this when it began. */
static bool ends(int number, void (*before)(int))
{
  struct signals s = {0};
  struct fault why;
  struct loop loop;
  CHECK(signal(number, before) != SIG_ERR);
  CHECK(loop_open(&loop) == 0);
  CHECK(signals_block(&s, &why) && signals_watch(&s, &loop, &why));
  CHECK(raise(number) == 0);
  s.watch.ready(&s.watch, 0);
  bool stop = loop.stop;
  loop_unwatch(&loop, &s.watch);
  signals_close(&s);
  loop_close(&loop);
  sigset_t none;
  sigemptyset(&none);
  CHECK(sigprocmask(SIG_SETMASK, &none, NULL) == 0);
  return stop;
}

int main(void)
{
  CHECK(ends(SIGTERM, SIG_DFL));
  CHECK(ends(SIGINT, SIG_DFL));
  CHECK(ends(SIGHUP, SIG_DFL));
  CHECK(!ends(SIGHUP, SIG_IGN));
  CHECK(raise(SIGXFSZ) == 0);    /* by signals_block ignored: what was written is an error, and told */
  CHECK(ends(SIGTERM, SIG_IGN)); /* whoever ignores it on its behalf: it must be possible to end a daemon */
  puts("signals: ok");
  return 0;
}
