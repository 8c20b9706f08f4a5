#include "registrant.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "datapath/counters.h"
#include "datapath/tunnel.h"

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

static void describe(void *arg, json_t *m)
{
  const struct host *h = arg;
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

/* Room in each folder for received files, in the order of `dest_roots`: [free, size] in bytes. */
static void beat(void *arg, json_t *m)
{
  const struct host *host = arg;
  json_t *list = json_array();
  for (unsigned i = 0; i < host->dest_roots.n; i++) {
    struct statvfs s;
    if (fstatvfs(host->dest_roots.root[i].fd, &s) != 0)
      s = (struct statvfs){.f_frsize = 1};
    json_array_append_new(list, json_pack("[I,I]", (json_int_t)s.f_bavail * (json_int_t)s.f_frsize,
                                          (json_int_t)s.f_blocks * (json_int_t)s.f_frsize));
  }
  json_object_set_new(m, "disks", list);
}

/* Where the slots lead from now on; one that is not named leads nowhere. */
struct led {
  const struct host *host;
  bool named[DC_NODE_PORTS_MAX];
  struct tunnel_cfg cfg[DC_NODE_PORTS_MAX];
};

/* In the shard: where there are tunnels there is one. */
static void lead_all(void *arg)
{
  const struct led *l = arg;
  struct forward *f = &l->host->shards->one[0].forward;
  for (uint16_t p = l->host->fixed_ports; p < f->ports; p++) {
    if (l->named[p])
      lead(f, p, &l->cfg[p]);
    else if (tunnel_slot(f->port[p]->nif) != NULL)
      forward_replace(f, p, tunnel_slot(f->port[p]->nif));
  }
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
  l->host = host;
  json_array_foreach((json_t *)(uintptr_t)list, i, x)
  {
    uint16_t port;
    struct tunnel_cfg cfg;
    if (!read_tunnel(x, host->shards->one[0].forward.ports, &port, &cfg)) {
      log_error("the fabric manager gives out a tunnel that this agent does not understand or has no port for");
      continue;
    }
    if (port < host->fixed_ports || l->named[port])
      continue; /* given on the command line */
    l->named[port] = true;
    l->cfg[port] = cfg;
  }
  shard_call(&host->shards->one[0], lead_all, l);
  free(l);
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

struct counting {
  const struct shard *shard;
  json_t *node;
};

static void count(void *arg)
{
  struct counting *c = arg;
  (void)counters_node(&c->shard->forward.node, c->node);
}

static json_t *counted(void *host)
{
  struct host *h = host;
  json_t *all = json_object();
  for (unsigned i = 0; i < h->shards->n; i++) {
    struct counting c = {&h->shards->one[i], json_object()};
    shard_call(&h->shards->one[i], count, &c);
    counters_add(all, c.node);
    json_decref(c.node);
  }
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
