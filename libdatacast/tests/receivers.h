/* A receiver under test, and what comes out of it. */
#ifndef DC_TESTS_RECEIVERS_H
#define DC_TESTS_RECEIVERS_H

#include <assert.h>
#include <stdlib.h>

#include "datacast/receiver.h"
#include "datacast/wire.h"

enum { CAP = DC_CREDITS_MAX, PIECE = 100 };

static struct dc_interest in[CAP];
static struct dc_receiver_counters c;

struct side {
  struct dc_layout layout;
  dc_pieces *pieces;
  dc_receiver *r;
};

static inline struct side make_asking(uint64_t pieces, uint32_t credits, uint32_t reorder, uint32_t batch)
{
  struct side s = {.layout = {.size = pieces * PIECE, .piece = PIECE, .per_block = 8}};
  struct dc_receiver_cfg cfg;
  dc_receiver_cfg_default(&cfg);
  assert(cfg.reorder == 3 && cfg.batch == 1);
  cfg.credits = credits;
  cfg.reorder = reorder;
  cfg.batch = batch;
  s.pieces = dc_pieces_init(calloc(1, dc_pieces_size(&s.layout)), &s.layout);
  s.r = dc_receiver_init(malloc(dc_receiver_size()), 0, &cfg, s.pieces);
  return s;
}

static inline struct side make_with(uint64_t pieces, uint32_t credits, uint32_t reorder)
{
  return make_asking(pieces, credits, reorder, 1);
}

static inline struct side make(uint64_t pieces, uint32_t credits) { return make_with(pieces, credits, 3); }

static inline void drop(struct side *s)
{
  free(s->r);
  free(s->pieces);
}

/* Polls, and takes ranges apart: one entry per number, without LAST. */
static inline unsigned asked(dc_receiver *r, dc_time now, struct dc_interest *to, unsigned cap)
{
  static struct dc_interest range[CAP];
  unsigned n = 0, ranges = dc_receiver_poll(r, now, range, cap);
  for (unsigned i = 0; i < ranges; i++) {
    assert(range[i].more <= DC_RANGE_MORE_MAX);
    for (uint32_t k = 0; k <= range[i].more; k++) {
      assert(n < CAP);
      to[n++] = (struct dc_interest){.seq = range[i].seq + k, .flags = range[i].flags & (uint8_t)~DC_FLAG_LAST};
    }
  }
  return n;
}

static inline int assign(struct side *s, uint32_t seq, uint32_t count, uint64_t first)
{
  return dc_receiver_assign(s->r, &(struct dc_extent){seq, count, first});
}

static inline enum dc_rx_result data(struct side *s, dc_time now, uint32_t seq)
{
  struct dc_header h = {.type = DC_TYPE_DATA, .length = PIECE, .tree = 1, .seq = seq};
  uint64_t piece;
  return dc_receiver_handle(s->r, now, &h, &piece);
}

/* Polls and checks that exactly the given numbers come out with the given flags. */
#define EXPECT(s, now, flag, ...)                                                                                      \
  do {                                                                                                                 \
    const uint32_t want_[] = {__VA_ARGS__};                                                                            \
    unsigned n_ = asked((s)->r, now, in, CAP);                                                                         \
    assert(n_ == sizeof want_ / sizeof want_[0]);                                                                      \
    for (unsigned k_ = 0; k_ < n_; k_++)                                                                               \
      assert(in[k_].seq == want_[k_] && in[k_].flags == (flag));                                                       \
  } while (0)
#define EXPECT_NOTHING(s, now) assert(asked((s)->r, now, in, CAP) == 0)

#endif
