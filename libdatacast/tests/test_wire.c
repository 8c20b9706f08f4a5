/* Header, labels, routes and endpoint frames; the golden frames of tests/golden/frames.txt both ways. */
#include <errno.h>

#include "frames.h"

/* ---- golden frames ---- */

enum { LINE = 8192 };

struct golden {
  char name[64], reason[32], type[16];
  unsigned labels, flags, tree, seq, lag, cache, more, stops, port;
  uint32_t label[64];
  struct dc_stop stop[DC_STOPS_MAX];
  size_t len, out_len, rest_len;
  uint8_t hex[2048], out[2048], rest[2048];
};

static size_t from_hex(const char *s, uint8_t *p, size_t cap)
{
  size_t n = 0;
  for (; s[0] != '\0' && s[0] != '-' && s[0] != '\n'; s += 2) {
    unsigned byte;
    assert(n < cap && sscanf(s, "%2x", &byte) == 1);
    p[n++] = (uint8_t)byte;
  }
  return n;
}

static void from_ports(const char *s, struct dc_segment *seg)
{
  seg->n = 0;
  for (const char *p = s; *p != '-' && *p != '\0'; p += *p == ',') {
    char *end;
    seg->port[seg->n++] = (uint16_t)strtoul(p, &end, 10);
    p = end;
  }
}

static void read_stop(const char *value, struct dc_stop *s)
{
  char flags[8], ret[512], fwd[512];
  assert(sscanf(value, "%7s %511s %511s", flags, ret, fwd) == 3);
  memset(s, 0, sizeof *s);
  from_ports(ret, &s->ret);
  from_ports(fwd, &s->fwd);
  s->store = strchr(flags, 's') != NULL;
  s->fwd.local = strchr(flags, 'f') != NULL;
  s->ret.local = strchr(flags, 'r') != NULL;
}

/* Reads the next entry; its kind, or '\0' at the end. */
static char next_golden(FILE *f, struct golden *g)
{
  static char line[LINE];
  char kind = '\0';
  memset(g, 0, sizeof *g);
  while (fgets(line, LINE, f) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    char *value = strchr(line, ' ');
    if (line[0] == '#' || line[0] == '\0')
      continue;
    if (value == NULL) {
      assert(strcmp(line, "end") == 0);
      return kind;
    }
    *value++ = '\0';
    if (strcmp(line, "frame") == 0 || strcmp(line, "pop") == 0 || strcmp(line, "refuse") == 0) {
      kind = line[0];
      snprintf(g->name, sizeof g->name, "%s", value);
    } else if (strcmp(line, "labels") == 0) {
      for (char *p = value; *p != '\0' && *p != '-';)
        g->label[g->labels++] = (uint32_t)strtoul(p, &p, 10);
    } else if (strcmp(line, "stop") == 0)
      read_stop(value, &g->stop[g->stops++]);
    else if (strcmp(line, "type") == 0)
      snprintf(g->type, sizeof g->type, "%s", value);
    else if (strcmp(line, "reason") == 0)
      snprintf(g->reason, sizeof g->reason, "%s", value);
    else if (strcmp(line, "hex") == 0)
      g->len = from_hex(value, g->hex, sizeof g->hex);
    else if (strcmp(line, "out") == 0)
      g->out_len = from_hex(value, g->out, sizeof g->out);
    else if (strcmp(line, "rest") == 0)
      g->rest_len = from_hex(value, g->rest, sizeof g->rest);
    else {
      unsigned *number = strcmp(line, "flags") == 0   ? &g->flags
                         : strcmp(line, "tree") == 0  ? &g->tree
                         : strcmp(line, "seq") == 0   ? &g->seq
                         : strcmp(line, "lag") == 0   ? &g->lag
                         : strcmp(line, "cache") == 0 ? &g->cache
                         : strcmp(line, "more") == 0  ? &g->more
                         : strcmp(line, "port") == 0  ? &g->port
                                                      : NULL;
      assert(number != NULL);
      *number = (unsigned)strtoul(value, NULL, 0);
    }
  }
  return '\0';
}

