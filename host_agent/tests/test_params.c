/* Options and members of messages: what is taken and what is refused. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "datapath/tests/check.h"
#include "options.h"
#include "params.h"

static json_t *parse(const char *text)
{
  json_t *o = json_loads(text, 0, NULL);
  CHECK(o != NULL);
  return o;
}

static int trees(const char *text, struct tree_params *to)
{
  struct tree_params all[GROUP_TREES_MAX];
  struct fault why = {"", ""};
  json_t *o = parse(text);
  int n = params_trees(o, all, &why);
  CHECK((n < 0) == (why.code[0] != '\0'));
  if (n > 0 && to != NULL)
    *to = all[0];
  json_decref(o);
  return n;
}

static void a_receivers_timers(void)
{
  struct dc_receiver_cfg usual, cfg;
  dc_receiver_cfg_default(&usual);
  struct tree_params p = {.rate = {.rate_max = 1000000000, .credits = 48}, .batch = 4, .rto_min = 50 * DC_MS};
  params_receiver(&p, 8900, 0, 0, &cfg);
  CHECK(cfg.credits == 48 && cfg.batch == 4 && cfg.rto_min == 50 * DC_MS);
  CHECK(cfg.rto_init == usual.rto_init && cfg.rto_max == usual.rto_max);

  p.rto_min = 150 * DC_MS;
  params_receiver(&p, 8900, 0, 0, &cfg);
  CHECK(cfg.rto_init == 150 * DC_MS && cfg.rto_max == 600 * DC_MS);

  p.rate.rate_max = 1000000; /* 48 packets of 10,000 bytes take 3.84 s */
  params_receiver(&p, 10000, 0, 0, &cfg);
  CHECK(cfg.rto_min == 3840 * DC_MS && cfg.rto_init == cfg.rto_min && cfg.rto_max == 4 * cfg.rto_min);
  params_receiver(&p, 10000, 25, 0, &cfg); /* and what stands before it 2 s */
  CHECK(cfg.rto_min == 3840 * DC_MS && cfg.rto_init == 5840 * DC_MS && cfg.rto_max == 4 * cfg.rto_init);
  params_receiver(&p, 10000, 0, 3 * DC_SEC, &cfg);
  CHECK(cfg.rto_init == 6 * DC_SEC && cfg.rto_max == 24 * DC_SEC);

  p.rate.rate_max = 1; /* a rate that nobody has stops nothing for more than 10 s */
  params_receiver(&p, 10000, 0, 0, &cfg);
  CHECK(cfg.rto_min == 10 * DC_SEC);
}

