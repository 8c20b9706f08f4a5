#include "fabric.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "answers.h"

#ifndef DATACAST_VERSION
#define DATACAST_VERSION "0.1.0"
#endif

enum { FRAME_MAX = 4 << 20, LENGTH_BYTES = 4 };

#define PAUSE_FIRST (200 * DC_MS)
#define PAUSE_MOST (10 * DC_SEC)
#define ANSWER_WITHIN (5 * DC_SEC)

static struct fabric *of_timer(struct timer *t) { return (struct fabric *)((char *)t - offsetof(struct fabric, timer)); }

static uint64_t wall_clock_ns(void) {
  struct timespec ts;
  clock_gettime(CLOCK_REALTIME, &ts);
  return (uint64_t)ts.tv_sec * DC_SEC + (uint64_t)ts.tv_nsec;
}

/* Takes over `message`. */
static void send_message(struct fabric *fm, json_t *message) {
  char *text = json_dumps(message, JSON_COMPACT);
  json_decref(message);
  if (text == NULL) return;
  uint32_t length = htonl((uint32_t)strlen(text));
  if (conn_write(&fm->conn, &length, LENGTH_BYTES)) (void)conn_write(&fm->conn, text, strlen(text));
  free(text);
}

/* ---- going and coming back ---- */

static void later(struct fabric *fm, const char *why) {
  fm->open = false;
  fm->registered = 0;
  fm->pause = fm->pause == 0 ? PAUSE_FIRST : fm->pause * 2 < PAUSE_MOST ? fm->pause * 2 : PAUSE_MOST;
  fm->timer.at = sw_now() + fm->pause;
  sw_log(fm->complained ? SW_DEBUG : SW_WARN, "fabric manager %s: %s; trying again", fm->name, why);
  fm->complained = true;
}

static void give_up(struct fabric *fm, const char *why) {
  conn_stop(&fm->conn);
  later(fm, why);
}

static void closed(struct conn *c, const char *why) { later((struct fabric *)c, why); }

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
  const struct member *m = &fm->loop->sw->members[fm->registered];
  json_t *o = json_pack("{s:s,s:s,s:s,s:i,s:s,s:o}", "type", "register", "node", m->cfg->name, "kind",
                        "switch", "pid", (int)getpid(), "version", DATACAST_VERSION,
                        "ports", ports_of(m));
  if (fm->control[0] != '\0') json_object_set_new(o, "control", json_string(fm->control));
  send_message(fm, o);
  fm->timer.at = sw_now() + ANSWER_WITHIN;
}

static void connected(struct conn *c) {
  struct fabric *fm = (struct fabric *)c;
  fm->registered = 0;
  register_next(fm);
}

static void send_link(struct fabric *fm, struct port *p) {
  json_t *m = json_pack("{s:s,s:s,s:i,s:b,s:I,s:I}", "type", "link", "node", p->member->cfg->name, "port",
                        (int)p->number, "up", p->link.up, "t_ns", (json_int_t)wall_clock_ns(), "n",
                        (json_int_t)++fm->links_sent);
  if (!p->link.up) json_object_set_new(m, "reason", json_string(linkstate_reason(&p->link)));
  p->told = p->link.up;
  send_message(fm, m);
}

static void registered(struct fabric *fm, const json_t *m) {
  json_int_t ms = json_integer_value(json_object_get(m, "heartbeat_ms"));
  if (fm->registered == fm->loop->sw->nmembers) return;
  fm->heartbeat = (ms > 0 ? (dc_time)ms : 1000) * DC_MS;
  struct port *const *port = fm->loop->sw->members[fm->registered].port;
  for (unsigned i = 0; i < DC_NODE_PORTS_MAX; i++) /* what changed while the answer was on its way */
    if (port[i] != NULL && port[i]->told != port[i]->link.up) send_link(fm, port[i]);
  if (++fm->registered < fm->loop->sw->nmembers) {
    register_next(fm);
    return;
  }
  sw_log(SW_INFO, "registered %u node(s) at fabric manager %s", fm->registered, fm->name);
  fm->complained = false;
  fm->pause = 0;
  fm->timer.at = sw_now() + fm->heartbeat;
}