static void check_frame(const struct golden *g)
{
  /* decode */
  size_t at = DC_ETHER_LEN;
  bool bottom = g->labels == 0;
  assert(g->hex[12] == 0x88 && g->hex[13] == (!bottom ? 0x47 : strcmp(g->type, "hello") == 0 ? 0xb6 : 0xb5));
  for (unsigned i = 0; !bottom; i++, at += DC_LABEL_LEN)
    assert(dc_label_read(g->hex + at, &bottom) == g->label[i] && bottom == (i + 1 == g->labels));

  struct dc_header h;
  assert(dc_header_parse(g->hex + at, g->len - at, &h) == DC_DROP_NONE);
  unsigned type = strcmp(g->type, "interest") == 0 ? DC_TYPE_INTEREST
                  : strcmp(g->type, "data") == 0   ? DC_TYPE_DATA
                                                   : DC_TYPE_HELLO;
  assert(h.type == type && h.flags == g->flags && h.tree == g->tree && h.seq == g->seq);
  assert(h.lag == g->lag && h.cache == g->cache && h.more == g->more && h.stops == g->stops);
  size_t rest = at + DC_HEADER_LEN;
  if (type == DC_TYPE_INTEREST) {
    assert(dc_route_check(g->hex + rest, h.length) == g->stops);
    for (unsigned i = 0; i < g->stops; i++) {
      struct dc_stop s;
      size_t n = dc_stop_parse(g->hex + rest, g->len - rest, &s);
      assert(n > 0 && s.store == g->stop[i].store);
      assert(dc_segment_equal(&s.ret, &g->stop[i].ret) && dc_segment_equal(&s.fwd, &g->stop[i].fwd));
      rest += n;
    }
  } else {
    assert(h.length == g->rest_len && memcmp(g->hex + rest, g->rest, g->rest_len) == 0);
    rest += g->rest_len;
  }
  for (size_t i = rest; i < g->len; i++)
    assert(g->hex[i] == 0); /* padding */

  /* encode */
  uint8_t p[2048];
  dc_ether_write(p, g->hex, g->hex + 6,
                 g->labels > 0                   ? DC_ETHERTYPE_MPLS
                 : strcmp(g->type, "hello") == 0 ? DC_ETHERTYPE_HELLO
                                                 : DC_ETHERTYPE_DATACAST);
  for (unsigned i = 0; i < g->labels; i++)
    dc_label_write(p + stack_len(i), g->label[i], i + 1 == g->labels);
  size_t n = at + DC_HEADER_LEN;
  for (unsigned i = 0; i < g->stops; i++)
    n += dc_stop_write(p + n, sizeof p - n, &g->stop[i]);
  memcpy(p + n, g->rest, g->rest_len);
  n += g->rest_len;
  dc_header_write(p + at, &(struct dc_header){.type = (uint8_t)type,
                                              .flags = (uint8_t)g->flags,
                                              .length = (uint16_t)(n - at - DC_HEADER_LEN),
                                              .tree = g->tree,
                                              .seq = g->seq,
                                              .stops = (uint8_t)g->stops,
                                              .lag = (uint8_t)g->lag,
                                              .cache = (uint8_t)g->cache,
                                              .more = (uint8_t)g->more});
  assert(n == rest && memcmp(p, g->hex, n) == 0);
}

static void check_pop(const struct golden *g)
{
  struct dc_node_cfg cfg;
  dc_node_cfg_default(&cfg);
  cfg.ports = 8;
  cfg.trees = 1;
  struct bench b = bench_of(cfg);
  assert(give(&b, 3, g->hex, g->len) == 1 && b.tx[0].port == g->port);
  uint8_t p[2048];
  assert(flatten(&b.tx[0], p, sizeof p) == g->out_len && memcmp(p, g->out, g->out_len) == 0);
  bench_close(&b);
}

static void check_refuse(const struct golden *g)
{
  struct dc_node_cfg cfg;
  dc_node_cfg_default(&cfg);
  cfg.ports = 4;
  cfg.endpoint = true;
  cfg.trees = 1;
  struct bench b = bench_of(cfg);
  assert(give(&b, 0, g->hex, g->len) == 0);
  bool counted = false;
  for (unsigned why = 1; why < DC_DROP_MAX; why++)
    if (dropped(&b, (enum dc_drop)why) != 0) {
      assert(!counted && strcmp(dc_drop_name((enum dc_drop)why), g->reason) == 0);
      counted = true;
    }
  assert(counted);
  bench_close(&b);
}

static void golden_frames(const char *path)
{
  static struct golden g;
  FILE *f = fopen(path, "r");
  if (f == NULL) {
    fprintf(stderr, "%s: %s (run from the project's root, or name the file)\n", path, strerror(errno));
    exit(2);
  }
  unsigned frames = 0, pops = 0, refusals = 0;
  for (char kind; (kind = next_golden(f, &g)) != '\0';) {
    if (kind == 'f')
      check_frame(&g), frames++;
    else if (kind == 'p')
      check_pop(&g), pops++;
    else
      check_refuse(&g), refusals++;
  }
  fclose(f);
  assert(frames >= 12 && pops >= 4 && refusals >= 38);
}

