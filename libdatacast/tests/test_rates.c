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

enum { NODES_MAX = 210, LINKS_MAX = NODES_MAX * (NODES_MAX - 1) / 2, RECEIVERS_MAX = 30 };

/* A link between two nodes with a chance of one in `sparse`. `few`: trees at most, wishes, some links are down. `alike`:
 * receivers hang on the last node by one link. */
struct kind {
  uint32_t nodes, receivers, sparse;
  bool together, few, alike;
};

/* Large ones are not for the stack. */
static struct dc_net_link link[LINKS_MAX];
static uint32_t capacity[2 * LINKS_MAX], left[2 * LINKS_MAX];

static uint32_t state;

static uint32_t draw(uint32_t below)
{
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state % below;
}

static void one(uint32_t seed, struct kind k)
{
  uint32_t nodes = k.nodes, receivers = k.receivers;
  uint8_t flags[NODES_MAX];
  uint16_t msd[NODES_MAX] = {0};
  uint32_t ports[NODES_MAX] = {0}, links = 0, hosts = receivers + 1;
  state = seed * 2654435761U + 1;
  bool all = draw(2) == 0;
  for (uint32_t v = 0; v < nodes; v++)
    flags[v] = v < hosts ? (uint8_t)(DC_NODE_HOST | (all ? DC_NODE_FORWARDS : 0)) : DC_NODE_FORWARDS;
  for (uint32_t u = 0; u < nodes; u++)
    for (uint32_t v = 0; v < u; v++)
      if (k.alike && v > 0 && v <= receivers ? u == nodes - 1 : !(k.alike && u <= receivers) && draw(k.sparse) == 0)
        link[links++] = (struct dc_net_link){u, v, ports[u]++, ports[v]++};
  struct dc_net_cfg cfg = {.nodes = nodes, .links = links, .trees = 8};
  void *net_memory = malloc(dc_net_size(&cfg));
  struct dc_net *net = dc_net_init(net_memory, &cfg, link, flags, msd);
  CHECK(net != NULL);
  uint32_t node[NODES_MAX], arc[NODES_MAX], receiver[RECEIVERS_MAX], wish[RECEIVERS_MAX];
  uint32_t most = k.few ? 1 + draw(6) : 64;
  for (uint32_t v = 0; v < nodes; v++)
    for (uint32_t p = 0; p < ports[v]; p++) {
      bool last = k.alike && v > 0 && v <= receivers;
      capacity[dc_net_arc(net, v, p)] = draw(4) == 0 ? 0 : last ? 10 + 10 * draw(2) : 1 + draw(100);
    }
  for (uint32_t i = 0; i < receivers; i++) {
    receiver[i] = i + 1;
    wish[i] = draw(3) == 0 ? 0 : draw(60);
  }
  for (uint32_t i = 0; k.few && i < links; i++)
    dc_net_set_up(net, dc_net_arc(net, link[i].u, link[i].u_port), draw(8) != 0);
  memcpy(left, capacity, 2 * links * sizeof *left);
  void *memory = malloc(dc_rates_size(net, receivers, most));
  struct dc_rates *r = dc_rates_init(memory, net, receivers, most);
  struct dc_rates_query q = {.source = 0,
                             .receiver = receiver,
                             .receivers = receivers,
                             .most = most,
                             .together = k.together,
                             .capacity = capacity,
                             .wish = k.few && draw(2) == 0 ? wish : NULL};
  uint32_t culprit = 0;
  enum dc_rates_error error = dc_rates_compute(r, &q, &culprit);
  CHECK(error == DC_RATES_OK || error == DC_RATES_NONE);
  uint64_t got[NODES_MAX] = {0};
  CHECK(dc_rates_trees(r) <= most);
  CHECK(!dc_rates_was_split(r) || nodes < NODES_MAX);
  for (uint32_t t = 0; t < dc_rates_trees(r); t++) {
    bool in[NODES_MAX] = {true};
    uint32_t n = dc_rates_tree(r, t, node, arc), rate = dc_rates_tree_rate(r, t);
    CHECK(n > 0 && n < nodes && rate > 0);
    CHECK(t == 0 || rate <= dc_rates_tree_rate(r, t - 1));
    for (uint32_t i = 0; i < n; i++) {
      CHECK(!in[node[i]] && left[arc[i]] >= rate && dc_net_is_up(net, arc[i]));
      left[arc[i]] -= rate;
      in[node[i]] = true;
      got[node[i]] += rate;
    }
  }
  for (uint32_t i = 0; error == DC_RATES_OK && i < receivers; i++) {
    uint8_t side[NODES_MAX];
    CHECK(dc_rates_got(r, i) == got[receiver[i]] && got[receiver[i]] <= dc_rates_bound(r, i));
    dc_rates_cut(r, i, side);
    CHECK(side[0] == 1 && side[receiver[i]] == 0);
  }
  /* A capacity that cannot be counted is refused, and the node is named. */
  if (ports[0] > 0) {
    capacity[dc_net_arc(net, 0, 0)] = UINT32_MAX;
    for (uint32_t v = 1; v < nodes; v++)
      for (uint32_t p = 0; p < ports[v]; p++)
        capacity[dc_net_arc(net, v, p)] = UINT32_MAX;
    bool open = false;
    for (uint32_t p = 0; p < ports[0]; p++)
      open |= dc_net_is_up(net, dc_net_arc(net, 0, p));
    CHECK(!open || (dc_rates_compute(r, &q, &culprit) == DC_RATES_SUM && culprit < nodes));
  }
  free(memory);
  free(net_memory);
}

int main(void)
{
  for (uint32_t seed = 1; seed <= 6000; seed++)
    one(seed, (struct kind){12, 5, 3, seed % 2 == 0, seed % 3 == 0, seed % 5 == 0});
  for (uint32_t seed = 1; seed <= 8; seed++)
    one(seed, (struct kind){.nodes = 40 + seed, .receivers = 2 + seed, .sparse = 2 + seed});
  one(1, (struct kind){.nodes = 180, .receivers = 30, .sparse = 8});        /* more steps than splitting may take */
  one(1, (struct kind){.nodes = NODES_MAX, .receivers = 20, .sparse = 40}); /* more nodes than are split */
  puts("rates: ok");
  return 0;
}
