#include "config.h"

#include <netinet/in.h>
#include <rte_config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datacast/hello.h"
#include "datapath/addresses.h"
#include "datapath/conn.h"
#include "datapath/mac.h"
#include "yaml_read.h"

enum {
  HEADERS_MOST = 256,     /* bytes of headers in a full data packet, at most */
  PACKETS_MOST = 1 << 28, /* no machine holds so many; keeps sums within 32 bits */
};

/* ---- readers of this file's own kinds ---- */

static int read_mac(struct yaml_file *y, yaml_node_t *n, void *out, size_t size)
{
  char text[32];
  (void)size;
  if (yaml_text(y, n, text, sizeof text) < 0)
    return -1;
  return mac_read(out, text) ? 0 : yaml_fail(y, n, "'%s' is not an Ethernet address (such as 02:00:00:00:00:01)", text);
}

static int read_milliseconds(struct yaml_file *y, yaml_node_t *n, void *out, size_t size)
{
  uint32_t ms;
  (void)size;
  if (yaml_number(y, n, &ms, sizeof ms) < 0)
    return -1;
  *(dc_time *)out = ms * DC_MS;
  return 0;
}

static int read_neighbour(struct yaml_file *y, yaml_node_t *n, void *out, size_t size)
{
  static const struct yaml_field fields[] = {YAML_FIELD("node", yaml_text, struct port_cfg, neighbour.node),
                                             YAML_FIELD("port", yaml_number, struct port_cfg, neighbour.port),
                                             YAML_FIELD("mac", read_mac, struct port_cfg, neighbour.mac),
                                             {0}};
  bool given[3];
  (void)size;
  struct port_cfg *port = (struct port_cfg *)((char *)out - offsetof(struct port_cfg, neighbour));
  if (yaml_read_map(y, n, "neighbour", fields, port, given) < 0)
    return -1;
  port->neighbour.has_mac = given[2];
  return 0;
}

static int read_port(struct yaml_file *y, yaml_node_t *n, void *out, size_t size)
{
  static const struct yaml_field fields[] = {YAML_NEEDED("port", yaml_number, struct port_cfg, port),
                                             YAML_FIELD("iface", yaml_text, struct port_cfg, iface),
                                             YAML_FIELD("device", yaml_text, struct port_cfg, device),
                                             YAML_FIELD("vdev", yaml_text, struct port_cfg, vdev),
                                             YAML_FIELD("memif", yaml_text, struct port_cfg, memif),
                                             YAML_FIELD("neighbour", read_neighbour, struct port_cfg, neighbour),
                                             {0}};
  (void)size;
  struct port_cfg *p = out;
  p->line = yaml_line(n);
  if (yaml_read_map(y, n, "port", fields, p, NULL) < 0)
    return -1;
  bool iface = p->iface[0] != '\0', device = p->device[0] != '\0', vdev = p->vdev[0] != '\0',
       memif = p->memif[0] != '\0';
  if (!iface && !device && !vdev && !memif)
    return yaml_fail(
        y, n,
        "port %u names no device: give 'iface' (a kernel interface), 'memif' (a socket), 'vdev' or 'device' (PCI "
        "address)",
        p->port);
  if (iface + memif + (device || vdev) > 1)
    return yaml_fail(y, n, "port %u has more than one of 'iface', 'memif' and 'device' or 'vdev': give one", p->port);
  if (vdev && strncmp(p->vdev, "net_", 4) != 0)
    return yaml_fail(y, n, "vdev '%s' must begin with a driver's name (net_…)", p->vdev);
  if (p->port >= DC_NODE_PORTS_MAX)
    return yaml_fail(y, n, "port number %u is too large (at most %d)", p->port, DC_NODE_PORTS_MAX - 1);
  return 0;
}

static int read_ports(struct yaml_file *y, yaml_node_t *n, void *out, size_t size)
{
  (void)size;
  struct node_cfg *node = (struct node_cfg *)((char *)out - offsetof(struct node_cfg, ports));
  return yaml_read_list(y, n, "ports", read_port, sizeof(struct port_cfg), (void **)&node->ports, &node->nports);
}