/* ---- the rest ---- */

static void every_drop_has_a_name_of_its_own(void)
{
  for (unsigned i = 0; i < DC_DROP_MAX; i++)
    for (unsigned k = 0; k < i; k++)
      assert(strcmp(dc_drop_name((enum dc_drop)i), dc_drop_name((enum dc_drop)k)) != 0);
  for (unsigned i = 0; i < DC_DROP_MAX; i++)
    assert(strcmp(dc_drop_name((enum dc_drop)i), "unknown") != 0);
  assert(strcmp(dc_drop_name(DC_DROP_MAX), "unknown") == 0);
}

static void a_header_needs_what_its_length_says(void)
{
  uint8_t p[DC_HEADER_LEN + 10] = {0};
  struct dc_header h;
  write_payload(p, 1, 2, 0, 10);
  for (size_t len = 0; len < sizeof p; len++)
    assert(dc_header_parse(p, len, &h) == DC_DROP_TRUNCATED);
  assert(dc_header_parse(p, sizeof p, &h) == DC_DROP_NONE && h.length == 10);
  p[2] = 0xff;
  assert(dc_header_parse(p, sizeof p, &h) == DC_DROP_OVERSIZED);
}

/* Every value of every byte, one and two of them changed, whole, too short and longer than a packet may be: as dc_header_parse says. */
static void counted_as_data_is_what_is_parsed_as_data(void)
{
  static uint8_t p[DC_HEADER_LEN + UINT16_MAX];
  unsigned taken = 0;
  for (unsigned at = 0; at < DC_HEADER_LEN * DC_HEADER_LEN; at++)
    for (unsigned value = 0; value < 256; value++)
      for (size_t len = 0; len <= sizeof p; len += len < DC_HEADER_LEN + 2 ? 1 : sizeof p - DC_HEADER_LEN - 2) {
        struct dc_header h;
        uint32_t payload = 0;
        write_payload(p, 1, 2, 0, 2);
        p[at / DC_HEADER_LEN] ^= 1;
        p[at % DC_HEADER_LEN] = (uint8_t)value;
        bool data = dc_header_parse(p, len, &h) == DC_DROP_NONE && h.type == DC_TYPE_DATA;
        assert(dc_is_data(p, len, &payload) == data && (!data || payload == h.length));
        taken += data;
      }
  assert(taken > 10000);
}

static void cache_codes(void)
{
  static const uint64_t exact[] = {8 << 10, 32 << 10, 128 << 10, 512 << 10, 2048 << 10, 4352, UINT64_C(31) << 23};
  for (unsigned i = 0; i < sizeof exact / sizeof exact[0]; i++)
    assert(dc_cache_bytes(dc_cache_code(exact[i])) == exact[i]);
  assert(dc_cache_code(0) == 0 && dc_cache_bytes(0) == 0);
  assert(dc_cache_code(1) == 1 && dc_cache_code(UINT64_MAX) == 255);
  for (unsigned code = 1; code < 256; code++) {
    assert(dc_cache_bytes((uint8_t)code) > dc_cache_bytes((uint8_t)(code - 1)));
    assert(dc_cache_code(dc_cache_bytes((uint8_t)code)) == code);
    assert(code == 1 || dc_cache_code(dc_cache_bytes((uint8_t)code) - 1) == code - 1);
  }
  for (uint64_t c = 4352; c < UINT64_C(1) << 28; c += c / 7) {
    uint64_t got = dc_cache_bytes(dc_cache_code(c));
    assert(got <= c && (c - got) * 17 <= c);
  }
}

static void paths(void)
{
  assert(dc_path_flags(0) == 0 && dc_path_flags(16) == 0 && dc_path_packets(0) == 0 && dc_path_packets(0x0f) == 0);
  assert(dc_path_packets(0x10) == 32 && dc_path_packets(0xc0) == 1536 && dc_path_packets(0xf0) == DC_PATH_MAX);
  assert(dc_path_flags(17) == 0x10 && dc_path_flags(32) == 0x10 && dc_path_flags(33) == 0x20);
  assert(dc_path_flags(UINT32_MAX) == 0xf0);
  for (uint32_t code = 1; code < 16; code++) {
    uint32_t n = dc_path_packets((uint8_t)(code << 4 | DC_FLAG_DUP));
    assert(dc_path_flags(n) == code << 4 && (code == 15 || dc_path_flags(n + 1) == (code + 1) << 4));
    assert(code == 1 || n * 2 <= (code <= 12 ? 3 : 4) * dc_path_packets((uint8_t)((code - 1) << 4)));
  }
}

