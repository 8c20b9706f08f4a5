#include "registrant.h"

#include <sys/statvfs.h>

#include "datapath/tunnel.h"

static const struct engine_node *the_node(void *arg, unsigned i)
{
  (void)i;
  return &((struct host *)arg)->forward->node;
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

/* All of them: a slot that the list does not name leads nowhere. Without a list all stays. */
static void registered(void *arg, const json_t *answer)
{
  struct host *host = arg;
  struct forward *f = host->forward;
  const json_t *list = json_object_get(answer, "tunnels");
  bool named[DC_NODE_PORTS_MAX] = {false};
  size_t i;
  json_t *x;
  if (!json_is_array(list))
    return;
  json_array_foreach((json_t *)(uintptr_t)list, i, x)
  {
    uint16_t port;
    struct tunnel_cfg cfg;
    if (!read_tunnel(x, f->ports, &port, &cfg)) {
      log_error("the fabric manager gives out a tunnel that this agent does not understand or has no port for");
      continue;
    }
    if (port < host->fixed_ports || named[port])
      continue; /* given on the command line */
    named[port] = true;
    lead(f, port, &cfg);
  }
  for (uint16_t p = host->fixed_ports; p < f->ports; p++)
    if (!named[p] && tunnel_slot(f->port[p]->nif) != NULL)
      forward_replace(f, p, tunnel_slot(f->port[p]->nif));
}

struct registrant host_registrant(struct host *host)
{
  return (struct registrant){
      .nodes = 1, .node = the_node, .describe = describe, .registered = registered, .beat = beat, .arg = host};
}
