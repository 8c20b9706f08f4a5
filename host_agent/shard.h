/* The threads of the frames: each has a port on every interface, a node, and the endpoints of its trees (steering.h), in a loop
 * of its own. Nothing else is done there: it neither parses nor waits for a disk's write, and a frame waits for frames only.
 *
 * The home loop, of connections, timers and groups, reaches one in two ways. It posts what needs no answer. And it calls: the
 * shard runs a function between two rounds, and the caller waits until it has. Meanwhile neither touches anything else, so a
 * function that is called may look at what either has; a request is answered by what came of it. What a shard tells goes
 * over a ring of its own; it waits for nobody: when the ring is full, who tells keeps it and tries again. */
#ifndef AGENT_SHARD_H
#define AGENT_SHARD_H

#include <pthread.h>
#include <semaphore.h>

#include "agent_limits.h"
#include "datapath/forward.h"
#include "datapath/post.h"
#include "datapath/steering.h"

enum { SHARD_LINKS = POST_MESSAGES / 4 /* places that are kept for news of links */ };

struct shard {
  struct loop loop;
  struct forward forward;
  struct post wants; /* to it */
  struct post hears; /* from it */
  sem_t called;
  pthread_t thread;
  unsigned index;
  bool running;
} __attribute__((aligned(128))); /* two of them share no line of the caches */

struct shards {
  unsigned n;
  struct shard one[SHARDS_MAX]; /* the first has the links, too */
};

/* Whose the tree is. */
static inline struct shard *shard_of(struct shards *all, uint32_t tree)
{
  return &all->one[steering_of_tree(tree, all->n)];
}

/* Who receives at a port whose frames come one way only: tunnels. */
static inline unsigned shard_of_port(uint16_t port, unsigned n) { return port % n; }

/* n loops, and the rings; `home`: the loop that reads what they tell. 0 or -errno. What they forward is the caller's to open and
 * to close, while they do not run. */
int shards_open(struct shards *all, unsigned n, struct loop *home) __attribute__((nonnull));
void shards_close(struct shards *all) __attribute__((nonnull));
/* 0 or -errno. More than one: each on a processor of its own, as far as there are. */
int shards_start(struct shards *all) __attribute__((nonnull));
void shards_stop(struct shards *all) __attribute__((nonnull)); /* from then on calls are run by who calls */

/* Of the home loop. */
void shard_call(struct shard *s, void (*run)(void *arg), void *arg) __attribute__((nonnull(1, 2)));
/* Each in turn. */
void shards_call(struct shards *all, void (*run)(struct shard *s, void *arg), void *arg) __attribute__((nonnull));
void shard_post(struct shard *s, void (*run)(void *to, uint64_t n, void *with), void *to, uint64_t n, void *with)
    __attribute__((nonnull(1, 2)));
/* Of the shard: `run` is the home loop's. False: not now. */
bool shard_tell(struct shard *s, void (*run)(void *to, uint64_t n, void *with), void *to, uint64_t n, void *with)
    __attribute__((nonnull(1, 2)));

#endif
