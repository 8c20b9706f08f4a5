#include "answers.h"

#include <rte_ethdev.h>
#include <rte_mempool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datapath/counters.h"
#include "datapath/instance.h"
#include "datapath/mac.h"

static void put_text(json_t *o, const char *key, const char *v) { json_object_set_new(o, key, json_string(v)); }

static void put_bool(json_t *o, const char *key, bool v) { json_object_set_new(o, key, json_boolean(v)); }

json_t *answer_error(const char *fmt, ...)
{
  struct fault why;
  va_list args;
  va_start(args, fmt);
  fault_vwrite(&why, "bad_request", fmt, args); /* in UTF-8, also where it was cut off */
  va_end(args);
  json_t *o = json_object();
  put_bool(o, "ok", false);
  put_text(o, "error", why.text);
  return o;
}

static json_t *answer_ok(void)
{
  json_t *o = json_object();
  put_bool(o, "ok", true);
  return o;
}

/* ---- counters ---- */

static json_t *port_counters(struct dpdk_port *p)
{
  struct rte_eth_stats eth = {0};
  json_t *o = json_object();
  if (p->queue == 0) {
    counters_link(&p->base, o);
    if (p->nif == NULL)
      (void)rte_eth_stats_get(p->dev, &eth);
  }
  counters_port(&p->base, o);
  port_read_missed(p);
  counters_put(o, "tx_bursts", p->counters.bursts);
  counters_put(o, "tx_full", p->counters.tx_full);
  counters_put(o, "tx_waited", p->counters.waited);
  counters_put(o, "oversized", p->counters.oversized);
  counters_put(o, "segments", p->counters.segments);
  counters_put(o, "blackholed", p->counters.blackholed);
  counters_put(o, "corrupted", p->counters.corrupted);
  counters_put(o, "rx_missed", p->counters.rx_missed);
  counters_put(o, "tx_errors", eth.oerrors + p->counters.lost);
  return o;
}

static void add_drops(const struct member *m, json_t *drop)
{
  const char *name = dc_drop_name(DC_DROP_OVERSIZED);
  uint64_t oversized = (uint64_t)json_integer_value(json_object_get(drop, name)), full = 0, blackholed = 0;
  for (unsigned i = 0; i < DC_NODE_PORTS_MAX; i++) {
    if (m->node.port[i] == NULL)
      continue;
    const struct port_sw_counters *c = &dpdk_port(m->node.port[i])->counters;
    oversized += c->oversized;
    full += c->tx_full;
    blackholed += c->blackholed;
  }
  counters_put(drop, name, oversized);
  counters_put(drop, "no_device", m->node.no_device);
  counters_put(drop, "tx_full", full);
  counters_put(drop, "blackholed", blackholed);
}

static json_t *trees_of(const struct member *m) { return counters_trees(&m->node, m->cfg->core.trees); }

static json_t *ports_by_number(const struct member *m, json_t *(*one)(struct dpdk_port *))
{
  json_t *o = json_object();
  for (unsigned i = 0; i < DC_NODE_PORTS_MAX; i++) {
    char key[8];
    if (m->node.port[i] == NULL)
      continue;
    snprintf(key, sizeof key, "%u", i);
    json_object_set_new(o, key, one(dpdk_port(m->node.port[i])));
  }
  return o;
}

static json_t *node_totals(const struct member *m)
{
  json_t *o = json_object();
  add_drops(m, counters_node(&m->node, o));
  counters_carried(&m->node, o);
  return o;
}

static json_t *node_counters(const struct member *m)
{
  json_t *o = node_totals(m);
  if (m->cfg->appliance && dpdk_port(m->node.port[0])->queue == 0)
    counters_put(o, "copies", m->copies);
  json_object_set_new(o, "ports", ports_by_number(m, port_counters));
  json_object_set_new(o, "tree_counters", trees_of(m));
  return o;
}

static json_t *packet_counters(struct sw *s)
{
  const struct packet_counters *c = &s->pools.counters;
  json_t *o = json_object();
  counters_put(o, "in_place", c->in_place);
  counters_put(o, "shared", c->shared);
  counters_put(o, "cloned", c->cloned);
  counters_put(o, "linear", c->linear);
  counters_put(o, "bare", c->bare);
  counters_put(o, "bytes_referenced", c->bytes_referenced);
  counters_put(o, "bytes_copied", c->bytes_copied);
  counters_put(o, "no_mbuf", c->no_mbuf);
  if (s->index > 0)
    return o;
  counters_put(o, "pool_size", s->pools.data->size);
  counters_put(o, "pool_free", rte_mempool_avail_count(s->pools.data));
  counters_put(o, "headers_size", s->pools.headers->size);
  counters_put(o, "headers_free", rte_mempool_avail_count(s->pools.headers));
  return o;
}

