#include "ops.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "fetching.h"
#include "sendable.h"
#include "status.h"
#include "target.h"

struct request {
  struct groups *groups;
  struct group *group; /* NULL where none is needed */
  const char *id;
  uint64_t epoch;
  const json_t *whole, *part;
  struct conn *from;
  json_t *result;
  struct later later;
  bool waits; /* the result comes later */
};

json_t *ops_refusal(const struct fault *why)
{
  return json_pack("{s:b,s:s,s:s}", "ok", 0, "code", why->code, "error", why->text);
}

/* What is left of the group from before counts only where its file is cut so again. */
static void tell_cut(const struct request *r, const char *dest)
{
  struct dc_layout cut;
  struct stat st;
  struct fault why;
  int fd = r->id == NULL ? -1 : target_left(&r->groups->host->dest_roots, dest, r->id, O_RDONLY, &st, &why);
  if (fd < 0)
    return;
  if (target_left_layout(fd, dest, &cut, &why)) {
    json_object_set_new(r->result, "piece", json_integer(cut.piece));
    json_object_set_new(r->result, "per_block", json_integer(cut.per_block));
  }
  close(fd);
}

static bool op_stat(struct request *r, struct fault *why)
{
  const struct host *h = r->groups->host;
  if (json_object_get(r->part, "path") != NULL) {
    const char *path = need_string(r->part, "path", 4095, why);
    return path != NULL && sendable_stat(r->groups->host, path, r->part, r->result, r->later, &r->waits, why);
  }
  const char *dest = need_string(r->part, "dest", 4095, why);
  uint64_t size;
  if (dest == NULL || !get_integer(r->part, "size", 0, (UINT64_C(1) << 53) - 1, 0, &size, why) ||
      !target_check(&h->dest_roots, dest, size, why))
    return false;
  const json_t *urls = json_object_get(r->part, "urls");
  if (urls != NULL) {
    r->waits = fetching_stat(r->groups->host, urls, r->later.answer, r->later.arg, why);
    return r->waits;
  }
  json_object_set_new(r->result, "dest", json_string(dest));
  tell_cut(r, dest);
  return true;
}

static bool op_open(struct request *r, struct fault *why)
{
  return group_open(r->groups, r->id, r->whole, r->part, r->from, why);
}

static bool op_reroute(struct request *r, struct fault *why) { return group_reroute(r->group, r->whole, r->part, why); }

static bool op_rates(struct request *r, struct fault *why) { return group_rates(r->group, r->whole, why); }

static bool op_fetch(struct request *r, struct fault *why) { return fetching_order(r->group, r->part, r->result, why); }

static bool op_status(struct request *r, struct fault *why)
{
  (void)why;
  json_t *s = group_status(r->group);
  json_object_update(r->result, s);
  json_decref(s);
  return true;
}

/* An order that asks for the status as well saves a master that is looking at its members a message to each. */
static bool order(struct request *r, enum group_order what, struct fault *why)
{
  return group_order(r->group, what, r->whole, why) &&
         (!json_is_true(json_object_get(r->whole, "status")) || op_status(r, why));
}

static bool op_assign(struct request *r, struct fault *why) { return order(r, GROUP_ASSIGN, why); }
static bool op_digest(struct request *r, struct fault *why) { return order(r, GROUP_DIGEST, why); }
static bool op_cut(struct request *r, struct fault *why) { return order(r, GROUP_CUT, why); }

/* Also of a group that is not open: an `open` up to `n` may be on its way yet. */
static bool op_close(struct request *r, struct fault *why)
{
  const char *reason = json_string_value(json_object_get(r->whole, "reason"));
  uint64_t n;
  if (!get_integer(r->whole, "n", 0, (UINT64_C(1) << 53) - 1, 0, &n, why))
    return false;
  if (r->group != NULL) /* closing twice is no error */
    group_close(r->group, reason == NULL ? "asked to" : reason, json_is_true(json_object_get(r->whole, "keep")));
  else
    left_settle(&r->groups->left, r->id, json_is_true(json_object_get(r->whole, "keep")));
  epochs_note(&r->groups->epochs, r->id, r->epoch, n);
  return true;
}

static bool op_node(struct request *r, struct fault *why)
{
  (void)why;
  status_node(r->groups, r->result);
  return true;
}

static bool op_ping(struct request *r, struct fault *why)
{
  (void)r;
  (void)why;
  return true;
}

static const struct op {
  const char *name;
  bool (*run)(struct request *r, struct fault *why);
  bool names_group, needs_group, own_part;
} table[] = {
    {"stat", op_stat, false, false, true},    {"open", op_open, true, false, true},
    {"assign", op_assign, true, true, false}, {"digest", op_digest, true, true, false},
    {"cut", op_cut, true, true, false},       {"reroute", op_reroute, true, true, true},
    {"status", op_status, true, true, false}, {"close", op_close, true, false, false},
    {"node", op_node, false, false, false},   {"ping", op_ping, false, false, false},
    {"rates", op_rates, true, true, false},   {"fetch", op_fetch, true, true, true},
};

static bool run(struct request *r, const char *name, struct fault *why)
{
  const struct op *op = NULL;
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
    if (strcmp(table[i].name, name) == 0)
      op = &table[i];
  if (op == NULL)
    return fault_set(why, "bad_request", "op \"%.40s\" is not known", name);
  if (op->own_part && r->part == NULL)
    return true; /* this host only passes the message on */
  if (op->own_part && !json_is_object(r->part))
    return fault_set(why, "bad_request", "b must be an object");
  if (r->whole != NULL && !json_is_object(r->whole))
    return fault_set(why, "bad_request", "all must be an object");
  if (op->names_group && !name_ok(r->id))
    return fault_set(why, "bad_request", "group must be a name of 1 to %d letters, digits or ._-", NAME_MAX_LEN);
  if (op->names_group)
    r->group = group_find(r->groups, r->id);
  if (op->names_group && !group_epoch(r->groups, r->group, r->id, r->epoch, why))
    return false;
  if (op->needs_group && r->group == NULL)
    return fault_set(why, "no_group", "group %s is not open on this host", r->id);
  if (r->group != NULL) {
    group_renew(r->group);
    if (r->from != NULL && op->needs_group)
      group_adopt(r->group, r->from);
  }
  return op->run(r, why);
}

json_t *ops_run(struct groups *groups, const char *op, const char *group, uint64_t epoch, const json_t *whole,
                const json_t *part, struct conn *from, struct later later)
{
  static json_t *nothing; /* an `all` that is absent is empty */
  if (nothing == NULL)
    nothing = json_object();
  struct fault why = {"", ""};
  struct request r = {.groups = groups,
                      .id = group,
                      .epoch = epoch,
                      .whole = whole == NULL ? nothing : whole,
                      .part = part,
                      .from = from,
                      .later = later,
                      .result = json_pack("{s:b}", "ok", 1)};
  if (run(&r, op, &why) && !r.waits)
    return r.result;
  if (r.waits) {
    json_decref(r.result);
    return NULL;
  }
  json_decref(r.result);
  json_t *refusal = ops_refusal(&why);
  if (strcmp(why.code, "gap") == 0)
    json_object_set_new(refusal, "n", json_integer((json_int_t)r.group->had_n));
  return refusal;
}
