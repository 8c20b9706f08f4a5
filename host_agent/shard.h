/* The thread of the frames: ports, the node, and the endpoints of trees, in a loop of its own. Nothing else is done there: it
 * neither parses nor waits for a disk's write, and a frame waits for frames only.
 *
 * The loop of connections, timers and groups reaches it in two ways. It posts what needs no answer. And it calls: the
 * shard runs a function between two rounds, and the caller waits until it has. Meanwhile neither touches anything else, so a
 * function that is called may look at what either has; a request is answered by what came of it. What a shard tells goes
 * over a ring of its own; it waits for nobody: when the ring is full, who tells keeps it and tries again. */
#ifndef AGENT_SHARD_H
#define AGENT_SHARD_H

#include <pthread.h>
#include <semaphore.h>

#include "datapath/forward.h"
#include "datapath/post.h"

enum { SHARD_LINKS = POST_MESSAGES / 4 /* places that are kept for news of links */ };

struct shard {
  struct loop loop;
  struct forward forward;
  struct post wants; /* to it */
  struct post hears; /* from it */
  sem_t called;
  pthread_t thread;
  bool running;
};

/* Its loop, and the rings; `home`: the loop that reads what it tells. 0 or -errno. The forward is the caller's to open and to
 * close, while it does not run. */
int shard_open(struct shard *s, struct loop *home) __attribute__((nonnull));
void shard_close(struct shard *s) __attribute__((nonnull));
int shard_start(struct shard *s) __attribute__((nonnull)); /* 0 or -errno */
void shard_stop(struct shard *s) __attribute__((nonnull)); /* from then on calls are run by who calls */

/* Of the home loop. */
void shard_call(struct shard *s, void (*run)(void *arg), void *arg) __attribute__((nonnull(1, 2)));
void shard_post(struct shard *s, void (*run)(void *to, uint64_t n, void *with), void *to, uint64_t n, void *with)
    __attribute__((nonnull(1, 2)));
/* Its hook for each round, before what was buried is freed: who has ended a tree hears all that it told. */
void shard_heed(void *shard, dc_time now);

/* Of the shard: `run` is the home loop's. False: not now. */
bool shard_tell(struct shard *s, void (*run)(void *to, uint64_t n, void *with), void *to, uint64_t n, void *with)
    __attribute__((nonnull(1, 2)));

#endif
