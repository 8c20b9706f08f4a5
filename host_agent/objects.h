/* What a group fetches: one object, or several as the stream of a directory (bundle.h), whose manifest the master tells.
 * Shared by the loop and the threads that fetch; nothing in it changes, but the origins' tokens, what they refuse for now, and
 * that it has ended. */
#ifndef AGENT_OBJECTS_H
#define AGENT_OBJECTS_H

#include <jansson.h>

#include "origin.h"

enum { OBJECTS_MAX = 512, OBJECTS_MANIFEST_MAX = 2 << 20 /* it comes with a message */ };

struct objects;

/* `origin`: {"objects": [{"url", "etag"?} or {"data"}, …], "manifest"?}. Without a manifest one URL, of `size` bytes; with one
 * (base64, as `data` is) an object for each of its files that has bytes, in its order. `allowed`: the file of --origins.
 * NULL with *why. */
struct objects *objects_open(const json_t *origin, uint64_t size, uint64_t patience, const char *allowed,
                             const struct security *security, struct fault *why) __attribute__((nonnull(1, 5)));
struct objects *objects_ref(struct objects *o) __attribute__((nonnull));
void objects_unref(struct objects *o);

/* A request is refused for now, and made again until objects_goes_on: so long `why` is told of the group. In any thread, as what
 * follows. `first`: it is the first time. False: the origin has no time, another one waits for that already, and nothing is
 * noted. */
bool objects_waits(struct objects *o, const struct fault *why, bool first) __attribute__((nonnull));
/* It has none, and a request waits for it. */
bool objects_busy(struct objects *o) __attribute__((nonnull));
void objects_goes_on(struct objects *o) __attribute__((nonnull));
/* False: nothing is refused now. */
bool objects_wait(struct objects *o, struct fault *why) __attribute__((nonnull));
/* Something came at that time, or at last. */
void objects_came(struct objects *o, uint64_t now) __attribute__((nonnull));
uint64_t objects_last(const struct objects *o) __attribute__((nonnull));
/* So long origins that have no time are asked again. */
uint64_t objects_patience(const struct objects *o) __attribute__((nonnull));

/* Nothing of them is to be had any more: requests under way break off. */
void objects_end(struct objects *o) __attribute__((nonnull));
bool objects_ended(const struct objects *o) __attribute__((nonnull));

/* Bytes of the stream that lie side by side: [off, off + len) of `origin`; or `bytes`; or (neither) zeros. */
struct object_run {
  struct origin *origin;
  const uint8_t *bytes;
  uint64_t off, len;
};
/* The run at byte `at`, at most `most`; at + most is not beyond the stream's end. */
struct object_run objects_at(const struct objects *o, uint64_t at, uint64_t most) __attribute__((nonnull));

#endif
