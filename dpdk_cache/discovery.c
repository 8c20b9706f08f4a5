#include "discovery.h"

#include <string.h>

#include "datacast/wire.h"

enum { ETHERTYPE_LLDP = 0x88cc, TLV_END = 0, TLV_PRIVATE = 127 };

/* The system's organisation, then a subtype: 1 marks a frame as the controller's, 2 says what its switch can do. */
static const uint8_t mark[] = {0x02, 0xdc, 0x00, 0x01, 'd', 'a', 't', 'a', 'c', 'a', 's', 't'};
static const uint8_t copies[] = {0x02, 0xdc, 0x00, 0x02};

static bool begins(const uint8_t *value, size_t len, const uint8_t *with, size_t n)
{
  return len >= n && memcmp(value, with, n) == 0;
}

bool discovery_read(const uint8_t *frame, size_t len, struct discovery *d)
{
  struct discovery found = {0};
  bool ours = false;
  if (len < DC_ETHER_LEN || (frame[12] << 8 | frame[13]) != ETHERTYPE_LLDP)
    return false;
  for (size_t at = DC_ETHER_LEN; len - at >= 2;) {
    unsigned kind = frame[at] >> 1;
    size_t n = (size_t)(frame[at] & 1) << 8 | frame[at + 1];
    const uint8_t *value = frame + at + 2;
    if (kind == TLV_END || n > len - at - 2)
      break;
    if (kind == TLV_PRIVATE) {
      ours |= begins(value, n, mark, sizeof mark);
      if (begins(value, n, copies, sizeof copies) && n > sizeof copies)
        found.copies = value[sizeof copies];
    }
    at += 2 + n;
  }
  if (ours)
    *d = found;
  return ours;
}
