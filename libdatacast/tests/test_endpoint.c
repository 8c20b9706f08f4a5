/* Interests and data as an endpoint writes and reads them. */
#include <errno.h>

#include "frames.h"

/* Ethernet and the labels of a way, or nothing where it stays on this host. */
static void what_is_written_has_the_front_of_its_way_and_fits_exactly(void)
{
  const struct dc_segment way[] = {HERE(false),      HERE(true),      SEG(false, 1),        SEG(true, 1),
                                   SEG(false, 1, 2), SEG(true, 1, 2), SEG(true, 1, 2, 3, 4)};
  static const size_t front[] = {0, 0, 14, 18, 18, 22, 30};
  for (unsigned i = 0; i < sizeof way / sizeof way[0]; i++) {
    uint8_t p[200];
    struct dc_header h = {.tree = 1, .seq = 2, .length = 7, .type = DC_TYPE_HELLO}, got;
    assert(dc_data_write(p, front[i] + DC_HEADER_LEN - 1, &way[i], &h, ANY, NOBODY) == 0);
    assert(dc_data_write(p, front[i] + DC_HEADER_LEN, &way[i], &h, ANY, NOBODY) == front[i] + DC_HEADER_LEN);
    assert(dc_header_parse(p + front[i], DC_HEADER_LEN + 7, &got) == DC_DROP_NONE);
    assert(got.type == DC_TYPE_DATA && got.tree == 1 && got.seq == 2 && got.length == 7);

    struct dc_path path = {.first = way[i], .stops = 1, .rest_len = 8, .rest = {1, 2, 3, 4, 5, 6, 7, 8}};
    h.more = 5;
    assert(dc_interest_write(p, front[i] + DC_HEADER_LEN + 7, &path, &h, ANY, NOBODY) == 0);
    assert(dc_interest_write(p, front[i] + DC_HEADER_LEN + 8, &path, &h, ANY, NOBODY) == front[i] + DC_HEADER_LEN + 8);
    assert(dc_header_parse(p + front[i], DC_HEADER_LEN + 8, &got) == DC_DROP_NONE);
    assert(got.type == DC_TYPE_INTEREST && got.more == 5 && got.length == 8 && got.stops == 1);
    assert(memcmp(p + front[i] + DC_HEADER_LEN, path.rest, 8) == 0);
    if (front[i] > 0)
      assert(memcmp(p, ANY, 6) == 0 && memcmp(p + 6, NOBODY, 6) == 0);
  }
}

static void a_path_on_this_host_goes_both_ways_there(void)
{
  uint8_t p[200];
  struct dc_path path;
  const struct dc_stop here[] = {{.fwd = HERE(false)}, {.ret = HERE(false)}};
  assert(dc_path_parse(&path, p, write_route(p, sizeof p, here, 2)) == 0 && path.first.n == 0 && path.stops == 1);
  const struct dc_stop one_way[2][2] = {{{.fwd = HERE(false)}, {.ret = SEG(false, 1)}},
                                        {{.fwd = SEG(false, 1)}, {.ret = HERE(false)}}};
  for (unsigned i = 0; i < 2; i++)
    assert(dc_path_parse(&path, p, write_route(p, sizeof p, one_way[i], 2)) == -EINVAL);
  const struct dc_stop one_port[] = {{.fwd = SEG(false, 1)}, {.ret = SEG(false, 2)}};
  size_t len = write_route(p, sizeof p, one_port, 2);
  assert(dc_path_parse(&path, p, len) == 0 && path.first.n == 1 && path.rest_len == 6 && path.rest[1] == 1);
  assert(dc_path_parse(&path, p, 0) == -EINVAL);
}

/* A route whose one stop leads on, though only by a port or only to a waypoint, does not end here. */
static void a_source_is_where_a_route_ends(void)
{
  const struct dc_stop stop[] = {{.ret = SEG(true, 3, 4)},
                                 {.ret = SEG(true, 3, 4), .fwd = SEG(false, 1)},
                                 {.ret = SEG(true, 3, 4), .fwd = HERE(true)},
                                 {.ret = SEG(true, 3, 4), .fwd = SEG(true, 1)}};
  uint8_t p[200];
  struct dc_segment ret;
  struct dc_header h = {.type = DC_TYPE_INTEREST, .stops = 1}, got;
  for (unsigned i = 0; i < 4; i++) {
    h.length = (uint16_t)dc_stop_write(p + DC_HEADER_LEN, sizeof p - DC_HEADER_LEN, &stop[i]);
    dc_header_write(p, &h);
    assert(dc_interest_at_source(p, DC_HEADER_LEN + h.length, &got, &ret) == (i == 0 ? DC_DROP_NONE : DC_DROP_ROUTE));
    if (i == 0)
      assert(dc_segment_equal(&ret, &stop[0].ret));
  }
  h.length = 0; /* right after one that was good */
  dc_header_write(p, &h);
  assert(dc_interest_at_source(p, DC_HEADER_LEN, &got, &ret) == DC_DROP_ROUTE);
}

int main(void)
{
  what_is_written_has_the_front_of_its_way_and_fits_exactly();
  a_path_on_this_host_goes_both_ways_there();
  a_source_is_where_a_route_ends();
  puts("endpoint ok");
  return 0;
}
