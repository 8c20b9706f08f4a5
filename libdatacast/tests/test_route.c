/* Stops, segments and ways by themselves: both ends of each bound, in each place. */
#include "datacast/bytes.h"
#include "frames.h"
#include "segment.h"

static void a_stop_is_read_when_all_of_it_is_there_and_within_its_bounds(void)
{
  uint8_t p[DC_STOP_LEN + 4 * DC_SEG_MAX + 8];
  struct dc_stop s;
  for (unsigned n = 0; n < 4; n++) {
    unsigned ret = n & 1 ? DC_SEG_MAX : 0, fwd = n & 2 ? DC_SEG_MAX : 1;
    size_t len = DC_STOP_LEN + 2 * (ret + fwd);
    memset(p, 0, sizeof p);
    p[0] = DC_STOP_MASK;
    p[1] = (uint8_t)ret;
    p[2] = (uint8_t)fwd;
    for (unsigned i = 0; i < ret + fwd; i++)
      dc_put16(p + DC_STOP_LEN + 2 * i, (uint16_t)(DC_PORT_MAX - i));
    assert(dc_stop_parse(p, len, &s) == len && s.store && s.ret.local && s.fwd.local && s.ret.n == ret &&
           s.fwd.n == fwd);
    for (unsigned i = 0; i < ret; i++)
      assert(s.ret.port[i] == DC_PORT_MAX - i);
    for (unsigned i = 0; i < fwd; i++)
      assert(s.fwd.port[i] == DC_PORT_MAX - ret - i);
    for (size_t cut = 0; cut < len; cut++)
      assert(dc_stop_parse(p, cut, &s) == 0);
    for (unsigned i = 0; i < ret + fwd; i++) { /* the host itself is no port */
      dc_put16(p + DC_STOP_LEN + 2 * i, DC_PORT_MAX + 1);
      assert(dc_stop_parse(p, len, &s) == 0);
      dc_put16(p + DC_STOP_LEN + 2 * i, 7);
    }
    dc_put16(p + len, DC_PORT_MAX + 1); /* what stands behind it is the next one's */
    assert(dc_stop_parse(p, sizeof p, &s) == len);
    for (unsigned bit = 0; bit < 8; bit++) {
      p[0] = (uint8_t)(1u << bit);
      assert((dc_stop_parse(p, len, &s) == len) == ((p[0] & ~DC_STOP_MASK) == 0));
      p[0] = 0;
      p[3] = (uint8_t)(1u << bit);
      assert(dc_stop_parse(p, len, &s) == 0);
      p[3] = 0;
    }
    assert(dc_stop_parse(p, len, &s) == len && !s.store && !s.ret.local && !s.fwd.local);
    dc_put16(p + len, 7);
    for (unsigned at = 1; at <= 2; at++) {
      uint8_t was = p[at];
      p[at] = DC_SEG_MAX + 1;
      assert(dc_stop_parse(p, sizeof p, &s) == 0);
      p[at] = was;
    }
  }
}

static void a_stop_is_written_as_it_is_read(void)
{
  uint8_t p[DC_STOP_LEN + 4 * DC_SEG_MAX];
  for (unsigned flags = 0; flags < 8; flags++) {
    struct dc_stop s = {.store = flags & 1, .ret = {.n = 3, .local = flags & 2}, .fwd = {.n = 2, .local = flags & 4}};
    struct dc_stop read;
    for (uint16_t i = 0; i < 3; i++)
      s.ret.port[i] = (uint16_t)(300 * (i + 1)), s.fwd.port[i] = (uint16_t)(7000 * (i + 1));
    memset(p, 0xff, sizeof p);
    assert(dc_stop_write(p, sizeof p, &s) == DC_STOP_LEN + 10 && dc_stop_parse(p, DC_STOP_LEN + 10, &read) > 0);
    assert(read.store == s.store && dc_segment_equal(&read.ret, &s.ret) && dc_segment_equal(&read.fwd, &s.fwd));
    assert(p[DC_STOP_LEN + 10] == 0xff);
  }
  struct dc_stop most = {.ret = {.n = DC_SEG_MAX}, .fwd = {.n = DC_SEG_MAX}};
  assert(dc_stop_write(p, sizeof p, &most) == sizeof p && dc_stop_write(p, sizeof p - 1, &most) == 0);
  most.ret.n++;
  assert(dc_stop_write(p, sizeof p, &most) == 0);
  most.ret.n = 0;
  most.fwd.n++;
  assert(dc_stop_write(p, sizeof p, &most) == 0);
}

