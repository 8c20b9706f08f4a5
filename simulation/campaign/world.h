/* A campaign's world: one random network with cycles, a group on it, and the trees that carry its file. */
#ifndef DATACAST_CAMPAIGN_WORLD_H
#define DATACAST_CAMPAIGN_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api.h"

#define SEC UINT64_C(1000000000)

enum { RECEIVERS = 20, VERTICES = 48, TREES = 2, LINKS = 4 * VERTICES };

struct world {
  sim *s;
  int n, links; /* directed */
  int from[LINKS], to[LINKS];
  bool host[VERTICES];
  int receivers, vertex[RECEIVERS];
  int trees, tree[TREES];
  int up[TREES][VERTICES]; /* the link parent -> child by which a tree reaches a vertex; -1: it does not */
  bool opposed;            /* some cable carries one tree's data one way and the other's the other way */
  uint64_t size, pieces, rate, delay, start;
  uint64_t packet; /* time of a data packet on a link: all times of a campaign are told in it */
  uint64_t rto_max;
  uint32_t piece, credits, batch;
  const char *cc;
  uint64_t cache;
};

/* Random numbers of the seed that was built last. */
uint64_t draw(void);
uint64_t between(uint64_t low, uint64_t high);
bool once_in(uint64_t n);

/* Ends the process when the simulator refuses what it is given. */
void world_build(struct world *w, uint64_t seed);
void world_describe(const struct world *w, uint64_t seed);

#endif
