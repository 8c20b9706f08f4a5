#include "datapath/registration.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "datapath/counters.h"
#include "datapath/instance.h"
#include "datapath/mac.h"

#define BACKOFF_MIN (100 * DC_MS)
#define BACKOFF_MAX (5 * DC_SEC)
/* Nobody listens: a fabric manager that starts again is found soon, and an attempt costs it nothing. */
#define REFUSED_MAX (400 * DC_MS)
#define ANSWER_LIMIT (3 * DC_SEC)
#define SILENCE_MAX 1000 /* heartbeats */

/* Takes over m. */
static void send_message(struct registration *r, json_t *m)
{
  conn_send(r->conn, m);
  json_decref(m);
}

static void alarm_in(struct registration *r, dc_time after) { loop_timer(r->loop, &r->timer, r->loop->now + after); }

static bool all_registered(const struct registration *r) { return r->registered == r->who.nodes; }

static void try_again(struct registration *r, const char *why)
{
  log_write(r->complained ? LOG_DEBUG : LOG_WARN, "fabric manager %s: %s; trying again", addresses_now(&r->managers),
            why);
  r->complained = true;
  r->registered = 0;
  r->conn = NULL;
  addresses_next(&r->managers);
  alarm_in(r, r->backoff);
  dc_time most = strcmp(why, strerror(ECONNREFUSED)) == 0 ? REFUSED_MAX : BACKOFF_MAX;
  r->backoff = 2 * r->backoff < most ? 2 * r->backoff : most;
}

/* ---- what is said ---- */

static json_t *ports_of(const struct engine_node *n)
{
  json_t *list = json_array();
  for (unsigned i = 0; i < DC_NODE_PORTS_MAX; i++) {
    const struct port *p = n->port[i];
    char mac[18];
    if (p == NULL)
      continue;
    mac_write(mac, p->mac);
    json_array_append_new(list, json_pack("{s:i,s:s,s:s,s:b,s:I}", "port", (int)i, "ifname", p->name, "mac", mac, "up",
                                          p->link.up ? 1 : 0, "mtu", (json_int_t)p->mtu));
  }
  return list;
}

/* Something of the nodes, found where their frames are. */
struct look {
  const struct registration *r;
  json_t *found;
};

static json_t *look(const struct registration *r, void (*run)(void *look))
{
  struct look l = {.r = r};
  if (r->who.look != NULL)
    r->who.look(r->who.arg, run, &l);
  else
    run(&l);
  return l.found;
}

static void look_at_ports(void *arg)
{
  struct look *l = arg;
  l->found = ports_of(l->r->who.node(l->r->who.arg, l->r->registered));
}

static void register_next(struct registration *r)
{
  const struct engine_node *n = r->who.node(r->who.arg, r->registered);
  json_t *m = json_pack("{s:s,s:s,s:i,s:s,s:s,s:I,s:o}", "type", "register", "node", n->name, "pid", (int)getpid(),
                        "instance", instance_id(), "version", DATACAST_VERSION, "n", (json_int_t)r->last_n, "ports",
                        look(r, look_at_ports));
  r->who.describe(r->who.arg, m);
  send_message(r, m);
  alarm_in(r, ANSWER_LIMIT);
}

static void send_report(struct registration *r, const struct link_report *x)
{
  json_t *m = json_pack("{s:s,s:s,s:i,s:b,s:I,s:I}", "type", "link", "node", x->node, "port", (int)x->port, "up",
                        x->up ? 1 : 0, "t_ns", (json_int_t)x->t_ns, "n", (json_int_t)x->n);
  if (x->reason != NULL)
    json_object_set_new(m, "reason", json_string(x->reason));
  send_message(r, m);
}

void registration_link(void *arg, struct port *p)
{
  registration_link_was(arg, p->node->name, p->number, p->link.up, linkstate_reason(&p->link), loop_realtime_ns());
}

void registration_link_was(struct registration *r, const char *node, uint16_t port, bool up, const char *reason,
                           uint64_t t_ns)
{
  if (r->managers.n == 0)
    return;
  if (r->reports == LINK_REPORTS_MAX) /* each registration tells the present state; the oldest change goes */
    memmove(r->report, r->report + 1, --r->reports * sizeof r->report[0]);
  struct link_report *x = &r->report[r->reports++];
  *x = (struct link_report){.n = ++r->last_n, .t_ns = t_ns, .node = node, .port = port, .up = up, .reason = reason};
  if (r->conn != NULL && all_registered(r))
    send_report(r, x);
}

void registration_away(struct registration *r, dc_time away)
{
  if (r->conn != NULL && all_registered(r))
    send_message(r, json_pack("{s:s,s:I}", "type", "away", "for_ms", (json_int_t)(away / DC_MS)));
}

/* ---- what is heard ---- */

static void on_registered(struct registration *r, const json_t *m)
{
  if (r->who.registered != NULL)
    r->who.registered(r->who.arg, m);
  if (all_registered(r)) /* told again: the answer is another one now */
    return;
  json_int_t ms = json_integer_value(json_object_get(m, "heartbeat_ms"));
  r->heartbeat = (ms >= 10 && ms <= 60000 ? (dc_time)ms : 1000) * DC_MS;
  json_int_t beats = json_integer_value(json_object_get(m, "silence_beats"));
  r->silence = beats > 0 && beats <= SILENCE_MAX ? (unsigned)beats : 0;
  if (++r->registered < r->who.nodes) {
    register_next(r);
    return;
  }
  r->backoff = BACKOFF_MIN;
  r->complained = false;
  log_info("registered %u node(s) at the fabric manager %s", r->registered, addresses_now(&r->managers));
  for (unsigned i = 0; i < r->reports; i++)
    send_report(r, &r->report[i]);
  alarm_in(r, r->heartbeat);
}

