/* Waiting for descriptors: epoll with one callback per descriptor. */
#ifndef SWITCH_WATCH_H
#define SWITCH_WATCH_H

#include <datacast/time.h>
#include <stdint.h>

#include "log.h"

struct watch {
  int fd;
  void (*ready)(struct watch *w, uint32_t events); /* may close and free the watch */
};

struct watcher {
  int epoll;
};

int watcher_open(struct watcher *w, struct failure *f) __attribute__((nonnull));
void watcher_close(struct watcher *w) __attribute__((nonnull));
int watch_add(struct watcher *w, struct watch *x, uint32_t events, struct failure *f) __attribute__((nonnull));
void watch_change(struct watcher *w, struct watch *x, uint32_t events) __attribute__((nonnull));
void watch_remove(struct watcher *w, struct watch *x) __attribute__((nonnull));

/* Call back what is ready, waiting at most `wait` for the first (0: do not wait; DC_NEVER: as long as it takes). Returns
 * how many were ready. */
unsigned watcher_wait(struct watcher *w, dc_time wait) __attribute__((nonnull));

#endif