static void segments_are_equal_when_all_of_them_is(void)
{
  const struct dc_segment a = {.n = 3, .port = {1, 2, 3, 4}};
  struct dc_segment b = a;
  b.port[3] = 9; /* is no part of it */
  assert(dc_segment_equal(&a, &b));
  for (unsigned i = 0; i < 3; i++) {
    b = a;
    b.port[i] ^= 0x100;
    assert(!dc_segment_equal(&a, &b));
  }
  b = a;
  b.n = 4;
  assert(!dc_segment_equal(&a, &b) && !dc_segment_equal(&b, &a));
  b = a;
  b.local = true;
  assert(!dc_segment_equal(&a, &b));
}

/* Each bit of a way counts, whatever its length: two that differ in one have one sum by chance alone, of 8,192. */
static void ways_that_differ_have_sums_that_differ(void)
{
  uint8_t way[64];
  uint32_t x = 1;
  for (unsigned i = 0; i < sizeof way; i++)
    way[i] = (uint8_t)((x = x * 1664525u + 1013904223u) >> 24);
  unsigned pairs = 0, alike = 0, longer = 0;
  for (size_t len = DC_STOP_LEN; len <= sizeof way; len++) {
    uint16_t sum = dc_way_sum(way, len);
    assert(sum < 1 << 13 && dc_way_sum(way, len) == sum);
    longer += len < sizeof way && dc_way_sum(way, len + 1) == sum;
    for (size_t at = 0; at < len; at++) {
      unsigned same = 0;
      for (unsigned bit = 0; bit < 8; bit++, pairs++) {
        way[at] ^= (uint8_t)(1u << bit);
        same += dc_way_sum(way, len) == sum;
        way[at] ^= (uint8_t)(1u << bit);
      }
      assert(same < 3);
      alike += same;
    }
  }
  assert(alike < pairs / 1000 && longer < 3);
  memset(way, 0, sizeof way); /* nothing but its length tells these apart */
  for (size_t len = DC_STOP_LEN; len < sizeof way; len++)
    assert(dc_way_sum(way, len) != dc_way_sum(way, len + 1));
}

/* A route that is wrong has no stops, though the way before the wrong one may be good. */
static void a_wrong_route_has_no_stops(void)
{
  uint8_t p[DC_ROUTE_MAX + 8];
  const struct dc_segment one = {.n = 1, .port = {1}}, ends = {.n = 1, .local = true, .port = {1}},
                          self = {.local = true};
  const struct dc_segment none = {.n = 0};
  const struct dc_stop good[4] = {{.fwd = ends}, {.ret = one, .fwd = ends}, {.ret = ends, .fwd = one}, {.ret = ends}};
  for (unsigned n = 1; n <= 4; n++) { /* the last of them is none, but the fourth */
    size_t len = write_route(p, sizeof p, good, n);
    assert(dc_route_check(p, len) == (n == 4 ? 4 : 0));
    for (size_t cut = len - 3; cut < len; cut++)
      assert(dc_route_check(p, cut) == 0);
  }
  assert(dc_route_check(p, 0) == 0);
  const struct {
    unsigned at;
    bool ret;
    const struct dc_segment *seg;
  } wrong[] = {{0, false, &one},  {1, false, &self}, {1, false, &one}, {2, true, &one},   {2, false, &ends},
               {2, false, &self}, {3, true, &one},   {3, false, &one}, {3, false, &self}, {3, false, &ends}};
  for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    struct dc_stop s[4];
    memcpy(s, good, sizeof s);
    *(wrong[i].ret ? &s[wrong[i].at].ret : &s[wrong[i].at].fwd) = *wrong[i].seg;
    assert(dc_route_check(p, write_route(p, sizeof p, s, 4)) == 0);
  }
  const struct dc_stop source[] = {{.ret = one}, {.ret = none}};
  for (unsigned i = 0; i < 2; i++)
    assert(dc_route_check(p, write_route(p, sizeof p, &source[i], 1)) == 1);
  memset(p, 0, sizeof p); /* nothing but stops without a port */
  assert(dc_route_check(p, DC_ROUTE_MAX + 4) == 0);
}

int main(void)
{
  a_stop_is_read_when_all_of_it_is_there_and_within_its_bounds();
  a_stop_is_written_as_it_is_read();
  segments_are_equal_when_all_of_them_is();
  ways_that_differ_have_sums_that_differ();
  a_wrong_route_has_no_stops();
  puts("route ok");
  return 0;
}
