#include "registration.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datapath/instance.h"
#include "datapath/tunnel.h"

#define BACKOFF_MIN (100 * DC_MS)
#define BACKOFF_MAX (5 * DC_SEC)
/* Nobody listens: a fabric manager that starts again is found soon, and an attempt costs it nothing. */
#define REFUSED_MAX (400 * DC_MS)
#define ANSWER_LIMIT (3 * DC_SEC)
#define VERSION "0.1.0"

static void try_again(struct registration *r, const char *why)
{
  if (r->backoff == BACKOFF_MIN || r->registered)
    log_warn("fabric manager %s: %s; trying again", addresses_now(&r->managers), why);
  r->registered = false;
  addresses_next(&r->managers);
  loop_timer(r->host->loop, &r->timer, r->host->loop->now + r->backoff);
  dc_time most = strcmp(why, strerror(ECONNREFUSED)) == 0 ? REFUSED_MAX : BACKOFF_MAX;
  r->backoff = 2 * r->backoff < most ? 2 * r->backoff : most;
}

static json_t *roots(const struct roots *r)
{
  json_t *list = json_array();
  for (unsigned i = 0; i < r->n; i++)
    json_array_append_new(list, json_string(r->root[i].path[0] == '\0' ? "/" : r->root[i].path));
  return list;
}

static void send_register(struct registration *r)
{
  const struct forward *f = r->host->forward;
  json_t *ports = json_array();
  for (uint16_t i = 0; i < f->ports; i++) {
    const struct netif *n = f->port[i]->nif;
    char mac[18];
    snprintf(mac, sizeof mac, "%02x:%02x:%02x:%02x:%02x:%02x", n->mac[0], n->mac[1], n->mac[2], n->mac[3], n->mac[4],
             n->mac[5]);
    json_array_append_new(ports, json_pack("{s:i,s:s,s:s,s:b,s:I}", "port", (int)i, "ifname", n->name, "mac", mac, "up",
                                           f->port[i]->link.up ? 1 : 0, "mtu", (json_int_t)n->mtu));
  }
  json_t *m =
      json_pack("{s:s,s:s,s:s,s:s,s:i,s:s,s:s,s:I,s:o,s:o,s:o}", "type", "register", "node", r->host->name, "kind",
                "host", "addr", r->addr, "pid", (int)getpid(), "instance", instance_id(), "version", VERSION, "n", (json_int_t)r->last_n, "ports", ports,
                "dest_roots", roots(&r->host->dest_roots), "source_roots", roots(&r->host->source_roots));
  conn_send(r->conn, m);
  json_decref(m);
}

static void send_report(struct registration *r, const struct link_report *x)
{
  json_t *m = json_pack("{s:s,s:i,s:b,s:I,s:I}", "type", "link", "port", (int)x->port, "up", x->up ? 1 : 0, "t_ns",
                        (json_int_t)x->t_ns, "n", (json_int_t)x->n);
  if (x->reason != NULL)
    json_object_set_new(m, "reason", json_string(x->reason));
  conn_send(r->conn, m);
  json_decref(m);
}

void registration_link(void *arg, uint16_t port, bool up, const char *reason)
{
  struct registration *r = arg;
  if (r->managers.n == 0)
    return;
  if (r->reports == LINK_REPORTS_MAX) /* each registration tells the present state; the oldest change goes */
    memmove(r->report, r->report + 1, --r->reports * sizeof r->report[0]);
  struct link_report *x = &r->report[r->reports++];
  *x = (struct link_report){.n = ++r->last_n, .t_ns = loop_realtime_ns(), .port = port, .up = up, .reason = reason};
  if (r->registered)
    send_report(r, x);
}

/* ---- tunnels that the fabric manager gives out ---- */

static bool read_tunnel(const json_t *x, uint16_t ports, uint16_t *port, struct tunnel_cfg *cfg)
{
  const char *local = json_string_value(json_object_get(x, "local"));
  const char *remote = json_string_value(json_object_get(x, "remote"));
  json_int_t n = json_is_integer(json_object_get(x, "port")) ? json_integer_value(json_object_get(x, "port")) : -1;
  json_int_t mtu = json_integer_value(json_object_get(x, "mtu"));
  if (local == NULL || remote == NULL || n < 0 || n >= ports || mtu < 0 || mtu > UINT16_MAX ||
      !tunnel_parse(local, remote, (uint32_t)mtu, cfg))
    return false;
  *port = (uint16_t)n;
  return true;
}

static void lead(struct forward *f, uint16_t port, const struct tunnel_cfg *cfg)
{
  struct fault why;
  struct netif *now = f->port[port]->nif, *slot = tunnel_slot(now) != NULL ? tunnel_slot(now) : now;
  if (slot != now && tunnel_same(tunnel_cfg(now), cfg))
    return;
  if (slot != now)
    forward_replace(f, port, slot);
  struct netif *tunnel = tunnel_slot_fill(slot, cfg, &why);
  if (tunnel == NULL)
    log_error("port %u: %s", port, why.text);
  else
    forward_replace(f, port, tunnel);
}

