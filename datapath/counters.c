#include "datapath/counters.h"

#include <stdio.h>
#include <stdlib.h>

void counters_put(json_t *o, const char *key, uint64_t n) { json_object_set_new(o, key, json_integer((json_int_t)n)); }

json_t *counters_node(const struct engine_node *n, json_t *to)
{
  struct dc_node_counters c;
  dc_node_counters(n->core, &c);
  counters_put(to, "forwarded", c.forwarded);
  counters_put(to, "interests", c.interests);
  counters_put(to, "hits", c.hits);
  counters_put(to, "data", c.data);
  counters_put(to, "to_endpoint", c.to_endpoint);
  counters_put(to, "trees", c.trees);
  counters_put(to, "trees_evicted", c.trees_evicted);
  counters_put(to, "bytes", c.bytes);
  json_t *drop = json_object();
  for (unsigned i = DC_DROP_NONE + 1; i < DC_DROP_MAX; i++)
    counters_put(drop, dc_drop_name((enum dc_drop)i), c.drop[i]);
  json_object_set_new(to, "drop", drop);
  return drop;
}

void counters_carried(const struct engine_node *n, json_t *to)
{
  json_t *o = json_object();
  for (unsigned i = 0; i < DC_NODE_PORTS_MAX; i++) {
    const struct port *p = n->port[i];
    int bytes = p == NULL ? -1 : p->link.hello.carried;
    char key[8];
    snprintf(key, sizeof key, "%u", i);
    if (bytes >= 0)
      counters_put(o, key, (uint64_t)bytes);
  }
  json_object_set_new(to, "carried", o);
}

void counters_link(const struct port *p, json_t *to)
{
  json_object_set_new(to, "ifname", json_string(p->name));
  json_object_set_new(to, "up", json_boolean(p->link.up));
  json_object_set_new(to, "carrier", json_boolean(p->link.carrier));
  json_object_set_new(to, "link", json_string(dc_link_name(p->link.hello.link)));
  counters_put(to, "hellos_sent", p->link.sent);
  counters_put(to, "hellos_received", p->link.received);
  counters_put(to, "hellos_refused", p->link.refused);
  counters_put(to, "link_failures", p->link.hello.failures);
  counters_put(to, "mtu", p->mtu);
  json_object_set_new(to, "carried", json_integer(p->link.hello.carried));
}

void counters_port(const struct port *p, json_t *to)
{
  struct dc_port_counters c;
  dc_node_port_counters(p->node->core, p->number, &c);
  counters_put(to, "rx_frames", c.rx_frames);
  counters_put(to, "rx_bytes", c.rx_bytes);
  counters_put(to, "tx_frames", c.tx_frames);
  counters_put(to, "tx_bytes", c.tx_bytes);
  counters_put(to, "tx_data", c.tx_data);
  counters_put(to, "tx_data_payload", c.tx_data_payload);
}

void counters_add(json_t *to, const json_t *from)
{
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)from, key, value)
  {
    json_t *have = json_object_get(to, key);
    if (have == NULL)
      json_object_set(to, key, value);
    else if (json_is_integer(have) && json_is_integer(value))
      json_integer_set(have, json_integer_value(have) + json_integer_value(value));
    else if (json_is_object(have) && json_is_object(value))
      counters_add(have, value);
    else if (json_is_array(have) && json_is_array(value))
      json_array_extend(have, value);
  }
}

json_t *counters_trees(const struct engine_node *node, unsigned most)
{
  json_t *list = json_array();
  struct dc_tree_counters *t = calloc(most, sizeof *t);
  unsigned n = t == NULL ? 0 : dc_node_tree_counters(node->core, t, most);
  for (unsigned i = 0; i < n; i++) {
    json_t *o = json_object();
    counters_put(o, "tree", t[i].tree);
    counters_put(o, "interests", t[i].interests);
    counters_put(o, "hits", t[i].hits);
    counters_put(o, "misses", t[i].misses);
    counters_put(o, "aggregated", t[i].aggregated);
    counters_put(o, "retx_forwarded", t[i].retx_forwarded);
    counters_put(o, "data", t[i].data);
    counters_put(o, "stored", t[i].stored);
    counters_put(o, "evicted", t[i].evicted);
    counters_put(o, "replicated", t[i].replicated);
    counters_put(o, "dup_data", t[i].dup_data);
    counters_put(o, "bytes", t[i].bytes);
    counters_put(o, "packets", t[i].packets);
    counters_put(o, "waiting", t[i].waiting);
    counters_put(o, "children", t[i].children);
    json_array_append_new(list, o);
  }
  free(t);
  return list;
}
