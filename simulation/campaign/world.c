#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datacast/cc.h"
#include "datacast/limits.h"

static uint64_t state;

uint64_t draw(void)
{
  uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

uint64_t between(uint64_t low, uint64_t high) { return low + draw() % (high - low + 1); }
bool once_in(uint64_t n) { return draw() % n == 0; }

static void die(const char *what, const struct world *w)
{
  fprintf(stderr, "campaign: %s: %s\n", what, sim_error(w->s));
  exit(2);
}

static void cable(struct world *w, int ports[], int a, int b)
{
  int link = sim_cable(w->s, a, ports[a]++, b, ports[b]++, w->rate, w->delay, 100);
  if (link < 0)
    die("cable", w);
  w->from[link] = w->to[link + 1] = a;
  w->to[link] = w->from[link + 1] = b;
  w->links = link + 2;
}

/* A tree of switches and forwarding hosts with receivers at its ends, and cables across it: there is more than one way
 * between what forwards. Vertex 0 is the source, and has two ports when it can. */
static void network(struct world *w, bool forwards[])
{
  int receivers = (int)between(1, RECEIVERS), ports[VERTICES] = {0}, open = 0, at[VERTICES];
  w->n = 2;
  w->host[0] = forwards[1] = true;
  sim_vertex(w->s, true);
  sim_vertex(w->s, false);
  cable(w, ports, 0, 1);
  at[open++] = 1;
  while (w->receivers < receivers && w->n < VERTICES) {
    int v = w->n++;
    bool last = w->n >= VERTICES - receivers;
    w->host[v] = last || !once_in(3);
    sim_vertex(w->s, w->host[v]);
    cable(w, ports, at[draw() % (uint64_t)open], v);
    if (!w->host[v] || (!last && once_in(3))) {
      forwards[v] = true;
      at[open++] = v;
    }
    if (w->host[v])
      w->vertex[w->receivers++] = v;
  }
  if (open > 1)
    cable(w, ports, 0, at[1 + draw() % (uint64_t)(open - 1)]);
  for (int i = 0; i < open / 2; i++) {
    int a = at[draw() % (uint64_t)open], b = at[draw() % (uint64_t)open];
    bool there = a == b || w->links + 2 > LINKS;
    for (int l = 0; l < w->links; l++)
      there |= w->from[l] == a && w->to[l] == b;
    if (!there)
      cable(w, ports, a, b);
  }
}

/* A random tree from the source over everything, grown link by link; the second one leaves by the source's other port,
 * and goes against the first where it can. */
static void grow(struct world *w, int t, const bool forwards[])
{
  bool in[VERTICES] = {true};
  for (int v = 0; v < w->n; v++)
    w->up[t][v] = -1;
  for (int grown = 1; grown < w->n;) {
    int edge[LINKS], edges = 0, against[LINKS], opposite = 0;
    for (int l = 0; l < w->links; l++) {
      if (!in[w->from[l]] || in[w->to[l]] || (w->from[l] != 0 && !forwards[w->from[l]]))
        continue;
      edge[edges++] = l;
      if (t == 1 && w->up[0][w->from[l]] == (l ^ 1))
        against[opposite++] = l;
    }
    int l = opposite > 0 ? against[draw() % (uint64_t)opposite] : edge[draw() % (uint64_t)edges];
    if (grown == 1 && t == 1)
      l = edge[edges - 1];
    in[w->to[l]] = true;
    w->up[t][w->to[l]] = l;
    grown++;
  }
  /* Without branches that lead to no receiver. */
  bool used[VERTICES] = {false};
  for (int i = 0; i < w->receivers; i++)
    for (int v = w->vertex[i]; v != 0 && !used[v]; v = w->from[w->up[t][v]])
      used[v] = true;
  for (int v = 1; v < w->n; v++)
    if (!used[v])
      w->up[t][v] = -1;
}

static bool routed(struct world *w, int t)
{
  int child[VERTICES], parent[VERTICES], arcs = 0;
  for (int v = 1; v < w->n; v++)
    if (w->up[t][v] >= 0) {
      child[arcs] = v;
      parent[arcs++] = w->from[w->up[t][v]];
    }
  return sim_routes(w->s, w->tree[t], child, parent, arcs) == 0;
}

static void tree(struct world *w, int t, const bool forwards[], uint64_t first, uint64_t pieces)
{
  uint64_t slower = between(1, 20); /* draws in statements of their own: else the compiler chooses which is first */
  uint32_t burst = (uint32_t)between(1, 8);
  struct sim_tree_cfg c = {.cc = w->cc,
                           .rate_init = w->rate / slower,
                           .rate_min = w->rate / 1000,
                           .rate_max = w->rate,
                           .delta = w->rate / 20, /* as masters have it */
                           .interval = 25 * w->packet / 3,
                           .burst = burst,
                           .packet_bytes = w->piece + 80,
                           .credits = w->credits,
                           .batch = w->batch,
                           .rto_min = w->rto_max / 16,
                           .rto_max = w->rto_max,
                           .rto_init = w->rto_max / 4,
                           .reorder = 3};
  w->tree[t] = sim_tree(w->s, 0, 100u + (uint32_t)t, &c);
  if (w->tree[t] < 0)
    die("tree", w);
  int tries = 50; /* a tree can be too deep for a route */
  do
    grow(w, t, forwards);
  while (!routed(w, t) && --tries > 0);
  if (tries == 0)
    die("routes", w);
  while (pieces > 0) { /* in a few extents, as the master would */
    uint64_t part = pieces < 4 ? pieces : between(1, pieces);
    if (sim_extent(w->s, w->tree[t], first, (uint32_t)part) < 0)
      die("extent", w);
    first += part;
    pieces -= part;
  }
}

void world_build(struct world *w, uint64_t seed)
{
  static const uint64_t rates[] = {100 * 1000 * 1000, 1000 * 1000 * 1000, 10ull * 1000 * 1000 * 1000};
  static const uint64_t delays[] = {1000, 5 * 1000, 50 * 1000, 500 * 1000};
  static const uint64_t caches[] = {16 * 1024, 64 * 1024, 128 * 1024, 512 * 1024};
  memset(w, 0, sizeof *w);
  state = seed * UINT64_C(0xd1342543de82ef95) + 1;
  w->s = sim_new(seed, SIM_ETHERNET);
  w->rate = rates[draw() % 3];
  w->delay = delays[draw() % 4];
  w->cache = caches[draw() % 4];
  w->piece = (uint32_t)(once_in(4) ? between(1000, 8900) : 1400);
  w->credits = once_in(3) ? (uint32_t)between(4, 64) : 16;
  w->batch = w->credits / 4 < DC_BATCH_MAX ? w->credits / 4 : DC_BATCH_MAX;
  while (w->batch > 1 && w->batch * 10 > w->cache / w->piece)
    w->batch--;
  once_in(2);
  unsigned rules = 0;
  while (dc_cc_name(rules) != NULL)
    rules++;
  w->cc = dc_cc_name((unsigned)(draw() % rules));
  w->packet = (w->piece + 120) * 8 * SEC / w->rate;
  /* Beyond what a round trip takes at its worst: there and back over the whole depth, and through some full queues. */
  w->rto_max = 16 * 2 * w->delay + 400 * w->packet;
  /* Now and then nothing, or a byte; else so much that faults find something to break. */
  if (once_in(50)) {
    w->size = draw() % 2;
  } else {
    w->size = between(300, 1500) * w->piece;
    w->size -= draw() % w->piece;
  }
  w->pieces = w->size == 0 ? 0 : (w->size - 1) / w->piece + 1;

  bool forwards[VERTICES] = {false};
  network(w, forwards);
  struct sim_group_cfg g = {
      .source = 0, .size = w->size, .piece = w->piece, .per_block = (uint32_t)between(1, 64), .cache_bytes = w->cache};
  if (sim_group(w->s, &g) < 0)
    die("group", w);
  for (int i = 0; i < w->receivers; i++)
    if (sim_receiver(w->s, 0, w->vertex[i]) < 0)
      die("receiver", w);
  w->trees = once_in(3) ? 1 : 2;
  for (int t = 0; t < w->trees; t++) {
    uint64_t half = w->pieces / (uint64_t)w->trees;
    tree(w, t, forwards, (uint64_t)t * half, t + 1 == w->trees ? w->pieces - (uint64_t)t * half : half);
  }
  for (int v = 1; v < w->n && w->trees == 2; v++)
    for (int u = 1; u < w->n; u++)
      w->opposed |= w->up[0][v] >= 0 && w->up[0][v] == (w->up[1][u] ^ 1);
  w->start = between(0, 100) * w->packet;
  if (sim_schedule(w->s, 0, w->start, UINT64_MAX) < 0 || sim_prepare(w->s) < 0)
    die("schedule", w);
}

void world_describe(const struct world *w, uint64_t seed)
{
  printf("seed %llu: cc=%s, %d receivers, %d vertices, %d cables, %d trees%s, %llu bytes in pieces of %u, %llu Mb/s, "
         "%llu us, C %llu KB, w %u\n",
         (unsigned long long)seed, w->cc, w->receivers, w->n, w->links / 2, w->trees, w->opposed ? " opposed" : "",
         (unsigned long long)w->size, w->piece, (unsigned long long)(w->rate / 1000000),
         (unsigned long long)(w->delay / 1000), (unsigned long long)(w->cache / 1024), w->credits);
}