static int read_cache(struct yaml_file *y, yaml_node_t *n, void *out, size_t size)
{
  static const struct yaml_field fields[] = {
      YAML_FIELD("bytes_per_tree", yaml_bytes, struct dc_node_cfg, cache_bytes),
      YAML_FIELD("max_bytes_per_tree", yaml_bytes, struct dc_node_cfg, cache_bytes_max),
      YAML_FIELD("memory", yaml_bytes, struct dc_node_cfg, memory_bytes),
      YAML_FIELD("trees", yaml_number, struct dc_node_cfg, trees),
      YAML_FIELD("packets_per_tree", yaml_number, struct dc_node_cfg, store_slots),
      YAML_FIELD("waiting_per_tree", yaml_number, struct dc_node_cfg, waiting_slots),
      YAML_FIELD("retx_ms", read_milliseconds, struct dc_node_cfg, retx_min),
      YAML_FIELD("idle_ms", read_milliseconds, struct dc_node_cfg, idle),
      {0}};
  bool given[sizeof fields / sizeof *fields];
  struct dc_node_cfg *core = out;
  (void)size;
  if (yaml_read_map(y, n, "cache", fields, core, given) < 0)
    return -1;
  if (core->cache_bytes_max < core->cache_bytes && !given[1])
    core->cache_bytes_max = core->cache_bytes;
  if (!given[2] && core->trees != 0)
    core->memory_bytes = (uint64_t)core->trees * core->cache_bytes;
  return 0;
}

/* The core's name of a field that it refuses, as the key of this file and what it may be. */
static const char *explained(const char *field)
{
  static const struct {
    const char *field, *words;
  } known[] = {
      {"cache_bytes", "bytes_per_tree must not be 0"},
      {"cache_bytes_max", "max_bytes_per_tree must not be less than bytes_per_tree"},
      {"memory_bytes", "memory must not be 0"},
      {"trees", "trees is out of range"},
      {"store_slots", "packets_per_tree must be a power of two within the limits"},
      {"waiting_slots", "waiting_per_tree must be a power of two within the limits"},
      {"retx_min", "retx_ms must be from 1 to 60000"},
      {"idle", "idle_ms must not be 0"},
  };
  for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].field, field) == 0)
      return known[i].words;
  return field;
}

static int check_node(struct yaml_file *y, yaml_node_t *n, struct node_cfg *node)
{
  const char *what;
  uint16_t highest = 0;
  for (unsigned i = 0; i < node->nports; i++) {
    const struct port_cfg *p = &node->ports[i];
    for (unsigned k = 0; k < i; k++)
      if (node->ports[k].port == p->port)
        return fail(y->f, "%s:%u: node %s has two ports with the number %u (the other on line %u)", y->path, p->line,
                    node->name, p->port, node->ports[k].line);
    if (p->port > highest)
      highest = p->port;
  }
  node->core.ports = (uint16_t)(highest + 1);
  if (dc_node_cfg_check(&node->core, &what) < 0)
    return yaml_fail(y, n, "node %s: %s", node->name, explained(what));
  return 0;
}

static int read_node(struct yaml_file *y, yaml_node_t *n, void *out, size_t size)
{
  static const struct yaml_field fields[] = {YAML_NEEDED("name", yaml_text, struct node_cfg, name),
                                             YAML_NEEDED("ports", read_ports, struct node_cfg, ports),
                                             YAML_FIELD("cache", read_cache, struct node_cfg, core),
                                             YAML_FIELD("appliance", yaml_bool, struct node_cfg, appliance),
                                             {0}};
  (void)size;
  struct node_cfg *node = out;
  node->line = yaml_line(n);
  dc_node_cfg_default(&node->core);
  node->core.memory_bytes = (uint64_t)node->core.trees * node->core.cache_bytes;
  if (yaml_read_map(y, n, "node", fields, node, NULL) < 0)
    return -1;
  if (node->name[0] == '\0')
    return yaml_fail(y, n, "a node's name is empty");
  return check_node(y, n, node);
}

static int read_nodes(struct yaml_file *y, yaml_node_t *n, void *out, size_t size)
{
  (void)size;
  struct config *c = (struct config *)((char *)out - offsetof(struct config, nodes));
  return yaml_read_list(y, n, "nodes", read_node, sizeof(struct node_cfg), (void **)&c->nodes, &c->nnodes);
}

static int read_cores(struct yaml_file *y, yaml_node_t *n, void *out, size_t size)
{
  const char *text = out;
  if (yaml_text(y, n, out, size) < 0)
    return -1;
  if (text[0] < '0' || text[0] > '9' || text[strspn(text, "0123456789,-")] != '\0')
    return yaml_fail(y, n, "'%s' is no list of processors (such as 2 or 2,4-5)", text);
  return 0;
}

