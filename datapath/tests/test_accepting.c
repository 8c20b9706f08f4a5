/* Who may open no more files refuses connections, and is not woken by them for ever. */
#include "datapath/accepting.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "datapath/tests/check.h"

static int call(const struct sockaddr_un *to, socklen_t len)
{
  int s = socket(AF_UNIX, SOCK_STREAM, 0);
  CHECK(s >= 0 && connect(s, (const struct sockaddr *)to, len) == 0);
  return s;
}

static bool waits(int fd)
{
  struct pollfd p = {.fd = fd, .events = POLLIN};
  return poll(&p, 1, 0) == 1;
}

/* The next descriptor is one too many. */
static void no_more(void)
{
  int next = dup(0);
  struct rlimit most;
  CHECK(next >= 0 && close(next) == 0 && getrlimit(RLIMIT_NOFILE, &most) == 0);
  most.rlim_cur = (rlim_t)next;
  CHECK(setrlimit(RLIMIT_NOFILE, &most) == 0 && dup(0) < 0 && errno == EMFILE);
}

int main(void)
{
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  socklen_t len = sizeof at;
  struct rlimit was;
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), spare;
  CHECK(bind(listener, (struct sockaddr *)&at, sizeof at.sun_family) == 0 && listen(listener, 8) == 0);
  CHECK(getsockname(listener, (struct sockaddr *)&at, &len) == 0 && getrlimit(RLIMIT_NOFILE, &was) == 0);
  spare = accept_spare(listener);
  CHECK(spare >= 0 && accept_or_refuse(listener, &spare, NULL, NULL) < 0 && errno == EAGAIN);

  int one = call(&at, len), taken = accept_or_refuse(listener, &spare, NULL, NULL);
  CHECK(taken >= 0 && write(taken, "x", 1) == 1 && waits(one));
  int more[] = {call(&at, len), call(&at, len)};
  no_more();
  for (unsigned i = 0; i < 2; i++) {
    char byte;
    CHECK(waits(listener) && accept_or_refuse(listener, &spare, NULL, NULL) < 0);
    CHECK(waits(more[i]) && read(more[i], &byte, 1) == 0);
  }
  CHECK(!waits(listener));
  CHECK(setrlimit(RLIMIT_NOFILE, &was) == 0);
  int late = call(&at, len), last = accept_or_refuse(listener, &spare, NULL, NULL);
  CHECK(late >= 0 && last >= 0);
  puts("accepting: ok");
  return 0;
}
