#include "group.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fetching.h"
#include "receiver.h"
#include "source.h"
#include "source_file.h"

static const char *const role_names[] = {"relay", "source", "receiver"};
static const char *const state_names[] = {"running", "done", "failed"};

void groups_init(struct groups *all, struct host *host, uint32_t limit)
{
  *all = (struct groups){.host = host, .limit = limit};
  left_init(&all->left, all);
}

void groups_close(struct groups *all)
{
  bool keep = all->host->keep_partial;
  if (keep)
    left_close(&all->left);
  while (all->first != NULL)
    group_close(all->first, "the agent stops", keep);
  if (!keep)
    left_close(&all->left);
}

struct group *group_find(const struct groups *all, const char *id)
{
  struct group *g = all->first;
  while (g != NULL && strcmp(g->id, id) != 0)
    g = g->next;
  return g;
}

/* Largest payload of one packet on this host. */
static uint32_t payload_max(const struct host *h)
{
  uint32_t buffer = h->shards->one[0].forward.pool.size[BUF_SIZES - 1] - DC_PREFIX_MAX;
  return buffer < DC_PAYLOAD_MAX ? buffer : DC_PAYLOAD_MAX;
}

/* ---- events ---- */

void group_event(struct group *g, const char *event, json_t *fields)
{
  json_t *e = json_pack("{s:s,s:s,s:s,s:s}", "type", "event", "group", g->id, "n", g->all->host->name, "event", event);
  if (e != NULL && fields != NULL)
    json_object_update(e, fields);
  json_decref(fields);
  if (e != NULL && g->all->emit != NULL)
    g->all->emit(g->all->arg, g, e);
  json_decref(e);
}

void group_first(struct group *g, uint64_t t_ns)
{
  if (g->t_first_ns != 0)
    return;
  g->t_first_ns = t_ns;
  group_event(g, "first", json_pack("{s:I}", "t_ns", (json_int_t)g->t_first_ns));
}

static void tell_failed(struct group *g)
{
  group_event(g, "failed", json_pack("{s:s,s:s}", "code", g->fault.code, "error", g->fault.text));
}

void group_fail(struct group *g, const struct fault *why)
{
  if (g->state == GROUP_FAILED)
    return;
  g->state = GROUP_FAILED;
  g->fault = *why;
  log_warn("group %s: failed (%s): %s", g->id, why->code, why->text);
  if (g->source != NULL)
    source_stop(g);
  if (g->fetching != NULL)
    fetching_stop(g);
  if (g->receiver != NULL) {
    receiver_stop(g, false);
    left_save(&g->all->left);
  }
  tell_failed(g);
}

static void tell_again(struct group *g)
{
  if (g->state == GROUP_FAILED)
    tell_failed(g);
  if (g->state != GROUP_FAILED && g->local != NULL)
    source_file_repeat(g);
  if (g->state != GROUP_FAILED && g->receiver != NULL)
    receiver_repeat(g);
  if (g->state != GROUP_FAILED && g->source != NULL && g->local == NULL)
    fetching_repeat(g);
}

void group_adopt(struct group *g, struct conn *from)
{
  if (g->parent != NULL)
    return;
  g->parent = from;
  tell_again(g);
}

/* ---- life ---- */

static void expire(struct timer *t, dc_time now)
{
  struct group *g = (struct group *)(void *)((char *)t - offsetof(struct group, lease));
  if (g->role == ROLE_RECEIVER && g->state != GROUP_FAILED && !g->unheard) { /* what it has may be asked for yet */
    g->unheard = true;
    log_info("group %s: its lease ended: nothing was heard of the group, what it received is kept for a while", g->id);
    loop_timer(g->all->host->loop, t, now + LEASES_KEPT * g->lease_ms * DC_MS);
    return;
  }
  group_close(g, "its lease ended: nothing was heard of the group", false);
}

/* Groups that nobody asks for make room for new ones, the one that was opened first before the others. */
static bool make_room(struct groups *all)
{
  struct group *oldest = NULL;
  for (struct group *g = all->first; g != NULL; g = g->next)
    if (g->unheard)
      oldest = g;
  if (oldest != NULL)
    group_close(oldest, "its lease ended, and its place is needed", false);
  return oldest != NULL;
}

