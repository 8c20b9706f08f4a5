#include "signal_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ops.h"
#include "reading.h"
#include "signal_callers.h"

/* Less time than this is not worth another connection. */
#define TIME_MIN (2 * DC_MS)
/* A child that has not answered by then keeps its time, but its own children are contacted from here as well. */
#define PATIENCE (100 * DC_MS)

/* A kept connection to a child. */
struct peer {
  struct signalling *all;
  struct conn *conn;
  char addr[72], name[NAME_MAX_LEN + 1]; /* whom we expect there */
  struct call *calls;
  uint64_t used;
  struct peer *next;
};

/* A request that waits for children. */
struct pending {
  struct signalling *all;
  struct conn *from; /* NULL: it went away, nobody wants the answer */
  struct load *load; /* of its caller, also then */
  size_t bytes;
  json_t *message; /* id, op, group, all */
  json_t *results;
  dc_time deadline;
  unsigned waiting;
  bool split; /* all children have been contacted */
  struct pending *next;
};

/* A subtree handed to a child. */
struct call {
  struct pending *pending;
  struct peer *peer;
  json_t *tree;
  uint64_t id;
  struct timer timer;
  dc_time limit;
  bool passed; /* its children were contacted from here */
  struct call *next;
};

static void contact(struct pending *p, json_t *tree, dc_time limit);
static bool check_tree(const json_t *tree, unsigned depth, unsigned *members, struct fault *why);

/* ---- answers ---- */

static void finish(struct pending *p)
{
  if (p->waiting > 0 || !p->split)
    return;
  struct signalling *s = p->all;
  if (p->from != NULL) {
    json_t *ack =
        json_pack("{s:s,s:O,s:O}", "type", "ack", "id", json_object_get(p->message, "id"), "results", p->results);
    conn_send(p->from, ack);
    json_decref(ack);
  }
  struct pending **at = &s->pending;
  while (*at != p)
    at = &(*at)->next;
  *at = p->next;
  load_remove(&s->loads, p->load, p->bytes);
  json_decref(p->message);
  json_decref(p->results);
  free(p);
}

/* A member may be heard of over two ways: that it has done its part counts. */
static void note(struct pending *p, const char *name, json_t *result)
{
  if (!json_is_true(json_object_get(json_object_get(p->results, name), "ok")))
    json_object_set(p->results, name, result);
}

static void unreachable(struct pending *p, const json_t *tree, const char *reason)
{
  struct fault why;
  const char *addr = json_string_value(json_object_get(tree, "a"));
  fault_set(&why, "unreachable", "%s (%s): %s", json_string_value(json_object_get(tree, "n")),
            addr == NULL ? "no address" : addr, reason);
  json_t *refusal = ops_refusal(&why);
  note(p, json_string_value(json_object_get(tree, "n")), refusal);
  json_decref(refusal);
}

/* Go around a child: contact its children from here. */
static void pass(struct pending *p, const json_t *tree)
{
  const json_t *c = json_object_get(tree, "c");
  for (size_t i = 0; i < json_array_size(c); i++)
    contact(p, json_array_get(c, i), p->deadline);
}

static void around(struct pending *p, const json_t *tree, const char *reason)
{
  unreachable(p, tree, reason);
  pass(p, tree);
}

/* ---- calls to children ---- */

static void forget(struct call *c)
{
  struct call **at = &c->peer->calls;
  while (*at != c)
    at = &(*at)->next;
  *at = c->next;
  c->peer->all->calls_n--;
  c->pending->load->calls--;
  loop_timer(c->peer->all->loop, &c->timer, DC_NEVER);
}

/* The call is over without an answer. */
static void give_up(struct call *c, const char *reason)
{
  struct pending *p = c->pending;
  forget(c);
  unreachable(p, c->tree, reason);
  if (!c->passed)
    pass(p, c->tree);
  p->waiting--;
  json_decref(c->tree);
  free(c);
  finish(p);
}

static void too_late(struct timer *t, dc_time now)
{
  struct call *c = (struct call *)(void *)((char *)t - offsetof(struct call, timer));
  if (c->passed || now >= c->limit) {
    give_up(c, "no answer in time");
    return;
  }
  c->passed = true;
  loop_timer(c->peer->all->loop, t, c->limit);
  pass(c->pending, c->tree);
}

