#include "datapath/conn.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "datapath/log.h"

enum { READ_STEP = 16 << 10, KEEP_BYTES = 64 << 10, FRAME_HEAD = 4 };
#define DRAIN_LIMIT (2 * DC_SEC)

#define HANDSHAKE_LIMIT (5 * DC_SEC)
/* What was sent and is not acknowledged, by the other side's kernel, for so long ends the connection: a machine that has lost its power
 * says nothing, and the kernel alone would wait for a quarter of an hour. */
enum { UNHEARD_MS = 10000 };

static ssize_t get(struct conn *c, void *p, size_t n)
{
  return c->tls != NULL ? tls_read(c->tls, p, n) : recv(c->watch.fd, p, n, 0);
}

static ssize_t put(struct conn *c, const void *p, size_t n)
{
  return c->tls != NULL ? tls_write(c->tls, p, n) : send(c->watch.fd, p, n, MSG_NOSIGNAL);
}

static const char *words(const struct conn *c, int error)
{
  return error == EPROTO && c->tls != NULL ? tls_broken(c->tls) : strerror(error);
}

/* ---- bytes ---- */

static bool room(struct bytes *b, size_t n)
{
  if (b->at == b->len)
    b->at = b->len = 0;
  if (b->cap - b->len >= n)
    return true;
  if (b->at > 0) {
    memmove(b->p, b->p + b->at, b->len - b->at);
    b->len -= b->at;
    b->at = 0;
    if (b->cap - b->len >= n)
      return true;
  }
  size_t cap = b->cap == 0 ? 4096 : b->cap;
  while (cap - b->len < n)
    cap *= 2;
  uint8_t *p = realloc(b->p, cap);
  if (p == NULL)
    return false;
  b->p = p;
  b->cap = cap;
  return true;
}

/* An empty buffer that was large once gives its memory back. */
static void shrink(struct bytes *b)
{
  if (b->at == b->len && b->cap > KEEP_BYTES) {
    free(b->p);
    *b = (struct bytes){0};
  }
}

static void shrink_input(struct conn *c)
{
  size_t cap = c->in.cap;
  if (c->draining) /* nothing more is taken: whoever goes on all the same fills no memory with it */
    c->in.at = c->in.len;
  shrink(&c->in);
  *c->budget -= cap - c->in.cap;
}

/* ---- life ---- */

static void interest(struct conn *c)
{
  bool write = c->connecting || (c->handshaking ? c->hand_write : c->out.at < c->out.len);
  if (write != c->writing) {
    c->writing = write;
    loop_rewatch(c->loop, &c->watch, EPOLLIN | (write ? (uint32_t)EPOLLOUT : 0));
  }
}

static void end(struct timer *t, dc_time now)
{
  (void)now;
  struct conn *c = (struct conn *)(void *)((char *)t - offsetof(struct conn, end));
  if (c->why[0] == '\0')
    snprintf(c->why, sizeof c->why, "no TLS handshake within %d s", (int)(HANDSHAKE_LIMIT / DC_SEC));
  c->ops->closed(c, c->why);
  conn_free(c);
}

static void fail(struct conn *c, const char *why)
{
  if (c->broken)
    return;
  c->broken = true;
  if (c->why[0] == '\0')
    snprintf(c->why, sizeof c->why, "%s", why);
  if (c->watch.ready != NULL)
    loop_unwatch(c->loop, &c->watch);
  loop_timer(c->loop, &c->end, c->loop->now);
}

static void flush(struct conn *c)
{
  while (!c->handshaking && c->out.at < c->out.len) {
    ssize_t n = put(c, c->out.p + c->out.at, c->out.len - c->out.at);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      break;
    if (n <= 0) {
      fail(c, n < 0 ? words(c, errno) : "closed");
      return;
    }
    c->out.at += (size_t)n;
  }
  shrink(&c->out);
  interest(c);
  if (c->draining && c->out.at == c->out.len)
    fail(c, "closed");
}

void conn_send(struct conn *c, const json_t *m) { conn_send_bytes(c, m, "", 0); }

static int append(const char *p, size_t n, void *bytes)
{
  struct bytes *b = bytes;
  if (!room(b, n))
    return -1;
  memcpy(b->p + b->len, p, n);
  b->len += n;
  return 0;
}