bool group_epoch(struct groups *all, struct group *g, const char *id, uint64_t epoch, struct fault *why)
{
  uint64_t last = g != NULL ? g->epoch : epochs_last(&all->epochs, id);
  if (epoch < last)
    return fault_set(why, "stale", "epoch %" PRIu64 " of group %s is over: a master of epoch %" PRIu64 " has it", epoch,
                     id, last);
  if (g == NULL) {
    epochs_note(&all->epochs, id, epoch, 0);
  } else if (epoch > g->epoch) {
    log_info("group %s: epoch %" PRIu64 " has begun", id, epoch);
    g->epoch = epoch;
    g->had_n = g->routed_n = g->rates_n = g->had_rows = 0;
    below_clear(&g->below);
    g->parent = NULL; /* whom the earlier one had above this host may be below it now: an event would go round */
  }
  return true;
}

void group_renew(struct group *g)
{
  struct loop *l = g->all->host->loop;
  g->unheard = false;
  loop_timer(l, &g->lease, l->now + g->lease_ms * DC_MS);
}

void group_close(struct group *g, const char *reason, bool keep)
{
  struct groups *all = g->all;
  log_info("group %s: closed as %s, %s: %s", g->id, role_names[g->role], state_names[g->state], reason);
  if (g->source != NULL)
    source_close(g);
  if (g->fetching != NULL)
    fetching_close(g);
  if (g->receiver != NULL)
    receiver_close(g, keep);
  loop_timer(all->host->loop, &g->lease, DC_NEVER);
  epochs_note(&all->epochs, g->id, g->epoch, g->routed_n);
  struct group **at = &all->first;
  while (*at != g)
    at = &(*at)->next;
  *at = g->next;
  all->n--;
  if (g->role == ROLE_RECEIVER)
    left_save(&all->left);
  below_clear(&g->below);
  loop_bury(all->host->loop, g);
}

struct opening {
  enum role role;
  uint64_t lease_ms;
  bool bundle, expects, again;
  uint8_t sha256[SHA256_LEN];
  char stamp[STAMP_MAX_LEN + 1];
  struct dc_layout layout;
  struct tree_params trees[GROUP_TREES_MAX]; /* those that begin on this host first */
  int n, own;
};

/* `roots`: the trees that begin here. Without it all of them do at a source, and none at a receiver. */
static bool parse_roots(const json_t *part, struct opening *o, struct fault *why)
{
  const json_t *list = json_object_get(part, "roots");
  o->own = 0;
  if (list == NULL || json_is_null(list)) {
    o->own = o->role == ROLE_SOURCE ? o->n : 0;
    return true;
  }
  if (!json_is_array(list))
    return fault_set(why, "bad_request", "roots must be a list of tree ids");
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *id = json_array_get(list, i);
    int k = o->own;
    while (k < o->n && !(json_is_integer(id) && json_integer_value(id) == (json_int_t)o->trees[k].id))
      k++;
    if (k == o->n)
      return fault_set(why, "bad_request", "roots[%zu] is none of the group's trees, or named twice", i);
    struct tree_params found = o->trees[k];
    o->trees[k] = o->trees[o->own];
    o->trees[o->own++] = found;
  }
  return true;
}

static bool parse(const struct groups *all, const json_t *whole, const json_t *part, struct opening *o,
                  struct fault *why)
{
  const char *role = need_string(part, "role", 16, why);
  if (role == NULL)
    return false;
  for (o->role = ROLE_RELAY; strcmp(role, role_names[o->role]) != 0; o->role++)
    if (o->role == ROLE_RECEIVER)
      return fault_set(why, "bad_request", "role \"%s\" is none of source, receiver, relay", role);
  if (!get_integer(whole, "lease_ms", 100, LEASE_MAX_MS, LEASE_DEFAULT_MS, &o->lease_ms, why))
    return false;
  if (o->role == ROLE_RELAY)
    return true;
  o->again = json_is_true(json_object_get(whole, "again"));
  o->bundle = json_is_true(json_object_get(whole, "bundle"));
  const json_t *expected = json_object_get(whole, "sha256");
  o->expects = expected != NULL;
  if (o->expects && (!json_is_string(expected) ||
                     !hex_read(o->sha256, SHA256_LEN, json_string_value(expected), json_string_length(expected))))
    return fault_set(why, "bad_request", "sha256 is not 64 hex digits");
  const json_t *stamp = json_object_get(whole, "stamp");
  if (stamp != NULL && (!json_is_string(stamp) || !name_ok(json_string_value(stamp))))
    return fault_set(why, "bad_request", "stamp must have 1 to %d letters, digits or ._-", STAMP_MAX_LEN);
  snprintf(o->stamp, sizeof o->stamp, "%s", stamp == NULL ? "" : json_string_value(stamp));
  o->n = params_trees(whole, o->trees, why);
  return o->n >= 0 && parse_roots(part, o, why) && params_layout(whole, payload_max(all->host), &o->layout, why);
}

