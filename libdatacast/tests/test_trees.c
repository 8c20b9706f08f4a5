/* The tree engine in C: memory of exactly the size it asks for, seeded failures, repair, routes, bad networks. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datacast/route.h"
#include "datacast/trees.h"
#include "datacast/trees_routes.h"

static uint64_t state = 88172645463325252u;

static uint32_t any_below(uint32_t n)
{
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint32_t)(state >> 20) % n;
}

struct fixture {
  struct dc_net *net;
  struct dc_trees *set;
  struct dc_net_link *link;
  uint32_t links, nodes;
};

static void make(struct fixture *f, struct dc_net_cfg cfg, struct dc_net_link *link)
{
  uint8_t *flags = malloc(cfg.nodes);
  uint16_t *msd = calloc(cfg.nodes, sizeof *msd);
  memset(flags, DC_NODE_HOST | DC_NODE_FORWARDS | DC_NODE_CACHE, cfg.nodes);
  /* Blocks of exactly the size asked for: a sanitizer sees any step beyond. */
  f->net = dc_net_init(malloc(dc_net_size(&cfg)), &cfg, link, flags, msd);
  assert(f->net != NULL);
  f->set = dc_trees_init(malloc(dc_trees_size(f->net)), f->net);
  f->link = link;
  f->links = cfg.links;
  f->nodes = cfg.nodes;
  free(flags);
  free(msd);
}

static void drop(struct fixture *f)
{
  free(f->net);
  free(f->set);
  free(f->link);
}

static void make_torus(struct fixture *f, uint32_t n, uint32_t k)
{
  uint32_t nodes = 1, l = 0;
  for (uint32_t i = 0; i < k; i++)
    nodes *= n;
  struct dc_net_link *link = malloc(nodes * k * sizeof *link);
  for (uint32_t v = 0; v < nodes; v++)
    for (uint32_t i = 0, unit = 1; i < k; i++, unit *= n)
      link[l++] = (struct dc_net_link){v, v / unit % n + 1 == n ? v - (n - 1) * unit : v + unit, 2 * i, 2 * i + 1};
  make(f, (struct dc_net_cfg){.nodes = nodes, .links = l, .trees = 2 * k, .kind = DC_NET_TORUS, .n = n, .k = k}, link);
  assert(dc_net_kind(f->net) == DC_NET_TORUS);
}

/* Arcs are up and used once, every receiver leads to the source. */
static void check(const struct fixture *f, const struct dc_trees_query *q)
{
  uint8_t *used = calloc(2 * f->links, 1);
  uint32_t *owner = malloc(2 * f->links * sizeof *owner), *from = malloc(2 * f->links * sizeof *from);
  for (uint32_t i = 0; i < f->links; i++) {
    uint32_t a = dc_net_arc(f->net, f->link[i].u, f->link[i].u_port),
             b = dc_net_arc(f->net, f->link[i].v, f->link[i].v_port);
    owner[a] = from[b] = f->link[i].u;
    owner[b] = from[a] = f->link[i].v;
  }
  uint32_t *node = malloc(f->nodes * sizeof *node), *arc = malloc(f->nodes * sizeof *arc);
  for (unsigned t = 0; t < DC_TREES_MAX; t++) {
    if ((dc_trees_held(f->set) >> t & 1) == 0)
      continue;
    uint32_t n = dc_trees_nodes(f->set, t, node, arc), deepest = 0;
    assert(n >= q->receivers && n < f->nodes);
    for (uint32_t i = 0; i < n; i++) {
      assert(owner[arc[i]] == node[i] && dc_net_is_up(f->net, arc[i]) && used[arc[i]]++ == 0);
      assert(dc_trees_parent(f->set, t, node[i]) == arc[i]);
    }
    for (uint32_t i = 0; i < q->receivers; i++) {
      uint32_t steps = 0;
      for (uint32_t v = q->receiver[i]; v != q->source; steps++) {
        assert(steps < f->nodes && dc_trees_parent(f->set, t, v) != DC_NO_ARC);
        v = from[dc_trees_parent(f->set, t, v)];
      }
      deepest = steps > deepest ? steps : deepest;
    }
    assert(deepest == dc_trees_depth(f->set, t));
  }
  free(used);
  free(owner);
  free(from);
  free(node);
  free(arc);
}