static void on_acknowledged(struct registration *r, json_int_t n)
{
  unsigned gone = 0;
  while (gone < r->reports && (json_int_t)r->report[gone].n <= n)
    gone++;
  r->reports -= gone;
  memmove(r->report, r->report + gone, r->reports * sizeof r->report[0]);
}

static void on_error(struct registration *r, const char *text)
{
  char why[200];
  if (text == NULL)
    text = "no reason given";
  if (all_registered(r)) {
    log_warn("fabric manager %s refuses a report: %s", addresses_now(&r->managers), text);
    return;
  }
  snprintf(why, sizeof why, "refuses node %s: %s", r->who.node(r->who.arg, r->registered)->name, text);
  conn_drain(r->conn, why);
}

static void message(struct conn *c, json_t *m)
{
  struct registration *r = c->owner;
  const char *type = json_string_value(json_object_get(m, "type"));
  r->unheard = 0;
  if (strcmp(type, "registered") == 0)
    on_registered(r, m);
  else if (strcmp(type, "ok") == 0)
    on_acknowledged(r, json_integer_value(json_object_get(m, "n")));
  else if (strcmp(type, "error") == 0)
    on_error(r, json_string_value(json_object_get(m, "error")));
}

static void closed(struct conn *c, const char *why) { try_again(c->owner, why); }

static const struct conn_ops ops = {.message = message, .closed = closed};

/* ---- connecting, beating ---- */

static void give_up(struct registration *r, const char *why)
{
  conn_free(r->conn);
  try_again(r, why);
}

static void connect_now(struct registration *r)
{
  static const struct tls_expect whom = {"fabric-manager", NULL};
  const struct security *s = r->security;
  struct sockaddr_storage to;
  socklen_t len;
  int fd = -EINVAL;
  if (address_parse(addresses_now(&r->managers), &to, &len))
    fd = s->ctx != NULL || security_allows_plain(s, &to) ? address_connect(&to, len) : -EPERM;
  r->conn = fd < 0 ? NULL : conn_new(r->loop, fd, true, addresses_now(&r->managers), &r->budget, &ops, r);
  if (r->conn != NULL && s->ctx != NULL && !conn_secure(r->conn, s->ctx, false, whom)) {
    conn_free(r->conn);
    r->conn = NULL;
    fd = -ENOMEM;
  }
  if (r->conn != NULL)
    register_next(r); /* waits until the connection stands */
  else
    try_again(r, fd == -EPERM ? "plain TCP leaves this machine: give certificates (TLS), or allow it as insecure"
                 : fd < 0     ? strerror(-fd)
                              : "out of memory");
}

/* What the nodes have counted, by name, and what their links carry; of reasons to drop those that occurred. */
static json_t *counted(const struct registration *r)
{
  json_t *all = r->who.counted(r->who.arg), *node, *value;
  const char *name, *key;
  void *next;
  json_object_foreach(all, name, node)
  {
    json_t *drop = json_object_get(node, "drop");
    json_object_foreach_safe(drop, next, key, value)
    {
      if (json_integer_value(value) == 0)
        json_object_del(drop, key);
    }
  }
  return all;
}

static void due(struct timer *t, dc_time now)
{
  struct registration *r = (struct registration *)(void *)((char *)t - offsetof(struct registration, timer));
  (void)now;
  if (r->conn == NULL) {
    connect_now(r);
  } else if (!all_registered(r)) {
    give_up(r, "does not answer");
  } else if (r->silence != 0 && r->unheard == r->silence) { /* a machine that is gone, or hangs, ends no connection */
    give_up(r, "says nothing any more");
  } else {
    json_t *m =
        json_pack("{s:s,s:I,s:o}", "type", "heartbeat", "t_ns", (json_int_t)loop_realtime_ns(), "nodes", counted(r));
    if (r->who.beat != NULL)
      r->who.beat(r->who.arg, m);
    r->unheard++;
    send_message(r, m);
    alarm_in(r, r->heartbeat);
  }
}

bool registration_open(struct registration *r, struct loop *loop, const struct security *security,
                       const struct registrant *who, const char *managers, struct fault *why)
{
  *r = (struct registration){
      .loop = loop, .security = security, .who = *who, .backoff = BACKOFF_MIN, .timer = {.fire = due, .at = DC_NEVER}};
  if (managers == NULL || managers[0] == '\0')
    return true;
  if (!addresses_parse(&r->managers, managers))
    return fault_set(why, "bad_request", "%s is not an address such as 198.18.0.1:7500, or up to %d behind commas",
                     managers, ADDRESSES_MAX);
  loop_timer(loop, &r->timer, loop->now);
  return true;
}

void registration_close(struct registration *r)
{
  if (r->loop == NULL)
    return;
  loop_timer(r->loop, &r->timer, DC_NEVER);
  if (r->conn != NULL)
    conn_free(r->conn);
  r->conn = NULL;
}