static struct group *create(struct groups *all, const char *id, const struct opening *o, const json_t *part,
                            struct fault *why)
{
  if (all->n >= all->limit && !make_room(all)) {
    fault_set(why, "limit", "this host takes part in %u groups already", all->n);
    return NULL;
  }
  struct group *g = calloc(1, sizeof *g);
  if (g == NULL) {
    fault_set(why, "io", "out of memory");
    return NULL;
  }
  *g = (struct group){.all = all, .role = o->role, .layout = o->layout, .lease = {.fire = expire, .at = DC_NEVER}};
  g->bundle = o->bundle;
  g->expects = o->expects;
  memcpy(g->sha256, o->sha256, sizeof g->sha256);
  memcpy(g->stamp, o->stamp, sizeof g->stamp);
  snprintf(g->id, sizeof g->id, "%s", id);
  g->epoch = epochs_last(&all->epochs, id); /* noted just now */
  bool ok = true;
  if (o->role != ROLE_RELAY) {
    const char *path = need_string(part, o->role == ROLE_SOURCE ? "path" : "dest", 4095, why);
    ok = path != NULL && (o->role == ROLE_SOURCE ? source_open(g, path, part, why)
                                                 : receiver_open(g, path, json_object_get(part, "wants"), why));
  }
  if (!ok) {
    free(g);
    return NULL;
  }
  g->next = all->first;
  all->first = g;
  all->n++;
  return g;
}

static bool update(struct group *g, const struct opening *o, const json_t *whole, const json_t *part, struct fault *why)
{
  if (g->source == NULL && g->receiver != NULL && o->own > 0 && !source_share(g, why))
    return false;
  const json_t *origin = json_object_get(whole, "origin");
  bool fetches = o->own > 0 || json_is_true(json_object_get(part, "fetches")); /* a lone host has nobody to send to */
  if (origin != NULL && fetches && g->receiver != NULL && !fetching_open(g, origin, why))
    return false;
  if (g->receiver != NULL) /* one of them may begin here now */
    receiver_keep(g, o->trees + o->own, o->n - o->own);
  if (g->source != NULL && !source_trees(g, o->trees, o->own, o->n, why))
    return false;
  if (g->receiver == NULL)
    return true;
  if (!receiver_wants(g, json_object_get(part, "wants"), why) ||
      !receiver_trees(g, o->trees + o->own, o->n - o->own, why) ||
      !receiver_routes(g, json_object_get(part, "routes"), why))
    return false;
  receiver_go(g);
  return true;
}

/* `open` and `reroute` have one count: either says what the routes are from then on. What was overtaken, by a message that
 * went around a member that does not answer, is refused: who asked may wait for it yet. *n: `otherwise` where it says none. */
static bool in_turn(const json_t *whole, uint64_t least, uint64_t otherwise, uint64_t *n, struct fault *why)
{
  if (!get_integer(whole, "n", 0, (UINT64_C(1) << 53) - 1, otherwise, n, why))
    return false;
  return *n >= least ||
         fault_set(why, "overtaken", "number %" PRIu64 " came, after %" PRIu64 " had been carried out", *n, least);
}

