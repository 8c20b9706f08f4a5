#include "registrant.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "datapath/counters.h"
#include "datapath/tunnel.h"
#include "worker.h"

static const struct engine_node *the_node(void *arg, unsigned i)
{
  (void)i;
  return &((struct host *)arg)->shards->one[0].forward.node;
}

static json_t *paths(const struct roots *r)
{
  json_t *list = json_array();
  for (unsigned i = 0; i < r->n; i++)
    json_array_append_new(list, json_string(r->root[i].path[0] == '\0' ? "/" : r->root[i].path));
  return list;
}

/* ---- room in the folders for received files ---- */

struct room {
  const struct roots *in;
  struct statvfs is[ROOTS_MAX];
};

/* In a thread: a disk that hangs holds up no heartbeat. */
static void look_for_room(struct job *j)
{
  struct room *r = (struct room *)(void *)j->bytes;
  for (unsigned i = 0; i < r->in->n; i++)
    if (fstatvfs(r->in->root[i].fd, &r->is[i]) != 0)
      r->is[i] = (struct statvfs){.f_frsize = 1};
}

static void found_room(struct job *j)
{
  struct host *h = j->owner;
  free(h->room);
  h->room = (struct room *)(void *)j->bytes;
  h->looking = false;
  j->bytes = NULL;
}

static void ask_for_room(struct host *h)
{
  struct room *r = h->looking ? NULL : malloc(sizeof *r);
  struct job *j = r == NULL ? NULL : job_new(JOB_CALL);
  if (j == NULL) {
    free(r);
    return;
  }
  r->in = &h->dest_roots;
  j->bytes = (uint8_t *)r;
  j->call = look_for_room;
  j->done = found_room;
  j->owner = h;
  h->looking = true;
  worker_submit(h->disk, j, NULL);
}

/* In the order of `dest_roots`: [free, size] in bytes. */
static json_t *disks(const struct host *h)
{
  json_t *list = json_array();
  for (unsigned i = 0; i < h->dest_roots.n; i++) {
    const struct statvfs *s = &h->room->is[i];
    json_array_append_new(list, json_pack("[I,I]", (json_int_t)s->f_bavail * (json_int_t)s->f_frsize,
                                          (json_int_t)s->f_blocks * (json_int_t)s->f_frsize));
  }
  return list;
}

static void describe(void *arg, json_t *m)
{
  struct host *h = arg;
  ask_for_room(h); /* for the first heartbeat */
  json_object_set_new(m, "kind", json_string("host"));
  json_object_set_new(m, "addr", json_string(h->addr));
  json_object_set_new(m, "dest_roots", paths(&h->dest_roots));
  json_object_set_new(m, "source_roots", paths(&h->source_roots));
}

/* ---- tunnels ---- */

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

struct leading {
  uint16_t port;
  struct netif *const *by; /* of each shard */
};

static void lead_by(struct shard *s, void *arg)
{
  const struct leading *l = arg;
  forward_replace(&s->forward, l->port, l->by[s->index]);
}

/* Which netif a port has changes in calls only. */
static struct netif *slot_of(const struct shards *all, unsigned shard, uint16_t port)
{
  struct netif *now = all->one[shard].forward.port[port]->nif;
  return tunnel_slot(now) != NULL ? tunnel_slot(now) : now;
}

static bool fill(const struct shards *all, uint16_t port, const struct tunnel_cfg *cfg, struct netif *by[],
                 struct fault *why)
{
  unsigned own = shard_of_port(port, all->n);
  by[own] = tunnel_slot_fill(slot_of(all, own, port), cfg, why);
  bool ok = by[own] != NULL;
  for (unsigned i = 0; ok && i < all->n; i++)
    if (i != own)
      ok = (by[i] = tunnel_share(by[own], slot_of(all, i, port), why)) != NULL;
  for (unsigned i = 0; !ok && i < all->n; i++)
    if (by[i] != NULL)
      by[i]->ops->close(by[i]);
  return ok;
}

/* Where the slots lead from now on; one that is not named leads nowhere. */
struct led {
  bool named[DC_NODE_PORTS_MAX], failed[DC_NODE_PORTS_MAX]; /* failed: and it was said */
  struct tunnel_cfg cfg[DC_NODE_PORTS_MAX];
};

