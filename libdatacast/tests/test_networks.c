/* A network that says what it is, is looked at whole before its addresses are believed: one cable, size or flag that does
 * not fit, and its trees are searched for as in any network. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datacast/trees.h"

enum { LINKS_MAX = 256, NODES_MAX = 128 };

struct plan {
  struct dc_net_cfg cfg;
  struct dc_net_link link[LINKS_MAX];
  uint8_t flags[NODES_MAX];
};

static uint32_t power(uint32_t n, uint32_t k) { return k == 0 ? 1 : n * power(n, k - 1); }

static void join(struct plan *p, uint32_t u, uint32_t u_port, uint32_t v, uint32_t v_port)
{
  assert(p->cfg.links < LINKS_MAX);
  p->link[p->cfg.links++] = (struct dc_net_link){u, v, u_port, v_port};
}

static void begin(struct plan *p, enum dc_net_kind kind, uint32_t n, uint32_t k, uint32_t nodes, uint32_t hosts)
{
  memset(p, 0, sizeof *p);
  p->cfg = (struct dc_net_cfg){.nodes = nodes, .trees = DC_TREES_MAX, .kind = kind, .n = n, .k = k};
  assert(nodes < NODES_MAX);
  for (uint32_t v = 0; v < nodes; v++)
    p->flags[v] = v >= hosts               ? DC_NODE_FORWARDS
                  : kind == DC_NET_FATTREE ? DC_NODE_HOST
                                           : DC_NODE_HOST | DC_NODE_FORWARDS;
}

static void bcube(struct plan *p, uint32_t n, uint32_t k)
{
  uint32_t hosts = power(n, k + 1), per = power(n, k);
  begin(p, DC_NET_BCUBE, n, k, hosts + (k + 1) * per, hosts);
  for (uint32_t l = 0; l <= k; l++)
    for (uint32_t v = 0, unit = power(n, l); v < hosts; v++)
      join(p, v, l, hosts + l * per + v / unit / n * unit + v % unit, v / unit % n);
}

static void torus(struct plan *p, uint32_t n, uint32_t k)
{
  begin(p, DC_NET_TORUS, n, k, power(n, k), power(n, k));
  for (uint32_t i = 0; i < k; i++)
    for (uint32_t v = 0, unit = power(n, i); v < p->cfg.nodes; v++)
      join(p, v, 2 * i, v / unit % n + 1 == n ? v - (n - 1) * unit : v + unit, 2 * i + 1);
}

static void hypercube(struct plan *p, uint32_t k)
{
  begin(p, DC_NET_HYPERCUBE, 0, k, 1u << k, 1u << k);
  for (uint32_t i = 0; i < k; i++)
    for (uint32_t v = 0; v < p->cfg.nodes; v++)
      if ((v >> i & 1) == 0)
        join(p, v, i, v ^ 1u << i, i);
}

/* Hosts, then layers of switches: in each, subtrees of half^layer switches. */
static void fattree(struct plan *p, uint32_t n, uint32_t k)
{
  uint32_t half = n / 2, hosts = 2 * power(half, k), per = 2 * power(half, k - 1);
  begin(p, DC_NET_FATTREE, n, k, hosts + per * (k - 1) + per / 2, hosts);
  for (uint32_t v = 0; v < hosts; v++)
    join(p, v, 0, hosts + (k == 1 ? 0 : v / half), k == 1 ? v : v % half);
  for (uint32_t l = 0; l + 1 < k; l++)
    for (uint32_t i = 0, unit = power(half, l); i < per; i++)
      for (uint32_t c = 0; c < half; c++) {
        uint32_t tree = i / unit, up = c * unit + i % unit + (l + 2 < k ? tree / half * unit * half : 0);
        join(p, hosts + l * per + i, half + c, hosts + (l + 1) * per + up, l + 2 == k ? tree : tree % half);
      }
}

static enum dc_net_kind kind_of(const struct plan *p)
{
  uint16_t msd[NODES_MAX] = {0};
  void *memory = malloc(dc_net_size(&p->cfg));
  struct dc_net *net = dc_net_init(memory, &p->cfg, p->link, p->flags, msd);
  assert(net != NULL);
  enum dc_net_kind kind = dc_net_kind(net);
  free(memory);
  return kind;
}

/* Of each cable and one a little further on the far ends change places. */
static void swapped_cables(struct plan *p, uint32_t apart)
{
  for (uint32_t i = 0; i + apart < p->cfg.links; i++) {
    struct dc_net_link *a = &p->link[i], *b = &p->link[i + apart], was_a = *a, was_b = *b;
    a->v = was_b.v;
    a->v_port = was_b.v_port;
    b->v = was_a.v;
    b->v_port = was_a.v_port;
    if (a->u != a->v && b->u != b->v)
      assert(kind_of(p) == DC_NET_ANY);
    *a = was_a;
    *b = was_b;
  }
}

static void lies(struct plan *p)
{
  struct plan truth = *p;
  assert(kind_of(p) == p->cfg.kind);
  for (uint32_t apart = 1; apart <= 4; apart++)
    swapped_cables(p, apart);
  for (uint32_t v = 0; v < p->cfg.nodes; v++) {
    p->flags[v] ^= DC_NODE_FORWARDS;
    assert(kind_of(p) == DC_NET_ANY);
    p->flags[v] = truth.flags[v] ^ DC_NODE_HOST;
    assert(kind_of(p) == DC_NET_ANY);
    p->flags[v] = truth.flags[v] | DC_NODE_CACHE; /* which is nobody's business here */
    assert(kind_of(p) == p->cfg.kind);
    p->flags[v] = truth.flags[v];
  }
  static const uint32_t odd[] = {0, 1, 2, 3, 5, 6, 7, 15, 31, 32, 33, 255, 256, 65536};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    p->cfg.n = odd[i];
    assert(odd[i] == truth.cfg.n || p->cfg.kind == DC_NET_HYPERCUBE || kind_of(p) == DC_NET_ANY);
    p->cfg.n = truth.cfg.n;
    p->cfg.k = odd[i];
    assert(odd[i] == truth.cfg.k || kind_of(p) == DC_NET_ANY);
    p->cfg.k = truth.cfg.k;
  }
  p->cfg.nodes++; /* one more, which nothing leads to */
  assert(kind_of(p) == DC_NET_ANY);
  p->cfg.nodes--;
  uint32_t ports[NODES_MAX] = {0}; /* one cable more */
  for (uint32_t i = 0; i < p->cfg.links; i++) {
    ports[p->link[i].u]++;
    ports[p->link[i].v]++;
  }
  join(p, 0, ports[0], p->cfg.nodes - 1, ports[p->cfg.nodes - 1]);
  assert(kind_of(p) == DC_NET_ANY);
  p->cfg.links--;
  p->cfg.trees = 0; /* it has more trees than a set may hold */
  assert(kind_of(p) == (p->cfg.kind == DC_NET_FATTREE ? DC_NET_FATTREE : DC_NET_ANY));
}

int main(void)
{
  struct plan p;
  bcube(&p, 4, 1);
  lies(&p);
  bcube(&p, 2, 2);
  lies(&p);
  torus(&p, 3, 2);
  lies(&p);
  torus(&p, 7, 1);
  lies(&p);
  torus(&p, 3, 3);
  lies(&p);
  hypercube(&p, 4);
  lies(&p);
  fattree(&p, 4, 1);
  lies(&p);
  fattree(&p, 4, 2);
  lies(&p);
  fattree(&p, 4, 3);
  lies(&p);
  puts("networks ok");
  return 0;
}
