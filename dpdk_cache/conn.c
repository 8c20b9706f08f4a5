#include "conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_STEP = 4096 };

static bool grow(char **buf, size_t *cap, size_t need) {
  if (need <= *cap) return true;
  size_t want = *cap == 0 ? READ_STEP : *cap;
  while (want < need) want *= 2;
  char *more = realloc(*buf, want);
  if (more == NULL) return false;
  *buf = more;
  *cap = want;
  return true;
}

void conn_stop(struct conn *c) {
  if (c->watch.fd < 0) return;
  watch_remove(c->watcher, &c->watch);
  close(c->watch.fd);
  c->watch.fd = -1;
  free(c->in);
  free(c->out);
  c->in = c->out = NULL;
  c->in_len = c->in_cap = c->out_len = c->out_cap = 0;
}

static void end(struct conn *c, const char *why) {
  conn_stop(c);
  c->closed(c, why);
}

static uint32_t wanted(const struct conn *c) {
  return (uint32_t)EPOLLIN | (c->connecting || c->out_len > 0 ? (uint32_t)EPOLLOUT : 0);
}

/* 0, or an errno when the connection is broken. */
static int push(struct conn *c) {
  size_t done = 0;
  while (done < c->out_len) {
    ssize_t n = send(c->watch.fd, c->out + done, c->out_len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) return errno;
    if (n < 0) break;
    done += (size_t)n;
  }
  if (done > 0) memmove(c->out, c->out + done, c->out_len - done);
  c->out_len -= done;
  return 0;
}

/* 0, an errno, or -1 at the end of the stream. */
static int pull(struct conn *c) {
  for (;;) {
    if (c->in_len >= c->in_max) return EMSGSIZE;
    if (!grow(&c->in, &c->in_cap, c->in_len + READ_STEP)) return ENOMEM;
    ssize_t n = recv(c->watch.fd, c->in + c->in_len, READ_STEP, MSG_DONTWAIT);
    if (n == 0) return -1;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN ? 0 : errno;
    c->in_len += (size_t)n;
    if (n < READ_STEP) return 0;
  }
}

static void ready(struct watch *w, uint32_t events) {
  struct conn *c = (struct conn *)w;
  if (c->connecting) {
    int error = 0;
    socklen_t len = sizeof error;
    (void)getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &error, &len);
    if (error != 0) {
      end(c, strerror(error));
      return;
    }
    c->connecting = false;
    c->connected(c);
  }
  int rc = push(c);
  if (rc == 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR))) {
    rc = pull(c);
    if (c->in_len > 0 && rc != EMSGSIZE) c->received(c);
    if (w->fd < 0) return; /* a callback stopped it */
    if (rc <= 0 && push(c) != 0) rc = -1;
  }
  if (rc != 0 || (c->closing && c->out_len == 0)) {
    end(c, rc > 0 ? strerror(rc) : "closed by the other side");
    return;
  }
  watch_change(c->watcher, w, wanted(c));
}

int conn_start(struct conn *c, struct watcher *w, int fd, bool connecting, size_t in_max, struct failure *f) {
  c->watcher = w;
  c->watch = (struct watch){.fd = fd, .ready = ready};
  c->connecting = connecting;
  c->closing = false;
  c->in_max = in_max;
  return watch_add(w, &c->watch, wanted(c), f);
}

bool conn_write(struct conn *c, const void *bytes, size_t len) {
  if (!grow(&c->out, &c->out_cap, c->out_len + len)) return false;
  memcpy(c->out + c->out_len, bytes, len);
  c->out_len += len;
  if (!c->connecting) {
    (void)push(c); /* a broken connection shows itself at the next event */
    watch_change(c->watcher, &c->watch, wanted(c));
  }
  return true;
}

void conn_take(struct conn *c, size_t len) {
  memmove(c->in, c->in + len, c->in_len - len);
  c->in_len -= len;
}