static void lag_codes(void)
{
  assert(dc_lag_code(UINT32_MAX) == 255 && dc_lag_packets(255) == 8032);
  for (uint32_t code = 0; code < 256; code++) {
    uint32_t n = dc_lag_packets((uint8_t)code);
    assert(dc_lag_code(n) == code && (code > 32 || n == code));
    assert(code == 0 || dc_lag_code(n - 1) == code - 1); /* rounded down */
    assert(code == 0 || (n - dc_lag_packets((uint8_t)(code - 1)) - 1) * 32 <= n);
  }
}

static void a_route_leads_from_stop_to_stop_and_ends_at_the_source(void)
{
  uint8_t p[DC_ROUTE_MAX];
  struct dc_path path;
  const struct dc_stop good[4] = {{.fwd = SEG(true, 1, 2)},
                                  {.store = true, .ret = SEG(false, 3, 4), .fwd = SEG(true, 5)},
                                  {.ret = SEG(true, 6), .fwd = SEG(false, 7, 8, 9)},
                                  {.ret = SEG(true, 10)}};
  size_t len = write_route(p, sizeof p, good, 4);
  assert(dc_route_check(p, len) == 4);
  assert(dc_path_parse(&path, p, len) == 0);
  assert(path.stops == 3 && dc_segment_equal(&path.first, &good[0].fwd) && path.rest_len == len - 8);
  for (size_t cut = 1; cut < len; cut++)
    assert(dc_path_parse(&path, p, len - cut) == -EINVAL);

#define WRONG(i, field, value)                                                                                         \
  do {                                                                                                                 \
    struct dc_stop s[4];                                                                                               \
    memcpy(s, good, sizeof s);                                                                                         \
    s[i].field = value;                                                                                                \
    assert(dc_path_parse(&path, p, write_route(p, sizeof p, s, 4)) < 0);                                               \
  } while (0)
  WRONG(0, ret, SEG(false, 1)); /* something below a receiver */
  WRONG(0, store, true);
  WRONG(0, fwd, SEG(false, 1, 2)); /* an endpoint where a waypoint stands */
  WRONG(0, fwd, HERE(true));       /* on this host, but its answer comes from outside */
  WRONG(1, ret, SEG(true, 3, 4));  /* the receiver is no waypoint */
  WRONG(1, ret, HERE(false));
  WRONG(1, fwd, HERE(true));    /* to itself */
  WRONG(2, ret, SEG(false, 6)); /* a waypoint taken for a receiver */
  WRONG(2, fwd, SEG(true, 7));  /* the source taken for a waypoint */
  WRONG(3, fwd, SEG(false, 1)); /* something beyond the source */
  WRONG(3, fwd, HERE(true));
  assert(dc_path_parse(&path, p, write_route(p, sizeof p, good, 1)) < 0); /* a receiver alone */
  assert(dc_route_check(p, 0) == 0);

  struct dc_stop many[DC_STOPS_MAX + 1];
  for (unsigned i = 0; i < DC_STOPS_MAX; i++)
    many[i] = (struct dc_stop){.fwd = SEG(true, 1), .ret = i == 0 ? HERE(false) : SEG(i > 1, 1)};
  many[DC_STOPS_MAX - 2].fwd.local = false;
  many[DC_STOPS_MAX - 1].fwd = HERE(false);
  assert(dc_route_check(p, write_route(p, sizeof p, many, DC_STOPS_MAX)) == DC_STOPS_MAX);
  many[DC_STOPS_MAX] = many[DC_STOPS_MAX - 1];
  many[DC_STOPS_MAX - 1] = many[DC_STOPS_MAX - 2];
  many[DC_STOPS_MAX - 2] = many[DC_STOPS_MAX - 3];
  assert(dc_route_check(p, write_route(p, sizeof p, many, DC_STOPS_MAX + 1)) == 0);
  assert(dc_route_check(p, DC_ROUTE_MAX + 1) == 0);
}

