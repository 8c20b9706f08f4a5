/* One connection of JSON messages: signalling, or a control socket. Signalling: frames of JSON over TCP
 * (docs/signalling.md), with or without TLS, never blocking.
 *
 * Memory is bounded: a frame's length
 * is checked before its bytes are taken, all unfinished frames share one budget, and a reader that lets too much wait
 * is cut off. `closed` never comes from inside conn_send. */
#ifndef DATAPATH_CONN_H
#define DATAPATH_CONN_H

#include <jansson.h>
#include <sys/socket.h>

#include "datapath/loop.h"
#include "datapath/tls.h"

enum {
  MESSAGE_MAX = 4 << 20,   /* bytes of one frame */
  INPUT_BUDGET = 24 << 20, /* bytes of unfinished frames of all connections together */
  OUTPUT_MAX = 16 << 20    /* bytes that wait for one slow reader; then the connection is closed */
};

struct conn;

struct conn_ops {
  void (*message)(struct conn *c, json_t *m);         /* borrowed; an object with a string `type` */
  void (*closed)(struct conn *c, const char *why);    /* the connection is freed afterwards */
  void (*malformed)(struct conn *c, const char *why); /* lines only: not a JSON object; the connection goes on */
};

struct bytes {
  uint8_t *p;
  size_t at, len, cap; /* used: [at, len) */
};

struct conn {
  struct watch watch;
  struct timer end; /* closes it outside of anybody's call */
  struct loop *loop;
  struct tls *tls; /* NULL: plain */
  const struct conn_ops *ops;
  size_t *budget; /* input bytes all connections hold */
  void *owner;
  struct bytes in, out;
  uint32_t told; /* bytes of the frame whose message is told */
  bool connecting, handshaking, draining, broken, writing;
  uint32_t lines;          /* not 0: one message per line, of at most so many bytes */
  bool server, hand_write; /* TLS: we are the server; the handshake wants to write */
  char why[160];
  char peer[72 + TLS_IDENTITY_MAX];
};

/* Take over a connected (or connecting) socket. NULL without memory; the socket is closed then. */
struct conn *conn_new(struct loop *loop, int fd, bool connecting, const char *peer, size_t *budget,
                      const struct conn_ops *ops, void *owner) __attribute__((nonnull(1, 4, 5, 6)));
/* Lines in place of frames, at most `max` bytes each; `type` is not needed then, and answers have no limit. */
void conn_lines(struct conn *c, uint32_t max) __attribute__((nonnull));
/* Put TLS on a connection just made. What is sent before the handshake's end waits. A peer that is not whom we expect
 * is cut off. False without memory. */
bool conn_secure(struct conn *c, struct tls_ctx *ctx, bool server, struct tls_expect expect) __attribute__((nonnull));
/* Queue a message; borrowed. On a broken connection it is dropped: `closed` tells. */
void conn_send(struct conn *c, const json_t *m) __attribute__((nonnull));
/* Likewise, and behind it `n` bytes that are no JSON: the message says how many. Signalling only. */
void conn_send_bytes(struct conn *c, const json_t *m, const void *p, size_t n) __attribute__((nonnull));
/* Send what is queued, then close. */
void conn_drain(struct conn *c, const char *why) __attribute__((nonnull));
/* Close at once, without `closed`. */
void conn_free(struct conn *c) __attribute__((nonnull));

/* "a.b.c.d:port" or "[v6]:port", numbers only. False when it is neither. */
bool address_parse(const char *text, struct sockaddr_storage *to, socklen_t *len) __attribute__((nonnull));
/* A nonblocking socket that connects there, or -errno. */
int address_connect(const struct sockaddr_storage *to, socklen_t len) __attribute__((nonnull));

#endif