static void failures_and_repairs(uint32_t n, uint32_t k, unsigned rounds)
{
  struct fixture f;
  make_torus(&f, n, k);
  uint32_t *host = malloc(f.nodes * sizeof *host), *down = malloc(f.links * sizeof *down);
  for (unsigned round = 0; round < rounds; round++) {
    uint32_t downs = any_below(f.links / 8 + 1);
    for (uint32_t i = 0; i < f.nodes; i++)
      host[i] = i;
    for (uint32_t i = 0; i + 1 < f.nodes; i++) {
      uint32_t j = i + any_below(f.nodes - i), x = host[i];
      host[i] = host[j];
      host[j] = x;
    }
    for (uint32_t i = 0; i < downs; i++) {
      const struct dc_net_link *l = &f.link[any_below(f.links)];
      down[i] = dc_net_arc(f.net, l->u, l->u_port);
      dc_net_set_up(f.net, down[i], false);
    }
    struct dc_trees_query q = {
        .source = host[0], .receiver = host + 1, .receivers = 1 + any_below(f.nodes - 1), .most = 64};
    unsigned trees = dc_trees_compute(f.set, &q);
    uint32_t bound = dc_trees_bound_maxflow(f.set);
    check(&f, &q);
    if (trees == 0) {
      uint8_t *reached = malloc(q.receivers);
      assert(dc_trees_reachable(f.set, reached) > 0);
      free(reached);
    } else {
      assert(trees <= bound && bound <= dc_trees_bound_degree(f.set));
      if (trees < bound)
        trees = dc_trees_exact(f.set, &q, bound);
      assert(trees == bound);
      /* One more link breaks. */
      const struct dc_net_link *l = &f.link[any_below(f.links)];
      uint32_t arc = dc_net_arc(f.net, l->u, l->u_port);
      if (dc_net_is_up(f.net, arc)) {
        uint64_t before = dc_trees_held(f.set);
        dc_net_set_up(f.net, arc, false);
        struct dc_trees_repaired r = dc_trees_repair(f.set, &arc, 1);
        assert((r.changed & r.lost) == 0 && dc_trees_held(f.set) == ((before & ~r.lost) | r.added));
        check(&f, &q);
        dc_net_set_up(f.net, arc, true);
        (void)dc_trees_repair(f.set, &arc, 1);
        check(&f, &q);
      }
    }
    for (uint32_t i = 0; i < downs; i++)
      dc_net_set_up(f.net, down[i], true);
  }
  free(host);
  free(down);
  drop(&f);
}