/* False when the connection was given up. */
static bool handle(struct fabric *fm, const char *text, size_t len) {
  json_t *m = json_loadb(text, len, 0, NULL);
  const char *type = json_string_value(json_object_get(m, "type"));
  bool go_on = true;
  if (type == NULL) {
    send_message(fm, json_pack("{s:s,s:s,s:s}", "type", "error", "code", "bad_request", "error", "not a JSON object with a type"));
    give_up(fm, "sent something that is no message");
    go_on = false;
  } else if (strcmp(type, "registered") == 0) {
    registered(fm, m);
  } else if (strcmp(type, "error") == 0) {
    const char *error = json_string_value(json_object_get(m, "error"));
    char why[256];
    go_on = fm->registered == fm->loop->sw->nmembers;
    snprintf(why, sizeof why, "refuses %s%s: %s", go_on ? "a report" : "node ",
             go_on ? "" : fm->loop->sw->members[fm->registered].cfg->name, error != NULL ? error : "no reason given");
    if (go_on) sw_log(SW_WARN, "fabric manager %s: %s", fm->name, why);
    else give_up(fm, why);
  }
  json_decref(m);
  return go_on;
}

static void received(struct conn *c) {
  struct fabric *fm = (struct fabric *)c;
  while (c->in_len >= LENGTH_BYTES) {
    uint32_t length;
    memcpy(&length, c->in, LENGTH_BYTES);
    length = ntohl(length);
    if (length > FRAME_MAX) {
      give_up(fm, "sent a frame over the limit");
      return;
    }
    if (c->in_len < LENGTH_BYTES + length) return;
    if (!handle(fm, c->in + LENGTH_BYTES, length)) return;
    conn_take(c, LENGTH_BYTES + length);
  }
}

/* ---- connecting, beating ---- */

static void connect_now(struct fabric *fm) {
  struct failure f;
  int fd = socket(fm->addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    later(fm, strerror(errno));
    return;
  }
  int rc = connect(fd, (struct sockaddr *)&fm->addr, fm->addr_len);
  if (rc < 0 && errno != EINPROGRESS) {
    int error = errno;
    close(fd);
    later(fm, strerror(error));
    return;
  }
  fm->conn = (struct conn){.received = received, .connected = connected, .closed = closed};
  if (conn_start(&fm->conn, &fm->loop->watcher, fd, true, FRAME_MAX + LENGTH_BYTES + 1, &f) < 0) {
    close(fd);
    later(fm, f.text);
    return;
  }
  fm->open = true;
  fm->timer.at = sw_now() + ANSWER_WITHIN;
}

static void due(struct timer *t, dc_time now) {
  struct fabric *fm = of_timer(t);
  if (!fm->open) {
    connect_now(fm);
  } else if (fm->registered < fm->loop->sw->nmembers) {
    give_up(fm, "does not answer");
  } else {
    send_message(fm, json_pack("{s:s}", "type", "heartbeat"));
    t->at = now + fm->heartbeat;
  }
}

static void parse_address(struct fabric *fm, const char *address) {
  char host[SW_NAME_MAX];
  snprintf(host, sizeof host, "%s", address);
  char *colon = strrchr(host, ':');
  uint16_t port = htons((uint16_t)atoi(colon + 1));
  *colon = '\0';
  if (host[0] == '[') {
    struct sockaddr_in6 *a = (struct sockaddr_in6 *)&fm->addr;
    colon[-1] = '\0';
    *a = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = port};
    inet_pton(AF_INET6, host + 1, &a->sin6_addr);
    fm->addr_len = sizeof *a;
  } else {
    struct sockaddr_in *a = (struct sockaddr_in *)&fm->addr;
    *a = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port};
    inet_pton(AF_INET, host, &a->sin_addr);
    fm->addr_len = sizeof *a;
  }
}

void fabric_open(struct fabric *fm, struct loop *l, const char *address, const char *control) {
  *fm = (struct fabric){.loop = l, .name = address, .control = control, .timer = {.at = 0, .due = due}};
  fm->conn.watch.fd = -1;
  parse_address(fm, address);
  loop_add_timer(l, &fm->timer);
}

void fabric_close(struct fabric *fm) {
  if (fm->open) conn_stop(&fm->conn);
  fm->open = false;
}

void fabric_link(struct fabric *fm, struct port *p) {
  /* A node that is not registered yet tells its links when it is. */
  if (fm->open && (size_t)(p->member - fm->loop->sw->members) < fm->registered) send_link(fm, p);
}