static void tree_objects(void)
{
  struct tree_params t;
  CHECK(trees("{\"trees\":[]}", NULL) == 0);
  CHECK(trees("{\"trees\":[{\"id\":4294967295,\"rate_max_bps\":100000000,\"rate_init_bps\":200000000,\"delta_bps\":5,"
              "\"interval_us\":2000,\"burst\":14,\"credits\":48,\"batch\":4,\"rto_min_ms\":50,\"cache_bytes\":131072,"
              "\"patience_ms\":300}]}",
              &t) == 1);
  CHECK(t.id == 4294967295u && t.cc == &dc_cc_steady && t.rate.rate_max == 100000000 && t.rate.rate_init == 100000000);
  CHECK(t.rate.delta == 5 && t.rate.interval == 2 * DC_MS && t.burst == 14 && t.rate.credits == 48 && t.batch == 4);
  CHECK(t.rto_min == 50 * DC_MS && t.cache_bytes == 131072 && t.patience == 300 * DC_MS && t.rate.rate_min > 0 &&
        t.rate.rate_min < t.rate.rate_max);
  CHECK(trees("{\"trees\":[{\"id\":1,\"rate_max_bps\":1000000}]}", &t) == 1 && t.rate.credits > 0 && t.batch == 1 &&
        t.burst > 0);
  /* A packet of 9,000 bytes takes a second at most, at however little a rule arrives. */
  CHECK(trees("{\"trees\":[{\"id\":1,\"rate_max_bps\":10000000,\"packet_bytes\":9000}]}", &t) == 1);
  CHECK(t.rate.rate_min == 9000 * 8);
  CHECK(trees("{\"trees\":[{\"id\":1,\"rate_max_bps\":37000,\"packet_bytes\":9000}]}", &t) == 1);
  CHECK(t.rate.rate_min == 37000);
  CHECK(trees("{\"trees\":[{\"id\":1,\"rate_max_bps\":256000000,\"packet_bytes\":1000}]}", &t) == 1);
  CHECK(t.rate.rate_min == 1000000);
  static const char *const bad[] = {
      "{}",
      "{\"trees\":{}}",
      "{\"trees\":[1]}",
      "{\"trees\":[{}]}",
      "{\"trees\":[{\"id\":1}]}",
      "{\"trees\":[{\"id\":-1,\"rate_max_bps\":1000000}]}",
      "{\"trees\":[{\"id\":1.5,\"rate_max_bps\":1000000}]}",
      "{\"trees\":[{\"id\":1,\"rate_max_bps\":1}]}",
      "{\"trees\":[{\"id\":1,\"rate_max_bps\":1000000,\"credits\":0}]}",
      "{\"trees\":[{\"id\":1,\"rate_max_bps\":1000000,\"credits\":5000}]}",
      "{\"trees\":[{\"id\":1,\"rate_max_bps\":1000000,\"batch\":0}]}",
      "{\"trees\":[{\"id\":1,\"rate_max_bps\":1000000,\"batch\":9}]}",
      "{\"trees\":[{\"id\":1,\"rate_max_bps\":1000000,\"cc\":7}]}",
      "{\"trees\":[{\"id\":1,\"rate_max_bps\":1000000,\"interval_us\":0}]}",
      "{\"trees\":[{\"id\":1,\"rate_max_bps\":1000000,\"patience_ms\":10001}]}",
      "{\"trees\":[{\"id\":1,\"rate_max_bps\":1000000},{\"id\":1,\"rate_max_bps\":1000000}]}"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    CHECK(trees(bad[i], NULL) == -1);
}

/* Of a tree at 1 Mbit/s: what a member was, or 0 where it is refused; `text` NULL: it is absent. */
static bool member(const char *key, const char *text, struct tree_params *t)
{
  char all[256];
  snprintf(all, sizeof all, "{\"trees\":[{\"id\":1,\"rate_max_bps\":1000000%s%s%s%s}]}", text == NULL ? "" : ",\"",
           text == NULL ? "" : key, text == NULL ? "" : "\":", text == NULL ? "" : text);
  return trees(all, t) == 1;
}

static void both_ends_of_each_member_are_taken_and_none_beyond(void)
{
  static struct tree_params t;
  static const struct {
    const char *key;
    uint64_t min, max, usual, unit; /* of what it is kept in */
    const void *at;
    size_t size;
  } all[] = {
#define AT(m) &t.m, sizeof t.m
      {"delta_bps", 0, UINT64_C(1) << 42, 50000, 1, AT(rate.delta)},
      {"interval_us", 10, 60000000, 1000, DC_US, AT(rate.interval)},
      {"burst", 1, 4096, 2, 1, AT(burst)},
      {"credits", 1, DC_PLAN_CREDITS_MAX, 16, 1, AT(rate.credits)},
      {"batch", 1, DC_BATCH_MAX, 1, 1, AT(batch)},
      {"rto_min_ms", 1, 60000, 10, DC_MS, AT(rto_min)},
      {"cache_bytes", 0, UINT64_C(1) << 32, 0, 1, AT(cache_bytes)},
      {"packet_bytes", 0, DC_PAYLOAD_MAX + DC_PREFIX_MAX, 0, 1, AT(rate.packet_bytes)},
      {"patience_ms", 0, 10000, 0, DC_MS, AT(patience)},
#undef AT
  };
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    const uint64_t taken[] = {all[i].min, all[i].max, all[i].usual};
    for (size_t k = 0; k < 3; k++) {
      char text[32];
      snprintf(text, sizeof text, "%" PRIu64, taken[k]);
      CHECK(member(all[i].key, k == 2 ? NULL : text, &t));
      uint64_t is = all[i].size == 4 ? *(const uint32_t *)all[i].at : *(const uint64_t *)all[i].at;
      CHECK(is == taken[k] * all[i].unit);
      if (k == 2)
        break;
      snprintf(text, sizeof text, "%" PRId64, (int64_t)taken[k] + (k == 0 ? -1 : 1));
      CHECK(!member(all[i].key, text, &t));
    }
  }
  static const char *const rates[] = {"1000", "4398046511104"}, *const wrong[] = {"999", "4398046511105"};
  for (size_t k = 0; k < 2; k++)
    CHECK(member("rate_init_bps", rates[k], &t) && !member("rate_init_bps", wrong[k], &t));
  CHECK(t.rate.rate_init == 1000000); /* no more than the most */
  CHECK(member("rate_init_bps", NULL, &t) && t.rate.rate_init == 1000000);
  char many[GROUP_TREES_MAX * 40 + 64];
  for (int n = GROUP_TREES_MAX; n <= GROUP_TREES_MAX + 1; n++) {
    size_t at = (size_t)snprintf(many, sizeof many, "{\"trees\":[");
    for (int i = 0; i < n; i++)
      at += (size_t)snprintf(many + at, sizeof many - at, "%s{\"id\":%d,\"rate_max_bps\":1000}", i > 0 ? "," : "", i);
    snprintf(many + at, sizeof many - at, "]}");
    CHECK(trees(many, NULL) == (n == GROUP_TREES_MAX ? n : -1));
  }
}

