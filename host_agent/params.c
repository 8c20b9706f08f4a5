#include "params.h"

#include <inttypes.h>
#include <string.h>

#include "datacast/constants.h"

#define BPS_MIN 1000
#define BPS_MAX (UINT64_C(1) << 42)
#define RANGE 256 /* from the most down to the least that a rule sends at */
#define SIZE_MAX_BYTES ((UINT64_C(1) << 53) - 1)

bool get_integer(const json_t *o, const char *key, uint64_t min, uint64_t max, uint64_t otherwise, uint64_t *to,
                 struct fault *why)
{
  const json_t *v = json_object_get(o, key);
  if (v == NULL || json_is_null(v)) {
    *to = otherwise;
    return true;
  }
  json_int_t n = json_integer_value(v);
  if (!json_is_integer(v) || n < 0 || (uint64_t)n < min || (uint64_t)n > max)
    return fault_set(why, "bad_request", "%s must be an integer from %" PRIu64 " to %" PRIu64, key, min, max);
  *to = (uint64_t)n;
  return true;
}

/* The same, required. */
static bool need_integer(const json_t *o, const char *key, uint64_t min, uint64_t max, uint64_t *to, struct fault *why)
{
  if (json_object_get(o, key) == NULL)
    return fault_set(why, "bad_request", "%s is missing", key);
  return get_integer(o, key, min, max, min, to, why);
}

const char *need_string(const json_t *o, const char *key, size_t max, struct fault *why)
{
  const json_t *v = json_object_get(o, key);
  if (!json_is_string(v)) {
    fault_set(why, "bad_request", "%s must be a string", key);
    return NULL;
  }
  if (json_string_length(v) > max) {
    fault_set(why, "bad_request", "%s is longer than %zu bytes", key, max);
    return NULL;
  }
  return json_string_value(v);
}

/* bit/s that no rule goes below, but for one that began lower. A tree that takes longer than a second for a packet holds
 * back its last ones from everybody. */
static uint64_t least(uint64_t max, uint64_t init, uint64_t packet)
{
  uint64_t bps = packet * 8 > max / RANGE ? packet * 8 : max / RANGE;
  bps = bps > init ? init : bps;
  return bps > BPS_MIN ? bps : BPS_MIN;
}

static bool tree(const json_t *o, struct tree_params *t, struct fault *why)
{
  uint64_t id, init, max, delta, interval, burst, credits, batch, rto, cache, packet, patience;
  if (!json_is_object(o))
    return fault_set(why, "bad_request", "a tree must be an object");
  const json_t *cc = json_object_get(o, "cc");
  const char *name = cc == NULL ? dc_cc_name(0) : json_string_value(cc);
  t->cc = name == NULL ? NULL : dc_cc_find(name);
  if (t->cc == NULL)
    return fault_set(why, "bad_request", "cc \"%.40s\" is not known", name == NULL ? "?" : name);
  if (!need_integer(o, "id", 0, UINT32_MAX, &id, why) ||
      !need_integer(o, "rate_max_bps", BPS_MIN, BPS_MAX, &max, why) ||
      !get_integer(o, "rate_init_bps", BPS_MIN, BPS_MAX, max, &init, why) ||
      !get_integer(o, "delta_bps", 0, BPS_MAX, max / 20, &delta, why) ||
      !get_integer(o, "interval_us", 10, 60000000, 1000, &interval, why) ||
      !get_integer(o, "burst", 1, 4096, 2, &burst, why) ||
      !get_integer(o, "credits", 1, DC_PLAN_CREDITS_MAX, 16, &credits, why) ||
      !get_integer(o, "batch", 1, DC_BATCH_MAX, 1, &batch, why) ||
      !get_integer(o, "rto_min_ms", 1, 60000, 10, &rto, why) ||
      !get_integer(o, "cache_bytes", 0, UINT64_C(1) << 32, 0, &cache, why) ||
      !get_integer(o, "packet_bytes", 0, DC_PAYLOAD_MAX + DC_PREFIX_MAX, 0, &packet, why) ||
      !get_integer(o, "patience_ms", 0, 10000, 0, &patience, why))
    return false;
  t->id = (uint32_t)id;
  init = init < max ? init : max;
  t->rate = (struct dc_cc_params){.rate_init = init,
                                  .rate_min = least(max, init, packet),
                                  .rate_max = max,
                                  .delta = delta,
                                  .interval = interval * DC_US,
                                  .packet_bytes = (uint32_t)packet,
                                  .credits = (uint32_t)credits};
  t->batch = (uint32_t)batch;
  t->burst = (uint32_t)burst;
  t->rto_min = rto * DC_MS;
  t->cache_bytes = cache;
  t->patience = patience * DC_MS;
  return true;
}

