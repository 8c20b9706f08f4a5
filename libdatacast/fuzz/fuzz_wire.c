/* libFuzzer: bytes at every parser of the wire format. What is taken must come out again as it went in. */
#include <string.h>

#include "datacast/endpoint.h"
#include "script.h"

static void header(const uint8_t *p, size_t len)
{
  struct dc_header h;
  uint8_t again[DC_HEADER_LEN];
  uint32_t payload;
  bool parsed = dc_header_parse(p, len, &h) == DC_DROP_NONE;
  MUST(dc_is_data(p, len, &payload) == (parsed && h.type == DC_TYPE_DATA));
  if (!parsed)
    return;
  MUST(h.length <= len - DC_HEADER_LEN);
  dc_header_write(again, &h);
  MUST(memcmp(again, p, DC_HEADER_LEN) == 0);
}

static void route(const uint8_t *p, size_t len)
{
  unsigned stops = dc_route_check(p, len), found = 0;
  uint8_t again[DC_ROUTE_MAX];
  size_t at = 0;
  while (stops > 0 && at < len) {
    struct dc_stop s;
    size_t n = dc_stop_parse(p + at, len - at, &s);
    MUST(n > 0 && dc_stop_write(again, sizeof again, &s) == n && memcmp(again, p + at, n) == 0);
    at += n;
    found++;
  }
  MUST(found == stops && (stops == 0 || (at == len && stops <= DC_STOPS_MAX)));
}

static void path(const uint8_t *p, size_t len)
{
  struct dc_path x;
  uint8_t frame[DC_PREFIX_MAX + DC_ROUTE_MAX];
  static const uint8_t mac[6];
  if (dc_path_parse(&x, p, len) != 0)
    return;
  struct dc_header h = {.tree = 1, .seq = 2};
  MUST(dc_interest_write(frame, sizeof frame, &x, &h, mac, mac) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
  struct dc_header h;
  struct dc_segment ret;
  header(p, len);
  route(p, len);
  path(p, len);
  if (dc_interest_at_source(p, len, &h, &ret) == DC_DROP_NONE)
    MUST(h.stops == 1 && ret.n <= DC_SEG_MAX);
  return 0;
}