static bool layout(const char *text, struct dc_layout *l)
{
  struct fault why;
  json_t *o = parse(text);
  bool ok = params_layout(o, 9000, l, &why);
  json_decref(o);
  return ok;
}

static void layouts(void)
{
  struct dc_layout l;
  CHECK(layout("{\"size\":0,\"piece\":1,\"per_block\":1}", &l) && dc_layout_pieces(&l) == 0);
  CHECK(layout("{\"size\":4294967296,\"piece\":9000,\"per_block\":116}", &l) && dc_layout_blocks(&l) == 4114);
  CHECK(layout("{\"size\":9007199254740991,\"piece\":9000,\"per_block\":4294967295}", &l) ==
        false); /* too many pieces */
  CHECK(layout("{\"size\":134217728,\"piece\":1,\"per_block\":512}", &l) && dc_layout_blocks(&l) == BLOCKS_MAX);
  CHECK(!layout("{\"size\":134217729,\"piece\":1,\"per_block\":513}", &l)); /* one piece more */
  CHECK(layout("{\"size\":262144,\"piece\":1,\"per_block\":1}", &l));
  CHECK(!layout("{\"size\":262145,\"piece\":1,\"per_block\":1}", &l)); /* one block more */
  CHECK(layout("{\"size\":9000,\"piece\":9000,\"per_block\":1}", &l) && l.piece == 9000 && l.per_block == 1);
  CHECK(!layout("{\"size\":1,\"piece\":9001,\"per_block\":1}", &l)); /* more than a packet here */
  CHECK(!layout("{\"size\":1,\"piece\":0,\"per_block\":1}", &l));
  CHECK(!layout("{\"size\":1,\"piece\":1,\"per_block\":0}", &l));
  CHECK(!layout("{\"size\":1000000000000,\"piece\":1000,\"per_block\":1000000}", &l)); /* pieces */
  CHECK(!layout("{\"size\":1000000000,\"piece\":1000,\"per_block\":1}", &l));          /* blocks */
  CHECK(!layout("{\"piece\":1,\"per_block\":1}", &l));
  CHECK(!layout("{\"size\":\"1\",\"piece\":1,\"per_block\":1}", &l));
}

static void hex(void)
{
  uint8_t b[3] = {0, 0xab, 0xff}, back[3];
  char text[7];
  hex_write(text, b, 3);
  CHECK(strcmp(text, "00abff") == 0);
  CHECK(hex_read(back, 3, text, 6) && memcmp(b, back, 3) == 0);
  CHECK(!hex_read(back, 3, "00abf", 5) && !hex_read(back, 3, "00abfg", 6) && !hex_read(back, 3, "00ABFF", 6));
  for (size_t i = 0; i < 6; i++) /* whichever digit is none */
    for (const char *wrong = "/:`gG \xff"; *wrong != '\0'; wrong++) {
      char spoilt[7];
      memcpy(spoilt, text, sizeof spoilt);
      spoilt[i] = *wrong;
      CHECK(!hex_read(back, 3, spoilt, 6));
    }
  CHECK(hex_read(back, 3, "019af0", 6) && back[0] == 1 && back[1] == 0x9a && back[2] == 0xf0);
  CHECK(!hex_read(back, 2, text, 6) && hex_read(back, 0, "", 0));
}

