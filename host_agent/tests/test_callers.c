/* Connections that others opened: those that stand idle for a minute are closed, and none before. */
#include "signal_callers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "datapath/tests/check.h"

static struct loop loop;
static struct host host;
static struct groups groups = {.host = &host};
static struct signalling s = {.loop = &loop, .groups = &groups};

static int connected(void)
{
  struct sockaddr_in to;
  socklen_t len = sizeof to;
  CHECK(getsockname(s.listen.fd, (struct sockaddr *)&to, &len) == 0);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&to, len) == 0);
  unsigned before = s.callers_n;
  while (s.callers_n == before)
    (void)loop_serve(&loop, loop_clock() + 5 * DC_SEC);
  return fd;
}

static bool ended(int fd)
{
  struct pollfd p = {.fd = fd, .events = POLLIN};
  char byte;
  return poll(&p, 1, 0) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static void an_idle_connection_is_closed_after_a_minute(void)
{
  int first = connected(), second = connected();
  dc_time later = loop_clock() + 59 * DC_SEC;
  s.sweep.fire(&s.sweep, later);
  CHECK(s.callers_n == 2 && !ended(first) && !ended(second));
  CHECK(s.sweep.at > later && s.sweep.at < later + 60 * DC_SEC); /* it looks again */
  s.sweep.fire(&s.sweep, loop_clock() + 61 * DC_SEC);
  CHECK(s.callers_n == 0 && ended(first) && ended(second));
  CHECK(s.sweep.at == DC_NEVER); /* nobody is there */
  close(connected());            /* the next one starts it again */
  CHECK(s.sweep.at != DC_NEVER);
  close(first);
  close(second);
}

int main(void)
{
  struct fault why;
  CHECK(loop_open(&loop) == 0);
  CHECK(callers_listen(&s, "127.0.0.1:0", &why));
  an_idle_connection_is_closed_after_a_minute();
  callers_close(&s);
  loop_close(&loop);
  return 0;
}