/* Any network: hosts with several cables of which some pass nothing on, loads of other groups, few trees wanted. */
static void any_network(uint32_t nodes, uint32_t sparse, unsigned rounds)
{
  for (unsigned round = 0; round < rounds; round++) {
    uint32_t hosts = 2 + any_below(nodes - 2), links = 0, *ports = calloc(nodes, sizeof *ports);
    struct dc_net_link *link = malloc(nodes * nodes / 2 * sizeof *link);
    for (uint32_t u = 1; u < nodes; u++)
      for (uint32_t v = 0; v < u; v++)
        if (any_below(sparse) == 0)
          link[links++] = (struct dc_net_link){u, v, ports[u]++, ports[v]++};
    struct dc_net_cfg cfg = {.nodes = nodes, .links = links, .trees = 1 + any_below(8)};
    uint8_t *flags = malloc(nodes);
    uint16_t *msd = calloc(nodes, sizeof *msd), *load = calloc(2 * links + 1, sizeof *load);
    for (uint32_t v = 0; v < nodes; v++)
      flags[v] = v >= hosts          ? DC_NODE_FORWARDS | DC_NODE_CACHE
                 : any_below(3) == 0 ? DC_NODE_HOST
                                     : DC_NODE_HOST | DC_NODE_FORWARDS | (any_below(2) == 0 ? DC_NODE_CACHE : 0);
    for (uint32_t a = 0; a < 2 * links; a++)
      load[a] = (uint16_t)any_below(4);
    struct fixture f = {.link = link, .links = links, .nodes = nodes};
    f.net = dc_net_init(malloc(dc_net_size(&cfg)), &cfg, link, flags, msd);
    f.set = dc_trees_init(malloc(dc_trees_size(f.net)), f.net);
    uint32_t *receiver = malloc(hosts * sizeof *receiver), n = 0;
    for (uint32_t v = 1; v < hosts; v++)
      if (n == 0 || any_below(2) == 0)
        receiver[n++] = v;
    struct dc_trees_query q = {
        .source = 0, .receiver = receiver, .receivers = n, .most = cfg.trees, .load = any_below(2) == 0 ? load : NULL};
    unsigned trees = dc_trees_compute(f.set, &q);
    check(&f, &q);
    if (trees != 0) {
      uint32_t bound = dc_trees_bound_maxflow(f.set);
      assert(trees <= bound && bound <= dc_trees_bound_degree(f.set));
      unsigned more = dc_trees_exact(f.set, &q, bound);
      assert(more >= trees && more <= bound && (unsigned)__builtin_popcountll(dc_trees_held(f.set)) == more);
      check(&f, &q);
    }
    for (unsigned fault = 0; fault < 4 && trees != 0; fault++) {
      const struct dc_net_link *l = &link[any_below(links)];
      uint32_t arc = dc_net_arc(f.net, l->u, l->u_port);
      dc_net_set_up(f.net, arc, !dc_net_is_up(f.net, arc));
      (void)dc_trees_repair(f.set, &arc, 1);
      check(&f, &q);
    }
    free(ports);
    free(flags);
    free(msd);
    free(load);
    free(receiver);
    drop(&f);
  }
}

/* A switch that goes takes with it more links of a tree than a set remembers one by one: the rest of the tree stays. */
static void a_switch_of_thousands_of_receivers_goes(void)
{
  enum { MANY = 2200, FIRST = 3 }; /* behind the source, and two switches that lead to all of them */
  const uint32_t beside = FIRST + MANY, last = beside + 1; /* the last is behind one beside them */
  struct dc_net_link *link = malloc((6 + 2 * MANY) * sizeof *link);
  uint32_t links = 0, *receiver = malloc((MANY + 1) * sizeof *receiver), *down = malloc((MANY + 1) * sizeof *down);
  for (uint32_t sw = 1; sw < FIRST; sw++) {
    link[links++] = (struct dc_net_link){0, sw, sw - 1, 0};
    for (uint32_t i = 0; i < MANY; i++)
      link[links++] = (struct dc_net_link){sw, FIRST + i, 1 + i, sw - 1};
  }
  for (uint32_t sw = 1; sw < FIRST; sw++)
    link[links++] = (struct dc_net_link){sw, beside, 1 + MANY, sw - 1};
  link[links++] = (struct dc_net_link){beside, last, 2, 0};
  link[links++] = (struct dc_net_link){0, last, 2, 1};
  struct fixture f;
  make(&f, (struct dc_net_cfg){.nodes = last + 1, .links = links, .trees = 1}, link);
  for (uint32_t i = 0; i < MANY; i++)
    receiver[i] = FIRST + i;
  receiver[MANY] = last;
  uint32_t shorter = dc_net_arc(f.net, last, 1); /* is no way yet, and then nobody needs it */
  dc_net_set_up(f.net, shorter, false);
  struct dc_trees_query q = {.source = 0, .receiver = receiver, .receivers = MANY + 1, .most = 1};
  assert(dc_trees_compute(f.set, &q) == 1);
  uint32_t before = dc_trees_parent(f.set, 0, last);
  for (uint32_t i = 0; i < MANY; i++) {
    down[i] = dc_trees_parent(f.set, 0, receiver[i]);
    dc_net_set_up(f.net, down[i], false);
  }
  down[MANY] = shorter;
  dc_net_set_up(f.net, shorter, true);
  struct dc_trees_repaired r = dc_trees_repair(f.set, down, MANY + 1);
  assert(r.changed == 1 && r.lost == 0 && r.added == 0 && dc_trees_parent(f.set, 0, last) == before);
  check(&f, &q);
  free(receiver);
  free(down);
  drop(&f);
}

