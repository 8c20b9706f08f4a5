/* A source of one tree: token bucket, duplicate detection, merging (the paper's section 5.2).
 *
 * Polling order: handle() every interest that arrived, then poll() until it returns less than cap, then sleep until
 * next_wake(). */
#ifndef DATACAST_SOURCE_H
#define DATACAST_SOURCE_H

#include "datacast/cc.h"
#include "datacast/route.h"
#include "datacast/time.h"

struct dc_source_cfg {
  const struct dc_cc_ops *cc;
  struct dc_cc_params params;
  uint32_t burst_packets; /* depth of the bucket, in full packets (at least 1) */
  dc_time patience;       /* so long it goes on at its rate where a receiver has become slow suddenly; 0: not at all */
};

struct dc_source_counters {
  uint64_t interests, merged, duplicates; /* numbers asked for; duplicates: for what was already sent */
  uint64_t refetches;                /* of these duplicates, NOCACHE ones: a block's checksum failed, no congestion */
  uint64_t new_packets, dup_packets; /* sent */
  uint64_t drop[DC_DROP_MAX];
  uint64_t rate;     /* bit/s now */
  uint32_t queued;   /* interests waiting for tokens */
  uint32_t next_seq; /* one past the newest sequence number sent */
  uint32_t numbers;  /* sent so far, each counted once */
};

typedef struct dc_source dc_source;
size_t dc_source_size(void);
dc_source *dc_source_init(void *memory, dc_time now, const struct dc_source_cfg *cfg) __attribute__((nonnull));

/* The numbers [seq, seq + count) exist from now on; those of an extent that was told before, or below one, do already. */
void dc_source_assign(dc_source *s, uint32_t seq, uint32_t count) __attribute__((nonnull));
/* The numbers from `seq` on do not any more. What is assigned later must lie above them: caches, and members that have not
 * heard of the cut, may know them. */
void dc_source_cut(dc_source *s, uint32_t seq) __attribute__((nonnull));

/* Never faster than this from now on, whatever the rule finds: bit/s of whole frames, 0 for no bound. */
void dc_source_limit(dc_source *s, dc_time now, uint64_t bps) __attribute__((nonnull));

/* An interest reached the source: header h, and its last stop's return segment. */
void dc_source_handle(dc_source *s, dc_time now, const struct dc_header *h, const struct dc_segment *ret)
    __attribute__((nonnull));

/* A data packet to send. The caller fetches the payload and sends it over `ret` (ret->n == 0 && ret->local: to this
 * host's own node). */
struct dc_source_tx {
  uint32_t seq;
  uint8_t flags;                /* DC_FLAG_DUP for an answer to a duplicate interest; DC_FLAG_PATH */
  const struct dc_segment *ret; /* valid until the next call */
};

/* Duplicates come first and outside the bucket; new data as tokens allow. */
unsigned dc_source_poll(dc_source *s, dc_time now, struct dc_source_tx *out, unsigned cap) __attribute__((nonnull));
dc_time dc_source_next_wake(const dc_source *s) __attribute__((nonnull));
void dc_source_counters(const dc_source *s, struct dc_source_counters *out) __attribute__((nonnull));
/* How many times its patience began: whoever can give a receiver trees of its own should do it now. */
uint32_t dc_source_bore(const dc_source *s) __attribute__((nonnull));

#endif