/* All of them: a slot that the list does not name leads nowhere. */
static void take_tunnels(struct registration *r, const json_t *list)
{
  struct forward *f = r->host->forward;
  bool named[DC_NODE_PORTS_MAX] = {false};
  size_t i;
  json_t *x;
  if (!json_is_array(list))
    return;
  json_array_foreach((json_t *)(uintptr_t)list, i, x) {
    uint16_t port;
    struct tunnel_cfg cfg;
    if (!read_tunnel(x, f->ports, &port, &cfg)) {
      log_error("the fabric manager gives out a tunnel that this agent does not understand or has no port for");
      continue;
    }
    if (port < r->host->fixed_ports || named[port])
      continue; /* given on the command line */
    named[port] = true;
    lead(f, port, &cfg);
  }
  for (uint16_t p = r->host->fixed_ports; p < f->ports; p++)
    if (!named[p] && tunnel_slot(f->port[p]->nif) != NULL)
      forward_replace(f, p, tunnel_slot(f->port[p]->nif));
}

static void message(struct conn *c, json_t *m)
{
  struct registration *r = c->owner;
  const char *type = json_string_value(json_object_get(m, "type"));
  if (strcmp(type, "registered") == 0) {
    json_int_t ms = json_integer_value(json_object_get(m, "heartbeat_ms"));
    r->heartbeat = (ms >= 10 && ms <= 60000 ? (dc_time)ms : 1000) * DC_MS;
    r->registered = true;
    r->backoff = BACKOFF_MIN;
    log_info("registered at the fabric manager %s", addresses_now(&r->managers));
    take_tunnels(r, json_object_get(m, "tunnels"));
    for (unsigned i = 0; i < r->reports; i++)
      send_report(r, &r->report[i]);
    loop_timer(r->host->loop, &r->timer, r->host->loop->now + r->heartbeat);
  } else if (strcmp(type, "ok") == 0) {
    json_int_t n = json_integer_value(json_object_get(m, "n"));
    unsigned gone = 0;
    while (gone < r->reports && (json_int_t)r->report[gone].n <= n)
      gone++;
    r->reports -= gone;
    memmove(r->report, r->report + gone, r->reports * sizeof r->report[0]);
  } else if (strcmp(type, "error") == 0) {
    const char *text = json_string_value(json_object_get(m, "error"));
    log_error("the fabric manager refuses this agent: %s", text == NULL ? "no reason given" : text);
    r->registered = false;
    r->backoff = 1 * DC_SEC;
    conn_drain(c, "refused");
  }
}

static void closed(struct conn *c, const char *why)
{
  struct registration *r = c->owner;
  r->conn = NULL;
  try_again(r, why);
}

static const struct conn_ops ops = {.message = message, .closed = closed};

static void connect_now(struct registration *r)
{
  struct sockaddr_storage to;
  socklen_t len;
  int fd = -EINVAL;
  if (address_parse(addresses_now(&r->managers), &to, &len)) {
    const struct security *s = &r->host->security;
    fd = s->ctx != NULL || security_allows_plain(s, &to) ? address_connect(&to, len) : -EPERM;
  }
  r->conn = fd < 0 ? NULL : conn_new(r->host->loop, fd, true, addresses_now(&r->managers), &r->budget, &ops, r);
  if (r->conn == NULL) {
    try_again(r, fd == -EPERM ? "plain TCP leaves this machine: give --tls-ca, --tls-cert, --tls-key or --insecure"
                 : fd < 0     ? strerror(-fd)
                              : "out of memory");
    return;
  }
  struct tls_expect whom = {"fabric-manager", NULL};
  if (r->host->security.ctx != NULL && !conn_secure(r->conn, r->host->security.ctx, false, whom)) {
    conn_free(r->conn);
    r->conn = NULL;
    try_again(r, "out of memory");
    return;
  }
  send_register(r);
  loop_timer(r->host->loop, &r->timer, r->host->loop->now + ANSWER_LIMIT);
}

static void due(struct timer *t, dc_time now)
{
  struct registration *r = (struct registration *)(void *)((char *)t - offsetof(struct registration, timer));
  if (r->conn == NULL) {
    connect_now(r);
  } else if (!r->registered) {
    conn_free(r->conn);
    r->conn = NULL;
    try_again(r, "no answer");
  } else {
    json_t *m = json_pack("{s:s}", "type", "heartbeat");
    conn_send(r->conn, m);
    json_decref(m);
    loop_timer(r->host->loop, t, now + r->heartbeat);
  }
}

bool registration_open(struct registration *r, struct host *host, const char *managers, const char *addr,
                       struct fault *why)
{
  *r = (struct registration){.host = host, .backoff = BACKOFF_MIN, .timer = {.fire = due, .at = DC_NEVER}};
  if (managers == NULL)
    return true;
  if (!addresses_parse(&r->managers, managers))
    return fault_set(why, "bad_request", "%s is not an address such as 198.18.0.1:7500, or up to %d behind commas",
                     managers, ADDRESSES_MAX);
  r->addr = strdup(addr);
  connect_now(r);
  return true;
}

void registration_close(struct registration *r)
{
  loop_timer(r->host->loop, &r->timer, DC_NEVER);
  if (r->conn != NULL)
    conn_free(r->conn);
  free(r->addr);
}