/* A child answers for those that it was handed, and for nobody else. */
static void note_those_of(struct pending *p, const json_t *tree, const json_t *results)
{
  const char *name = json_string_value(json_object_get(tree, "n"));
  json_t *result = json_object_get(results, name);
  if (result != NULL)
    note(p, name, result);
  const json_t *c = json_object_get(tree, "c");
  for (size_t i = 0; i < json_array_size(c); i++)
    note_those_of(p, json_array_get(c, i), results);
}

static void answered(struct call *c, const json_t *results)
{
  struct pending *p = c->pending;
  forget(c);
  note_those_of(p, c->tree, results);
  const char *child = json_string_value(json_object_get(c->tree, "n"));
  if (json_object_get(p->results, child) == NULL)
    unreachable(p, c->tree, "its answer does not name it");
  p->waiting--;
  json_decref(c->tree);
  free(c);
  finish(p);
}

/* ---- connections to children ---- */

/* A child's words are passed on in messages of this agent's: none is so long that these could not be sent, and others with them. */
static bool too_long(const struct conn *conn, const struct call *c)
{
  unsigned members = 0;
  struct fault why;
  if (conn->told <= ANSWER_MAX)
    return false;
  (void)check_tree(c->tree, 1, &members, &why);
  return conn->told > (uint64_t)members * ANSWER_MAX;
}

/* The group that a message names, where somebody hears its events. */
static struct group *heard(const struct signalling *s, const json_t *m)
{
  const char *id = json_string_value(json_object_get(m, "group"));
  struct group *g = id == NULL ? NULL : group_find(s->groups, id);
  return g != NULL && g->parent != NULL ? g : NULL;
}

/* Handed over by whoever hears the group's events: other callers' trees say nothing of who may tell them. */
static void note_handed(const struct call *c)
{
  struct group *g = heard(c->peer->all, c->pending->message);
  if (g != NULL && g->parent == c->pending->from)
    below_note(&g->below, c->peer->name, c->tree);
}

/* A child tells of those that it was handed, as it answers for them. */
static void relay_event(const struct peer *peer, json_t *m)
{
  const char *n = json_string_value(json_object_get(m, "n"));
  const struct group *g = n == NULL ? NULL : heard(peer->all, m);
  if (g != NULL && below_has(&g->below, peer->name, n))
    conn_send(g->parent, m);
  else if (g != NULL)
    log_warn("%s (%s): an event of %.64s, who is not below it in group %s, is not passed on", peer->name, peer->addr, n,
             g->id);
}

static void peer_message(struct conn *conn, json_t *m)
{
  struct peer *peer = conn->owner;
  const char *type = json_string_value(json_object_get(m, "type"));
  if (strcmp(type, "event") == 0) {
    if (conn->told <= EVENT_MAX)
      relay_event(peer, m);
    else
      log_warn("%s: an event of %u bytes is not passed on", peer->addr, conn->told);
    return;
  }
  json_int_t id = json_integer_value(json_object_get(m, "id"));
  struct call *c = peer->calls;
  while (c != NULL && (json_int_t)c->id != id)
    c = c->next;
  if (strcmp(type, "ack") == 0 && c != NULL && too_long(conn, c))
    give_up(c, "its answer is too long");
  else if (strcmp(type, "ack") == 0 && c != NULL && json_is_object(json_object_get(m, "results")))
    answered(c, json_object_get(m, "results"));
  else if (strcmp(type, "error") == 0 && c != NULL)
    give_up(c, "it refused the message");
  else
    log_debug("%s: a message of type %.20s that nothing waits for", peer->addr, type);
}

static void drop_peer(struct peer *peer)
{
  struct peer **at = &peer->all->peers;
  while (*at != peer)
    at = &(*at)->next;
  *at = peer->next;
  peer->all->peers_n--;
  loop_bury(peer->all->loop, peer);
}

static void peer_closed(struct conn *conn, const char *why)
{
  struct peer *peer = conn->owner;
  char reason[160];
  snprintf(reason, sizeof reason, "%s", why);
  drop_peer(peer); /* first, so that going around opens a new one if it names the same address */
  while (peer->calls != NULL)
    give_up(peer->calls, reason); /* NOLINT: it takes itself out of the list */
}

