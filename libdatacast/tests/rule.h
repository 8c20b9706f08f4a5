/* What tests of rate control have in common: one rule's state, its parameters, and a loss. */
#ifndef DATACAST_TESTS_RULE_H
#define DATACAST_TESTS_RULE_H

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "datacast/cc.h"
#include "datacast/wire.h"

#define DEPTH 87u /* packets of a store */

static uint64_t state[DC_CC_STATE / 8];
static const struct dc_cc_params params = {.rate_init = 500000000,
                                           .rate_min = 1000000,
                                           .rate_max = 1000000000,
                                           .delta = 5000000,
                                           .interval = DC_MS,
                                           .packet_bytes = 1500};

/* Of the n that were sent, the one so long ago is asked for again. */
static inline struct dc_cc_event lost_event(uint32_t n, uint32_t ago)
{
  return (struct dc_cc_event){.duplicate = true, .retx = true, .seq = n - ago, .next_seq = n, .depth = DEPTH};
}

#endif
