#include "status.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static json_t *number(uint64_t n) { return json_integer((json_int_t)n); }

/* Every reason to drop a frame on this host, at the node, the endpoints and the ports. */
static json_t *drops(const struct forward *f, const struct dc_node_counters *c)
{
  json_t *o = json_object();
  uint64_t oversized = 0, malformed = 0, full = 0, no_buffer = 0, errors = 0;
  for (uint16_t i = 0; i < f->ports; i++) {
    const struct port *p = f->port[i];
    oversized += p->extra.oversized + p->nif->rx_truncated;
    malformed += p->nif->rx_malformed;
    full += p->extra.queue_full;
    no_buffer += p->extra.no_buffer;
    errors += p->extra.errors;
  }
  for (unsigned i = DC_DROP_NONE + 1; i < DC_DROP_MAX; i++) {
    uint64_t n = c->drop[i] + f->count.drop[i] + (i == DC_DROP_OVERSIZED ? oversized : 0);
    json_object_set_new(o, dc_drop_name((enum dc_drop)i), number(n));
  }
  json_object_set_new(o, "malformed", number(malformed));
  json_object_set_new(o, "tx_full", number(full));
  json_object_set_new(o, "tx_error", number(errors));
  json_object_set_new(o, "no_buffer", number(no_buffer));
  json_object_set_new(o, "not_forwarded", number(f->count.not_forwarded));
  return o;
}

static json_t *port_status(const struct forward *f, uint16_t i)
{
  const struct port *p = f->port[i];
  struct dc_port_counters c;
  dc_node_port_counters(f->node, i, &c);
  json_t *o = json_object();
  json_object_set_new(o, "ifname", json_string(p->nif->name));
  json_object_set_new(o, "up", json_boolean(p->link.up));
  json_object_set_new(o, "carrier", json_boolean(p->link.carrier));
  json_object_set_new(o, "link", json_string(dc_link_name(p->link.hello.link)));
  json_object_set_new(o, "hellos_sent", number(p->link.sent));
  json_object_set_new(o, "hellos_received", number(p->link.received));
  json_object_set_new(o, "hellos_refused", number(p->link.refused));
  json_object_set_new(o, "link_failures", number(p->link.hello.failures));
  json_object_set_new(o, "mtu", number(p->nif->mtu));
  json_object_set_new(o, "rx_frames", number(c.rx_frames));
  json_object_set_new(o, "rx_bytes", number(c.rx_bytes));
  json_object_set_new(o, "tx_frames", number(c.tx_frames + p->own.tx_frames));
  json_object_set_new(o, "tx_bytes", number(c.tx_bytes + p->own.tx_bytes));
  json_object_set_new(o, "tx_data", number(c.tx_data + p->own.tx_data));
  json_object_set_new(o, "tx_data_payload", number(c.tx_data_payload + p->own.tx_data_payload));
  json_object_set_new(o, "tx_retries", number(p->extra.retries));
  json_object_set_new(o, "tx_full", number(p->extra.queue_full));
  json_object_set_new(o, "tx_errors", number(p->extra.errors));
  json_object_set_new(o, "tx_calls", number(p->extra.calls));
  json_object_set_new(o, "oversized", number(p->extra.oversized + p->nif->rx_truncated));
  json_object_set_new(o, "no_buffer", number(p->extra.no_buffer));
  return o;
}

static json_t *trees(const struct forward *f)
{
  enum { SHOWN = 256 };
  json_t *list = json_array();
  struct dc_tree_counters *t = calloc(SHOWN, sizeof *t);
  unsigned n = t == NULL ? 0 : dc_node_tree_counters(f->node, t, SHOWN);
  for (unsigned i = 0; i < n; i++) {
    json_t *o = json_object();
    json_object_set_new(o, "tree", number(t[i].tree));
    json_object_set_new(o, "interests", number(t[i].interests));
    json_object_set_new(o, "hits", number(t[i].hits));
    json_object_set_new(o, "misses", number(t[i].misses));
    json_object_set_new(o, "aggregated", number(t[i].aggregated));
    json_object_set_new(o, "retx_forwarded", number(t[i].retx_forwarded));
    json_object_set_new(o, "data", number(t[i].data));
    json_object_set_new(o, "stored", number(t[i].stored));
    json_object_set_new(o, "evicted", number(t[i].evicted));
    json_object_set_new(o, "replicated", number(t[i].replicated));
    json_object_set_new(o, "dup_data", number(t[i].dup_data));
    json_object_set_new(o, "bytes", number(t[i].bytes));
    json_object_set_new(o, "packets", number(t[i].packets));
    json_object_set_new(o, "waiting", number(t[i].waiting));
    json_object_set_new(o, "children", number(t[i].children));
    json_array_append_new(list, o);
  }
  free(t);
  return list;
}

/* "VmRSS" (now) or "VmHWM" (most so far) of this program, in bytes. Not getrusage: its peak is older than exec. */
static uint64_t resident_bytes(const char *key)
{
  unsigned long kib = 0;
  char line[128];
  FILE *f = fopen("/proc/self/status", "re");
  if (f == NULL)
    return 0;
  while (fgets(line, sizeof line, f) != NULL)
    if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), ": %lu", &kib) == 1)
      break;
  fclose(f);
  return (uint64_t)kib * 1024;
}

static json_t *process(const struct groups *groups)
{
  const struct forward *f = groups->host->forward;
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  uint64_t cpu = (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * DC_SEC +
                 (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * DC_US;
  json_t *o = json_object();
  json_object_set_new(o, "pid", number((uint64_t)getpid()));
  json_object_set_new(o, "cpu_ns", number(cpu));
  json_object_set_new(o, "rss_bytes", number(resident_bytes("VmRSS")));
  json_object_set_new(o, "rss_peak_bytes", number(resident_bytes("VmHWM")));
  json_object_set_new(o, "rounds", number(f->loop->rounds));
  json_object_set_new(o, "buffer_bytes", number(f->pool.bytes));
  json_object_set_new(o, "buffers_in_use", number(f->pool.in_use));
  json_object_set_new(o, "buffers_refused", number(f->pool.refused));
  json_object_set_new(o, "groups", number(groups->n));
  return o;
}

void status_node(struct groups *groups, json_t *to)
{
  const struct forward *f = groups->host->forward;
  struct dc_node_counters c;
  dc_node_counters(f->node, &c);
  json_object_set_new(to, "forwarded", number(c.forwarded));
  json_object_set_new(to, "interests", number(c.interests));
  json_object_set_new(to, "hits", number(c.hits));
  json_object_set_new(to, "data", number(c.data));
  json_object_set_new(to, "to_endpoint", number(c.to_endpoint));
  json_object_set_new(to, "trees", number(c.trees));
  json_object_set_new(to, "trees_evicted", number(c.trees_evicted));
  json_object_set_new(to, "bytes", number(c.bytes));
  json_object_set_new(to, "drop", drops(f, &c));
  json_t *ports = json_object();
  for (uint16_t i = 0; i < f->ports; i++) {
    char key[8];
    snprintf(key, sizeof key, "%u", (unsigned)i);
    json_object_set_new(ports, key, port_status(f, i));
  }
  json_object_set_new(to, "ports", ports);
  json_object_set_new(to, "tree_counters", trees(f));
  json_object_set_new(to, "process", process(groups));
}