static const struct conn_ops peer_ops = {.message = peer_message, .closed = peer_closed};

/* Too many: the one unused for the longest time goes. */
static bool make_room(struct signalling *s)
{
  if (s->peers_n < PEERS_MAX)
    return true;
  struct peer *oldest = NULL;
  for (struct peer *p = s->peers; p != NULL; p = p->next)
    if (p->calls == NULL && (oldest == NULL || p->used < oldest->used))
      oldest = p;
  if (oldest == NULL)
    return false;
  conn_free(oldest->conn);
  drop_peer(oldest);
  return true;
}

static struct peer *find_peer(struct signalling *s, const char *addr, const char *name, const char **reason)
{
  struct peer *p = s->peers;
  while (p != NULL && (strcmp(p->addr, addr) != 0 || strcmp(p->name, name) != 0 || p->conn->broken))
    p = p->next;
  if (p != NULL)
    return p;
  struct sockaddr_storage to;
  socklen_t len;
  *reason = "its address is malformed";
  if (strlen(addr) >= sizeof p->addr || !address_parse(addr, &to, &len))
    return NULL;
  const struct security *security = &s->groups->host->security;
  *reason = "plain TCP leaves this machine; agents need certificates or --insecure";
  if (security->ctx == NULL && !security_allows_plain(security, &to))
    return NULL;
  *reason = "too many connections";
  if (!make_room(s))
    return NULL;
  int fd = address_connect(&to, len);
  if (fd < 0) {
    *reason = strerror(-fd);
    return NULL;
  }
  *reason = "out of memory";
  p = calloc(1, sizeof *p);
  if (p == NULL) {
    close(fd);
    return NULL;
  }
  p->all = s;
  snprintf(p->addr, sizeof p->addr, "%s", addr);
  snprintf(p->name, sizeof p->name, "%s", name);
  p->conn = conn_new(s->loop, fd, true, addr, &s->budget, &peer_ops, p);
  struct tls_expect whom = {"agent", p->name};
  if (p->conn != NULL && security->ctx != NULL && !conn_secure(p->conn, security->ctx, false, whom)) {
    conn_free(p->conn);
    p->conn = NULL;
  }
  if (p->conn == NULL) {
    free(p);
    return NULL;
  }
  p->next = s->peers;
  s->peers = p;
  s->peers_n++;
  return p;
}

static bool overdue(const struct peer *peer)
{
  for (const struct call *c = peer->calls; c != NULL; c = c->next)
    if (c->passed)
      return true;
  return false;
}

/* Hand a subtree to its root, to be answered within a part of the time that is left. */
static void contact(struct pending *p, json_t *tree, dc_time limit)
{
  struct signalling *s = p->all;
  const char *addr = json_string_value(json_object_get(tree, "a"));
  const char *reason = "it has no address";
  if (limit <= s->loop->now + TIME_MIN) {
    around(p, tree, "no time was left"); /* its children come here again and end here as well */
    return;
  }
  dc_time left = limit - s->loop->now, theirs = left / 4 * 3;
  struct call *c = s->calls_n >= CALLS_MAX || !load_has_room(p->load) ? NULL : calloc(1, sizeof *c);
  if (c == NULL)
    reason = "too many requests are under way";
  struct peer *peer =
      addr == NULL || c == NULL ? NULL : find_peer(s, addr, json_string_value(json_object_get(tree, "n")), &reason);
  if (peer == NULL) {
    free(c);
    around(p, tree, reason);
    return;
  }
  *c = (struct call){.pending = p,
                     .peer = peer,
                     .tree = json_incref(tree),
                     .id = ++s->next_id,
                     .timer = {.fire = too_late, .at = DC_NEVER},
                     .limit = s->loop->now + theirs,
                     .next = peer->calls};
  c->passed = json_array_size(json_object_get(tree, "c")) > 0 && overdue(peer);
  bool patient = json_array_size(json_object_get(tree, "c")) > 0 && !c->passed && theirs > PATIENCE;
  peer->calls = c;
  peer->used = ++s->clock;
  s->calls_n++;
  p->load->calls++;
  p->waiting++;
  loop_timer(s->loop, &c->timer, patient ? s->loop->now + PATIENCE : c->limit);

  json_t *m = json_copy(p->message);
  json_object_set_new(m, "id", json_integer((json_int_t)c->id));
  json_object_set_new(m, "timeout_ms", json_integer((json_int_t)(theirs / DC_MS > 0 ? theirs / DC_MS : 1)));
  json_object_set(m, "tree", tree);
  conn_send(peer->conn, m);
  json_decref(m);
  if (p->split) /* else when this host has done its part, which may open the group */
    note_handed(c);
  if (c->passed) /* it owes an earlier answer: nobody waits for it again */
    pass(p, tree);
}

