/* Frames of an endpoint: what a receiver and a source put on the wire. Shared by agent, simulators and tests. */
#ifndef DATACAST_ENDPOINT_H
#define DATACAST_ENDPOINT_H

#include "datacast/route.h"

/* A receiver's route, parsed once. */
struct dc_path {
  struct dc_segment first; /* to the next stop; first.n == 0: on this host (local: its node, else its source) */
  uint8_t stops;           /* in `rest` */
  uint16_t rest_len;
  uint8_t rest[DC_ROUTE_MAX];
};

/* Check a whole route blob (it starts at stop 0) and take it apart. 0 or -EINVAL. */
int dc_path_parse(struct dc_path *path, const uint8_t *blob, size_t len) __attribute__((nonnull));

/* Write an interest: with path->first.n > 0 a whole frame to leave by port path->first.port[0] (addresses as given);
 * else from the Datacast header on, for this host's node (dc_node_handle with DC_PORT_HOST) or source. Returns its
 * bytes, 0 when cap is too small. h->type, length and stops are filled in here. */
size_t dc_interest_write(uint8_t *p, size_t cap, const struct dc_path *path, const struct dc_header *h,
                         const uint8_t dst[6], const uint8_t src[6]) __attribute__((nonnull));

/* An interest that reached an endpoint (p at the Datacast header): exactly one stop is left, the source's. Fills header
 * and return segment. */
enum dc_drop dc_interest_at_source(const uint8_t *p, size_t len, struct dc_header *h, struct dc_segment *ret)
    __attribute__((nonnull));

/* Write everything in front of the payload of a data packet that leaves over ret: as above a whole frame when ret->n >
 * 0, else from the Datacast header on. Returns the bytes. h->type is filled in here; h->length is the payload's. */
size_t dc_data_write(uint8_t *p, size_t cap, const struct dc_segment *ret, const struct dc_header *h,
                     const uint8_t dst[6], const uint8_t src[6]) __attribute__((nonnull));

#endif
