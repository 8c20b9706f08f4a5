/* Packet buffers with a count of owners: the core's dc_buf.
 *
 * Two kinds share one type. Pool buffers come in three sizes from a pool with an upper bound; cached packets live in
 * them. Lent buffers point into a port's receive ring and go back to the kernel with their last owner: frames that only
 * pass are never copied. What must outlive the round is copied (bufpool_copy), so the ring never waits for a cache. A source
 * lends what it sends, which may stay. */
#ifndef DATAPATH_BUFPOOL_H
#define DATAPATH_BUFPOOL_H

#include <stdbool.h>

#include "datacast/buf.h"

enum { BUF_SIZES = 3, BUF_HEAD = 64 };

struct dc_buf {
  uint32_t refs;
  uint32_t cap;  /* bytes at mem (pool buffers) or at data (lent ones) */
  uint8_t *data; /* what offsets count from: dc_frame.data as it was handed in */
  uint8_t *mem;
  struct bufpool *pool;               /* NULL: lent */
  void (*give_back)(struct dc_buf *); /* lent: the last owner is gone */
  bool stays;                         /* lent by who can do without it for long: no ring waits for it */
  /* Of a data packet for an endpoint of this host: the frame where it stands in memory that others write to, and at `data` are
   * BUF_HEAD bytes of it only. Read once, and while the frame is handed over. NULL: all of it is at `data`. */
  const uint8_t *whole;
  struct dc_buf *next;
};

struct bufpool {
  size_t limit, bytes; /* taken from the system */
  uint32_t size[BUF_SIZES];
  struct dc_buf *free[BUF_SIZES];
  void **chunk; /* every allocation, to give it back */
  uint32_t nchunks, chunk_cap;
  uint64_t refused; /* calls that found the pool at its bound */
  uint32_t in_use;
};

extern const struct dc_buf_ops bufpool_ops;

/* `largest`: bytes of the biggest buffer. */
void bufpool_init(struct bufpool *p, uint32_t largest, size_t limit) __attribute__((nonnull));
void bufpool_close(struct bufpool *p) __attribute__((nonnull));

/* Bytes of the smallest buffer that holds so many. */
uint32_t bufpool_size(const struct bufpool *p, uint32_t bytes) __attribute__((nonnull));

/* A buffer of at least `bytes`, owned once, data == mem. NULL at the bound, counted. */
struct dc_buf *bufpool_get(struct bufpool *p, uint32_t bytes) __attribute__((nonnull));

/* A pool buffer with the same bytes data[0..len), owned once; the caller keeps its reference to `b`. NULL at the
 * bound. */
struct dc_buf *bufpool_copy(struct bufpool *p, const struct dc_buf *b, uint32_t len) __attribute__((nonnull));

/* As it is on a cable, with its EtherType where that stands beside the bytes. */
void frame_copy(uint8_t *to, const struct dc_frame *f) __attribute__((nonnull));

static inline void buf_unref(struct dc_buf *b)
{
  if (b != NULL)
    bufpool_ops.unref(b);
}

#endif
