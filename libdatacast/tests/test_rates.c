/* Trees with rates: random networks, from the arrays up, under the sanitizers too. What the rates are worth against
 * max-flows of somebody else's is tested from Python. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datacast/rates.h"

#define CHECK(x)                                                                                                       \
  do {                                                                                                                 \
    if (!(x)) {                                                                                                        \
      fprintf(stderr, "%s:%d: %s, seed %u\n", __FILE__, __LINE__, #x, seed);                                           \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

enum { NODES = 12, LINKS = NODES * (NODES - 1) / 2 };

static uint32_t state;

static uint32_t draw(uint32_t below)
{
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state % below;
}

static void one(uint32_t seed, bool together)
{
  struct dc_net_link link[LINKS];
  uint8_t flags[NODES];
  uint16_t msd[NODES] = {0};
  uint32_t ports[NODES] = {0}, links = 0, hosts = 6;
  state = seed * 2654435761U + 1;
  bool all = draw(2) == 0;
  for (uint32_t v = 0; v < NODES; v++)
    flags[v] = v < hosts ? (uint8_t)(DC_NODE_HOST | (all ? DC_NODE_FORWARDS : 0)) : DC_NODE_FORWARDS;
  for (uint32_t u = 0; u < NODES; u++)
    for (uint32_t v = 0; v < u; v++)
      if (draw(3) == 0)
        link[links++] = (struct dc_net_link){u, v, ports[u]++, ports[v]++};
  struct dc_net_cfg cfg = {.nodes = NODES, .links = links, .trees = 8};
  void *net_memory = malloc(dc_net_size(&cfg));
  struct dc_net *net = dc_net_init(net_memory, &cfg, link, flags, msd);
  CHECK(net != NULL);
  uint32_t capacity[2 * LINKS], left[2 * LINKS], node[NODES], arc[NODES], receiver[5] = {1, 2, 3, 4, 5};
  for (uint32_t v = 0; v < NODES; v++)
    for (uint32_t p = 0; p < ports[v]; p++)
      capacity[dc_net_arc(net, v, p)] = draw(4) == 0 ? 0 : 1 + draw(100);
  memcpy(left, capacity, sizeof left);
  void *memory = malloc(dc_rates_size(net, 5, 64));
  struct dc_rates *r = dc_rates_init(memory, net, 5, 64);
  struct dc_rates_query q = {
      .source = 0, .receiver = receiver, .receivers = 5, .most = 64, .together = together, .capacity = capacity};
  uint32_t culprit = 0;
  enum dc_rates_error error = dc_rates_compute(r, &q, &culprit);
  CHECK(error == DC_RATES_OK || error == DC_RATES_NONE);
  uint64_t got[NODES] = {0};
  for (uint32_t t = 0; t < dc_rates_trees(r); t++) {
    bool in[NODES] = {true};
    uint32_t n = dc_rates_tree(r, t, node, arc), rate = dc_rates_tree_rate(r, t);
    CHECK(n > 0 && n < NODES && rate > 0);
    CHECK(t == 0 || rate <= dc_rates_tree_rate(r, t - 1));
    for (uint32_t i = 0; i < n; i++) {
      CHECK(!in[node[i]] && left[arc[i]] >= rate);
      left[arc[i]] -= rate;
      in[node[i]] = true;
      got[node[i]] += rate;
    }
  }
  for (uint32_t i = 0; error == DC_RATES_OK && i < 5; i++) {
    uint8_t side[NODES];
    CHECK(dc_rates_got(r, i) == got[receiver[i]] && got[receiver[i]] <= dc_rates_bound(r, i));
    dc_rates_cut(r, i, side);
    CHECK(side[0] == 1 && side[receiver[i]] == 0);
  }
  /* A capacity that cannot be counted is refused, and the node is named. */
  if (ports[0] > 0) {
    capacity[dc_net_arc(net, 0, 0)] = UINT32_MAX;
    for (uint32_t v = 1; v < NODES; v++)
      for (uint32_t p = 0; p < ports[v]; p++)
        capacity[dc_net_arc(net, v, p)] = UINT32_MAX;
    CHECK(dc_rates_compute(r, &q, &culprit) == DC_RATES_SUM && culprit < NODES);
  }
  free(memory);
  free(net_memory);
}

int main(void)
{
  for (uint32_t seed = 1; seed <= 1500; seed++)
    one(seed, seed % 2 == 0);
  puts("rates: ok");
  return 0;
}
