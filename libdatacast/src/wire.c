#include "datacast/wire.h"

#include <string.h>

#include "datacast/bytes.h"

_Static_assert(DC_AT_MORE + 1 == DC_HEADER_LEN, "the header's fields fill it");
_Static_assert(DC_LABEL_ADJ + DC_PORT_MAX < (1u << 20), "every port has a label");
_Static_assert(DC_LABEL_LOCAL < DC_LABEL_ADJ, "LOCAL is no adjacency");

const char *dc_drop_name(enum dc_drop why)
{
  static const char *const names[DC_DROP_MAX] = {
      [DC_DROP_NONE] = "none",
      [DC_DROP_TRUNCATED] = "truncated",
      [DC_DROP_VERSION] = "version",
      [DC_DROP_TYPE] = "type",
      [DC_DROP_RESERVED] = "reserved",
      [DC_DROP_ETHERTYPE] = "ethertype",
      [DC_DROP_LABEL] = "label",
      [DC_DROP_PORT] = "port",
      [DC_DROP_STACK] = "stack",
      [DC_DROP_ROUTE] = "route",
      [DC_DROP_NO_ENDPOINT] = "no_endpoint",
      [DC_DROP_UNKNOWN_TREE] = "unknown_tree",
      [DC_DROP_UNWANTED] = "unwanted",
      [DC_DROP_TREES] = "trees",
      [DC_DROP_CHILDREN] = "children",
      [DC_DROP_WAITING] = "waiting",
      [DC_DROP_QUEUE] = "queue",
      [DC_DROP_BEYOND] = "beyond",
      [DC_DROP_OVERSIZED] = "oversized",
      [DC_DROP_RANGE] = "range",
      [DC_DROP_UTURN] = "uturn",
  };

  if ((unsigned)why >= DC_DROP_MAX || names[why] == NULL)
    return "unknown";
  return names[why];
}

enum dc_drop dc_header_parse(const uint8_t *p, size_t len, struct dc_header *h)
{
  if (len < DC_HEADER_LEN)
    return DC_DROP_TRUNCATED;
  if (p[0] >> 4 != DC_VERSION)
    return DC_DROP_VERSION;

  h->type = p[0] & 0x0f;
  h->flags = p[DC_AT_FLAGS];
  h->length = dc_get16(p + DC_AT_LENGTH);
  h->tree = dc_get32(p + DC_AT_TREE);
  h->seq = dc_get32(p + DC_AT_SEQ);
  h->stops = p[DC_AT_STOPS];
  h->lag = p[DC_AT_LAG];
  h->cache = p[DC_AT_CACHE];
  h->more = p[DC_AT_MORE];

  if (h->type < DC_TYPE_INTEREST || h->type > DC_TYPE_HELLO)
    return DC_DROP_TYPE;
  if ((h->flags & ~DC_FLAG_MASK) != 0 && h->type != DC_TYPE_DATA)
    return DC_DROP_RESERVED;
  if (h->type != DC_TYPE_INTEREST && (h->stops | h->lag | h->cache | h->more) != 0)
    return DC_DROP_RESERVED;
  if (h->more > DC_RANGE_MORE_MAX || h->more > UINT32_MAX - h->seq)
    return DC_DROP_RANGE;
  if (h->length > DC_PAYLOAD_MAX)
    return DC_DROP_OVERSIZED;
  if (h->length > len - DC_HEADER_LEN)
    return DC_DROP_TRUNCATED;
  return DC_DROP_NONE;
}

bool dc_is_data(const uint8_t *p, size_t len, uint32_t *payload)
{
  if (len < DC_HEADER_LEN || p[0] != (DC_VERSION << 4 | DC_TYPE_DATA) || dc_get32(p + DC_AT_STOPS) != 0)
    return false;
  *payload = dc_get16(p + DC_AT_LENGTH);
  return *payload <= len - DC_HEADER_LEN && *payload <= DC_PAYLOAD_MAX;
}

void dc_header_write(uint8_t *p, const struct dc_header *h)
{
  p[0] = (uint8_t)(DC_VERSION << 4 | (h->type & 0x0fu));
  p[DC_AT_FLAGS] = h->flags;
  dc_put16(p + DC_AT_LENGTH, h->length);
  dc_put32(p + DC_AT_TREE, h->tree);
  dc_put32(p + DC_AT_SEQ, h->seq);
  bool interest = h->type == DC_TYPE_INTEREST;
  p[DC_AT_STOPS] = interest ? h->stops : 0;
  p[DC_AT_LAG] = interest ? h->lag : 0;
  p[DC_AT_CACHE] = interest ? h->cache : 0;
  p[DC_AT_MORE] = interest ? h->more : 0;
}

/* label (20) | traffic class (3) | bottom of stack (1) | TTL (8) */
uint32_t dc_label_read(const uint8_t *p, bool *bottom)
{
  uint32_t word = dc_get32(p);
  *bottom = (word >> 8 & 1) != 0;
  return word >> 12;
}

void dc_label_write(uint8_t *p, uint32_t label, bool bottom)
{
  dc_put32(p, label << 12 | (bottom ? 1u << 8 : 0u) | DC_LABEL_TTL);
}

void dc_ether_write(uint8_t *p, const uint8_t dst[6], const uint8_t src[6], uint16_t ethertype)
{
  memcpy(p, dst, 6);
  memcpy(p + 6, src, 6);
  dc_put16(p + 12, ethertype);
}

uint8_t dc_cache_code(uint64_t bytes)
{
  if (bytes == 0)
    return 0;
  uint64_t v = bytes >> 8;
  unsigned e = 0;
  while (e < 15 && v >> e > 31)
    e++;
  /* code 0 means the default, so the least size that can be asked for is code 1 */
  uint64_t code = v < 17 ? 1 : e * 16 + (v >> e) - 16;
  return code > UINT8_MAX ? UINT8_MAX : (uint8_t)code;
}

uint64_t dc_cache_bytes(uint8_t code)
{
  if (code == 0)
    return 0;
  return (uint64_t)(16u + (code & 15u)) << (8u + (code >> 4));
}

/* Steps of a lag's code per power of two. */
#define LAG_STEPS 32u

uint32_t dc_path_packets(uint8_t flags)
{
  unsigned code = flags >> 4;
  if (code > 12)
    return (code - 12) * 3072;
  return code == 0 ? 0 : (2u + (code - 1) % 2) << (4 + (code - 1) / 2);
}

uint32_t dc_lag_packets(uint8_t code) { return ((LAG_STEPS + code % LAG_STEPS) << (code / LAG_STEPS)) - LAG_STEPS; }

uint8_t dc_lag_code(uint32_t packets)
{
  uint32_t e = 0, v = packets < dc_lag_packets(255) ? packets + LAG_STEPS : dc_lag_packets(255) + LAG_STEPS;
  while (v >> e >= 2 * LAG_STEPS)
    e++;
  return (uint8_t)(e * LAG_STEPS + (v >> e) - LAG_STEPS);
}

uint8_t dc_path_flags(uint32_t packets)
{
  uint8_t code = packets <= dc_path_packets(1 << 4) / 2 ? 0 : 1;
  while (code > 0 && code < 15 && dc_path_packets((uint8_t)(code << 4)) < packets)
    code++;
  return (uint8_t)(code << 4);
}