/* ---- requests ---- */

/* Names, addresses and limits of a tree. False with *why. */
static bool check_tree(const json_t *tree, unsigned depth, unsigned *members, struct fault *why)
{
  if (!json_is_object(tree))
    return fault_set(why, "bad_request", "tree must be an object");
  if (depth > TREE_DEPTH_MAX)
    return fault_set(why, "limit", "the tree is deeper than %d", TREE_DEPTH_MAX);
  if (++*members > TREE_MEMBERS_MAX)
    return fault_set(why, "limit", "the tree has more than %d members", TREE_MEMBERS_MAX);
  const char *name = json_string_value(json_object_get(tree, "n"));
  if (!name_ok(name))
    return fault_set(why, "bad_request", "a member of the tree has no proper name in \"n\"");
  const json_t *c = json_object_get(tree, "c");
  if (c != NULL && !json_is_array(c))
    return fault_set(why, "bad_request", "tree: \"c\" of %s must be an array", name);
  if (json_array_size(c) > TREE_CHILDREN_MAX)
    return fault_set(why, "limit", "%s has more than %d children", name, TREE_CHILDREN_MAX);
  for (size_t i = 0; i < json_array_size(c); i++)
    if (!check_tree(json_array_get(c, i), depth + 1, members, why))
      return false;
  return true;
}

static void refuse(struct conn *conn, const json_t *id, const struct fault *why)
{
  json_t *m = json_pack("{s:s,s:s,s:s}", "type", "error", "code", why->code, "error", why->text);
  if (json_is_integer(id))
    json_object_set(m, "id", (json_t *)(uintptr_t)id);
  conn_send(conn, m);
  json_decref(m);
}

static void answered_late(void *arg, json_t *result)
{
  struct pending *p = arg;
  json_object_set_new(p->results, p->all->groups->host->name, result);
  p->waiting--;
  finish(p);
}

static void own_part(struct pending *p, const json_t *tree)
{
  struct signalling *s = p->all;
  const char *name = json_string_value(json_object_get(tree, "n"));
  const char *own = s->groups->host->name;
  json_t *result;
  if (strcmp(name, own) == 0) {
    result =
        ops_run(s->groups, json_string_value(json_object_get(p->message, "op")),
                json_string_value(json_object_get(p->message, "group")),
                (uint64_t)json_integer_value(json_object_get(p->message, "epoch")), json_object_get(p->message, "all"),
                json_object_get(tree, "b"), p->from, (struct later){answered_late, p});
    if (result == NULL) {
      p->waiting++;
      return;
    }
  } else {
    struct fault why;
    fault_set(&why, "bad_request", "the agent at this address is %s, not %s", own, name);
    result = ops_refusal(&why);
  }
  json_object_set_new(p->results, name, result);
}

