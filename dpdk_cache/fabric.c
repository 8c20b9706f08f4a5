#include "fabric.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "answers.h"
#include "datapath/instance.h"

#ifndef DATACAST_VERSION
#define DATACAST_VERSION "0.1.0"
#endif

#define PAUSE_FIRST (200 * DC_MS)
#define PAUSE_MOST (10 * DC_SEC)
/* Nobody listens: a fabric manager that starts again is found soon, and an attempt costs it nothing. */
#define PAUSE_REFUSED (400 * DC_MS)
#define ANSWER_WITHIN (5 * DC_SEC)

static struct fabric *of_timer(struct timer *t) {
  return (struct fabric *)((char *)t - offsetof(struct fabric, timer));
}

/* Takes over `message`. */
static void send_message(struct fabric *fm, json_t *message) {
  conn_send(fm->conn, message);
  json_decref(message);
}

static void alarm_at(struct fabric *fm, dc_time after) {
  loop_timer(&fm->rounds->loop, &fm->timer, fm->rounds->loop.now + after);
}

/* ---- going and coming back ---- */

static void later(struct fabric *fm, const char *why) {
  fm->conn = NULL;
  fm->registered = 0;
  dc_time most = strcmp(why, strerror(ECONNREFUSED)) == 0 ? PAUSE_REFUSED : PAUSE_MOST;
  fm->pause = fm->pause == 0 ? PAUSE_FIRST : fm->pause * 2 < most ? fm->pause * 2 : most;
  alarm_at(fm, fm->pause);
  log_write(fm->complained ? LOG_DEBUG : LOG_WARN, "fabric manager %s: %s; trying again", addresses_now(&fm->managers),
            why);
  fm->complained = true;
  addresses_next(&fm->managers);
}

static void give_up(struct fabric *fm, const char *why) {
  conn_free(fm->conn);
  later(fm, why);
}

static void closed(struct conn *c, const char *why) { later(c->owner, why); }

/* ---- registration ---- */

static json_t *ports_of(const struct member *m) {
  json_t *list = json_array();
  for (unsigned i = 0; i < DC_NODE_PORTS_MAX; i++) {
    struct port *p = m->port[i];
    char mac[18];
    if (p == NULL) continue;
    p->told = p->link.up;
    answer_mac(mac, p->mac);
    json_array_append_new(list, json_pack("{s:i,s:s,s:s,s:b}", "port", (int)i, "ifname",
                                          p->cfg->iface[0] != '\0' ? p->cfg->iface : p->cfg->device, "mac", mac, "up",
                                          p->link.up));
  }
  return list;
}

static void register_next(struct fabric *fm) {
  const struct member *m = &fm->rounds->sw->members[fm->registered];
  json_t *o = json_pack("{s:s,s:s,s:s,s:i,s:s,s:s,s:o}", "type", "register", "node", m->cfg->name, "kind",
                        "switch", "pid", (int)getpid(), "instance", instance_id(), "version", DATACAST_VERSION,
                        "ports", ports_of(m));
  if (fm->control[0] != '\0') json_object_set_new(o, "control", json_string(fm->control));
  send_message(fm, o);
  alarm_at(fm, ANSWER_WITHIN);
}

static void send_link(struct fabric *fm, struct port *p) {
  json_t *m = json_pack("{s:s,s:s,s:i,s:b,s:I,s:I}", "type", "link", "node", p->member->cfg->name, "port",
                        (int)p->number, "up", p->link.up, "t_ns", (json_int_t)loop_realtime_ns(), "n",
                        (json_int_t)++fm->links_sent);
  if (!p->link.up) json_object_set_new(m, "reason", json_string(linkstate_reason(&p->link)));
  p->told = p->link.up;
  send_message(fm, m);
}