static void a_route_may_be_as_long_as_there_is_room_for_and_no_longer(void)
{
  uint8_t p[DC_ROUTE_MAX + 2];
  struct dc_segment longest = {.n = DC_SEG_MAX, .local = true};
  struct dc_stop stop[7] = {{.fwd = longest}};
  for (unsigned i = 1; i < 5; i++)
    stop[i] = (struct dc_stop){.ret = longest, .fwd = longest};
  stop[5] = (struct dc_stop){.ret = {.n = 9, .local = true}, .fwd = {.n = 9}};
  stop[6] = (struct dc_stop){.ret = longest};
  assert(write_route(p, sizeof p, stop, 7) == DC_ROUTE_MAX && dc_route_check(p, DC_ROUTE_MAX) == 7);
  stop[5].fwd.n++;
  assert(write_route(p, sizeof p, stop, 7) == DC_ROUTE_MAX + 2 && dc_route_check(p, DC_ROUTE_MAX + 2) == 0);
}

static void a_stop_is_written_only_where_it_fits(void)
{
  uint8_t p[512];
  struct dc_stop s = {.ret = SEG(true, 1, 2), .fwd = SEG(false, 3)};
  for (size_t cap = 0; cap < 10; cap++)
    assert(dc_stop_write(p, cap, &s) == 0);
  assert(dc_stop_write(p, 10, &s) == 10);
  s.fwd.n = DC_SEG_MAX + 1;
  assert(dc_stop_write(p, sizeof p, &s) == 0);
}

static void an_interest_and_its_answer(void)
{
  uint8_t blob[DC_ROUTE_MAX], p[2048];
  struct dc_path path;
  const struct dc_stop direct[2] = {{.fwd = SEG(false, 1, 2, 3)}, {.ret = SEG(false, 4, 5)}};
  assert(dc_path_parse(&path, blob, write_route(blob, sizeof blob, direct, 2)) == 0);

  struct dc_header h = {.tree = 7, .seq = 9, .flags = DC_FLAG_RETX, .cache = 3};
  size_t n = dc_interest_write(p, sizeof p, &path, &h, ANY, NOBODY);
  assert(n == stack_len(2) + DC_HEADER_LEN + 8);
  for (size_t cap = 0; cap < n; cap++)
    assert(dc_interest_write(p, cap, &path, &h, ANY, NOBODY) == 0);
  assert(dc_interest_write(p, n, &path, &h, ANY, NOBODY) == n);
  bool bottom;
  assert(dc_label_read(p + 14, &bottom) == DC_LABEL_ADJ + 2 && !bottom);
  assert(dc_label_read(p + 18, &bottom) == DC_LABEL_ADJ + 3 && bottom);

  struct dc_header got;
  struct dc_segment ret;
  assert(dc_interest_at_source(p + stack_len(2), n - stack_len(2), &got, &ret) == DC_DROP_NONE);
  assert(got.seq == 9 && got.tree == 7 && got.flags == DC_FLAG_RETX && got.cache == 3 && got.stops == 1);
  assert(dc_segment_equal(&ret, &direct[1].ret));

  struct dc_header answer_h = {.tree = 7, .seq = 9, .length = 100};
  assert(dc_data_write(p, 33, &ret, &answer_h, ANY, NOBODY) == 0);
  n = dc_data_write(p, sizeof p, &ret, &answer_h, ANY, NOBODY);
  assert(n == stack_len(1) + DC_HEADER_LEN &&
         dc_header_parse(p + stack_len(1), DC_HEADER_LEN + 100, &got) == DC_DROP_NONE);
  assert(got.type == DC_TYPE_DATA && got.length == 100);

  ret = HERE(true); /* to the own node: from the header on */
  assert(dc_data_write(p, sizeof p, &ret, &answer_h, ANY, NOBODY) == DC_HEADER_LEN);
}

static void a_source_takes_interests_only_that_end_there(void)
{
  uint8_t p[2048];
  struct dc_header h;
  struct dc_segment ret;
  size_t n = write_payload(p, 1, 2, 0, 30);
  assert(dc_interest_at_source(p, n, &h, &ret) == DC_DROP_TYPE);
  struct asking a = {.tree = 1, .seq = 2, .ret = SEG(false, 1), .fwd = SEG(false, 2)};
  n = write_asking(p, sizeof p, &a); /* two stops left */
  assert(dc_interest_at_source(p, n, &h, &ret) == DC_DROP_ROUTE);
  p[12] = 1;
  assert(dc_interest_at_source(p, n, &h, &ret) == DC_DROP_ROUTE);
  dc_header_write(p, &(struct dc_header){.type = DC_TYPE_INTEREST, .stops = 1});
  assert(dc_interest_at_source(p, n, &h, &ret) == DC_DROP_ROUTE);
  assert(dc_interest_at_source(p, 3, &h, &ret) == DC_DROP_TRUNCATED);
}

