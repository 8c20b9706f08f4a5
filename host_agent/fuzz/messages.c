/* Requests and answers, each with something strange in its place now and then. */
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

static json_t *strange(struct script *s)
{
  static const char *const words[] = {"", ".", "..", "../x", "me", "g/1", "\xc3\xa9", "0", "-1", "4294967296"};
  uint8_t b = next(s);
  switch (b % 8) {
  case 0:
    return json_null();
  case 1:
    return json_integer(-1);
  case 2:
    return json_integer((json_int_t)1 << (b >> 3) % 63);
  case 3:
    return json_string(words[(b >> 3) % 10]);
  case 4:
    return json_array();
  case 5:
    return json_object();
  case 6:
    return json_real(1e300);
  default:
    return json_true();
  }
}

static void put(struct script *s, json_t *o, const char *key, json_t *v)
{
  uint8_t b = next(s);
  if (b >= 0xf8) {
    json_decref(v);
    return;
  }
  if (b >= 0xf0) {
    json_decref(v);
    v = strange(s);
  }
  json_object_set_new(o, key, v);
}

static json_t *route(uint8_t b)
{
  uint8_t p[128];
  char hex[257];
  struct dc_stop own_stop = {.fwd = {.n = 1, .port = {(uint16_t)(b & 3)}, .local = b & 4}}, way = {.store = true},
                 last = {0};
  own_stop.fwd.n = b & 8 ? 0 : 1;
  way.ret = way.fwd = last.ret = (struct dc_segment){.n = 1, .port = {1}};
  if (b & 4) {
    last.ret.local = true;
    way.ret.n = b & 8 ? 0 : 1;
  } else {
    last.ret.n = own_stop.fwd.n;
  }
  size_t n = dc_stop_write(p, sizeof p, &own_stop);
  if (b & 4)
    n += dc_stop_write(p + n, sizeof p - n, &way);
  n += dc_stop_write(p + n, sizeof p - n, &last);
  hex_write(hex, p, n);
  return json_string(hex);
}

static json_t *part(struct script *s, const char *op)
{
  json_t *b = json_object();
  uint8_t role = next(s);
  if (strcmp(op, "open") == 0) {
    put(s, b, "role", json_string(role % 4 == 0 ? "relay" : role % 4 == 1 ? "source" : "receiver"));
    put(s, b, role % 4 == 1 ? "path" : "dest", json_string(role % 4 == 1 ? source_path : dest_path));
  } else if (strcmp(op, "stat") == 0) {
    put(s, b, role & 1 ? "path" : "dest", json_string(role & 1 ? source_path : dest_path));
    put(s, b, "size", json_integer(role));
  }
  if (role & 0x40)
    put(s, b, "wants", json_pack("[[i,i],[i,i]]", role & 3, 1, 2 + role % 5, 1 + role % 3));
  json_t *routes = json_object();
  put(s, routes, "1", route(role >> 4));
  put(s, routes, "2", route(role >> 2));
  put(s, b, "routes", routes);
  if (role & 0x80)
    put(s, b, "leave", json_pack("[i]", 1 + (role >> 6) % 2));
  return b;
}

static json_t *row(json_int_t x, json_int_t y, json_int_t z, json_int_t w)
{
  return json_pack("[I,I,I,I]", x, y, z, w);
}