/* Written once, behind what waits: its length is known then. One that may not go ends the connection, and all that waits. */
void conn_send_bytes(struct conn *c, const json_t *m, const void *p, size_t more)
{
  struct bytes *out = &c->out;
  size_t before = out->len - out->at, front = c->lines > 0 ? 0 : FRAME_HEAD;
  uint32_t head = 0;
  if (c->broken || c->draining)
    return;
  /* An answer of a control socket may be longer than that; but not behind others that nobody reads. */
  if (before > OUTPUT_MAX) {
    fail(c, "it does not read what we send");
    return;
  }
  if ((front > 0 && append((const char *)&head, front, out) < 0) ||
      json_dump_callback(m, append, out, JSON_COMPACT) < 0) {
    fail(c, "a message of ours cannot be written");
    return;
  }
  size_t n = out->len - out->at - before - front;
  if (c->lines == 0 &&
      n > MESSAGE_MAX) { /* others' words made it so: who waits for it does so in vain, and what else goes this way goes on */
    log_warn("connection of %s: a message of %zu bytes cannot be sent", c->peer, n);
    out->len = out->at + before;
    return;
  }
  if (c->lines == 0 && before + n + front + more > OUTPUT_MAX) {
    fail(c, "it does not read what we send");
    return;
  }
  head = htonl((uint32_t)n);
  memcpy(out->p + out->at + before, &head, front);
  if ((c->lines > 0 && append("\n", 1, out) < 0) || append(p, more, out) < 0) {
    fail(c, "out of memory");
    return;
  }
  if (!c->connecting && !c->handshaking)
    flush(c);
}

void conn_drain(struct conn *c, const char *why)
{
  if (c->broken || c->draining)
    return;
  snprintf(c->why, sizeof c->why, "%s", why);
  c->draining = true;
  loop_timer(c->loop, &c->end, c->loop->now + DRAIN_LIMIT);
  if (!c->connecting && !c->handshaking)
    flush(c);
}

void conn_free(struct conn *c)
{
  loop_timer(c->loop, &c->end, DC_NEVER);
  if (c->watch.ready != NULL)
    loop_unwatch(c->loop, &c->watch);
  tls_free(c->tls);
  close(c->watch.fd);
  *c->budget -= c->in.cap;
  free(c->in.p);
  free(c->out.p);
  /* Its own `message` may have done this: nothing more is taken from it. */
  c->in = c->out = (struct bytes){0};
  c->broken = true;
  loop_bury(c->loop, c);
}

/* ---- input ---- */

static void refuse(struct conn *c, const char *why)
{
  log_warn("connection of %s: %s", c->peer, why);
  json_t *m = json_pack("{s:s,s:s,s:s}", "type", "error", "code", "bad_request", "error", why);
  conn_send(c, m);
  json_decref(m);
  conn_drain(c, why);
}

/* One line from the input. False when none is whole, or the connection ends. */
static bool take_line(struct conn *c)
{
  size_t have = c->in.len - c->in.at;
  const char *line = (const char *)c->in.p + c->in.at, *end = have == 0 ? NULL : memchr(line, '\n', have);
  if (c->broken || c->draining)
    return false;
  if ((end == NULL ? have : (size_t)(end - line)) > c->lines) {
    fail(c, "a line is too long");
    return false;
  }
  if (end == NULL)
    return false;
  json_error_t error;
  json_t *m = json_loadb(line, (size_t)(end - line), JSON_REJECT_DUPLICATES, &error);
  c->in.at += (size_t)(end - line) + 1;
  if (json_is_object(m)) {
    c->ops->message(c, m);
  } else {
    char why[sizeof error.text + 16];
    snprintf(why, sizeof why, "%s%s", m == NULL ? "not JSON: " : "a request is an object with 'op'",
             m == NULL ? error.text : "");
    c->ops->malformed(c, why);
  }
  json_decref(m);
  return true;
}

/* One frame from the input. False when none is whole, or the connection ends. */
static bool take(struct conn *c)
{
  uint32_t n;
  size_t have = c->in.len - c->in.at;
  if (c->broken || c->draining || have < FRAME_HEAD)
    return false;
  memcpy(&n, c->in.p + c->in.at, FRAME_HEAD);
  n = ntohl(n);
  if (n > MESSAGE_MAX) {
    refuse(c, "a frame is longer than 4 MiB");
    return false;
  }
  if (have - FRAME_HEAD < n)
    return false;
  json_error_t error;
  json_t *m = json_loadb((const char *)c->in.p + c->in.at + FRAME_HEAD, n, JSON_REJECT_DUPLICATES, &error);
  c->in.at += FRAME_HEAD + (size_t)n;
  if (m == NULL) {
    refuse(c, "a frame is not JSON");
    return false;
  }
  if (!json_is_object(m) || !json_is_string(json_object_get(m, "type"))) {
    json_decref(m);
    refuse(c, "a frame is not an object with a type");
    return false;
  }
  c->told = n;
  c->ops->message(c, m);
  json_decref(m);
  return true;
}

static void read_some(struct conn *c)
{
  size_t cap = c->in.cap;
  if (!room(&c->in, READ_STEP)) {
    fail(c, "out of memory");
    return;
  }
  *c->budget += c->in.cap - cap;
  if (*c->budget > INPUT_BUDGET && c->in.cap > KEEP_BYTES) {
    refuse(c, "too much unfinished input on this host's connections");
    shrink_input(c);
    return;
  }
  ssize_t n = get(c, c->in.p + c->in.len, c->in.cap - c->in.len);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
    return;
  if (n <= 0) {
    fail(c, n < 0 ? words(c, errno) : "closed by the other side");
    return;
  }
  c->in.len += (size_t)n;
  while (c->lines > 0 ? take_line(c) : take(c))
    ;
  shrink_input(c);
}

