#include "watch.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

int watcher_open(struct watcher *w, struct failure *f) {
  w->epoll = epoll_create1(EPOLL_CLOEXEC);
  return w->epoll < 0 ? fail(f, "epoll: %s", strerror(errno)) : 0;
}

void watcher_close(struct watcher *w) {
  if (w->epoll >= 0) close(w->epoll);
  w->epoll = -1;
}

int watch_add(struct watcher *w, struct watch *x, uint32_t events, struct failure *f) {
  struct epoll_event e = {.events = events, .data.ptr = x};
  return epoll_ctl(w->epoll, EPOLL_CTL_ADD, x->fd, &e) < 0 ? fail(f, "epoll: %s", strerror(errno)) : 0;
}

void watch_change(struct watcher *w, struct watch *x, uint32_t events) {
  struct epoll_event e = {.events = events, .data.ptr = x};
  (void)epoll_ctl(w->epoll, EPOLL_CTL_MOD, x->fd, &e);
}

void watch_remove(struct watcher *w, struct watch *x) { (void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, x->fd, NULL); }

unsigned watcher_wait(struct watcher *w, dc_time wait) {
  /* One event at a time would starve nothing, but a callback may free another watch of the same batch: connections do so
   * only for themselves, so a batch is safe. */
  struct epoll_event events[64];
  struct timespec ts = {.tv_sec = (time_t)(wait / DC_SEC), .tv_nsec = (long)(wait % DC_SEC)};
  int n = epoll_pwait2(w->epoll, events, 64, wait == DC_NEVER ? NULL : &ts, NULL);
  for (int i = 0; i < n; i++) {
    struct watch *x = events[i].data.ptr;
    x->ready(x, events[i].events);
  }
  return n > 0 ? (unsigned)n : 0;
}
