#include "trees_attach.h"
#include "trees_bfs.h"
#include "trees_maxflow.h"

struct dc_trees_repaired dc_trees_repair(struct dc_trees *s, const uint32_t *arc, uint32_t arcs)
{
  const struct dc_net *net = s->net;
  struct dc_trees_repaired r = {0, 0, 0};
  uint64_t broken = 0;
  bool back = false;
  for (uint32_t i = 0; i < arcs; i++) {
    uint32_t both[2] = {arc[i], net->rev[arc[i]]};
    for (int j = 0; j < 2; j++) {
      uint8_t *use = &s->use[both[j]];
      if (dc_net_is_up(net, both[j])) {
        if ((*use & DC_USE_DOWN) != 0) {
          *use = net->base[both[j]];
          if (net->to[both[j]] == s->source)
            *use = DC_USE_FREE;
          back = true;
        }
        continue;
      }
      if (*use != DC_USE_FREE && *use <= DC_TREES_MAX) {
        unsigned t = *use - 1u;
        broken |= UINT64_C(1) << t;
        dc_set_list(s, t);
        dc_set_leave(s, t, dc_owner(net, both[j]));
        dc_need_add(s, t, dc_owner(net, both[j]));
      }
      *use |= DC_USE_DOWN;
    }
  }
  /* More trees than the degrees allow now: broken ones go at once, without a search that must fail. */
  uint32_t allowed = broken == 0 ? UINT32_MAX : dc_trees_bound_degree(s);
  for (unsigned t = 0; t < net->trees && dc_bits(s->held) > allowed; t++)
    if ((broken >> t & 1) != 0) {
      unsigned kept = 0;
      for (unsigned i = 0; i < s->needs; i++)
        if (s->need[i].t != t)
          s->need[kept++] = s->need[i];
      s->needs = kept;
      dc_set_release(s, t);
      broken &= ~(UINT64_C(1) << t);
      r.lost |= UINT64_C(1) << t;
    }
  /* What hangs below a broken link is joined as a whole, over free arcs, or over those of another broken tree that can
   * go other ways. */
  uint64_t failed = dc_attach_exchange(s, broken, broken);
  r.changed = broken & ~failed;
  /* As the paper does: release it and search for a new one. All at first: none stands in another's way. */
  for (unsigned t = 0; t < net->trees; t++)
    if ((failed >> t & 1) != 0)
      dc_set_release(s, t);
  for (unsigned t = 0; t < net->trees; t++) {
    uint64_t bit = UINT64_C(1) << t;
    if ((failed & bit) == 0)
      continue;
    if (dc_bfs_tree(s, t, 1)) {
      s->held |= bit;
      r.changed |= bit;
    } else {
      dc_set_release(s, t);
      r.lost |= bit;
    }
  }
  /* Arcs that came back, or that a lost tree left, may hold another tree. */
  if (!back && r.lost == 0)
    return r;
  unsigned have = dc_bits(s->held), bound = dc_trees_bound_degree(s);
  for (unsigned t = 0; t < net->trees && have < bound && have < s->most; t++) {
    uint64_t bit = UINT64_C(1) << t;
    if ((s->held & bit) != 0 || (r.lost & bit) != 0)
      continue;
    if (dc_bfs_tree(s, t, 1)) {
      s->held |= bit;
      r.added |= bit;
      have++;
    } else {
      dc_set_release(s, t);
      break;
    }
  }
  return r;
}