static json_t *whole(struct script *s, const char *op, uint64_t *n)
{
  json_t *o = json_object(), *list = json_array();
  uint8_t b = next(s);
  if (strcmp(op, "open") == 0) {
    put(s, o, "size", json_integer(FILE_BYTES));
    put(s, o, "piece", json_integer(PIECE));
    put(s, o, "per_block", json_integer(PER_BLOCK));
    put(s, o, "lease_ms", json_integer(30000));
    for (unsigned i = 0; i < 1u + b % 3; i++) {
      json_t *t = json_object();
      put(s, t, "id", json_integer(1 + (json_int_t)i));
      put(s, t, "rate_max_bps", json_integer(100000000));
      put(s, t, "cc", json_string(b & 8 ? "steady" : "datacast"));
      put(s, t, "credits", json_integer(16));
      json_array_append_new(list, t);
    }
    put(s, o, "trees", list);
    return o;
  }
  if (b & 1)
    put(s, o, "n", json_integer((json_int_t)++ * n));
  if (strcmp(op, "assign") == 0) {
    json_array_append_new(list, row(1 + (b >> 1) % 2, next(s), next(s) % 24, next(s) % 24));
    put(s, o, "extents", list);
  } else if (strcmp(op, "cut") == 0) {
    json_array_append_new(list, row(1 + (b >> 1) % 2, next(s), 0, 0));
    put(s, o, "trees", list);
  } else if (strcmp(op, "digest") == 0) {
    char hex[65];
    uint8_t digest[32] = {next(s)};
    unsigned block = (b >> 1) % 8, at = block * PER_BLOCK * PIECE, left = at < FILE_BYTES ? FILE_BYTES - at : 0;
    if (digest[0] == 0) /* the right one */
      SHA256(content + (left > 0 ? at : 0), left < PER_BLOCK * PIECE ? left : PER_BLOCK * PIECE, digest);
    hex_write(hex, digest, 32);
    json_array_append_new(list, json_pack("[i,s]", (int)block, hex));
    put(s, o, "blocks", list);
  } else {
    json_decref(list);
    put(s, o, "keep", json_boolean(b & 2));
    kept = kept || strcmp(op, "close") == 0;
  }
  return o;
}

static json_t *tree(struct script *s, const char *op, unsigned depth)
{
  json_t *t = json_object(), *c = json_array();
  uint8_t b = next(s), name[8];
  snprintf((char *)name, sizeof name, depth == 0 ? "me" : "h%u", b >> 5);
  put(s, t, "n", json_string((const char *)name));
  const char *addr = b % 8 < 4    ? child_addr
                     : b % 8 == 4 ? own
                     : b % 8 == 5 ? "127.0.0.1:1"
                     : b % 8 == 6 ? "nowhere"
                                  : "10.0.0.1:7600";
  put(s, t, "a", json_string(addr));
  put(s, t, "b", part(s, op));
  for (unsigned i = 0; depth < 3 && i < (next(s) & 0x83) % 4u; i++)
    json_array_append_new(c, tree(s, op, depth + 1));
  put(s, t, "c", c);
  return t;
}

json_t *request(struct script *s, uint8_t op)
{
  static const char *const ops[] = {"stat",  "open",   "open",  "assign", "assign", "digest", "cut",   "reroute",
                                    "rates", "status", "close", "node",   "ping",   "open",   "dance", ""};
  static uint64_t n;
  const char *name = ops[op % 16];
  json_t *m = json_object();
  if (strcmp(name, "open") == 0)
    n = 0;
  json_object_set_new(m, "type", json_string("request"));
  json_object_set_new(m, "id", json_integer(++requests));
  put(s, m, "op", json_string(name));
  put(s, m, "group", json_string(op & 0x10 ? "g-2" : "g-1"));
  if (op & 0x20)
    put(s, m, "timeout_ms", json_integer(next16(s)));
  put(s, m, "all", whole(s, name, &n));
  put(s, m, "tree", tree(s, name, 0));
  return m;
}

void child_answers(struct script *s, uint8_t op)
{
  if (nasked == 0)
    return;
  json_t *m = json_object(), *results = json_object();
  uint64_t id = asked[op % nasked];
  memmove(&asked[op % nasked], &asked[op % nasked + 1], (nasked - op % nasked - 1) * sizeof asked[0]);
  nasked--;
  uint8_t b = next(s);
  for (unsigned i = 0; i < 8; i++)
    if (b >> i & 1) {
      char name[8];
      snprintf(name, sizeof name, "h%u", i);
      put(s, results, name, json_pack("{s:b}", "ok", 1));
    }
  put(s, m, "type", json_string(op & 0x10 ? "error" : "ack"));
  put(s, m, "id", json_integer((json_int_t)id));
  put(s, m, "results", results);
  send_json(&child, m);
}

void manager_says(struct script *s, uint8_t op)
{
  json_t *m = json_object();
  put(s, m, "type", json_string(op & 3 ? op & 1 ? "registered" : "ok" : "error"));
  put(s, m, "heartbeat_ms", json_integer(next16(s)));
  put(s, m, "silence_beats", json_integer(next16(s)));
  put(s, m, "n", json_integer(next(s)));
  put(s, m, "error", json_string("no"));
  send_json(&manager, m);
  if (op & 4)
    engine_carrier(&frames->engine, 1 + (op & 1), op & 8, false);
}
