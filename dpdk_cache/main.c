/* datacast-switch: a DPDK program around the core's node. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "control.h"
#include "datapath/privileges.h"
#include "datapath/registration.h"
#include "datapath/signals.h"
#include "eal.h"
#include "links.h"
#include "options.h"
#include "telemetry.h"
#include "workers.h"

enum { EXIT_RUNTIME = 1, EXIT_USAGE = 2, EXIT_AGAIN = 75 /* EX_TEMPFAIL: start it again */ };

#define GOODBYES (60 * DC_MS) /* more than one hello, should one be lost */

/* Packet sockets and their buffers, pinned memory, sockets and files in other people's folders. */
#define START_NEEDS                                                                                                    \
  (PRIVILEGE(CAP_NET_RAW) | PRIVILEGE(CAP_NET_ADMIN) | PRIVILEGE(CAP_IPC_LOCK) | PRIVILEGE(CAP_DAC_OVERRIDE))

struct program {
  struct signals signals;
  struct options options;
  struct config config;
  struct workers workers;
  struct security security;
  struct links links;
  struct registration registration;
  struct control *control;
  struct timer gone;
  bool leaves; /* its next run is to start at once */
};

static void stop(struct timer *t, dc_time now)
{
  struct program *p = (struct program *)(void *)((char *)t - offsetof(struct program, gone));
  (void)now;
  p->workers.worker[0].loop.stop = true;
}

static int check_ports(const struct config *c, bool opens, struct fault *f)
{
  for (unsigned i = 0; i < c->nnodes; i++)
    for (unsigned k = 0; k < c->nodes[i].nports; k++)
      if (port_check(&c->nodes[i].ports[k], c->mtu, opens, f) < 0) {
        struct fault inner = *f;
        return fail(f, "node %s port %u: %s", c->nodes[i].name, c->nodes[i].ports[k].port, inner.text);
      }
  return 0;
}

/* Could a next run start with what stands in the files now? It has more rights than this one has left: a key that this one
 * may not read is no reason against it. */
static int check_next(const struct options *o, struct config *c, struct fault *f)
{
  const struct tls_cfg *t = &c->tls;
  if (config_load(c, o->config, o->appliance, f) < 0 || check_ports(c, false, f) < 0)
    return -1;
  if (t->ca[0] == '\0' || (access(t->key, R_OK) < 0 && errno == EACCES))
    return 0;
  struct tls_ctx *ctx = tls_open(t->ca, t->cert, t->key, "switch", NULL, f);
  tls_close(ctx);
  return ctx == NULL ? -1 : 0;
}

/* SIGUSR2: an upgrade, or another configuration. What forwards and caches here is soft state. */
static void leave(void *arg)
{
  struct program *p = arg;
  struct worker *w = &p->workers.worker[0];
  dc_time away = p->config.away_ms * DC_MS;
  static struct config next;
  struct fault f;
  if (p->leaves)
    return;
  int rc = check_next(&p->options, &next, &f);
  config_free(&next);
  if (rc < 0) {
    log_error("not leaving, the next run would not start: %s", f.text);
    return;
  }
  p->leaves = true;
  log_info("leaving: the neighbours wait %u ms for this switch to start again", p->config.away_ms);
  engine_leave(&w->sw.engine, away);
  registration_away(&p->registration, away);
  loop_timer(&w->loop, &p->gone, w->loop.now + GOODBYES);
}

static const struct engine_node *node_of(void *arg, unsigned i)
{
  return &((struct program *)arg)->workers.worker[0].sw.members[i].node;
}

static const char *control_path(const struct program *p)
{
  return p->options.control != NULL ? p->options.control : p->config.control;
}

static void describe(void *arg, json_t *m)
{
  const char *socket = control_path(arg);
  json_object_set_new(m, "kind", json_string("switch"));
  if (socket[0] != '\0')
    json_object_set_new(m, "control", json_string(socket));
}

static json_t *counted(void *arg)
{
  struct program *p = arg;
  bool stop = false;
  json_t *request = json_pack("{s:s}", "op", "totals");
  json_t *answer = workers_answer(&p->workers, request, &stop);
  json_t *nodes = json_incref(json_object_get(answer, "nodes"));
  if (nodes == NULL) /* a worker does not answer: the next heartbeat tells */
    nodes = json_object();
  json_decref(answer);
  json_decref(request);
  return nodes;
}

