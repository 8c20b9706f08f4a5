#include "control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "answers.h"
#include "datapath/accepting.h"
#include "datapath/conn.h"

enum { REQUEST_MAX = 64 << 10, CLIENTS_MAX = 32 };

struct client {
  struct conn *conn;
  struct control *control;
  struct client *next;
};

struct control {
  struct watch watch; /* first */
  int spare;          /* of the listener (datapath/accepting.h) */
  struct workers *workers;
  char path[SW_PATH_MAX];
  size_t budget;
  struct client *clients;
  unsigned nclients;
};

static void client_closed(struct conn *conn, const char *why)
{
  struct client *client = conn->owner, **at = &client->control->clients;
  (void)why;
  while (*at != client)
    at = &(*at)->next;
  *at = client->next;
  client->control->nclients--;
  free(client);
}

static void client_message(struct conn *conn, json_t *request)
{
  struct workers *w = ((struct client *)conn->owner)->control->workers;
  json_t *answer = workers_answer(w, request, &w->worker[0].loop.stop);
  conn_send(conn, answer);
  json_decref(answer);
}

static void client_malformed(struct conn *conn, const char *why)
{
  json_t *answer = answer_error("%s", why);
  conn_send(conn, answer);
  json_decref(answer);
}

static const struct conn_ops client_ops = {
    .message = client_message, .closed = client_closed, .malformed = client_malformed};

static void accept_client(struct watch *w, uint32_t events)
{
  struct control *c = (struct control *)w;
  (void)events;
  int fd = accept_or_refuse(w->fd, &c->spare, NULL, NULL);
  if (fd < 0)
    return;
  struct client *client = c->nclients < CLIENTS_MAX ? calloc(1, sizeof *client) : NULL;
  if (client == NULL) {
    close(fd);
    return;
  }
  client->control = c;
  client->conn =
      conn_new(&c->workers->worker[0].loop, fd, false, "the control socket", &c->budget, &client_ops, client);
  if (client->conn == NULL) {
    free(client);
    return;
  }
  conn_lines(client->conn, REQUEST_MAX);
  client->next = c->clients;
  c->clients = client;
  c->nclients++;
}

static int connect_to(const char *path)
{
  struct sockaddr_un addr = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return -1;
  memcpy(addr.sun_path, path, strlen(path) + 1);
  if (connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0)
    return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

static int listen_at(const char *path, struct fault *f)
{
  struct sockaddr_un addr = {.sun_family = AF_UNIX};
  struct stat st;
  memcpy(addr.sun_path, path, strlen(path) + 1);
  if (lstat(path, &st) == 0) {
    if (!S_ISSOCK(st.st_mode))
      return fail(f, "control socket %s: there is a file of that name", path);
    int other = connect_to(path);
    if (other >= 0) {
      close(other);
      return fail(f, "control socket %s is in use by another datacast-switch", path);
    }
    (void)unlink(path);
  }
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return fail(f, "control socket: %s", strerror(errno));
  mode_t old = umask(0177);
  int rc = bind(fd, (struct sockaddr *)&addr, sizeof addr);
  umask(old);
  if (rc == 0)
    rc = listen(fd, CLIENTS_MAX);
  if (rc == 0)
    return fd;
  fail(f, "control socket %s: %s", path, strerror(errno));
  close(fd);
  return -1;
}

struct control *control_open(struct workers *w, const char *path, struct fault *f)
{
  if (strlen(path) >= SW_PATH_MAX) {
    fail(f, "control socket %s: the path is too long (at most %d characters)", path, SW_PATH_MAX - 1);
    return NULL;
  }
  int fd = listen_at(path, f);
  if (fd < 0)
    return NULL;
  struct control *c = calloc(1, sizeof *c);
  if (c == NULL)
    fail(f, "out of memory");
  if (c != NULL) {
    c->workers = w;
    c->watch = (struct watch){.fd = fd, .ready = accept_client};
    memcpy(c->path, path, strlen(path) + 1);
    if (loop_watch(&w->worker[0].loop, &c->watch, EPOLLIN) == 0) {
      c->spare = accept_spare(fd);
      return c;
    }
    fail(f, "control socket: epoll");
  }
  free(c);
  close(fd);
  (void)unlink(path);
  return NULL;
}

void control_close(struct control *c)
{
  if (c == NULL)
    return;
  while (c->clients != NULL) {
    struct client *next = c->clients->next;
    conn_free(c->clients->conn);
    free(c->clients);
    c->clients = next;
  }
  loop_unwatch(&c->workers->worker[0].loop, &c->watch);
  close(c->watch.fd);
  if (c->spare >= 0)
    close(c->spare);
  (void)unlink(c->path);
  free(c);
}
