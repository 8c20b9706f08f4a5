/* datacast-agent: puts the parts of a host together and runs the loop. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datapath/privileges.h"
#include "datapath/signals.h"
#include "fetch.h"
#include "group.h"
#include "options.h"
#include "registrant.h"
#include "signal_tree.h"

struct agent {
  struct loop loop;
  struct shards shards;
  struct forward *forward[SHARDS_MAX]; /* of them */
  struct worker worker, disk, fetch, probe;
  struct host host;
  struct groups groups;
  struct signalling signalling;
  struct registration registration;
  struct signals signals;
};

static struct agent agent;

/* A way in and out of each port for each shard; NULL: not opened. */
static struct netif *ways[SHARDS_MAX][DC_NODE_PORTS_MAX];

/* Those of one interface share its frames by tree. */
static bool open_cable(const struct port_option *p, uint16_t port, unsigned n, struct fault *why)
{
  int group = -1;
  struct afpacket_cfg cfg = {.name = p->ifname, .spread = n > 1 ? steering_program() : NULL, .group = &group};
  for (unsigned i = 0; i < n; i++)
    if ((ways[i][port] = afpacket_open(&cfg, why)) == NULL)
      return false;
  return true;
}

/* What comes in at a tunnel is one shard's, which hands over what is not its trees' (forward.c); all send. p: NULL for a slot. */
static bool open_tunnel(const struct port_option *p, uint16_t port, unsigned n, struct fault *why)
{
  unsigned own = shard_of_port(port, n);
  struct netif *first = p == NULL ? tunnel_slot_open(why) : tunnel_open(&p->tunnel, why);
  ways[own][port] = first;
  for (unsigned i = 0; first != NULL && i < n; i++)
    if (i != own && (ways[i][port] = tunnel_share(first, NULL, why)) == NULL)
      return false;
  return first != NULL;
}

/* Each has a memory of its own with the switch, which sends it what is its trees'. */
static bool open_memif(const struct port_option *p, uint16_t port, unsigned n, struct fault *why)
{
  struct memif_cfg cfg = p->memif;
  for (unsigned i = 0; i < n; i++) {
    cfg.lane = (uint8_t)i;
    cfg.of = (uint8_t)n;
    if ((ways[i][port] = memif_open(&cfg, why)) == NULL)
      return false;
  }
  return true;
}

static bool open_way(const struct port_option *p, uint16_t port, unsigned n, struct fault *why)
{
  switch (p->kind) {
  case PORT_CABLE:
    return open_cable(p, port, n, why);
  case PORT_MEMIF:
    return open_memif(p, port, n, why);
  default:
    return open_tunnel(p, port, n, why);
  }
}

static bool open_ways(const struct options *o, struct fault *why)
{
  bool ok = true;
  for (uint16_t i = 0; ok && i < o->ports; i++)
    ok = open_way(&o->port[i], i, o->workers, why);
  for (uint16_t i = 0; ok && i < o->slots; i++)
    ok = open_tunnel(NULL, (uint16_t)(o->ports + i), o->workers, why);
  return ok;
}

static void close_ways(unsigned from)
{
  for (unsigned i = from; i < SHARDS_MAX; i++)
    for (unsigned k = 0; k < DC_NODE_PORTS_MAX; k++)
      if (ways[i][k] != NULL)
        ways[i][k]->ops->close(ways[i][k]);
}

static bool open_shard(struct shard *s, const struct options *o, struct fault *why)
{
  static uint8_t neighbour[DC_NODE_PORTS_MAX][6];
  for (uint16_t i = 0; i < o->ports; i++)
    memcpy(neighbour[i], o->port[i].neighbour, 6);
  struct forward_cfg cfg = o->forward;
  cfg.index = s->index;
  cfg.of = o->workers;
  return forward_open(&s->forward, &s->loop, &cfg, ways[s->index], (const uint8_t(*)[6])neighbour,
                      (uint16_t)(o->ports + o->slots), why);
}

static void close_ports(struct agent *a, unsigned n)
{
  while (n > 0)
    forward_close(&a->shards.one[--n].forward);
}

static bool open_ports(struct agent *a, const struct options *o, struct fault *why)
{
  unsigned n = 0, own = 0; /* shards; those whose ways are theirs from then on, also on failure */
  bool ok = open_ways(o, why);
  for (; ok && n < a->shards.n; n += ok) {
    struct shard *s = &a->shards.one[n];
    own++;
    ok = open_shard(s, o, why);
    s->loop.gather_max = o->gather_us * DC_US;
    a->forward[n] = &s->forward;
  }
  ok = ok && (n == 1 || forward_share(a->forward, n, why));
  if (!ok) {
    close_ports(a, n);
    close_ways(own);
  }
  return ok;
}

static bool open_folders(struct agent *a, const struct options *o, struct fault *why)
{
  for (unsigned i = 0; i < o->dest_roots; i++)
    if (!roots_add(&a->host.dest_roots, o->dest_root[i], why))
      return false;
  for (unsigned i = 0; i < o->source_roots; i++)
    if (!roots_add(&a->host.source_roots, o->source_root[i], why))
      return false;
  return true;
}

static unsigned processors(void)
{
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n < 2 ? 2 : n > HASH_THREADS_MAX ? HASH_THREADS_MAX : (unsigned)n;
}

