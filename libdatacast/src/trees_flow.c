#include <string.h>

#include "trees_rates.h"

/* Breadth-first, forwards, over what the flow leaves; an arc that has none against it has its own rest only. */
static uint64_t augment(struct dc_rates *r, uint32_t v, uint64_t most)
{
  uint32_t n = 0, now = ++r->now;
  r->queue[n++] = 0;
  r->seen[0] = now;
  for (uint32_t i = 0; i < n && r->seen[v] != now; i++) {
    uint32_t x = r->queue[i];
    for (uint32_t a = r->first[x]; a < r->first[x + 1]; a++) {
      uint32_t y = r->head[a];
      if (r->left[a] == 0 || r->seen[y] == now)
        continue;
      r->seen[y] = now;
      r->via[y] = a;
      r->queue[n++] = y;
    }
    r->steps += r->first[x + 1] - r->first[x];
  }
  if (r->seen[v] != now)
    return 0;
  uint64_t push = most;
  for (uint32_t y = v; y != 0; y = r->tail[r->via[y]])
    if (r->left[r->via[y]] < push)
      push = r->left[r->via[y]];
  for (uint32_t y = v; y != 0; y = r->tail[r->via[y]]) {
    r->left[r->via[y]] -= (uint32_t)push;
    r->left[r->back[r->via[y]]] += (uint32_t)push;
  }
  return push;
}

uint64_t dc_rates_flow(struct dc_rates *r, uint32_t v, uint64_t enough)
{
  uint64_t flow = 0;
  memcpy(r->left, r->cap, r->m * sizeof *r->left);
  while (flow < enough) {
    uint64_t more = augment(r, v, enough - flow);
    if (more == 0)
      break;
    flow += more;
  }
  return flow;
}