static void names(void)
{
  CHECK(name_ok("00") && name_ok("s0.1") && name_ok("g-3f_2a"));
  CHECK(!name_ok(NULL) && !name_ok("") && !name_ok(".") && !name_ok("..") && !name_ok("a/b") && !name_ok("a b"));
  char text[66];
  memset(text, 'a', 65);
  text[65] = '\0';
  CHECK(!name_ok(text));
  text[64] = '\0';
  CHECK(name_ok(text));
}

static void sizes(void)
{
  uint32_t n;
  CHECK(options_bytes("4096", &n) && n == 4096);
  CHECK(options_bytes("128K", &n) && n == 128 << 10);
  CHECK(options_bytes("16M", &n) && n == 16 << 20);
  CHECK(options_bytes("3G", &n) && n == 3u << 30);
  CHECK(!options_bytes("4G", &n) && !options_bytes("", &n) && !options_bytes("-1", &n) && !options_bytes("1KB", &n));
  CHECK(!options_bytes("99999999999999999999", &n) && !options_bytes("K", &n));
}

static bool port(const char *text, uint16_t *n, struct port_option *p)
{
  static char copy[64];
  snprintf(copy, sizeof copy, "%s", text);
  return options_port(copy, n, p);
}

static void ports(void)
{
  uint16_t n;
  struct port_option p;
  CHECK(port("3=00-eth3", &n, &p) && n == 3 && strcmp(p.ifname, "00-eth3") == 0 && p.neighbour[5] == 0xff);
  CHECK(port("0=e,02:00:00:00:00:0a", &n, &p) && strcmp(p.ifname, "e") == 0 && p.neighbour[0] == 2 &&
        p.neighbour[5] == 10);
  CHECK(!port("eth0", &n, &p) && !port("256=e", &n, &p) && !port("0=", &n, &p) && !port("0=e,", &n, &p));
  CHECK(!port("0=e,02:00:00:00:00:0a:", &n, &p) && !port("0=e,02:00:00:00:00", &n, &p) && !port("-1=e", &n, &p));
}

static bool tunnel(const char *text, uint16_t *n, struct port_option *p)
{
  static char copy[128];
  snprintf(copy, sizeof copy, "%s", text);
  return options_tunnel(copy, n, p);
}

static void tunnels(void)
{
  uint16_t n;
  struct port_option p;
  CHECK(tunnel("3=10.0.0.1,10.0.0.2", &n, &p) && n == 3 && p.kind == PORT_TUNNEL && p.tunnel.mtu == 0);
  CHECK(tunnel("0=2001:db8::1,2001:db8::2,1500", &n, &p) && p.tunnel.mtu == 1500);
  CHECK(!tunnel("0=10.0.0.1", &n, &p) && !tunnel("10.0.0.1,10.0.0.2", &n, &p) && !tunnel("", &n, &p));
  CHECK(!tunnel("0=10.0.0.1,2001:db8::2", &n, &p) && !tunnel("0=10.0.0.1,10.0.0.1", &n, &p));
  CHECK(!tunnel("0=10.0.0.1,10.0.0.2,575", &n, &p) && !tunnel("0=10.0.0.1,10.0.0.2,65536", &n, &p));
  CHECK(!tunnel("256=10.0.0.1,10.0.0.2", &n, &p) && !tunnel("0=10.0.0.1,10.0.0.2,1500,7", &n, &p));
}

int main(void)
{
  tree_objects();
  both_ends_of_each_member_are_taken_and_none_beyond();
  a_receivers_timers();
  layouts();
  hex();
  names();
  sizes();
  ports();
  tunnels();
  puts("parameters: ok");
  return 0;
}
