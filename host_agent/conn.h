/* One signalling connection: frames of JSON over TCP (docs/signalling.md), never blocking.
 *
 * Bytes go through two functions, so that TLS can stand between them and the socket. Memory is bounded: a frame's length
 * is checked before its bytes are taken, all unfinished frames share one budget, and a reader that lets too much wait is
 * cut off. `closed` never comes from inside conn_send. */
#ifndef AGENT_CONN_H
#define AGENT_CONN_H

#include <jansson.h>
#include <sys/socket.h>

#include "agent_limits.h"
#include "loop.h"

struct conn;

struct conn_io {
  ssize_t (*read)(struct conn *c, void *p, size_t n);        /* as read(2) */
  ssize_t (*write)(struct conn *c, const void *p, size_t n); /* as send(2) */
};

struct conn_ops {
  void (*message)(struct conn *c, json_t *m); /* borrowed; an object with a string `type` */
  void (*closed)(struct conn *c, const char *why); /* the connection is freed afterwards */
};

struct bytes {
  uint8_t *p;
  size_t at, len, cap; /* used: [at, len) */
};

struct conn {
  struct watch watch;
  struct timer end; /* closes it outside of anybody's call */
  struct loop *loop;
  const struct conn_io *io;
  const struct conn_ops *ops;
  size_t *budget; /* input bytes all connections hold */
  void *owner;
  struct bytes in, out;
  bool connecting, draining, broken, writing;
  char why[96];
  char peer[72];
};

/* Take over a connected (or connecting) socket. NULL without memory; the socket is closed then. */
struct conn *conn_new(struct loop *loop, int fd, bool connecting, const char *peer, size_t *budget,
                      const struct conn_ops *ops, void *owner) __attribute__((nonnull(1, 4, 5, 6)));
/* Queue a message; borrowed. On a broken connection it is dropped: `closed` tells. */
void conn_send(struct conn *c, const json_t *m) __attribute__((nonnull));
/* Send what is queued, then close. */
void conn_drain(struct conn *c, const char *why) __attribute__((nonnull));
/* Close at once, without `closed`. */
void conn_free(struct conn *c) __attribute__((nonnull));

/* "a.b.c.d:port" or "[v6]:port", numbers only. False when it is neither. */
bool address_parse(const char *text, struct sockaddr_storage *to, socklen_t *len) __attribute__((nonnull));
/* A nonblocking socket that connects there, or -errno. */
int address_connect(const struct sockaddr_storage *to, socklen_t len) __attribute__((nonnull));

#endif
