/* `datacast-switch --ctl SOCKET OP [JSON]`: ask a running switch. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "control.h"

enum { WAIT_S = 10 };

static int refuse(const char *path, const char *why)
{
  fprintf(stderr, "datacast-switch: %s: %s\n", path, why);
  return 1;
}

static json_t *make_request(const char *op, const char *arguments)
{
  json_error_t error;
  json_t *request = arguments != NULL ? json_loads(arguments, JSON_REJECT_DUPLICATES, &error) : json_object();
  if (!json_is_object(request)) {
    fprintf(stderr, "datacast-switch: the arguments of %s must be a JSON object: %s\n", op, arguments);
    json_decref(request);
    return NULL;
  }
  json_object_set_new(request, "op", json_string(op));
  return request;
}

/* The answer, or NULL with errno. */
static json_t *exchange(int fd, const json_t *request)
{
  char *line = json_dumps(request, JSON_COMPACT);
  size_t len = strlen(line);
  line[len] = '\n'; /* in place of its end; the length is known */
  bool sent = send(fd, line, len + 1, MSG_NOSIGNAL) == (ssize_t)len + 1;
  free(line);
  if (!sent)
    return NULL;
  char *text = NULL;
  size_t have = 0, cap = 0;
  json_t *answer = NULL;
  for (;;) {
    if (cap - have < 4096) {
      char *more = realloc(text, cap += 65536);
      if (more == NULL)
        break;
      text = more;
    }
    ssize_t n = recv(fd, text + have, cap - have, 0);
    if (n == 0)
      errno = ECONNRESET;
    if (n <= 0)
      break;
    have += (size_t)n;
    if (text[have - 1] == '\n') {
      answer = json_loadb(text, have, 0, NULL);
      if (answer == NULL)
        errno = EPROTO;
      break;
    }
  }
  free(text);
  return answer;
}

int control_ask(const char *path, const char *op, const char *arguments)
{
  struct sockaddr_un addr = {.sun_family = AF_UNIX};
  struct timeval wait = {.tv_sec = WAIT_S};
  if (strlen(path) >= sizeof addr.sun_path)
    return refuse(path, "the path is too long for a socket");
  memcpy(addr.sun_path, path, strlen(path) + 1);
  json_t *request = make_request(op, arguments);
  if (request == NULL)
    return 2;
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), code = 1;
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  if (fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0) {
    refuse(path, errno == ENOENT || errno == ECONNREFUSED ? "no datacast-switch serves this socket" : strerror(errno));
  } else {
    json_t *answer = exchange(fd, request);
    if (answer == NULL) {
      refuse(path, errno == EAGAIN ? "no answer within 10 s" : strerror(errno));
    } else {
      json_dumpf(answer, stdout, JSON_INDENT(2));
      putchar('\n');
      code = json_is_true(json_object_get(answer, "ok")) ? 0 : 1;
      json_decref(answer);
    }
  }
  if (fd >= 0)
    close(fd);
  json_decref(request);
  return code;
}