/* Both ends of what each field of a header may hold, and each field that must be zero. */
static void a_header_holds_what_its_fields_may_and_no_more(void)
{
  static uint8_t p[DC_HEADER_LEN + DC_PAYLOAD_MAX + 1];
  struct dc_header h;
  for (unsigned type = 0; type < 16; type++) {
    memset(p, 0, DC_HEADER_LEN);
    p[0] = (uint8_t)(DC_VERSION << 4 | type);
    bool known = type >= DC_TYPE_INTEREST && type <= DC_TYPE_HELLO;
    assert(dc_header_parse(p, DC_HEADER_LEN, &h) == (known ? DC_DROP_NONE : DC_DROP_TYPE));
    for (unsigned at = DC_AT_STOPS; known && at <= DC_AT_MORE; at++) {
      p[at] = 1;
      assert(dc_header_parse(p, DC_HEADER_LEN, &h) == (type == DC_TYPE_INTEREST ? DC_DROP_NONE : DC_DROP_RESERVED));
      p[at] = 0;
    }
    for (unsigned bit = 0; known && bit < 8; bit++) {
      p[DC_AT_FLAGS] = (uint8_t)(1u << bit);
      bool good = type == DC_TYPE_DATA || (p[DC_AT_FLAGS] & ~DC_FLAG_MASK) == 0;
      assert(dc_header_parse(p, DC_HEADER_LEN, &h) == (good ? DC_DROP_NONE : DC_DROP_RESERVED));
      assert(!good || h.flags == p[DC_AT_FLAGS]);
    }
  }
  p[DC_AT_FLAGS] = 0;
  for (unsigned version = 0; version < 16; version++) {
    p[0] = (uint8_t)(version << 4 | DC_TYPE_DATA);
    assert(dc_header_parse(p, DC_HEADER_LEN, &h) == (version == DC_VERSION ? DC_DROP_NONE : DC_DROP_VERSION));
  }
  p[0] = DC_VERSION << 4 | DC_TYPE_INTEREST;
  static const struct {
    uint32_t seq;
    uint8_t more;
    enum dc_drop why;
  } range[] = {{0, 63, DC_DROP_NONE},
               {0, 64, DC_DROP_RANGE},
               {UINT32_MAX, 0, DC_DROP_NONE},
               {UINT32_MAX, 1, DC_DROP_RANGE},
               {UINT32_MAX - 63, 63, DC_DROP_NONE},
               {UINT32_MAX - 62, 63, DC_DROP_RANGE}};
  for (unsigned i = 0; i < sizeof range / sizeof range[0]; i++) {
    dc_put32(p + DC_AT_SEQ, range[i].seq);
    p[DC_AT_MORE] = range[i].more;
    assert(dc_header_parse(p, DC_HEADER_LEN, &h) == range[i].why);
  }
  p[0] = DC_VERSION << 4 | DC_TYPE_DATA;
  p[DC_AT_MORE] = 0;
  dc_put16(p + DC_AT_LENGTH, DC_PAYLOAD_MAX);
  assert(dc_header_parse(p, DC_HEADER_LEN + DC_PAYLOAD_MAX, &h) == DC_DROP_NONE && h.length == DC_PAYLOAD_MAX);
  assert(dc_header_parse(p, DC_HEADER_LEN + DC_PAYLOAD_MAX - 1, &h) == DC_DROP_TRUNCATED);
  dc_put16(p + DC_AT_LENGTH, DC_PAYLOAD_MAX + 1);
  assert(dc_header_parse(p, sizeof p, &h) == DC_DROP_OVERSIZED);
}

int main(int argc, char **argv)
{
  golden_frames(argc > 1 ? argv[1] : "tests/golden/frames.txt");
  every_drop_has_a_name_of_its_own();
  a_header_needs_what_its_length_says();
  counted_as_data_is_what_is_parsed_as_data();
  cache_codes();
  lag_codes();
  paths();
  a_route_leads_from_stop_to_stop_and_ends_at_the_source();
  a_route_may_be_as_long_as_there_is_room_for_and_no_longer();
  a_stop_is_written_only_where_it_fits();
  an_interest_and_its_answer();
  a_source_takes_interests_only_that_end_there();
  a_header_holds_what_its_fields_may_and_no_more();
  puts("wire: ok");
  return 0;
}