static int serve(struct program *p, struct fault *f)
{
  struct worker *w = &p->workers.worker[0];
  struct sw *sw = &w->sw;
  const struct registrant who = {
      .nodes = sw->nmembers, .node = node_of, .describe = describe, .counted = counted, .arg = p};
  const char *socket = control_path(p);
  int rc = -1;
  if (!signals_watch(&p->signals, &w->loop, f) || !engine_watch_carrier(&sw->engine, f) ||
      !registration_open(&p->registration, &w->loop, &p->security, &who, p->config.fabric_manager, f))
    return -1;
  sw->engine.link_changed = registration_link;
  sw->engine.link_arg = &p->registration;
  /* Last: who sees the socket may rely on everything else. */
  if (links_open(&p->links, sw, f) == 0 && (!p->config.eal.telemetry || telemetry_open(&p->workers, f) == 0) &&
      (socket[0] == '\0' || (p->control = control_open(&p->workers, socket, f)) != NULL)) {
    struct fault why;
    if (!privileges_keep(0, &why))
      log_warn("%s", why.text); /* everything that needs rights is open now */
    log_info("ready: %u node(s), %u port(s), MTU %u, %u packets of cache memory%s%s", sw->nmembers, sw->nports,
             p->config.mtu, sw->pools.data->size, socket[0] != '\0' ? ", control socket " : "", socket);
    rc = workers_start(&p->workers, f);
    if (rc == 0)
      rounds_run(&w->rounds);
    control_close(p->control);
  }
  telemetry_close();
  links_close(&p->links);
  sw->engine.link_changed = NULL;
  registration_close(&p->registration);
  return rc;
}

static int open_security(struct program *p, struct fault *f)
{
  const struct tls_cfg *t = &p->config.tls;
  p->security.insecure = p->config.insecure;
  if (t->ca[0] == '\0')
    return 0;
  p->security.ctx = tls_open(t->ca, t->cert, t->key, "switch", NULL, f);
  return p->security.ctx == NULL ? -1 : 0;
}

static int run(struct program *p, struct fault *f)
{
  uint32_t data, headers;
  sw_pool_sizes(&p->config, &data, &headers);
  struct fault why;
  if (open_security(p, f) < 0)
    return -1;
  /* DPDK's own threads keep what is there when they start; PCI devices and hugepages need more than can be told. */
  if (!p->config.eal.huge && !eal_uses_pci(&p->config) && !privileges_keep(START_NEEDS, &why))
    log_warn("%s", why.text);
  if (eal_start(&p->config, packet_pools_bytes(data, headers, ports_frame_bytes(&p->config)), f) < 0)
    return -1;
  int rc = workers_open(&p->workers, &p->config, p->options.wait, f);
  if (rc == 0) {
    rc = serve(p, f);
    workers_close(&p->workers);
  }
  return rc;
}

int main(int argc, char **argv)
{
  static struct program p = {.gone = {.fire = stop, .at = DC_NEVER}};
  p.signals.leave = leave;
  p.signals.arg = &p;
  struct fault f = {.text = ""};
  enum options_do what = options_parse(&p.options, argc, argv);
  if (what == OPTIONS_DONE)
    return 0;
  if (what == OPTIONS_BAD)
    return EXIT_USAGE;
  if (what == OPTIONS_ASK)
    return control_ask(p.options.ask_socket, p.options.ask_op, p.options.ask_arguments);
  if (config_load(&p.config, p.options.config, p.options.appliance, &f) < 0) {
    log_error("%s", f.text);
    return EXIT_USAGE;
  }
  p.config.no_hello |= p.options.no_hello;
  int code = 0;
  if (check_ports(&p.config, true, &f) < 0) { /* an interface may be there later: another start is worth a try */
    log_error("%s", f.text);
    code = what == OPTIONS_CHECK ? EXIT_USAGE : EXIT_RUNTIME;
  } else if (what == OPTIONS_CHECK) {
    printf("%s: %u node(s), good\n", p.options.config, p.config.nnodes);
  } else if (!signals_block(&p.signals, &f) || log_catch_eal() < 0 || run(&p, &f) < 0) {
    log_error("%s", f.text);
    code = EXIT_RUNTIME;
  } else if (p.leaves) {
    code = EXIT_AGAIN;
  }
  signals_close(&p.signals);
  tls_close(p.security.ctx);
  config_free(&p.config);
  return code;
}
