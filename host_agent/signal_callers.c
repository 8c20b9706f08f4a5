#include "signal_callers.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "datapath/accepting.h"

/* One that nothing needs and that said nothing for so long is closed. */
#define IDLE_MAX (60 * DC_SEC)
/* One that was heard of within this does not make room for others: a flood of connections costs the flood its own. */
#define IDLE_MIN DC_SEC

struct caller {
  struct signalling *all;
  struct conn *conn;
  dc_time heard;
  struct caller *next;
};

static void drop(struct caller *c)
{
  struct signalling *s = c->all;
  signalling_lost(s, c->conn);
  struct caller **at = &s->callers;
  while (*at != c)
    at = &(*at)->next;
  *at = c->next;
  s->callers_n--;
  loop_bury(s->loop, c);
}

static void on_message(struct conn *conn, json_t *m)
{
  struct caller *c = conn->owner;
  c->heard = c->all->loop->now;
  signalling_message(c->all, conn, m);
}

static void on_closed(struct conn *conn, const char *why)
{
  log_debug("connection of %s: %s", conn->peer, why);
  drop(conn->owner);
}

static const struct conn_ops caller_ops = {.message = on_message, .closed = on_closed};

static void sweep(struct timer *t, dc_time now)
{
  struct signalling *s = (struct signalling *)(void *)((char *)t - offsetof(struct signalling, sweep));
  for (struct caller *c = s->callers, *next; c != NULL; c = next) {
    next = c->next;
    if (now - c->heard < IDLE_MAX || signalling_needs(s, c->conn))
      continue;
    log_debug("connection of %s: idle", c->conn->peer);
    conn_free(c->conn);
    drop(c);
  }
  loop_timer(s->loop, t, s->callers == NULL ? DC_NEVER : now + IDLE_MAX / 4);
}

/* The one that nothing needs and that was silent longest goes. */
static bool make_room(struct signalling *s)
{
  if (s->callers_n < CONNECTIONS_MAX)
    return true;
  struct caller *oldest = NULL;
  for (struct caller *c = s->callers; c != NULL; c = c->next)
    if (s->loop->now - c->heard >= IDLE_MIN && (oldest == NULL || c->heard < oldest->heard) &&
        !signalling_needs(s, c->conn))
      oldest = c;
  if (oldest == NULL)
    return false;
  log_debug("connection of %s: makes room for another", oldest->conn->peer);
  conn_free(oldest->conn);
  drop(oldest);
  return true;
}

static void incoming(struct watch *w, uint32_t events)
{
  (void)events;
  struct signalling *s = (struct signalling *)(void *)((char *)w - offsetof(struct signalling, listen));
  struct sockaddr_storage from;
  socklen_t len = sizeof from;
  int fd = accept_or_refuse(w->fd, &s->spare, (struct sockaddr *)&from, &len);
  if (fd < 0)
    return;
  char host[48] = "?", port[8] = "?", name[64];
  (void)getnameinfo((struct sockaddr *)&from, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
  snprintf(name, sizeof name, "%s:%s", host, port);
  struct caller *c = make_room(s) ? calloc(1, sizeof *c) : NULL;
  if (c == NULL) {
    log_warn("connection of %s refused: there are %u already", name, s->callers_n);
    close(fd);
    return;
  }
  c->all = s;
  c->heard = s->loop->now;
  c->conn = conn_new(s->loop, fd, false, name, &s->budget, &caller_ops, c);
  const struct security *security = &s->groups->host->security;
  struct tls_expect whom = {"master agent controller", NULL};
  if (c->conn != NULL && security->ctx != NULL && !conn_secure(c->conn, security->ctx, true, whom)) {
    conn_free(c->conn);
    c->conn = NULL;
  }
  if (c->conn == NULL) {
    free(c);
    return;
  }
  c->next = s->callers;
  s->callers = c;
  s->callers_n++;
  if (s->sweep.pos == 0)
    loop_timer(s->loop, &s->sweep, s->loop->now + IDLE_MAX / 4);
}

bool callers_listen(struct signalling *s, const char *listen_on, struct fault *why)
{
  s->listen = (struct watch){.fd = -1, .ready = incoming};
  s->sweep = (struct timer){.fire = sweep, .at = DC_NEVER};
  struct sockaddr_storage to;
  socklen_t len;
  int on = 1;
  if (!address_parse(listen_on, &to, &len))
    return fault_set(why, "bad_request", "%s is not an address such as 198.18.0.2:7600", listen_on);
  const struct security *security = &s->groups->host->security;
  if (security->ctx == NULL && !security_allows_plain(security, &to))
    return fault_set(why, "denied",
                     "listening on %s without TLS is refused: give --tls-ca, --tls-cert and --tls-key (made by "
                     "`datacast certs`), or --insecure on a network where everybody is trusted",
                     listen_on);
  s->listen.fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (s->listen.fd < 0)
    return fault_set(why, "io", "socket: %s", strerror(errno));
  (void)setsockopt(s->listen.fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(s->listen.fd, (struct sockaddr *)&to, len) < 0 || listen(s->listen.fd, 64) < 0) {
    fault_set(why, "io", "cannot listen on %s: %s", listen_on, strerror(errno));
    close(s->listen.fd);
    return false;
  }
  int rc = loop_watch(s->loop, &s->listen, EPOLLIN);
  if (rc < 0) {
    close(s->listen.fd);
    return fault_set(why, "io", "epoll: %s", strerror(-rc));
  }
  s->spare = accept_spare(s->listen.fd);
  return true;
}

void callers_close(struct signalling *s)
{
  loop_unwatch(s->loop, &s->listen);
  close(s->listen.fd);
  if (s->spare >= 0)
    close(s->spare);
  loop_timer(s->loop, &s->sweep, DC_NEVER);
  for (struct caller *c = s->callers, *next; c != NULL; c = next) {
    next = c->next;
    conn_free(c->conn);
    free(c);
  }
}
