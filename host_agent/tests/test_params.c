/* Options and members of messages: what is taken and what is refused. */
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
