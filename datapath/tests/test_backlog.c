/* Which frame that waits is next: hellos and interests before data, each kind in order and with a bound. */
#include "datapath/backlog.h"

#include "datacast/endpoint.h"
#include "datacast/wire.h"
#include "datapath/tests/check.h"

static const uint8_t nobody[6];

/* The next frame's place; it is gone then. */
static uint32_t take(struct backlog *b)
{
  uint32_t place = BACKLOG_PLACES;
  CHECK(backlog_run(b, 0, &place) > 0);
  backlog_sent(b, 1);
  return place;
}

static void test_first_before_data_and_each_in_order(void)
{
  struct backlog b = {0};
  bool taken;
  uint32_t place;
  int d1 = backlog_put(&b, false), i1 = backlog_put(&b, true), d2 = backlog_put(&b, false), i2 = backlog_put(&b, true);
  int ahead = (int)backlog_put_ahead(&b, &taken);
  CHECK(!taken && backlog_n(&b) == 5);
  CHECK(backlog_run(&b, 3, &place) == 2 && (int)place == d1);
  CHECK((int)take(&b) == ahead && (int)take(&b) == i1 && (int)take(&b) == i2);
  CHECK((int)take(&b) == d1 && (int)take(&b) == d2 && backlog_empty(&b));
}

static void test_every_place_is_one_frames_and_each_kind_has_a_bound(void)
{
  static bool used[BACKLOG_PLACES];
  struct backlog b = {0};
  for (unsigned round = 0; round < 3; round++) {
    for (unsigned kind = 0; kind < 2; kind++)
      for (int place; (place = backlog_put(&b, kind == 0)) >= 0;) {
        CHECK(place < BACKLOG_PLACES && !used[place]);
        used[place] = true;
      }
    CHECK(b.first.n == BACKLOG_FIRST && b.data.n == BACKLOG_DATA);
    for (unsigned n = round; n < BACKLOG_PLACES; n++) { /* the rings are turned a little further each time */
      uint32_t place = take(&b);
      CHECK(used[place]);
      used[place] = false;
    }
  }
  backlog_cut(&b, 0);
  b.most = 3;
  CHECK(backlog_put(&b, false) >= 0 && backlog_put(&b, false) >= 0 && backlog_put(&b, false) >= 0);
  CHECK(backlog_put(&b, false) < 0 && backlog_put(&b, true) >= 0);
}

static void test_one_ahead_takes_the_place_of_the_newest_where_there_is_none(void)
{
  struct backlog b = {0};
  bool taken;
  uint32_t newest = 0, place;
  for (unsigned i = 0; i < BACKLOG_FIRST; i++)
    newest = (uint32_t)backlog_put(&b, true);
  CHECK(backlog_put_ahead(&b, &taken) == newest && taken && b.first.n == BACKLOG_FIRST);
  CHECK(take(&b) == newest && backlog_run(&b, 0, &place) == BACKLOG_FIRST - 1 && place == 0);
}

static void test_what_is_cut_off_is_the_last(void)
{
  struct backlog b = {0};
  for (unsigned i = 0; i < 4; i++)
    CHECK(backlog_put(&b, i % 2 == 0) >= 0);
  backlog_cut(&b, 3);
  CHECK(b.first.n == 2 && b.data.n == 1);
  backlog_cut(&b, 1);
  CHECK(b.first.n == 1 && b.data.n == 0);
}

/* Others that pass it are no sign that its way is only full. */
static void test_data_that_is_refused_often_is_given_up_though_interests_pass(void)
{
  struct backlog b = {0};
  unsigned tries = 1;
  CHECK(backlog_put(&b, false) >= 0);
  for (; !backlog_refused(&b); tries++) {
    CHECK(tries < 1000 && backlog_put(&b, true) >= 0);
    backlog_sent(&b, 1);
  }
  CHECK(tries > 300);
  CHECK(backlog_put(&b, false) >= 0 && !backlog_refused(&b));
  for (unsigned i = 0; i < 1000; i++) { /* one that is only slow */
    CHECK(!backlog_refused(&b) && backlog_put(&b, false) >= 0);
    backlog_sent(&b, 1);
  }
}

/* ---- which frames go first ---- */

/* The same, however the frame is cut between labels. */
static bool told(const uint8_t *p, uint32_t len, uint32_t labels)
{
  bool is = goes_first(p, len, NULL, 0);
  for (uint32_t i = 0; i <= labels; i++) {
    uint32_t cut = DC_ETHER_LEN + i * DC_LABEL_LEN;
    CHECK(cut >= len || goes_first(p, cut, p + cut, len - cut) == is);
  }
  return is;
}

static void test_what_goes_first(void)
{
  uint8_t p[512] = {0}, blob[DC_ROUTE_MAX];
  struct dc_segment way = {.n = 3, .port = {0, 1, 2}, .local = true};
  struct dc_header data = {.type = DC_TYPE_DATA, .length = 4, .tree = 1}, ask = {.type = DC_TYPE_INTEREST, .tree = 1};
  struct dc_stop receiver = {.fwd = {.n = 2, .local = true}}, source = {.ret = {.n = 1, .local = true}};
  struct dc_stop between = {.store = true, .ret = {.n = 1}, .fwd = {.n = 1}};
  struct dc_path path;
  CHECK(!told(p, (uint32_t)dc_data_write(p, sizeof p, &way, &data, nobody, nobody) + 4, 3));

  size_t len = dc_stop_write(blob, sizeof blob, &receiver);
  len += dc_stop_write(blob + len, sizeof blob - len, &between);
  len += dc_stop_write(blob + len, sizeof blob - len, &source);
  CHECK(dc_path_parse(&path, blob, len) >= 0);
  uint32_t n = (uint32_t)dc_interest_write(p, sizeof p, &path, &ask, nobody, nobody);
  CHECK(n > 0 && told(p, n, 2));
  uint32_t header = DC_ETHER_LEN;
  for (bool bottom = false; !bottom; header += DC_LABEL_LEN)
    (void)dc_label_read(p + header, &bottom);
  for (uint32_t k = 0; k <= header; k++) /* one that ends too early */
    CHECK(!goes_first(p, k, NULL, 0) && !goes_first(p, k, p, 0));

  dc_ether_write(p, nobody, nobody, DC_ETHERTYPE_HELLO);
  CHECK(told(p, 60, 0));
  dc_ether_write(p, nobody, nobody, DC_ETHERTYPE_DATACAST);
  p[DC_ETHER_LEN] = DC_VERSION << 4 | DC_TYPE_INTEREST;
  CHECK(told(p, 60, 0));
  p[DC_ETHER_LEN] = DC_VERSION << 4 | DC_TYPE_DATA;
  CHECK(!told(p, 60, 0));
  dc_ether_write(p, nobody, nobody, 0x0800);
  CHECK(!told(p, 60, 0));
}

int main(void)
{
  test_first_before_data_and_each_in_order();
  test_every_place_is_one_frames_and_each_kind_has_a_bound();
  test_one_ahead_takes_the_place_of_the_newest_where_there_is_none();
  test_what_is_cut_off_is_the_last();
  test_data_that_is_refused_often_is_given_up_though_interests_pass();
  test_what_goes_first();
  return 0;
}