static int read_eal(struct yaml_file *y, yaml_node_t *n, void *out, size_t size)
{
  static const struct yaml_field fields[] = {YAML_FIELD("huge", yaml_bool, struct eal_cfg, huge),
                                             YAML_FIELD("telemetry", yaml_bool, struct eal_cfg, telemetry),
                                             YAML_FIELD("memory_mb", yaml_number, struct eal_cfg, memory_mb),
                                             YAML_FIELD("cores", read_cores, struct eal_cfg, cores),
                                             {0}};
  (void)size;
  return yaml_read_map(y, n, "eal", fields, out, NULL);
}

static int read_tls(struct yaml_file *y, yaml_node_t *n, void *out, size_t size)
{
  static const struct yaml_field fields[] = {YAML_NEEDED("ca", yaml_text, struct tls_cfg, ca),
                                             YAML_NEEDED("cert", yaml_text, struct tls_cfg, cert),
                                             YAML_NEEDED("key", yaml_text, struct tls_cfg, key),
                                             {0}};
  (void)size;
  return yaml_read_map(y, n, "tls", fields, out, NULL);
}

static int read_address(struct yaml_file *y, yaml_node_t *n, void *out, size_t size)
{
  struct addresses list;
  if (yaml_text(y, n, out, size) < 0)
    return -1;
  if (!addresses_parse(&list, out))
    return yaml_fail(y, n, "'%s' is not address:port (such as 198.18.0.1:7500 or [fd00::1]:7500), nor several of them",
                     (char *)out);
  return 0;
}

/* ---- the whole ---- */

/* Each stored packet takes a whole mbuf, so the node's memory is bounded in packets too: as many as there are of nearly
 * the MTU's size. */
static void bound_packets(struct dc_node_cfg *core, uint32_t mtu)
{
  uint64_t by_memory = core->memory_bytes / (mtu - HEADERS_MOST) + 1,
           by_slots = (uint64_t)core->trees * core->store_slots;
  uint64_t packets = by_memory < by_slots ? by_memory : by_slots;
  core->memory_packets = packets < PACKETS_MOST ? (uint32_t)packets : PACKETS_MOST;
}