int params_trees(const json_t *all, struct tree_params to[GROUP_TREES_MAX], struct fault *why)
{
  const json_t *trees = json_object_get(all, "trees");
  if (!json_is_array(trees)) {
    fault_set(why, "bad_request", "trees must be an array of tree objects");
    return -1;
  }
  size_t n = json_array_size(trees);
  if (n > GROUP_TREES_MAX) {
    fault_set(why, "limit", "%zu trees; one group may have %d", n, GROUP_TREES_MAX);
    return -1;
  }
  for (size_t i = 0; i < n; i++) {
    if (!tree(json_array_get(trees, i), &to[i], why))
      return -1;
    for (size_t k = 0; k < i; k++)
      if (to[k].id == to[i].id) {
        fault_set(why, "bad_request", "tree %u stands twice in trees", to[i].id);
        return -1;
      }
  }
  return (int)n;
}

bool params_layout(const json_t *all, uint32_t payload_max, struct dc_layout *to, struct fault *why)
{
  uint64_t size, piece, per_block;
  if (!need_integer(all, "size", 0, SIZE_MAX_BYTES, &size, why) ||
      !need_integer(all, "piece", 1, DC_PAYLOAD_MAX, &piece, why) ||
      !need_integer(all, "per_block", 1, UINT32_MAX, &per_block, why))
    return false;
  if (piece > payload_max)
    return fault_set(why, "limit", "a piece of %" PRIu64 " bytes does not fit this host's frames (at most %u)", piece,
                     payload_max);
  *to = (struct dc_layout){.size = size, .piece = (uint32_t)piece, .per_block = (uint32_t)per_block};
  if (dc_layout_pieces(to) > PIECES_MAX)
    return fault_set(why, "limit", "the file has more than %" PRIu64 " pieces", (uint64_t)PIECES_MAX);
  if (dc_layout_blocks(to) > BLOCKS_MAX)
    return fault_set(why, "limit", "the file has more than %d blocks; use a larger per_block", BLOCKS_MAX);
  return true;
}

/* How long `bytes` take at the tree's highest rate; bounded, so that a made-up rate stops nothing. */
static dc_time rate_time(const struct tree_params *p, uint64_t bytes)
{
  dc_time t = p->rate.rate_max == 0 ? 0 : bytes * 8 * DC_US / p->rate.rate_max * (DC_SEC / DC_US);
  return t < 10 * DC_SEC ? t : 10 * DC_SEC;
}

/* On a slow link all credits take their time: a timer that cannot reach it would ask for every packet twice, and by Karn's
 * rule never learn better. They all do so after the first one came at once. */
void params_receiver(const struct tree_params *p, uint32_t piece, uint32_t outstanding, dc_time trip,
                     struct dc_receiver_cfg *to)
{
  dc_receiver_cfg_default(to);
  to->credits = p->rate.credits;
  to->batch = p->batch;
  dc_time window = rate_time(p, (uint64_t)p->rate.credits * piece);
  to->rto_min = window > p->rto_min ? window : p->rto_min;
  dc_time init = to->rto_min + rate_time(p, (uint64_t)outstanding * piece);
  if (init < 2 * trip)
    init = 2 * trip;
  if (to->rto_init < init)
    to->rto_init = init;
  if (to->rto_max < 4 * init)
    to->rto_max = 4 * init;
}

void hex_write(char *to, const uint8_t *p, size_t n)
{
  static const char digit[] = "0123456789abcdef";
  for (size_t i = 0; i < n; i++) {
    to[2 * i] = digit[p[i] >> 4];
    to[2 * i + 1] = digit[p[i] & 15];
  }
  to[2 * n] = '\0';
}

static int value_of(char c)
{
  if (c >= '0' && c <= '9')
    return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hex_read(uint8_t *to, size_t n, const char *hex, size_t len)
{
  if (len != 2 * n)
    return false;
  for (size_t i = 0; i < n; i++) {
    int a = value_of(hex[2 * i]), b = value_of(hex[2 * i + 1]);
    if (a < 0 || b < 0)
      return false;
    to[i] = (uint8_t)(a << 4 | b);
  }
  return true;
}

bool name_ok(const char *name)
{
  if (name == NULL || name[0] == '\0' || name[0] == '.' || strlen(name) > NAME_MAX_LEN)
    return false;
  return name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")] == '\0';
}
