/* A stream connection that never blocks: bytes in and out through buffers, on a watcher. */
#ifndef SWITCH_CONN_H
#define SWITCH_CONN_H

#include <stdbool.h>
#include <stddef.h>

#include "watch.h"

struct conn {
  struct watch watch; /* first: the callback casts back */
  struct watcher *watcher;
  char *in, *out;
  size_t in_len, in_cap, in_max;
  size_t out_len, out_cap;
  bool connecting, closing; /* closing: close when everything is written */
  /* Bytes came in: take some from c->in with conn_take. */
  void (*received)(struct conn *c);
  void (*connected)(struct conn *c);
  /* The connection ended (why: in words). After this nothing of c is touched. */
  void (*closed)(struct conn *c, const char *why);
};

/* Serve fd from now on; c's callbacks are set, everything else is zero. in_max: a message longer than that ends the
 * connection. 0, or -1 with f (fd stays the caller's). */
int conn_start(struct conn *c, struct watcher *w, int fd, bool connecting, size_t in_max, struct failure *f)
    __attribute__((nonnull));
/* Without calling closed. */
void conn_stop(struct conn *c) __attribute__((nonnull));
/* Queue bytes; false when memory is out (the connection is then of no use). */
bool conn_write(struct conn *c, const void *bytes, size_t len) __attribute__((nonnull));
void conn_take(struct conn *c, size_t len) __attribute__((nonnull));

#endif
