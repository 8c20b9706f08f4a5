/* Requests to origins, in a thread of their own: a probe, or some blocks of what is fetched into a file. */
#ifndef AGENT_FETCH_H
#define AGENT_FETCH_H

#include "objects.h"
#include "worker.h"

/* What a JOB_FETCH asks and gets. */
struct fetch {
  struct origin *probe;    /* one reference: size and ETag of it only; or */
  struct objects *objects; /* one reference: bytes of them */
  struct fault why;        /* when the job's error is not 0 */
  uint64_t size;
  char etag[ORIGIN_ETAG_MAX];
  uint64_t later_s; /* of a probe that an origin has no time for: when it wants to be asked again */
  uint64_t block;   /* bytes of one; the job's bytes begin with one */
  uint64_t took_ns; /* of all its requests, and the shortest time until one's first byte */
  uint64_t wait_ns;
  uint8_t digest[FETCH_BLOCKS_MAX][DIGEST_LEN];
};

/* NULL without memory; the caller sets done and owner. */
struct job *fetch_probe(struct origin *o) __attribute__((nonnull));
/* The bytes [off, off + len) of the stream into the file, at most FETCH_BLOCKS_MAX of `block` bytes. */
struct job *fetch_bytes(struct objects *o, struct file *file, uint64_t off, uint64_t len, uint64_t block)
    __attribute__((nonnull));
void fetch_free(struct fetch *f);
/* In a thread: with retries, until it is done, cannot be, or `stopping` is set. The job's error: 0, EINTR, EAGAIN (the origin has no
 * time, and one of its requests is enough to find out when it has), or -1 with why. */
int fetch_run(const int *stopping, struct job *j) __attribute__((nonnull));
/* A thread that ran some ends. */
void fetch_thread_ends(void);
bool fetch_init(struct fault *why) __attribute__((nonnull)); /* once, before there are threads */

#endif