/* Where l says. What cannot be opened now is tried again with each heartbeat: an address or a route may come later. */
static void lead(struct shards *all, uint16_t port, struct led *l)
{
  struct fault why;
  const struct tunnel_cfg *cfg = l->named[port] ? &l->cfg[port] : NULL;
  struct netif *slot[SHARDS_MAX], *by[SHARDS_MAX] = {NULL};
  struct netif *now = all->one[shard_of_port(port, all->n)].forward.port[port]->nif;
  bool leads = tunnel_slot(now) != NULL;
  if (leads && cfg != NULL && tunnel_same(tunnel_cfg(now), cfg))
    return;
  for (unsigned i = 0; i < all->n; i++)
    slot[i] = slot_of(all, i, port);
  if (leads) /* before the new one takes its addresses */
    shards_call(all, lead_by, &(struct leading){port, slot});
  if (cfg == NULL)
    return;
  if (fill(all, port, cfg, by, &why)) {
    shards_call(all, lead_by, &(struct leading){port, by});
    return;
  }
  if (!l->failed[port])
    log_error("port %u: %s; it is tried again", port, why.text);
  l->failed[port] = true;
}

static void lead_all(struct host *host)
{
  for (uint16_t p = host->fixed_ports; host->led != NULL && p < host->shards->one[0].forward.ports; p++)
    lead(host->shards, p, host->led);
}

static void beat(void *arg, json_t *m)
{
  struct host *host = arg;
  if (host->room != NULL)
    json_object_set_new(m, "disks", disks(host));
  ask_for_room(host);
  lead_all(host);
}

/* All of them. Without a list all stays. */
static void registered(void *arg, const json_t *answer)
{
  struct host *host = arg;
  const json_t *list = json_object_get(answer, "tunnels");
  size_t i;
  json_t *x;
  struct led *l = json_is_array(list) ? calloc(1, sizeof *l) : NULL;
  if (l == NULL)
    return;
  uint16_t ports = host->shards->one[0].forward.ports;
  json_array_foreach((json_t *)(uintptr_t)list, i, x)
  {
    uint16_t port;
    struct tunnel_cfg cfg;
    if (!read_tunnel(x, ports, &port, &cfg)) {
      log_error("the fabric manager gives out a tunnel that this agent does not understand or has no port for");
      continue;
    }
    if (port < host->fixed_ports || l->named[port])
      continue; /* given on the command line */
    l->named[port] = true;
    l->cfg[port] = cfg;
  }
  free(host->led);
  host->led = l;
  lead_all(host);
}

/* ---- links: told in the shard, heard in the home loop ---- */

static_assert(DC_NODE_PORTS_MAX == 256, "a port is eight bits of a message");
enum { NEWS_PORT = 1, NEWS_TIME = 9 }; /* where they stand in a message's number */

static void heard_link(void *to, uint64_t n, void *with)
{
  struct host *h = to;
  registration_link_was(h->registration, h->name, (uint16_t)(n >> NEWS_PORT & (DC_NODE_PORTS_MAX - 1)), n & 1, with,
                        (n >> NEWS_TIME) * DC_US);
}

void host_link(void *host, struct port *p)
{
  struct host *h = host;
  const char *reason = linkstate_reason(&p->link);
  struct post_message m = {heard_link, h, 0, (void *)(uintptr_t)reason};
  m.n = loop_realtime_ns() / DC_US << NEWS_TIME | (uint64_t)p->number << NEWS_PORT | p->link.up;
  if (!post_send(&h->shards->one[0].hears, &m, 0))
    log_error("port %u: too much is told at once: its link's state comes with the next registration", p->number);
}

static void look(void *host, void (*run)(void *arg), void *arg)
{
  shard_call(&((struct host *)host)->shards->one[0], run, arg);
}

static void count(struct shard *s, void *all)
{
  json_t *node = json_object();
  (void)counters_node(&s->forward.node, node);
  counters_carried(&s->forward.node, node);
  counters_add(all, node);
  json_decref(node);
}

static json_t *counted(void *host)
{
  struct host *h = host;
  json_t *all = json_object();
  shards_call(h->shards, count, all);
  return json_pack("{s:o}", h->name, all);
}

struct registrant host_registrant(struct host *host)
{
  return (struct registrant){.nodes = 1,
                             .node = the_node,
                             .describe = describe,
                             .registered = registered,
                             .beat = beat,
                             .counted = counted,
                             .look = look,
                             .arg = host};
}
