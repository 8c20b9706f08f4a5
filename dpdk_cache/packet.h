/* Packets: a dc_buf of the core is an rte_mbuf, one segment as it arrived.
 *
 * A frame to send is its prefix and a run of bytes of such a buffer. Three ways, cheapest first:
 *   in place   the buffer has no other owner: the prefix is written in front of the bytes
 *   shared     others own it too (the content store, other copies): a small header mbuf carries the prefix, the buffer
 *              follows as its second segment and only its reference count changes
 *   cloned     shared, but another frame in flight shows other bytes of the same buffer: an indirect mbuf between them
 * For drivers that send one segment only, the frame is copied into one (linear).
 * Offsets are kept against the data as it arrived, so that a shared buffer's bytes never move. */
#ifndef SWITCH_PACKET_H
#define SWITCH_PACKET_H

#include <datacast/buf.h>
#include <rte_mbuf.h>
#include <stdbool.h>
#include <string.h>

#include "failure.h"

struct packet_counters {
  uint64_t in_place, shared, cloned, linear, bare; /* frames; bare: a prefix and nothing else */
  uint64_t bytes_referenced;                       /* sent without a copy of ours */
  uint64_t bytes_copied;
  uint64_t no_mbuf; /* frames lost because a pool was empty */
};

struct packet_pools {
  struct rte_mempool *data;    /* whole frames, as they arrive */
  struct rte_mempool *headers; /* prefixes and indirect mbufs */
  struct packet_counters counters;
};

/* Bytes of EAL's memory that the two pools take. */
size_t packet_pools_bytes(uint32_t data, uint32_t headers, uint32_t frame_bytes);
/* Pools of `data` mbufs with room for frame_bytes each, and `headers` header mbufs. 0, or -1 with f. */
int packet_pools_open(struct packet_pools *p, uint32_t data, uint32_t headers, uint32_t frame_bytes, struct fault *f)
    __attribute__((nonnull));
void packet_pools_close(struct packet_pools *p) __attribute__((nonnull));

extern const struct dc_buf_ops packet_buf_ops;
/* Buffers without an owner go back to their pools: not at once, but with the end of the thread's round. */
void packet_round_over(void);

static inline dc_buf *packet_buf(struct rte_mbuf *m) { return (dc_buf *)m; }

/* What is noted of a data mbuf, in a field of its first line that applications may use. */
struct packet_note {
  uint16_t first;     /* data_off at arrival */
  uint16_t published; /* data_off and data_len were set for sharing and stay so until the mbuf is free */
};

static inline struct packet_note *packet_note(struct rte_mbuf *m) { return (struct packet_note *)(void *)&m->hash.usr; }

/* Remember where the data of an mbuf that just arrived stands. */
static inline void packet_arrived(struct rte_mbuf *m) { *packet_note(m) = (struct packet_note){.first = m->data_off}; }

/* What goes in front of a frame's bytes; mostly an Ethernet header, in the parts in which a node writes it: a read across two fresh
 * writes waits for both. */
static inline __attribute__((nonnull)) void packet_prefix(void *to, const struct dc_tx *tx)
{
  enum { ADDRESSES = DC_ETHER_LEN - 2 };
  if (tx->prefix_len != DC_ETHER_LEN) {
    memcpy(to, tx->prefix, tx->prefix_len);
    return;
  }
  memcpy(to, tx->prefix, ADDRESSES);
  memcpy((char *)to + ADDRESSES, tx->prefix + ADDRESSES, 2);
}

/* What packet_build does with a frame that is not written in place. */
struct rte_mbuf *packet_build_apart(struct packet_pools *p, const struct dc_tx *tx, bool linear)
    __attribute__((nonnull));

/* The mbuf to send for tx; takes over its reference to tx->buf. NULL (counted, reference released) when a pool is
 * empty. linear: in one segment. */
static inline __attribute__((nonnull)) struct rte_mbuf *packet_build(struct packet_pools *p, const struct dc_tx *tx,
                                                                     bool linear)
{
  struct rte_mbuf *m = (struct rte_mbuf *)tx->buf;
  if (m == NULL || tx->len == 0 || rte_mbuf_refcnt_read(m) != 1)
    return packet_build_apart(p, tx, linear);
  uint32_t at = packet_note(m)->first + tx->off, len = tx->prefix_len + tx->len;
  if (at < tx->prefix_len)
    return packet_build_apart(p, tx, linear);
  m->data_off = (uint16_t)(at - tx->prefix_len);
  m->data_len = (uint16_t)len;
  m->pkt_len = len;
  packet_prefix(rte_pktmbuf_mtod(m, void *), tx);
  p->counters.in_place++;
  p->counters.bytes_referenced += tx->len;
  return m;
}

#endif