static void registered(struct fabric *fm, const json_t *m) {
  json_int_t ms = json_integer_value(json_object_get(m, "heartbeat_ms"));
  if (fm->registered == fm->rounds->sw->nmembers) return;
  fm->heartbeat = (ms >= 10 && ms <= 60000 ? (dc_time)ms : 1000) * DC_MS;
  struct port *const *port = fm->rounds->sw->members[fm->registered].port;
  for (unsigned i = 0; i < DC_NODE_PORTS_MAX; i++) /* what changed while the answer was on its way */
    if (port[i] != NULL && port[i]->told != port[i]->link.up) send_link(fm, port[i]);
  if (++fm->registered < fm->rounds->sw->nmembers) {
    register_next(fm);
    return;
  }
  log_info("registered %u node(s) at fabric manager %s", fm->registered, addresses_now(&fm->managers));
  fm->complained = false;
  fm->pause = 0;
  alarm_at(fm, fm->heartbeat);
}

static void message(struct conn *c, json_t *m) {
  struct fabric *fm = c->owner;
  const char *type = json_string_value(json_object_get(m, "type"));
  if (strcmp(type, "registered") == 0) {
    registered(fm, m);
  } else if (strcmp(type, "error") == 0) {
    const char *error = json_string_value(json_object_get(m, "error"));
    bool all = fm->registered == fm->rounds->sw->nmembers;
    char why[160];
    snprintf(why, sizeof why, "refuses %s%s: %s", all ? "a report" : "node ",
             all ? "" : fm->rounds->sw->members[fm->registered].cfg->name, error != NULL ? error : "no reason given");
    if (all) log_warn("fabric manager %s: %s", addresses_now(&fm->managers), why);
    else conn_drain(c, why);
  }
}

static const struct conn_ops ops = {.message = message, .closed = closed};

/* ---- connecting, beating ---- */

static void connect_now(struct fabric *fm) {
  static const struct tls_expect whom = {"fabric-manager", NULL};
  struct sockaddr_storage to;
  socklen_t len;
  int fd = address_parse(addresses_now(&fm->managers), &to, &len) ? address_connect(&to, len) : -EINVAL;
  if (fd >= 0) fm->conn = conn_new(&fm->rounds->loop, fd, true, addresses_now(&fm->managers), &fm->budget, &ops, fm);
  if (fm->conn == NULL) {
    later(fm, fd < 0 ? strerror(-fd) : "out of memory");
    return;
  }
  if (fm->security->ctx != NULL && !conn_secure(fm->conn, fm->security->ctx, false, whom)) {
    give_up(fm, "out of memory");
    return;
  }
  register_next(fm); /* waits until the connection stands */
}

static void due(struct timer *t, dc_time now) {
  struct fabric *fm = of_timer(t);
  (void)now;
  if (fm->conn == NULL) {
    connect_now(fm);
  } else if (fm->registered < fm->rounds->sw->nmembers) {
    give_up(fm, "does not answer");
  } else {
    send_message(fm, json_pack("{s:s}", "type", "heartbeat"));
    alarm_at(fm, fm->heartbeat);
  }
}

void fabric_open(struct fabric *fm, struct rounds *l, const char *address, const char *control,
                 const struct security *security) {
  *fm = (struct fabric){.rounds = l, .control = control, .security = security, .timer = {.fire = due}};
  (void)addresses_parse(&fm->managers, address); /* the configuration was read by it */
  loop_timer(&l->loop, &fm->timer, 0);
}

void fabric_close(struct fabric *fm) {
  if (fm->rounds == NULL) return;
  loop_timer(&fm->rounds->loop, &fm->timer, DC_NEVER);
  if (fm->conn != NULL) conn_free(fm->conn);
  fm->conn = NULL;
}

void fabric_link(struct fabric *fm, struct port *p) {
  /* A node that is not registered yet tells its links when it is. */
  if (fm->conn != NULL && (size_t)(p->member - fm->rounds->sw->members) < fm->registered) send_link(fm, p);
}
