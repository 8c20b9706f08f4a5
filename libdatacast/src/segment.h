/* Segments as they stand in a frame, and as Ethernet and stack from any of their ports on. */
#ifndef DATACAST_SEGMENT_H
#define DATACAST_SEGMENT_H

#include "datacast/route.h"

/* A segment where it stands in a route: what is looked at and left is never copied. */
struct dc_segment_view {
  uint8_t n;
  bool local;
  const uint8_t *ports; /* 2 bytes each */
};

struct dc_stop_view {
  bool store;
  struct dc_segment_view ret, fwd;
};

/* As dc_stop_parse: what that refuses, this does. */
size_t dc_stop_look(const uint8_t *p, size_t len, struct dc_stop_view *s) __attribute__((nonnull));
void dc_segment_read(const struct dc_segment_view *v, struct dc_segment *seg) __attribute__((nonnull));

/* As dc_segment_write, but ports from index `from` on get labels: 1 where the sender has the ports itself, 0 at an
 * appliance, whose switch takes the first port off the stack too. */
size_t dc_segment_write_from(uint8_t *p, const struct dc_segment *seg, unsigned from, const uint8_t dst[6],
                             const uint8_t src[6]) __attribute__((nonnull));

/* The way on from a stop, as 13 bits: a repaired tree has another one. `way` is a route's bytes from the stop's ports towards the
 * source on, at least the DC_STOP_LEN of the stop after it. */
uint16_t dc_way_sum(const uint8_t *way, size_t len) __attribute__((nonnull));

/* What lies under the stack that starts at `at`; false when no bottom is in sight. */
static inline bool dc_stack_end(const uint8_t *p, uint32_t len, uint32_t *at)
{
  bool bottom = false;
  for (unsigned i = 0; !bottom; i++, *at += DC_LABEL_LEN) {
    if (i > DC_SEG_MAX || len - *at < DC_LABEL_LEN)
      return false;
    dc_label_read(p + *at, &bottom);
  }
  return true;
}

/* Is it a label that a route is made of? Others are between the two ends of a link. */
static inline bool dc_is_segment_label(const uint8_t *p)
{
  bool bottom;
  uint32_t label = dc_label_read(p, &bottom);
  return label == DC_LABEL_LOCAL || (label >= DC_LABEL_ADJ && label <= DC_LABEL_ADJ + DC_PORT_MAX);
}

#endif