bool group_open(struct groups *all, const char *id, const json_t *whole, const json_t *part, struct conn *parent,
                struct fault *why)
{
  struct opening o = {.role = ROLE_RELAY};
  if (!parse(all, whole, part, &o, why))
    return false;
  struct group *g = group_find(all, id);
  uint64_t n, least = g != NULL ? g->routed_n : epochs_routed(&all->epochs, id) + 1;
  if (!in_turn(whole, least, least, &n, why))
    return false;
  if (g != NULL && g->role == ROLE_RELAY && o.role != ROLE_RELAY) { /* it takes a part after all */
    group_close(g, "opened in another role", false);
    g = NULL;
  }
  bool fresh = g == NULL;
  if (fresh && o.again) /* the agent was started again since, and its master does not know */
    return fault_set(why, "no_group", "group %s is not open on this host", id);
  if (fresh) {
    g = create(all, id, &o, part, why);
    if (g == NULL)
      return false;
  } else if (g->role != o.role && o.role != ROLE_RELAY) {
    return fault_set(why, "bad_request", "this host is %s of the group already", role_names[g->role]);
  } else if (o.role != ROLE_RELAY && memcmp(&g->layout, &o.layout, sizeof o.layout) != 0) {
    return fault_set(why, "bad_request", "the group is open with another size or another cut into pieces");
  }
  g->parent = parent;
  g->lease_ms = o.lease_ms;
  group_renew(g);
  if (o.role != ROLE_RELAY && g->state != GROUP_FAILED && !update(g, &o, whole, part, why)) {
    if (fresh) /* what an agent before this one had of it is there for the next `open`, or goes with the note */
      group_close(g, why->text, g->receiver != NULL && receiver_resumed(g));
    return false;
  }
  if (fresh && g->receiver != NULL)
    left_settle(&all->left, id, true);
  g->routed_n = n;
  if (fresh)
    log_info("group %s: opened as %s, %" PRIu64 " bytes, %d trees", g->id, role_names[g->role], g->layout.size, o.n);
  if (!fresh || g->state == GROUP_DONE)
    tell_again(g); /* whoever opens again may not know what was told before */
  return true;
}

/* ---- operations on an open group ---- */

/* An array of arrays of n integers; false with *why. */
static bool row(const json_t *list, size_t i, unsigned n, uint64_t *to, const char *what, struct fault *why)
{
  const json_t *r = json_array_get(list, i);
  bool ok = json_is_array(r) && json_array_size(r) >= n;
  for (unsigned k = 0; ok && k < n; k++) {
    const json_t *v = json_array_get(r, k);
    ok = json_is_integer(v) && json_integer_value(v) >= 0;
    to[k] = ok ? (uint64_t)json_integer_value(v) : 0;
  }
  return ok || fault_set(why, "bad_request", "%s[%zu] is not a row of %u whole numbers", what, i, n);
}

static const json_t *rows(const json_t *whole, const char *key, struct fault *why)
{
  const json_t *list = json_object_get(whole, key);
  if (!json_is_array(list))
    fault_set(why, "bad_request", "%s must be an array", key);
  return json_is_array(list) ? list : NULL;
}

/* From row *had on: one that was refused for want of room comes again, and what was taken then does not follow itself. */
static bool assign(struct group *g, const json_t *whole, size_t *had, struct fault *why)
{
  const json_t *list = rows(whole, "extents", why);
  uint64_t pieces = dc_layout_pieces(&g->layout);
  if (list == NULL)
    return false;
  for (size_t i = *had; i < json_array_size(list); *had = ++i) {
    uint64_t v[4];
    if (!row(list, i, 4, v, "extents", why))
      return false;
    if (v[0] > UINT32_MAX || v[1] > UINT32_MAX)
      return fault_set(why, "bad_request", "extents[%zu] is out of range", i);
    if (v[3] == 0)
      continue; /* taken back by a later cut */
    if (v[2] >= pieces || v[3] > pieces - v[2])
      return fault_set(why, "bad_request", "extents[%zu] reaches beyond the file's %" PRIu64 " pieces", i, pieces);
    struct dc_extent e = {.seq = (uint32_t)v[1], .first = v[2], .count = (uint32_t)v[3]};
    bool begins = g->source != NULL && (g->receiver == NULL || source_begins(g, (uint32_t)v[0]));
    if (begins ? !source_assign(g, (uint32_t)v[0], &e, why) : !receiver_assign(g, (uint32_t)v[0], &e, why))
      return false;
  }
  return true;
}

