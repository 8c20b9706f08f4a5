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

enum { REQUEST_MAX = 64 << 10, CLIENTS_MAX = 32 };

struct client {
  struct conn conn; /* first: callbacks cast back */
  struct control *control;
  struct client *next;
};

struct control {
  struct watch watch; /* first */
  struct loop *loop;
  char path[SW_PATH_MAX];
  struct client *clients;
  unsigned nclients;
};

static void client_closed(struct conn *conn, const char *why) {
  struct client *client = (struct client *)conn, **at = &client->control->clients;
  (void)why;
  while (*at != client) at = &(*at)->next;
  *at = client->next;
  client->control->nclients--;
  free(client);
}

static void answer_line(struct client *client, const char *line, size_t len) {
  json_error_t error;
  json_t *request = json_loadb(line, len, JSON_REJECT_DUPLICATES, &error);
  json_t *answer = json_is_object(request) ? answer_request(client->control->loop->sw, request, &client->control->loop->stop)
                   : request != NULL       ? answer_error("a request is an object with 'op'")
                                           : answer_error("not JSON: %s", error.text);
  char *text = json_dumps(answer, JSON_COMPACT);
  if (text == NULL || !conn_write(&client->conn, text, strlen(text)) || !conn_write(&client->conn, "\n", 1))
    client->conn.closing = true;
  free(text);
  json_decref(answer);
  json_decref(request);
}

static void client_received(struct conn *conn) {
  char *end;
  while (conn->in_len > 0 && (end = memchr(conn->in, '\n', conn->in_len)) != NULL) {
    size_t len = (size_t)(end - conn->in);
    answer_line((struct client *)conn, conn->in, len);
    conn_take(conn, len + 1);
  }
}

static void accept_client(struct watch *w, uint32_t events) {
  struct control *c = (struct control *)w;
  struct failure f;
  (void)events;
  int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  struct client *client = c->nclients < CLIENTS_MAX ? calloc(1, sizeof *client) : NULL;
  if (client == NULL) {
    close(fd);
    return;
  }
  client->control = c;
  client->conn.received = client_received;
  client->conn.closed = client_closed;
  if (conn_start(&client->conn, &c->loop->watcher, fd, false, REQUEST_MAX, &f) < 0) {
    close(fd);
    free(client);
    return;
  }
  client->next = c->clients;
  c->clients = client;
  c->nclients++;
}

static int connect_to(const char *path) {
  struct sockaddr_un addr = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  memcpy(addr.sun_path, path, strlen(path) + 1);
  if (connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

static int listen_at(const char *path, struct failure *f) {
  struct sockaddr_un addr = {.sun_family = AF_UNIX};
  struct stat st;
  memcpy(addr.sun_path, path, strlen(path) + 1);
  if (lstat(path, &st) == 0) {
    if (!S_ISSOCK(st.st_mode)) return fail(f, "control socket %s: there is a file of that name", path);
    int other = connect_to(path);
    if (other >= 0) {
      close(other);
      return fail(f, "control socket %s is in use by another datacast-switch", path);
    }
    (void)unlink(path);
  }
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return fail(f, "control socket: %s", strerror(errno));
  mode_t old = umask(0177);
  int rc = bind(fd, (struct sockaddr *)&addr, sizeof addr);
  umask(old);
  if (rc == 0) rc = listen(fd, CLIENTS_MAX);
  if (rc == 0) return fd;
  fail(f, "control socket %s: %s", path, strerror(errno));
  close(fd);
  return -1;
}

struct control *control_open(struct loop *l, const char *path, struct failure *f) {
  if (strlen(path) >= SW_PATH_MAX) {
    fail(f, "control socket %s: the path is too long (at most %d characters)", path, SW_PATH_MAX - 1);
    return NULL;
  }
  int fd = listen_at(path, f);
  if (fd < 0) return NULL;
  struct control *c = calloc(1, sizeof *c);
  if (c == NULL) fail(f, "out of memory");
  if (c != NULL) {
    c->loop = l;
    c->watch = (struct watch){.fd = fd, .ready = accept_client};
    memcpy(c->path, path, strlen(path) + 1);
    if (watch_add(&l->watcher, &c->watch, EPOLLIN, f) == 0) return c;
  }
  free(c);
  close(fd);
  (void)unlink(path);
  return NULL;
}

void control_close(struct control *c) {
  if (c == NULL) return;
  while (c->clients != NULL) {
    struct client *next = c->clients->next;
    conn_stop(&c->clients->conn);
    free(c->clients);
    c->clients = next;
  }
  watch_remove(&c->loop->watcher, &c->watch);
  close(c->watch.fd);
  (void)unlink(c->path);
  free(c);
}