/* All nodes, or the one that the request names. NULL: that node does not exist. */
static json_t *of_nodes(struct sw *s, const json_t *request, json_t *(*one)(const struct member *))
{
  const char *name = json_string_value(json_object_get(request, "node"));
  if (name != NULL && sw_member(s, name) == NULL)
    return NULL;
  json_t *o = json_object();
  for (unsigned i = 0; i < s->nmembers; i++)
    if (name == NULL || strcmp(name, s->members[i].cfg->name) == 0)
      json_object_set_new(o, s->members[i].cfg->name, one(&s->members[i]));
  return o;
}

static json_t *answer_counters(struct sw *s, const json_t *request)
{
  json_t *nodes = of_nodes(s, request, node_counters), *o = answer_ok(), *loop = json_object();
  if (nodes == NULL) {
    json_decref(loop);
    json_decref(o);
    return NULL;
  }
  if (s->index == 0)
    counters_put(o, "uptime_ms", (loop_clock() - s->started) / DC_MS);
  json_object_set_new(o, "nodes", nodes);
  json_object_set_new(o, "packets", packet_counters(s));
  counters_put(loop, "rounds", s->counters.rounds);
  counters_put(loop, "sleeps", s->counters.sleeps);
  counters_put(loop, "frames", s->counters.frames_in);
  counters_put(loop, "handed_over", s->counters.handed_over);
  counters_put(loop, "handed_lost", s->counters.handed_lost);
  json_object_set_new(o, "loop", loop);
  return o;
}

/* ---- ports, trees, configuration ---- */

static const char *blackhole_name(const struct port_faults *f)
{
  return f->blackhole_rx && f->blackhole_tx ? "both" : f->blackhole_rx ? "rx" : f->blackhole_tx ? "tx" : "off";
}

static json_t *port_facts(struct dpdk_port *p)
{
  struct rte_eth_dev_info info;
  char mac[18];
  json_t *o = json_object(), *next = json_object();
  counters_link(&p->base, o);
  mac_write(mac, p->base.mac);
  put_text(o, "mac", mac);
  bool device = p->nif == NULL && rte_eth_dev_info_get(p->dev, &info) == 0;
  if (device || p->nif != NULL)
    put_text(o, "driver", device ? info.driver_name : p->nif->tells_carrier ? "memif" : "packet socket");
  put_text(o, "wakes_by", p->nif != NULL ? "socket" : p->rx_interrupt ? "interrupt" : "polling");
  put_text(o, "link_by",
           p->base.ifindex != 0 ? "netlink"
           : p->nif != NULL     ? "socket"
           : p->link_interrupt  ? "interrupt"
                                : "polling");
  counters_put(o, "link_interrupts", p->link_interrupts);
  if (p->group >= 0 || (device && info.nb_rx_queues > 1))
    put_text(o, "spread_by", p->group >= 0 ? "tree" : p->spreads ? "label" : "nothing");
  put_bool(o, "multi_segment", p->multi_seg);
  if (p->cfg->neighbour.node[0] != '\0') {
    put_text(next, "node", p->cfg->neighbour.node);
    counters_put(next, "port", p->cfg->neighbour.port);
  }
  if (p->cfg->neighbour.has_mac) {
    mac_write(mac, p->cfg->neighbour.mac);
    put_text(next, "mac", mac);
  }
  json_object_set_new(o, "neighbour", next);
  put_text(o, "blackhole", blackhole_name(&p->faults));
  json_object_set_new(o, "corrupt", json_real(p->faults.corrupt));
  return o;
}

static json_t *node_ports(const struct member *m) { return ports_by_number(m, port_facts); }

static json_t *node_config(const struct member *m)
{
  const struct dc_node_cfg *c = &m->cfg->core;
  json_t *o = json_object();
  put_bool(o, "appliance", m->cfg->appliance);
  counters_put(o, "bytes_per_tree", c->cache_bytes);
  counters_put(o, "max_bytes_per_tree", c->cache_bytes_max);
  counters_put(o, "memory", c->memory_bytes);
  counters_put(o, "memory_packets", c->memory_packets);
  counters_put(o, "trees", c->trees);
  counters_put(o, "packets_per_tree", c->store_slots);
  counters_put(o, "waiting_per_tree", c->waiting_slots);
  counters_put(o, "retx_ms", c->retx_min / DC_MS);
  counters_put(o, "idle_ms", c->idle / DC_MS);
  return o;
}

static json_t *answer_nodes(struct sw *s, const json_t *request, json_t *(*one)(const struct member *))
{
  json_t *nodes = of_nodes(s, request, one);
  if (nodes == NULL)
    return NULL;
  json_t *o = answer_ok();
  json_object_set_new(o, "nodes", nodes);
  return o;
}