static void routes_fit_their_buffer_and_parse(void)
{
  struct fixture f;
  make_torus(&f, 5, 2);
  uint32_t receiver[24], at[25];
  for (uint32_t i = 0; i < 24; i++)
    receiver[i] = i + 1;
  struct dc_trees_query q = {.source = 0, .receiver = receiver, .receivers = 24, .most = 64};
  assert(dc_trees_compute(f.set, &q) == 4);
  for (unsigned t = 0; t < 4; t++) {
    uint8_t *out = malloc(65536);
    struct dc_routes_result all = dc_trees_routes(f.set, t, out, 65536, at);
    assert(all.error == DC_ROUTES_OK && at[0] == 0 && at[24] == all.bytes && all.labels > 0);
    for (uint32_t i = 0; i < 24; i++)
      assert(dc_route_check(out + at[i], at[i + 1] - at[i]) >= 2);
    uint8_t *exact = malloc(all.bytes);
    struct dc_routes_result again = dc_trees_routes(f.set, t, exact, all.bytes, at);
    assert(again.error == DC_ROUTES_OK && memcmp(out, exact, all.bytes) == 0);
    for (size_t cap = 0; cap < all.bytes; cap += 7)
      assert(dc_trees_routes(f.set, t, exact, cap, at).error == DC_ROUTES_SPACE);
    free(out);
    free(exact);
  }
  drop(&f);
}

static void ports_that_are_not_dense_are_refused(void)
{
  struct dc_net_cfg cfg = {.nodes = 3, .links = 2, .trees = 1, .kind = DC_NET_ANY};
  uint8_t flags[3] = {3, 3, 3};
  uint16_t msd[3] = {0, 0, 0};
  void *memory = malloc(dc_net_size(&cfg));
  struct dc_net_link gap[2] = {{0, 1, 0, 0}, {1, 2, 2, 0}}, twice[2] = {{0, 1, 0, 0}, {1, 2, 0, 0}},
                     loop[2] = {{0, 0, 0, 1}, {1, 2, 0, 0}}, fine[2] = {{0, 1, 0, 0}, {1, 2, 1, 0}};
  assert(dc_net_init(memory, &cfg, gap, flags, msd) == NULL);
  assert(dc_net_init(memory, &cfg, twice, flags, msd) == NULL);
  assert(dc_net_init(memory, &cfg, loop, flags, msd) == NULL);
  /* Ports so high that the sum with those before them wraps around, onto another node's. */
  for (uint32_t back = 1; back <= 3; back++) {
    struct dc_net_link wraps[2] = {fine[0], {1, 2, 1, UINT32_MAX - back + 1}};
    assert(dc_net_init(memory, &cfg, wraps, flags, msd) == NULL);
  }
  assert(dc_net_init(memory, &cfg, fine, flags, msd) != NULL);
  free(memory);
}

/* The search that measurements are compared with sees what links that are up lead to, as often as it is made. */
static void the_floor_sees_the_nodes_that_links_lead_to(void)
{
  struct fixture f;
  make_torus(&f, 4, 2);
  assert(dc_trees_floor(f.set, 0, 1) == 16 && dc_trees_floor(f.set, 3, 5) == 16);
  for (uint32_t port = 0; port < 4; port++)
    dc_net_set_up(f.net, dc_net_arc(f.net, 5, port), false);
  assert(dc_trees_floor(f.set, 0, 2) == 15 && dc_trees_floor(f.set, 5, 1) == 1 && dc_trees_floor(f.set, 0, 0) == 0);
  drop(&f);
}

int main(void)
{
  failures_and_repairs(4, 2, 300);
  failures_and_repairs(3, 3, 100);
  failures_and_repairs(11, 2, 40);
  failures_and_repairs(7, 1, 100);
  any_network(8, 2, 2000);
  any_network(24, 4, 300);
  any_network(60, 8, 20);
  a_switch_of_thousands_of_receivers_goes();
  routes_fit_their_buffer_and_parse();
  ports_that_are_not_dense_are_refused();
  the_floor_sees_the_nodes_that_links_lead_to();
  puts("trees ok");
  return 0;
}
