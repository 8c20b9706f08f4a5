#include "datacast/route.h"

#include <string.h>

#include "datacast/bytes.h"
#include "segment.h"

_Static_assert(DC_PREFIX_MAX == DC_ETHER_LEN + DC_LABEL_LEN * (DC_SEG_MAX + 1) + DC_HEADER_LEN,
               "a prefix holds Ethernet, the deepest stack and the header");

static void write_ports(uint8_t *p, const struct dc_segment *seg)
{
  for (unsigned i = 0; i < seg->n; i++)
    dc_put16(p + 2 * i, seg->port[i]);
}

static bool are_ports(const uint8_t *p, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    if (dc_get16(p + 2 * i) > DC_PORT_MAX)
      return false;
  return true;
}

size_t dc_stop_look(const uint8_t *p, size_t len, struct dc_stop_view *s)
{
  if (len < DC_STOP_LEN)
    return 0;
  if ((p[0] & ~DC_STOP_MASK) != 0 || p[3] != 0 || p[1] > DC_SEG_MAX || p[2] > DC_SEG_MAX)
    return 0;

  s->store = (p[0] & DC_STOP_STORE) != 0;
  s->ret.local = (p[0] & DC_STOP_RET_LOCAL) != 0;
  s->fwd.local = (p[0] & DC_STOP_FWD_LOCAL) != 0;
  s->ret.n = p[1];
  s->fwd.n = p[2];
  s->ret.ports = p + DC_STOP_LEN;
  s->fwd.ports = s->ret.ports + 2u * s->ret.n;

  size_t bytes = DC_STOP_LEN + 2u * s->ret.n + 2u * s->fwd.n;
  return len < bytes || !are_ports(s->ret.ports, (unsigned)s->ret.n + s->fwd.n) ? 0 : bytes;
}

void dc_segment_read(const struct dc_segment_view *v, struct dc_segment *seg)
{
  seg->n = v->n;
  seg->local = v->local;
  for (unsigned i = 0; i < v->n; i++)
    seg->port[i] = dc_get16(v->ports + 2 * i);
}

size_t dc_stop_parse(const uint8_t *p, size_t len, struct dc_stop *s)
{
  struct dc_stop_view v;
  size_t bytes = dc_stop_look(p, len, &v);
  if (bytes > 0) {
    s->store = v.store;
    dc_segment_read(&v.ret, &s->ret);
    dc_segment_read(&v.fwd, &s->fwd);
  }
  return bytes;
}

size_t dc_stop_write(uint8_t *p, size_t cap, const struct dc_stop *s)
{
  if (s->ret.n > DC_SEG_MAX || s->fwd.n > DC_SEG_MAX)
    return 0;
  size_t bytes = DC_STOP_LEN + 2u * s->ret.n + 2u * s->fwd.n;
  if (cap < bytes)
    return 0;

  p[0] = (uint8_t)((s->store ? DC_STOP_STORE : 0) | (s->fwd.local ? DC_STOP_FWD_LOCAL : 0) |
                   (s->ret.local ? DC_STOP_RET_LOCAL : 0));
  p[1] = s->ret.n;
  p[2] = s->fwd.n;
  p[3] = 0;
  write_ports(p + DC_STOP_LEN, &s->ret);
  write_ports(p + DC_STOP_LEN + 2u * s->ret.n, &s->fwd);
  return bytes;
}

unsigned dc_route_check(const uint8_t *p, size_t len)
{
  if (len > DC_ROUTE_MAX)
    return 0;

  unsigned stops = 0;
  bool below_goes_on = false; /* the stop before says that this one is a waypoint */
  for (size_t at = 0; at < len;) {
    struct dc_stop s;
    size_t n = dc_stop_parse(p + at, len - at, &s);
    if (n == 0 || ++stops > DC_STOPS_MAX)
      return 0;
    at += n;

    bool last = at == len;
    if (stops > 1 && below_goes_on == last)
      return 0; /* a segment ends at a waypoint exactly when the source is not what it leads to */
    if (last && (s.fwd.n != 0 || s.fwd.local))
      return 0; /* nothing lies beyond the source */
    if (!last && stops > 1 && s.fwd.n == 0 && s.fwd.local)
      return 0; /* a waypoint that leads to itself */
    if (stops > 2 && !s.ret.local)
      return 0; /* the stop below is a waypoint */
    below_goes_on = s.fwd.local;
  }
  return stops;
}

_Static_assert(DC_STOP_LEN >= sizeof(uint32_t), "dc_way_sum has four bytes at least");

uint16_t dc_way_sum(const uint8_t *way, size_t len)
{
  const uint64_t prime = UINT64_C(0x9e3779b97f4a7c15);
  const uint8_t *end = way + len;
  uint64_t sum = len, word;
  uint32_t first, last;
  for (; end - way > (ptrdiff_t)sizeof word; way += sizeof word) {
    memcpy(&word, way, sizeof word);
    sum = (sum ^ word) * prime;
    sum ^= sum >> 29;
  }
  if (len >= sizeof word) { /* what is left, and some of it once more */
    memcpy(&word, end - sizeof word, sizeof word);
  } else {
    memcpy(&first, way, sizeof first);
    memcpy(&last, end - sizeof last, sizeof last);
    word = (uint64_t)first << 32 | last;
  }
  sum = (sum ^ word) * prime;
  return (uint16_t)(sum >> 51);
}

bool dc_segment_equal(const struct dc_segment *a, const struct dc_segment *b)
{
  return a->n == b->n && a->local == b->local && memcmp(a->port, b->port, a->n * sizeof a->port[0]) == 0;
}

size_t dc_segment_write_from(uint8_t *p, const struct dc_segment *seg, unsigned from, const uint8_t dst[6],
                             const uint8_t src[6])
{
  size_t at = DC_ETHER_LEN;
  for (unsigned i = from; i < seg->n; i++, at += DC_LABEL_LEN)
    dc_label_write(p + at, DC_LABEL_ADJ + seg->port[i], i + 1u == seg->n && !seg->local);
  if (seg->local) {
    dc_label_write(p + at, DC_LABEL_LOCAL, true);
    at += DC_LABEL_LEN;
  }
  dc_ether_write(p, dst, src, at > DC_ETHER_LEN ? DC_ETHERTYPE_MPLS : DC_ETHERTYPE_DATACAST);
  return at;
}

size_t dc_segment_write(uint8_t *p, const struct dc_segment *seg, const uint8_t dst[6], const uint8_t src[6])
{
  return dc_segment_write_from(p, seg, 1, dst, src);
}
