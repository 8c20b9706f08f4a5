#include <string.h>

#include "trees_rates.h"

/* What each terminal still misses stands in `miss`; those that nothing reaches any more have 0 there. */
static uint32_t least_missing(const struct dc_rates *r, const uint32_t *miss)
{
  uint32_t least = UINT32_MAX;
  for (uint32_t t = 1; t <= r->terminals; t++)
    if (miss[t] != 0 && miss[t] < least)
      least = miss[t];
  return least;
}

/* Can those that the tree has not met be left to later trees? Only where receivers have rates of their own, and what the
 * source keeps is enough for each of them. */
static bool may_wait(const struct dc_rates *r, const uint32_t *up, const uint32_t *miss, uint32_t width)
{
  uint64_t out = 0;
  if (r->spanning)
    return false;
  for (uint32_t a = r->first[0]; a < r->first[1]; a++)
    out += r->left[a];
  for (uint32_t t = 1; t <= r->terminals; t++)
    if (miss[t] != 0 && up[t] == DC_NO_ARC && out < (uint64_t)miss[t] + width)
      return false;
  return true;
}

/* Breadth-first over arcs that have `width` left, from one of the source's arcs, the widest; from a further one only
 * when terminals are out of reach that cannot wait. Returns how many terminals that miss something were met. */
static uint32_t grow(struct dc_rates *r, uint32_t *up, const uint32_t *miss, uint32_t wanted, uint32_t width)
{
  uint32_t met = 0, n = 0, i = 0, now = ++r->now;
  memset(up, 0xff, r->n * sizeof *up);
  r->seen[0] = now;
  while (met < wanted) {
    uint32_t best = DC_NO_ARC;
    for (uint32_t a = r->first[0]; a < r->first[1]; a++)
      if (r->left[a] >= width && r->seen[r->head[a]] != now && (best == DC_NO_ARC || r->left[a] > r->left[best]))
        best = a;
    if (best == DC_NO_ARC || (met > 0 && may_wait(r, up, miss, width)))
      break;
    r->queue[n++] = r->head[best];
    r->seen[r->head[best]] = now;
    up[r->head[best]] = best;
    met += r->head[best] <= r->terminals && miss[r->head[best]] != 0;
    for (; i < n && met < wanted; i++) {
      uint32_t x = r->queue[i];
      for (uint32_t a = r->first[x]; a < r->first[x + 1]; a++) {
        uint32_t y = r->head[a];
        if (r->left[a] < width || r->seen[y] == now)
          continue;
        r->seen[y] = now;
        up[y] = a;
        r->queue[n++] = y;
        met += y <= r->terminals && miss[y] != 0;
      }
    }
  }
  return met;
}

/* Can the last tree, without those that are done, go on at `width`? */
static bool goes_on(struct dc_rates *r, uint32_t *up, const uint32_t *before, const uint32_t *miss, uint32_t width)
{
  for (uint32_t t = 1; t <= r->terminals; t++)
    if (miss[t] != 0 && before[t] == DC_NO_ARC)
      return false;
  memcpy(up, before, r->n * sizeof *up);
  dc_rates_prune(r, up, miss);
  for (uint32_t x = 1; x < r->n; x++)
    if (up[x] != DC_NO_ARC && r->left[up[x]] < width)
      return false;
  return true;
}

/* Trees are few, receivers' wishes may be many: lower wishes to a neighbour's where that costs the receivers least,
 * until there are no more than `levels` different ones. `wish` and `many` have room for a number per terminal. */
