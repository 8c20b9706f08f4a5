/* A connection that ends in its own message, and one whose answers nobody reads. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "datapath/conn.h"

static unsigned messages;

static void free_it(struct conn *c, json_t *m)
{
  (void)m;
  messages++;
  conn_free(c);
}

static void closed(struct conn *c, const char *why)
{
  (void)c;
  (void)why;
  CHECK(!"closed comes for a connection that was freed");
}

/* As when a lost child's place is needed for another one while its own answer is handled. */
static void a_connection_freed_by_its_message_takes_no_more(bool lines)
{
  static const struct conn_ops ops = {.message = free_it, .closed = closed};
  static const char frame[] = "\0\0\0\14{\"type\":\"a\"}\0\0\0\14{\"type\":\"b\"}";
  static const char text[] = "{\"op\":1}\n{\"op\":2}\n";
  struct loop loop;
  int fd[2];
  size_t budget = 0, n = lines ? sizeof text - 1 : sizeof frame - 1;
  CHECK(loop_open(&loop) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
  struct conn *c = conn_new(&loop, fd[0], false, "test", &budget, &ops, NULL);
  if (lines)
    conn_lines(c, 100);
  CHECK(send(fd[1], lines ? text : frame, n, 0) == (ssize_t)n);
  messages = 0;
  (void)loop_serve(&loop, 0);
  (void)loop_serve(&loop, 0);
  CHECK(messages == 1 && budget == 0);
  close(fd[1]);
  loop_close(&loop);
}

static char reason[64];

static void answer_at_length(struct conn *c, json_t *m)
{
  static char text[1 << 20];
  (void)m;
  memset(text, 'x', sizeof text - 1);
  json_t *a = json_pack("{s:s}", "text", text);
  messages++;
  conn_send(c, a);
  json_decref(a);
}

static void say_why(struct conn *c, const char *why)
{
  (void)c;
  snprintf(reason, sizeof reason, "%s", why);
}

static void a_control_socket_that_does_not_read_is_closed(void)
{
  static const struct conn_ops ops = {.message = answer_at_length, .closed = say_why, .malformed = say_why};
  struct loop loop;
  int fd[2];
  size_t budget = 0;
  char text[3 * 100];
  CHECK(loop_open(&loop) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
  struct conn *c = conn_new(&loop, fd[0], false, "test", &budget, &ops, NULL);
  conn_lines(c, 100);
  for (unsigned i = 0; i < 100; i++)
    memcpy(text + 3 * i, "{}\n", 3);
  CHECK(send(fd[1], text, sizeof text, 0) == sizeof text);
  messages = 0;
  for (unsigned i = 0; i < 8; i++)
    (void)loop_serve(&loop, 0);
  CHECK(messages >= 10 && messages < 40 && strcmp(reason, "it does not read what we send") == 0);
  close(fd[1]);
  loop_close(&loop);
}

/* Who was refused and goes on all the same: until the connection is closed nothing of that is kept, nor is its loop kept busy. */
static void what_follows_a_refusal_is_thrown_away(void)
{
  static const struct conn_ops ops = {.message = answer_at_length, .closed = say_why};
  static const char wrong[] = "\0\0\0\1x";
  static char more[1 << 16];
  struct loop loop;
  int fd[2], small = 1;
  size_t budget = 0, sent = 0, most = 0;
  CHECK(loop_open(&loop) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
  CHECK(setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small) == 0);
  while (send(fd[0], more, 1, 0) == 1) /* its answer stays with it */
    ;
  struct conn *c = conn_new(&loop, fd[0], false, "test", &budget, &ops, NULL);
  CHECK(send(fd[1], wrong, sizeof wrong - 1, 0) == sizeof wrong - 1);
  reason[0] = '\0';
  for (unsigned i = 0; i < 1000; i++) {
    ssize_t n = send(fd[1], more, sizeof more, MSG_NOSIGNAL);
    sent += n > 0 ? (size_t)n : 0;
    (void)loop_serve(&loop, 0);
    most = budget > most ? budget : most;
  }
  CHECK(reason[0] == '\0' && sent > 8 << 20 && most <= 64 << 10);
  conn_free(c);
  CHECK(budget == 0);
  close(fd[1]);
  loop_close(&loop);
}

int main(void)
{
  a_connection_freed_by_its_message_takes_no_more(false);
  a_connection_freed_by_its_message_takes_no_more(true);
  a_control_socket_that_does_not_read_is_closed();
  what_follows_a_refusal_is_thrown_away();
  puts("connections: ok");
  return 0;
}