static int check_whole(struct yaml_file *y, struct config *c, bool appliance)
{
  unsigned devices = 0;
  for (unsigned i = 0; i < c->nnodes; i++) {
    struct node_cfg *node = &c->nodes[i];
    for (unsigned k = 0; k < i; k++)
      if (strcmp(c->nodes[k].name, node->name) == 0)
        return fail(y->f, "%s:%u: two nodes are called %s (the other on line %u)", y->path, node->line, node->name,
                    c->nodes[k].line);
    node->appliance |= appliance;
    node->core.lone_port = node->appliance;
    if (node->appliance && (node->nports != 1 || node->ports[0].port != 0))
      return fail(y->f, "%s:%u: node %s is a cache appliance: it has exactly one port, number 0, to its switch",
                  y->path, node->line, node->name);
    for (unsigned p = 0; p < node->nports; p++) {
      devices += node->ports[p].memif[0] == '\0' && node->ports[p].iface[0] == '\0';
      if (node->ports[p].memif[0] != '\0' && c->workers > 1)
        return fail(
            y->f,
            "%s:%u: memory that is shared has one queue each way, workers: %u want one each: leave 'workers' away",
            y->path, node->ports[p].line, c->workers);
    }
  }
  if (devices > RTE_MAX_ETHPORTS)
    return fail(y->f,
                "%s: %u devices of DPDK, which has at most %d per process: split the nodes over several processes",
                y->path, devices, RTE_MAX_ETHPORTS);
  for (unsigned i = 0; i < c->nnodes; i++)
    for (unsigned p = 0; p < c->nodes[i].nports; p++)
      for (unsigned j = 0; j <= i; j++)
        for (unsigned q = 0; q < (j == i ? p : c->nodes[j].nports); q++) {
          const struct port_cfg *a = &c->nodes[i].ports[p], *b = &c->nodes[j].ports[q];
          if (a->iface[0] != '\0' && strcmp(a->iface, b->iface) == 0)
            return fail(y->f, "%s:%u: interface %s already belongs to port %u of node %s", y->path, a->line, a->iface,
                        b->port, c->nodes[j].name);
        }
  if (c->mtu < SW_MTU_MIN || c->mtu > SW_MTU_MAX)
    return fail(y->f, "%s: mtu %u is out of range (%d to %d)", y->path, c->mtu, SW_MTU_MIN, SW_MTU_MAX);
  struct sockaddr_storage addr;
  socklen_t len;
  struct security plain = {.insecure = c->insecure};
  if (c->tls.ca[0] != '\0' && c->insecure)
    return fail(y->f, "%s: tls and insecure exclude each other", y->path);
  struct addresses managers = {.n = 0};
  if (c->fabric_manager[0] != '\0' && !addresses_parse(&managers, c->fabric_manager))
    managers.n = 0;
  for (; c->tls.ca[0] == '\0' && managers.at < managers.n; managers.at++) {
    if (!address_parse(addresses_now(&managers), &addr, &len) || security_allows_plain(&plain, &addr))
      continue;
    return fail(y->f,
                "%s: plain TCP to the fabric manager at %s is refused: give 'tls' (files made by `datacast certs`), or "
                "'insecure: true' on a network where everybody is trusted",
                y->path, addresses_now(&managers));
  }
  if (c->workers < 1 || c->workers > SW_WORKERS_MAX)
    return fail(y->f, "%s: workers %u is out of range (1 to %d)", y->path, c->workers, SW_WORKERS_MAX);
  for (unsigned i = 0; i < c->nnodes; i++) {
    const char *what;
    bound_packets(&c->nodes[i].core, c->mtu);
    if (c->nodes[i].core.cache_bytes < c->mtu)
      return fail(y->f, "%s:%u: node %s: a cache of %u bytes_per_tree holds no packet of the mtu, %u", y->path,
                  c->nodes[i].line, c->nodes[i].name, c->nodes[i].core.cache_bytes, c->mtu);
    struct dc_node_cfg part = config_part(c, &c->nodes[i]);
    if (dc_node_cfg_check(&part, &what) < 0)
      return fail(y->f, "%s:%u: node %s: a part for each of %u workers is too small: %s", y->path, c->nodes[i].line,
                  c->nodes[i].name, c->workers, explained(what));
  }
  if (c->away_ms > DC_HELLO_AWAY_MAX / DC_MS)
    return fail(y->f, "%s: away_ms %u is more than neighbours wait (%u)", y->path, c->away_ms,
                (unsigned)(DC_HELLO_AWAY_MAX / DC_MS));
  if (c->ring_frames < SW_RING_MIN || c->ring_frames > SW_RING_MAX)
    return fail(y->f, "%s: ring_frames %u is out of range (%d to %d)", y->path, c->ring_frames, SW_RING_MIN,
                SW_RING_MAX);
  return 0;
}

int config_load(struct config *c, const char *path, bool appliance, struct fault *f)
{
  static const struct yaml_field fields[] = {YAML_NEEDED("nodes", read_nodes, struct config, nodes),
                                             YAML_FIELD("control", yaml_text, struct config, control),
                                             YAML_FIELD("fabric_manager", read_address, struct config, fabric_manager),
                                             YAML_FIELD("tls", read_tls, struct config, tls),
                                             YAML_FIELD("insecure", yaml_bool, struct config, insecure),
                                             YAML_FIELD("eal", read_eal, struct config, eal),
                                             YAML_FIELD("mtu", yaml_number, struct config, mtu),
                                             YAML_FIELD("no_hello", yaml_bool, struct config, no_hello),
                                             YAML_FIELD("ring_frames", yaml_number, struct config, ring_frames),
                                             YAML_FIELD("away_ms", yaml_number, struct config, away_ms),
                                             YAML_FIELD("workers", yaml_number, struct config, workers),
                                             {0}};
  struct yaml_file y;
  *c = (struct config){.mtu = 9000, .ring_frames = 128, .workers = 1, .away_ms = 5000};
  if (yaml_open(&y, path, f) < 0)
    return -1;
  int rc = yaml_read_map(&y, yaml_document_get_root_node(&y.doc), "the configuration", fields, c, NULL);
  if (rc == 0)
    rc = check_whole(&y, c, appliance);
  yaml_close(&y);
  if (rc < 0)
    config_free(c);
  return rc;
}

struct dc_node_cfg config_part(const struct config *c, const struct node_cfg *node)
{
  struct dc_node_cfg part = node->core;
  part.memory_bytes /= c->workers;
  part.memory_packets = (part.memory_packets + c->workers - 1) / c->workers;
  part.trees = (part.trees + c->workers - 1) / c->workers;
  return part;
}

void config_free(struct config *c)
{
  for (unsigned i = 0; i < c->nnodes; i++)
    free(c->nodes[i].ports);
  free(c->nodes);
  *c = (struct config){0};
}
