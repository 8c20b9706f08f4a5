#include "status.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "datapath/counters.h"

enum { TREES_SHOWN = 256 };

static void add(json_t *o, const char *key, uint64_t n)
{
  counters_put(o, key, (uint64_t)json_integer_value(json_object_get(o, key)) + n);
}

/* Every reason to drop a frame on this host, at the node, the endpoints and the ports. */
static void add_drops(const struct forward *f, json_t *drop)
{
  uint64_t oversized = 0, malformed = 0, full = 0, no_buffer = 0, errors = 0, missed = 0;
  for (uint16_t i = 0; i < f->ports; i++) {
    const struct netport *p = f->port[i];
    oversized += p->extra.oversized + p->nif->rx_truncated;
    malformed += p->nif->rx_malformed;
    full += p->extra.queue_full;
    no_buffer += p->extra.no_buffer;
    errors += p->extra.errors;
    missed += p->extra.missed;
  }
  for (unsigned i = DC_DROP_NONE + 1; i < DC_DROP_MAX; i++)
    add(drop, dc_drop_name((enum dc_drop)i), f->count.drop[i]);
  add(drop, dc_drop_name(DC_DROP_OVERSIZED), oversized);
  counters_put(drop, "malformed", malformed);
  counters_put(drop, "rx_missed", missed);
  counters_put(drop, "tx_full", full);
  counters_put(drop, "tx_error", errors);
  counters_put(drop, "no_buffer", no_buffer);
  counters_put(drop, "not_forwarded", f->count.not_forwarded);
}

static json_t *port_status(const struct netport *p, bool has_link)
{
  json_t *o = json_object();
  if (has_link)
    counters_link(&p->base, o);
  counters_port(&p->base, o);
  add(o, "tx_frames", p->own.tx_frames);
  add(o, "tx_bytes", p->own.tx_bytes);
  add(o, "tx_data", p->own.tx_data);
  add(o, "tx_data_payload", p->own.tx_data_payload);
  counters_put(o, "tx_retries", p->extra.retries);
  counters_put(o, "tx_full", p->extra.queue_full);
  counters_put(o, "tx_errors", p->extra.errors);
  counters_put(o, "tx_calls", p->extra.calls);
  counters_put(o, "oversized", p->extra.oversized + p->nif->rx_truncated);
  counters_put(o, "no_buffer", p->extra.no_buffer);
  counters_put(o, "rx_missed", p->extra.missed);
  return o;
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

struct look {
  const struct groups *groups;
  json_t *to;
  uint64_t rounds, bytes, in_use, refused;
};

static json_t *process(const struct look *l)
{
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  uint64_t cpu = (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * DC_SEC +
                 (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * DC_US;
  json_t *o = json_object();
  counters_put(o, "pid", (uint64_t)getpid());
  counters_put(o, "cpu_ns", cpu);
  counters_put(o, "rss_bytes", resident_bytes("VmRSS"));
  counters_put(o, "rss_peak_bytes", resident_bytes("VmHWM"));
  counters_put(o, "rounds", l->rounds);
  counters_put(o, "buffer_bytes", l->bytes);
  counters_put(o, "buffers_in_use", l->in_use);
  counters_put(o, "buffers_refused", l->refused);
  counters_put(o, "groups", l->groups->n);
  return o;
}

static void read_missed(struct netport *p)
{
  if (p->nif->ops->missed != NULL)
    p->extra.missed += p->nif->ops->missed(p->nif);
}

/* In the shard. */
static void look_at_node(struct shard *shard, void *arg)
{
  struct look *l = arg;
  json_t *to = json_object();
  const struct forward *f = &shard->forward;
  for (uint16_t i = 0; i < f->ports; i++)
    read_missed(f->port[i]);
  l->rounds += f->loop->rounds;
  l->bytes += f->pool.bytes;
  l->in_use += f->pool.in_use;
  l->refused += f->pool.refused;
  add_drops(f, counters_node(&f->node, to));
  json_t *ports = json_object();
  for (uint16_t i = 0; i < f->ports; i++) {
    char key[8];
    snprintf(key, sizeof key, "%u", (unsigned)i);
    json_object_set_new(ports, key, port_status(f->port[i], !f->engine.no_links));
  }
  json_object_set_new(to, "ports", ports);
  json_object_set_new(to, "tree_counters", counters_trees(&f->node, TREES_SHOWN));
  counters_add(l->to, to);
  json_decref(to);
}

void status_node(struct groups *groups, json_t *to)
{
  struct look l = {.groups = groups, .to = to};
  shards_call(groups->host->shards, look_at_node, &l);
  json_object_set_new(to, "process", process(&l));
}