/* A step of the handshake. False while it is not over. */
static bool shake(struct conn *c)
{
  struct fault why;
  assert(c->tls != NULL);
  enum tls_step step = tls_handshake(c->tls, &why);
  c->hand_write = step == TLS_WANT_WRITE;
  if (step == TLS_WANT_READ || step == TLS_WANT_WRITE) {
    interest(c);
    return false;
  }
  if (step == TLS_FAILED || (step == TLS_STRANGER && !c->server)) {
    log_warn("TLS with %s: %s", c->peer, why.text);
    fail(c, why.text);
    return false;
  }
  c->handshaking = false;
  loop_timer(c->loop, &c->end, DC_NEVER);
  if (step == TLS_STRANGER) { /* it learns why */
    log_warn("TLS with %s: %s", c->peer, why.text);
    json_t *m = json_pack("{s:s,s:s,s:s}", "type", "error", "code", "denied", "error", why.text);
    conn_send(c, m);
    json_decref(m);
    conn_drain(c, why.text);
    return false;
  }
  size_t used = strlen(c->peer);
  snprintf(c->peer + used, sizeof c->peer - used, " (%s)", tls_peer(c->tls));
  flush(c);
  return true;
}

static void ready(struct watch *w, uint32_t events)
{
  struct conn *c = (struct conn *)(void *)((char *)w - offsetof(struct conn, watch));
  if (c->connecting && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) {
    int error = 0;
    socklen_t len = sizeof error;
    if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error != 0) {
      fail(c, strerror(error != 0 ? error : errno));
      return;
    }
    c->connecting = false;
    if (c->tls == NULL)
      flush(c);
  } else if (c->handshaking) {
    ;
  } else if (events & EPOLLOUT) {
    flush(c);
  }
  if (c->broken || (c->handshaking && !shake(c)))
    return;
  if (!c->broken && (c->tls != NULL || (events & (EPOLLIN | EPOLLERR | EPOLLHUP)))) {
    read_some(c);
    while (c->tls != NULL && !c->broken && !c->draining && tls_pending(c->tls))
      read_some(c);
  }
}

struct conn *conn_new(struct loop *loop, int fd, bool connecting, const char *peer, size_t *budget,
                      const struct conn_ops *ops, void *owner)
{
  int on = 1, unheard = UNHEARD_MS;
  struct conn *c = calloc(1, sizeof *c);
  if (c == NULL) {
    close(fd);
    return NULL;
  }
  *c = (struct conn){.watch = {.fd = fd, .ready = ready},
                     .end = {.fire = end, .at = DC_NEVER},
                     .loop = loop,
                     .ops = ops,
                     .budget = budget,
                     .owner = owner,
                     .connecting = connecting,
                     .writing = connecting};
  snprintf(c->peer, sizeof c->peer, "%s", peer);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* small messages that somebody waits for */
  (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unheard, sizeof unheard);
  if (loop_watch(loop, &c->watch, EPOLLIN | (connecting ? (uint32_t)EPOLLOUT : 0)) < 0) {
    close(fd);
    free(c);
    return NULL;
  }
  return c;
}

void conn_lines(struct conn *c, uint32_t max) { c->lines = max; }

bool conn_secure(struct conn *c, struct tls_ctx *ctx, bool server, struct tls_expect expect)
{
  c->tls = tls_new(ctx, c->watch.fd, server, expect);
  if (c->tls == NULL)
    return false;
  c->handshaking = true;
  c->server = server;
  loop_timer(c->loop, &c->end, c->loop->now + HANDSHAKE_LIMIT);
  return true;
}

/* ---- addresses ---- */

bool address_parse(const char *text, struct sockaddr_storage *to, socklen_t *len)
{
  char host[64];
  const char *colon = strrchr(text, ':');
  if (colon == NULL || (size_t)(colon - text) >= sizeof host || colon[1] == '\0')
    return false;
  if (strspn(colon + 1, "0123456789") > 5 || strtoul(colon + 1, NULL, 10) > UINT16_MAX)
    return false; /* getaddrinfo would take it modulo 65,536 */
  const char *from = text, *until = colon;
  if (*from == '[' && until > from && until[-1] == ']') {
    from++;
    until--;
  }
  snprintf(host, sizeof host, "%.*s", (int)(until - from), from);
  struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *a;
  if (getaddrinfo(host, colon + 1, &hints, &a) != 0)
    return false;
  memset(to, 0, sizeof *to);
  memcpy(to, a->ai_addr, a->ai_addrlen);
  *len = a->ai_addrlen;
  freeaddrinfo(a);
  return true;
}

int address_connect(const struct sockaddr_storage *to, socklen_t len)
{
  int fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return -errno;
  if (connect(fd, (const struct sockaddr *)to, len) < 0 && errno != EINPROGRESS) {
    int error = -errno;
    close(fd);
    return error;
  }
  return fd;
}