static void request(struct signalling *s, struct conn *from, json_t *m)
{
  struct fault why;
  const json_t *id = json_object_get(m, "id");
  json_t *tree = json_object_get(m, "tree");
  uint64_t timeout, epoch, before = s->next_id;
  unsigned members = 0;
  if (!json_is_integer(id))
    fault_set(&why, "bad_request", "id must be an integer");
  else if (need_string(m, "op", 32, &why) != NULL &&
           get_integer(m, "timeout_ms", 1, TIMEOUT_MAX_MS, TIMEOUT_DEFAULT_MS, &timeout, &why) &&
           get_integer(m, "epoch", 0, (UINT64_C(1) << 53) - 1, 0, &epoch, &why) &&
           check_tree(tree, 1, &members, &why)) {
    struct load *load = load_add(&s->loads, from, from->told, &why);
    if (load == NULL) {
      refuse(from, id, &why);
      return;
    }
    struct pending *p = calloc(1, sizeof *p);
    if (p == NULL) {
      load_remove(&s->loads, load, from->told);
      return; /* the sender's own timeout tells */
    }
    *p = (struct pending){.all = s,
                          .from = from,
                          .load = load,
                          .bytes = from->told,
                          .results = json_object(),
                          .deadline = s->loop->now + timeout * DC_MS,
                          .message = json_copy(m),
                          .next = s->pending};
    json_object_del(p->message, "tree");
    s->pending = p;
    /* Children first: they work while this host does. But a source has what it may be asked for before they ask: its frames
     * come to another thread, and what is not assigned yet is refused. */
    bool own_first = strcmp(json_string_value(json_object_get(m, "op")), "assign") == 0;
    if (own_first)
      own_part(p, tree);
    json_t *c = json_object_get(tree, "c");
    for (size_t i = 0; i < json_array_size(c); i++)
      contact(p, json_array_get(c, i), p->deadline);
    if (!own_first)
      own_part(p, tree);
    for (const struct peer *peer = s->peers; peer != NULL; peer = peer->next)
      for (const struct call *call = peer->calls; call != NULL && call->id > before; call = call->next)
        if (call->pending == p)
          note_handed(call);
    p->split = true;
    finish(p);
    return;
  }
  refuse(from, id, &why);
}

/* ---- connections that others opened (signal_callers.c) ---- */

/* A controller reads for other sites, and gives no orders. */
static bool is_controller(const char *peer) { return strncmp(peer, "controller/", 11) == 0; }

void signalling_message(struct signalling *s, struct conn *from, json_t *m)
{
  const char *type = json_string_value(json_object_get(m, "type"));
  bool reads = strcmp(type, "read") == 0, controller = from->tls != NULL && is_controller(tls_peer(from->tls));
  struct fault why;
  if (from->tls != NULL && (reads || strcmp(type, "request") == 0) && reads != controller) {
    fault_set(&why, "denied", "%.100s may not send a %s", tls_peer(from->tls), reads ? "read" : "request");
    refuse(from, json_object_get(m, "id"), &why);
    return;
  }
  if (reads) {
    reading_begin(s, from, m);
    return;
  }
  if (strcmp(type, "request") == 0) {
    request(s, from, m);
    return;
  }
  fault_set(&why, "bad_request", "a message of type \"%.20s\" is not for an agent", type);
  refuse(from, json_object_get(m, "id"), &why);
}

bool signalling_needs(const struct signalling *s, const struct conn *conn)
{
  for (const struct pending *p = s->pending; p != NULL; p = p->next)
    if (p->from == conn)
      return true;
  if (reading_needs(s, conn))
    return true;
  for (const struct group *g = s->groups->first; g != NULL; g = g->next)
    if (g->parent == conn)
      return true;
  return false;
}

void signalling_lost(struct signalling *s, const struct conn *conn)
{
  for (struct pending *p = s->pending; p != NULL; p = p->next)
    if (p->from == conn)
      p->from = NULL;
  reading_lost(s, conn);
  for (struct group *g = s->groups->first; g != NULL; g = g->next)
    if (g->parent == conn)
      g->parent = NULL; /* its lease runs on; a new master may open it again */
}

static void emit(void *arg, struct group *g, json_t *event)
{
  (void)arg;
  if (g->parent != NULL)
    conn_send(g->parent, event);
}

bool signalling_open(struct signalling *s, struct loop *loop, struct groups *groups, const char *listen_on,
                     struct fault *why)
{
  memset(s, 0, sizeof *s);
  s->loop = loop;
  s->groups = groups;
  if (!callers_listen(s, listen_on, why))
    return false;
  groups->emit = emit;
  groups->arg = s;
  return true;
}

void signalling_close(struct signalling *s)
{
  s->groups->emit = NULL;
  callers_close(s);
  for (struct peer *p = s->peers, *next; p != NULL; p = next) {
    next = p->next;
    for (struct call *c = p->calls, *after; c != NULL; c = after) {
      after = c->next;
      loop_timer(s->loop, &c->timer, DC_NEVER);
      json_decref(c->tree);
      free(c);
    }
    conn_free(p->conn);
    free(p);
  }
  for (struct pending *p = s->pending, *next; p != NULL; p = next) {
    next = p->next;
    json_decref(p->message);
    json_decref(p->results);
    free(p);
  }
  load_close(&s->loads);
}