static void level(struct dc_rates *r, uint32_t *miss, uint32_t levels, uint32_t *wish, uint32_t *many)
{
  uint32_t kinds = 0;
  for (uint32_t t = 1; t <= r->terminals; t++) {
    /* Binary search, then make room: K kinds cost O(K^2) at worst. */
    uint32_t low = 0, high = kinds;
    while (low < high) {
      uint32_t mid = (low + high) / 2;
      if (wish[mid] < miss[t])
        low = mid + 1;
      else
        high = mid;
    }
    if (miss[t] == 0)
      continue;
    if (low == kinds || wish[low] != miss[t]) {
      memmove(wish + low + 1, wish + low, (kinds - low) * sizeof *wish);
      memmove(many + low + 1, many + low, (kinds - low) * sizeof *many);
      wish[low] = miss[t];
      many[low] = 0;
      kinds++;
    }
    many[low]++;
  }
  while (kinds > levels) {
    uint32_t best = 1;
    double cheapest = 0;
    for (uint32_t i = 1; i < kinds; i++) {
      double cost = many[i] * (double)(wish[i] - wish[i - 1]) / wish[i];
      if (i == 1 || cost < cheapest) {
        best = i;
        cheapest = cost;
      }
    }
    many[best - 1] += many[best];
    memmove(wish + best, wish + best + 1, (kinds - best - 1) * sizeof *wish);
    memmove(many + best, many + best + 1, (kinds - best - 1) * sizeof *many);
    kinds--;
  }
  for (uint32_t t = 1; t <= r->terminals; t++) {
    uint32_t i = kinds;
    while (i > 0 && wish[i - 1] > miss[t])
      i--;
    if (miss[t] != 0)
      miss[t] = wish[i - 1];
  }
}

static void peel(struct dc_rates *r, uint32_t *miss)
{
  while (r->count < r->most) {
    uint32_t wanted = 0, width = least_missing(r, miss);
    for (uint32_t t = 1; t <= r->terminals; t++)
      wanted += miss[t] != 0;
    if (wanted == 0)
      break;
    uint32_t *up = dc_rates_up(r, r->count);
    bool again = r->count > 0 && goes_on(r, up, dc_rates_up(r, r->count - 1), miss, width);
    if (!again) {
      /* Whom a tree can meet at all, then the widest one that meets as many: who has narrow links only is not left to
       * later trees for that. */
      uint32_t all = grow(r, up, miss, wanted, 1), met = all;
      for (; width > 1; width /= 4) {
        met = grow(r, up, miss, wanted, width);
        if (met >= all)
          break;
      }
      if (met < all || width <= 1)
        met = grow(r, up, miss, wanted, 1);
      if (met == 0)
        break;
      if (met < wanted && !may_wait(r, up, miss, width > 1 ? width : 1))
        for (uint32_t t = 1; t <= r->terminals; t++)
          if (up[t] == DC_NO_ARC)
            miss[t] = 0;
      dc_rates_prune(r, up, miss);
    }
    uint32_t rate = UINT32_MAX;
    for (uint32_t x = 1; x < r->n; x++) {
      if (up[x] == DC_NO_ARC)
        continue;
      if (r->left[up[x]] < rate)
        rate = r->left[up[x]];
      if (x <= r->terminals && miss[x] != 0 && miss[x] < rate)
        rate = miss[x];
    }
    for (uint32_t x = 1; x < r->n; x++)
      if (up[x] != DC_NO_ARC)
        r->left[up[x]] -= rate;
    for (uint32_t t = 1; t <= r->terminals; t++) {
      if (up[t] == DC_NO_ARC)
        continue;
      r->got[t] += rate;
      if (miss[t] != 0)
        miss[t] -= rate;
    }
    r->rate[r->count++] = rate;
  }
}

void dc_rates_peel(struct dc_rates *r, bool common_first)
{
  uint32_t *miss = r->work, *wish = miss + r->terminals + 1, *many = wish + r->terminals + 1;
  memcpy(wish, r->target, (r->terminals + 1) * sizeof *wish);
  memcpy(r->left, r->cap, r->m * sizeof *r->left);
  memset(r->got, 0, (r->terminals + 1) * sizeof *r->got);
  r->count = 0;
  wish[0] = 0;
  r->spanning = r->together || r->tree_shaped || common_first;
  if (common_first) {
    uint32_t least = least_missing(r, wish);
    for (uint32_t t = 0; t <= r->terminals; t++)
      miss[t] = wish[t] != 0 ? least : 0;
    peel(r, miss);
    r->spanning = r->together || r->tree_shaped;
  }
  if (r->count == r->most)
    return;
  for (uint32_t t = 0; t <= r->terminals; t++)
    miss[t] = r->target[t] > r->got[t] && t > 0 ? r->target[t] - (uint32_t)r->got[t] : 0;
  if (r->terminals > r->most - r->count)
    level(r, miss, r->most - r->count, wish, many);
  peel(r, miss);
}
