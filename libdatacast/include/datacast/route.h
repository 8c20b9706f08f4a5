/* Routes: lists of stops, from a receiver to the source (design.md, section 3).
 *
 * stop := flags (1) | n_ret (1) | n_fwd (1) | 0 (1) | ret ports (2 each) | fwd ports (2 each)
 *
 * Stop 0 is the receiver itself (n_ret = 0), the last one the source (n_fwd = 0), those between are waypoints.
 * fwd: the ports from this stop to the next, first the stop's own port; ret: the ports from this stop back to
 * the one below it. FWD_LOCAL / RET_LOCAL: that segment ends at a waypoint, so a LOCAL label closes it; otherwise it
 * ends at an endpoint and the stack is empty there. No port at all: the next stop is on this same machine
 * (n = 0 with LOCAL: this host's own node; without: this host's own endpoint).
 *
 * A blob handed to a receiver by the master starts at stop 0. A stop that sends an interest on takes its own
 * record off: the interest on the wire carries the stops after the sender's.
 */
#ifndef DATACAST_ROUTE_H
#define DATACAST_ROUTE_H

#include "datacast/wire.h"

/* A segment: ports from its sender on, first the sender's own. */
struct dc_segment {
  uint8_t n;
  bool local; /* ends at a waypoint */
  uint16_t port[DC_SEG_MAX];
};

struct dc_stop {
  bool store;
  struct dc_segment ret, fwd;
};

/* Parse the first stop of p[0..len). Returns its bytes, or 0 when it is malformed (bounds, reserved bits, limits). */
size_t dc_stop_parse(const uint8_t *p, size_t len, struct dc_stop *s) __attribute__((nonnull));

/* Append a stop at p[0..cap). Returns its bytes, or 0 when it does not fit. */
size_t dc_stop_write(uint8_t *p, size_t cap, const struct dc_stop *s) __attribute__((nonnull));

/* Check a whole route: returns the number of stops (1..DC_STOPS_MAX) or 0. */
unsigned dc_route_check(const uint8_t *p, size_t len) __attribute__((nonnull));

bool dc_segment_equal(const struct dc_segment *a, const struct dc_segment *b) __attribute__((nonnull));

/* Write Ethernet header and label stack of a frame that leaves over `seg` (its first port is the sender's and gets
 * no label). Returns the bytes written (at most DC_PREFIX_MAX - DC_HEADER_LEN); seg->n must be at least 1. */
size_t dc_segment_write(uint8_t *p, const struct dc_segment *seg, const uint8_t dst[6], const uint8_t src[6])
    __attribute__((nonnull));

#endif