static json_t *answer_config(struct sw *s, const json_t *request)
{
  json_t *o = answer_nodes(s, request, node_config);
  if (o == NULL)
    return NULL;
  put_text(o, "version", DATACAST_VERSION);
  counters_put(o, "pid", (uint64_t)getpid());
  counters_put(o, "mtu", s->cfg->mtu);
  counters_put(o, "workers", s->cfg->workers);
  put_bool(o, "huge", s->cfg->eal.huge);
  put_text(o, "fabric_manager", s->cfg->fabric_manager);
  return o;
}

/* ---- what changes something ---- */

static json_t *answer_wipe(struct sw *s, const json_t *request)
{
  const char *name = json_string_value(json_object_get(request, "node"));
  bool restart = json_is_true(json_object_get(request, "restart"));
  if (name != NULL && sw_member(s, name) == NULL)
    return NULL;
  for (unsigned i = 0; i < s->nmembers; i++)
    if (name == NULL || strcmp(name, s->members[i].cfg->name) == 0)
      sw_wipe(&s->members[i], restart);
  return answer_ok();
}

static json_t *answer_fault(struct sw *s, const json_t *request)
{
  const char *name = json_string_value(json_object_get(request, "node"));
  const json_t *port = json_object_get(request, "port"), *black = json_object_get(request, "blackhole"),
               *corrupt = json_object_get(request, "corrupt");
  if (name == NULL || !json_is_integer(port))
    return answer_error("fault needs 'node' and 'port'");
  struct member *m = sw_member(s, name);
  if (m == NULL)
    return NULL;
  json_int_t n = json_integer_value(port);
  if (n < 0 || n >= DC_NODE_PORTS_MAX || m->node.port[n] == NULL)
    return answer_error("node %s has no port %" JSON_INTEGER_FORMAT, name, n);
  const char *way = json_is_boolean(black) ? (json_is_true(black) ? "both" : "off") : json_string_value(black);
  if (black != NULL && (way == NULL || (strcmp(way, "rx") != 0 && strcmp(way, "tx") != 0 && strcmp(way, "both") != 0 &&
                                        strcmp(way, "off") != 0)))
    return answer_error("'blackhole' must be \"rx\", \"tx\", \"both\" (or true) or \"off\" (or false)");
  if (corrupt != NULL && (!json_is_number(corrupt) || json_number_value(corrupt) < 0 || json_number_value(corrupt) > 1))
    return answer_error("'corrupt' must be a probability from 0 to 1");
  if (black == NULL && corrupt == NULL)
    return answer_error("fault needs 'blackhole' or 'corrupt'");
  struct port_faults *faults = &dpdk_port(m->node.port[n])->faults;
  if (black != NULL) {
    faults->blackhole_rx = strcmp(way, "rx") == 0 || strcmp(way, "both") == 0;
    faults->blackhole_tx = strcmp(way, "tx") == 0 || strcmp(way, "both") == 0;
  }
  if (corrupt != NULL)
    faults->corrupt = json_number_value(corrupt);
  if (s->index == 0)
    log_info("node %s port %d: blackhole %s, corrupt %g", name, (int)n, blackhole_name(faults), faults->corrupt);
  return answer_ok();
}

bool answer_adds_up(const json_t *request)
{
  static const char *const ops[] = {"counters", "totals", "trees", "wipe", "fault"};
  const char *op = json_string_value(json_object_get(request, "op"));
  for (unsigned i = 0; op != NULL && i < sizeof ops / sizeof *ops; i++)
    if (strcmp(op, ops[i]) == 0)
      return true;
  return false;
}

json_t *answer_request(struct sw *s, const json_t *request, bool *stop)
{
  const char *op = json_string_value(json_object_get(request, "op"));
  const json_t *node = json_object_get(request, "node");
  json_t *o = NULL;
  if (op == NULL)
    return answer_error("a request is an object with 'op'");
  if (node != NULL && !json_is_string(node))
    return answer_error("'node' must be a node's name");
  if (strcmp(op, "counters") == 0)
    o = answer_counters(s, request);
  else if (strcmp(op, "ports") == 0)
    o = answer_nodes(s, request, node_ports);
  else if (strcmp(op, "totals") == 0)
    o = answer_nodes(s, request, node_totals);
  else if (strcmp(op, "trees") == 0)
    o = answer_nodes(s, request, trees_of);
  else if (strcmp(op, "config") == 0)
    o = answer_config(s, request);
  else if (strcmp(op, "wipe") == 0)
    o = answer_wipe(s, request);
  else if (strcmp(op, "fault") == 0)
    o = answer_fault(s, request);
  else if (strcmp(op, "shutdown") == 0)
    *stop = true, o = answer_ok();
  else
    return answer_error("unknown op '%s'; known: counters, totals, ports, trees, config, wipe, fault, shutdown", op);
  return o != NULL ? o : answer_error("no node '%s' here", json_string_value(node));
}
