/* A source under test, who asks it, and a rule of rate control that says what it is told to. */
#ifndef DC_TESTS_SOURCES_H
#define DC_TESTS_SOURCES_H

#include <assert.h>
#include <stdlib.h>

#include "datacast/source.h"

enum { CAP = 64 };
static struct dc_source_tx tx[CAP];
static struct dc_source_counters c;

static inline dc_source *make_with(const struct dc_cc_ops *cc, uint64_t rate, uint32_t burst, uint32_t seq,
                                   uint32_t count)
{
  struct dc_source_cfg cfg = {.cc = cc,
                              .params = {.rate_init = rate,
                                         .rate_min = 1000,
                                         .rate_max = 100000000000u,
                                         .delta = 0,
                                         .interval = DC_MS,
                                         .packet_bytes = 1250},
                              .burst_packets = burst};
  dc_source *s = dc_source_init(malloc(dc_source_size()), 1000, &cfg);
  dc_source_assign(s, seq, count);
  return s;
}

static inline dc_source *make(uint64_t rate, uint32_t burst)
{
  return make_with(&dc_cc_datacast, rate, burst, 0, 1000000);
}

static const struct dc_segment to_a = {.n = 2, .local = true, .port = {0, 3}};
static const struct dc_segment to_b = {.n = 1, .local = false, .port = {1}};

static inline void ask_from(dc_source *s, dc_time now, uint32_t seq, uint8_t flags, const struct dc_segment *ret)
{
  struct dc_header h = {.type = DC_TYPE_INTEREST, .flags = flags, .tree = 1, .seq = seq, .stops = 1};
  dc_source_handle(s, now, &h, ret);
}

static inline void ask(dc_source *s, dc_time now, uint32_t seq) { ask_from(s, now, seq, 0, &to_a); }

/* A rule that says what it is told to, and keeps what it learns last. */
static uint64_t said;
static struct dc_cc_event learnt;
static inline void rule_init(void *state, dc_time now, const struct dc_cc_params *p)
{
  (void)state, (void)now, (void)p;
}
static inline void rule_interest(void *state, dc_time now, const struct dc_cc_event *e)
{
  (void)state, (void)now;
  learnt = *e;
}
static inline void rule_tick(void *state, dc_time now) { (void)state, (void)now; }
static inline dc_time rule_next(const void *state) { return (void)state, DC_NEVER; }
static inline uint64_t rule_rate(const void *state) { return (void)state, said; }
static const struct dc_cc_ops rule = {
    .init = rule_init, .interest = rule_interest, .tick = rule_tick, .next_tick = rule_next, .rate = rule_rate};
static const struct dc_cc_ops spreading = {.init = rule_init,
                                           .interest = rule_interest,
                                           .tick = rule_tick,
                                           .next_tick = rule_next,
                                           .rate = rule_rate,
                                           .spreads_repairs = true};

#endif
