/* SIGTERM, SIGINT and SIGHUP (not under nohup) end a daemon in order; SIGUSR2 ends one that may leave so as to be started again at once. */
#ifndef DATAPATH_SIGNALS_H
#define DATAPATH_SIGNALS_H

#include "datapath/log.h"
#include "datapath/loop.h"

struct signals {
  struct watch watch; /* first */
  bool *stop;
  void (*leave)(void *arg); /* on SIGUSR2; set before signals_block, NULL: as ever */
  void *arg;
};

/* Before other threads start: they inherit that these signals wait here. False with *why. */
bool signals_block(struct signals *s, struct fault *why) __attribute__((nonnull));
/* From now on one of them sets loop->stop. */
bool signals_watch(struct signals *s, struct loop *loop, struct fault *why) __attribute__((nonnull));
void signals_close(struct signals *s) __attribute__((nonnull));

#endif
