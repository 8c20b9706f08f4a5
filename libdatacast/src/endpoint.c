#include "datacast/endpoint.h"

#include <errno.h>
#include <string.h>

int dc_path_parse(struct dc_path *path, const uint8_t *blob, size_t len)
{
  struct dc_stop own, next;
  unsigned stops = dc_route_check(blob, len);
  if (stops < 2)
    return -EINVAL;

  size_t n = dc_stop_parse(blob, len, &own);
  if (own.ret.n != 0 || own.ret.local || own.store)
    return -EINVAL; /* nothing lies below a receiver, and it keeps nothing */
  if (dc_stop_parse(blob + n, len - n, &next) == 0 || next.ret.local || (next.ret.n == 0) != (own.fwd.n == 0))
    return -EINVAL; /* what comes back to a receiver ends at an endpoint, on this host as much as its way up is */

  path->first = own.fwd;
  path->stops = (uint8_t)(stops - 1);
  path->rest_len = (uint16_t)(len - n);
  memcpy(path->rest, blob + n, len - n);
  return 0;
}

/* Ethernet and stack of a segment, or nothing when it stays on this host. */
static size_t front_len(const struct dc_segment *seg)
{
  return seg->n == 0 ? 0 : DC_ETHER_LEN + DC_LABEL_LEN * (seg->n - 1u + (seg->local ? 1u : 0u));
}

size_t dc_interest_write(uint8_t *p, size_t cap, const struct dc_path *path, const struct dc_header *h,
                         const uint8_t dst[6], const uint8_t src[6])
{
  size_t front = front_len(&path->first);
  if (cap < front + DC_HEADER_LEN + path->rest_len)
    return 0;
  if (front > 0)
    dc_segment_write(p, &path->first, dst, src);

  struct dc_header own = *h;
  own.type = DC_TYPE_INTEREST;
  own.length = path->rest_len;
  own.stops = path->stops;
  dc_header_write(p + front, &own);
  memcpy(p + front + DC_HEADER_LEN, path->rest, path->rest_len);
  return front + DC_HEADER_LEN + path->rest_len;
}

enum dc_drop dc_interest_at_source(const uint8_t *p, size_t len, struct dc_header *h, struct dc_segment *ret)
{
  enum dc_drop why = dc_header_parse(p, len, h);
  if (why != DC_DROP_NONE)
    return why;
  if (h->type != DC_TYPE_INTEREST)
    return DC_DROP_TYPE;

  struct dc_stop s;
  size_t n = dc_stop_parse(p + DC_HEADER_LEN, h->length, &s);
  if (h->stops != 1 || n == 0 || n != h->length || s.fwd.n != 0 || s.fwd.local)
    return DC_DROP_ROUTE;
  *ret = s.ret;
  return DC_DROP_NONE;
}

size_t dc_data_write(uint8_t *p, size_t cap, const struct dc_segment *ret, const struct dc_header *h,
                     const uint8_t dst[6], const uint8_t src[6])
{
  size_t front = front_len(ret);
  if (cap < front + DC_HEADER_LEN)
    return 0;
  if (front > 0)
    dc_segment_write(p, ret, dst, src);

  struct dc_header own = *h;
  own.type = DC_TYPE_DATA;
  dc_header_write(p + front, &own);
  return front + DC_HEADER_LEN;
}