/* Parts in the order of their needs; what was opened is closed again in reverse. */
static int run(struct agent *a, const struct options *o)
{
  struct fault why;
  struct engine *links = &a->shards.one[0].forward.engine;
  int code = 1, rc;
  a->host = (struct host){.name = o->node,
                          .loop = &a->loop,
                          .shards = &a->shards,
                          .registration = &a->registration,
                          .worker = &a->worker,
                          .disk = &a->disk,
                          .fetch = &a->fetch,
                          .probe = &a->probe,
                          .origins = o->origins,
                          .ahead_room = AHEAD_BYTES,
                          .sync = o->sync,
                          .owners = o->owners,
                          .xattrs = o->xattrs,
                          .keep_partial = o->keep_partial,
                          .key_file = o->tls_key};
  stages_open(&a->host.stages);
  a->host.fixed_ports = o->ports;
  a->host.addr = o->listen;
  const struct registrant who = host_registrant(&a->host);
  a->host.security.insecure = o->insecure;
  if (o->tls_ca != NULL) {
    a->host.security.ctx = tls_open(o->tls_ca, o->tls_cert, o->tls_key, "agent", o->node, &why);
    if (a->host.security.ctx == NULL)
      goto out;
  }
  if ((o->origins != NULL || o->tls_ca != NULL) && !fetch_init(&why))
    goto out;
  if (!open_folders(a, o, &why) || !signals_block(&a->signals, &why) || !signals_watch(&a->signals, &a->loop, &why))
    goto out;
  rc = shards_open(&a->shards, o->workers, &a->loop);
  if (rc < 0) {
    fault_set(&why, "io", "the loops of frames: %s", strerror(-rc));
    goto out;
  }
  if (!open_ports(a, o, &why))
    goto close_shards;
  groups_init(&a->groups, &a->host, o->groups);
  if (!signalling_open(&a->signalling, &a->loop, &a->groups, o->listen, &why))
    goto close_forward;
  if (!registration_open(&a->registration, &a->loop, &a->host.security, &who, o->manager, &why))
    goto close_signalling;
  links->link_changed = host_link;
  links->link_arg = &a->host;
  if (!engine_watch_carrier(links, &why))
    goto close_registration;
  /* Sockets, ports and folders are open; files of others are still to be read and written. Before the worker starts. */
  uint64_t kept = PRIVILEGE(CAP_DAC_OVERRIDE) | PRIVILEGE(CAP_DAC_READ_SEARCH);
  if (!privileges_keep(kept | (o->owners ? PRIVILEGE(CAP_CHOWN) : 0), &why))
    goto close_registration;
  if (o->owners && !privileges_has(CAP_CHOWN)) {
    fault_set(&why, "denied", "--owners needs root, or CAP_CHOWN: files cannot be given to others");
    goto close_registration;
  }
  rc = worker_open(&a->worker, &a->loop, processors(), processors());
  if (rc == 0)
    rc = worker_open(&a->disk, &a->loop, DISK_THREADS, DISK_THREADS);
  if (rc == 0 && !walks_open(&a->host.walks, &a->host))
    rc = -ENOMEM;
  if (rc == 0 && (o->origins != NULL || o->tls_ca != NULL))
    rc = worker_open(&a->fetch, &a->loop, 1, FETCH_THREADS);
  if (rc == 0 && a->fetch.threads > 0)
    rc = worker_open(&a->probe, &a->loop, 1, PROBE_THREADS);
  if (rc == 0)
    rc = shards_start(&a->shards);
  if (rc < 0) {
    fault_set(&why, "io", "no worker threads: %s", strerror(-rc));
    goto close_worker;
  }

  left_open(&a->groups.left);
  log_info("ready on %s with %u ports", o->listen, o->ports);
  loop_run(&a->loop);
  groups_close(&a->groups);
  code = 0;

close_worker:
  walks_close(&a->host.walks);
  shards_stop(&a->shards);
  worker_close(&a->worker);
  worker_close(&a->disk);
  worker_close(&a->fetch);
  worker_close(&a->probe);
  stages_close(&a->host.stages);
close_registration:
  links->link_changed = NULL;
  registration_close(&a->registration);
close_signalling:
  signalling_close(&a->signalling);
close_forward:
  close_ports(a, a->shards.n);
close_shards:
  shards_close(&a->shards);
out:
  if (code != 0)
    log_error("%s", why.text);
  free(a->host.led);
  free(a->host.room);
  tls_close(a->host.security.ctx);
  roots_close(&a->host.dest_roots);
  roots_close(&a->host.source_roots);
  signals_close(&a->signals);
  return code;
}

int main(int argc, char **argv)
{
  static struct options o;
  switch (options_parse(&o, argc, argv)) {
  case OPTIONS_DONE:
    return 0;
  case OPTIONS_BAD:
    return 2;
  case OPTIONS_RUN:
    break;
  }
  char name[80];
  snprintf(name, sizeof name, "agent %s", o.node);
  log_open(name, o.level);
  int rc = loop_open(&agent.loop);
  if (rc < 0) {
    log_error("epoll: %s", strerror(-rc));
    return 1;
  }
  agent.loop.gather_max = o.gather_us * DC_US; /* runs that were written gather as packets do */
  rc = run(&agent, &o);
  loop_close(&agent.loop);
  return rc;
}
