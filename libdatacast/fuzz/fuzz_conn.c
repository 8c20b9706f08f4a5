/* libFuzzer: bytes at a connection, as frames of JSON or as lines. However they are cut into pieces on the way, the
 * same messages and complaints come out. The first byte chooses frames or lines, the next seven the pieces' lengths. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "datapath/conn.h"
#include "datapath/log.h"
#include "script.h"

enum { LINE_MAX = 200, PIECES = 7 };

struct seen {
  char text[1 << 16];
  size_t n;
  bool closed;
};

static struct seen *seen;

static void note(char what, const char *text)
{
  int n = snprintf(seen->text + seen->n, sizeof seen->text - seen->n, "%c%s\n", what, text);
  if (n > 0 && (size_t)n < sizeof seen->text - seen->n)
    seen->n += (size_t)n;
}

static void message(struct conn *c, json_t *m)
{
  char *text = json_dumps(m, JSON_COMPACT | JSON_SORT_KEYS);
  MUST(json_is_object(m) && (c->lines > 0 || json_is_string(json_object_get(m, "type"))) && text != NULL);
  note('m', text);
  free(text);
  conn_send(c, m); /* and back */
}

static void malformed(struct conn *c, const char *why)
{
  MUST(c->lines > 0);
  note('x', why);
}

static void closed(struct conn *c, const char *why)
{
  (void)c;
  note('c', why);
  seen->closed = true;
}

static const struct conn_ops ops = {message, closed, malformed};

static void run(const uint8_t *p, size_t len, bool lines, const uint8_t *piece)
{
  struct loop loop;
  int fd[2];
  size_t budget = 0, at = 0;
  MUST(loop_open(&loop) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
  struct conn *c = conn_new(&loop, fd[0], false, "fuzz", &budget, &ops, NULL);
  MUST(c != NULL);
  if (lines)
    conn_lines(c, LINE_MAX);
  for (unsigned i = 0; at < len && !seen->closed; i++) {
    uint8_t drop[4096];
    size_t n = piece == NULL ? len : piece[i % PIECES] + 1u;
    if (n > len - at)
      n = len - at;
    ssize_t sent = send(fd[1], p + at, n, MSG_NOSIGNAL);
    if (sent < 0)
      break;
    at += (size_t)sent;
    (void)loop_serve(&loop, loop.now);
    (void)loop_serve(&loop, loop.now);
    while (recv(fd[1], drop, sizeof drop, 0) > 0)
      ;
  }
  close(fd[1]);
  for (unsigned i = 0; i < 8 && !seen->closed; i++)
    (void)loop_serve(&loop, loop.now);
  MUST(seen->closed);
  (void)loop_serve(&loop, loop.now);
  MUST(budget == 0 && loop.n == 0);
  loop_close(&loop);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
  static struct seen whole, cut;
  if (len < 1 + PIECES)
    return 0;
  log_threshold = LOG_ERROR;
  whole.n = cut.n = 0;
  whole.closed = cut.closed = false;
  seen = &whole;
  run(p + 1 + PIECES, len - 1 - PIECES, p[0] & 1, NULL);
  seen = &cut;
  run(p + 1 + PIECES, len - 1 - PIECES, p[0] & 1, p + 1);
  MUST(whole.n == cut.n && memcmp(whole.text, cut.text, whole.n) == 0);
  return 0;
}