static bool digest(struct group *g, const json_t *whole, struct fault *why)
{
  const json_t *list = rows(whole, "blocks", why);
  if (list == NULL)
    return false;
  for (size_t i = 0; g->receiver != NULL && i < json_array_size(list); i++) {
    uint64_t block;
    uint8_t digest[32];
    if (!row(list, i, 1, &block, "blocks", why))
      return false;
    const json_t *hex = json_array_get(json_array_get(list, i), 1);
    if (block > UINT32_MAX || !json_is_string(hex) ||
        !hex_read(digest, 32, json_string_value(hex), json_string_length(hex)))
      return fault_set(why, "bad_request", "blocks[%zu] is not [block, BLAKE3 as hex]", i);
    if (!receiver_digest(g, (uint32_t)block, digest, why))
      return false;
  }
  return true;
}

static bool cut(struct group *g, const json_t *whole, struct fault *why)
{
  const json_t *list = rows(whole, "trees", why);
  if (list == NULL)
    return false;
  for (size_t i = 0; i < json_array_size(list); i++) {
    uint64_t v[2];
    if (!row(list, i, 2, v, "trees", why))
      return false;
    if (v[0] > UINT32_MAX || v[1] > UINT32_MAX)
      return fault_set(why, "bad_request", "trees[%zu] is out of range", i);
    if (g->source != NULL)
      source_cut(g, (uint32_t)v[0], (uint32_t)v[1]);
    if (g->receiver != NULL)
      receiver_cut(g, (uint32_t)v[0], (uint32_t)v[1]);
  }
  return true;
}

bool group_order(struct group *g, enum group_order what, const json_t *whole, struct fault *why)
{
  uint64_t n;
  if (!get_integer(whole, "n", 1, (UINT64_C(1) << 53) - 1, 0, &n, why))
    return false;
  if (g->role == ROLE_RELAY || (n > 0 && n <= g->had_n))
    return true;
  if (n > g->had_n + 1)
    return fault_set(why, "gap", "number %" PRIu64 " came, the last one here was %" PRIu64, n, g->had_n);
  size_t unnumbered = 0;
  bool ok = what == GROUP_ASSIGN ? assign(g, whole, n > 0 ? &g->had_rows : &unnumbered, why)
            : what == GROUP_CUT  ? cut(g, whole, why)
                                 : digest(g, whole, why);
  if (ok && n > 0) {
    g->had_n = n;
    g->had_rows = 0;
  }
  return ok;
}

bool group_reroute(struct group *g, const json_t *whole, const json_t *part, struct fault *why)
{
  uint64_t n;
  if (!in_turn(whole, g->routed_n, g->routed_n, &n, why))
    return false;
  if (g->receiver == NULL)
    return true;
  g->routed_n = n;
  if (!receiver_routes(g, json_object_get(part, "routes"), why) ||
      !receiver_leave(g, json_object_get(part, "leave"), why))
    return false;
  receiver_go(g);
  return true;
}

bool group_rates(struct group *g, const json_t *whole, struct fault *why)
{
  uint64_t n;
  if (!get_integer(whole, "n", 0, (UINT64_C(1) << 53) - 1, g->rates_n, &n, why))
    return false;
  if (g->source == NULL || n < g->rates_n)
    return true;
  g->rates_n = n;
  return source_rates(g, json_object_get(whole, "rates"), why);
}

json_t *group_status(struct group *g)
{
  json_t *s = g->receiver != NULL ? receiver_status(g) : g->source != NULL ? source_status(g) : json_object();
  if (g->receiver != NULL && g->source != NULL) {
    json_t *sends = source_status(g);
    json_object_set(s, "sends", json_object_get(sends, "trees"));
    json_decref(sends);
  }
  json_object_set_new(s, "role", json_string(role_names[g->role]));
  json_object_set_new(s, "n", json_integer((json_int_t)g->had_n));
  json_object_set_new(s, "state", json_string(state_names[g->state]));
  if (g->state == GROUP_FAILED) {
    json_object_set_new(s, "code", json_string(g->fault.code));
    json_object_set_new(s, "error", json_string(g->fault.text));
  }
  struct fault why;
  if (fetching_waits(g, &why))
    json_object_set_new(s, "origin", json_pack("{s:s,s:s}", "code", why.code, "error", why.text));
  if (g->role == ROLE_RECEIVER) {
    json_object_set_new(s, "t_first_ns", g->t_first_ns == 0 ? json_null() : json_integer((json_int_t)g->t_first_ns));
    json_object_set_new(s, "t_done_ns", g->t_done_ns == 0 ? json_null() : json_integer((json_int_t)g->t_done_ns));
  }
  return s;
}
