/* What splitting off gives, made into a plan: pruned, trees put together, few. */
#include <string.h>

#include "trees_split.h"

static uint32_t *parents(const struct dc_split *s, uint32_t t) { return s->parent + (size_t)t * s->n; }

static void prune(struct dc_split *s, uint32_t t)
{
  uint32_t *parent = parents(s, t), now = ++s->now;
  s->seen[0] = now;
  for (uint32_t x = 1; x <= s->terminals; x++)
    for (uint32_t y = x; parent[y] != DC_NO_NODE && s->seen[y] != now; y = parent[y])
      s->seen[y] = now;
  for (uint32_t x = 1; x < s->n; x++)
    if (s->seen[x] != now)
      parent[x] = DC_NO_NODE;
}

/* What the trees leave of every arc, into s->spare. */
static void count_left(struct dc_split *s, const uint32_t *cap)
{
  memcpy(s->spare, cap, (size_t)s->n * s->n * sizeof *cap);
  for (uint32_t t = 0; t < s->trees; t++)
    for (uint32_t x = 1; x < s->n; x++)
      if (parents(s, t)[x] != DC_NO_NODE)
        s->spare[(size_t)parents(s, t)[x] * s->n + x] -= s->weight[t];
}

static void remove_tree(struct dc_split *s, uint32_t t)
{
  s->trees--;
  memmove(parents(s, t), parents(s, s->trees), s->n * sizeof *s->parent);
  s->weight[t] = s->weight[s->trees];
}

/* What the trees give each terminal. */
static void count_got(const struct dc_split *s, uint64_t *got)
{
  memset(got, 0, (s->n + 1) * sizeof *got);
  for (uint32_t t = 0; t < s->trees; t++)
    for (uint32_t x = 1; x <= s->terminals; x++)
      got[x] += parents(s, t)[x] != DC_NO_NODE ? s->weight[t] : 0;
}

/* How much more tree t may carry: nobody in it who passes nothing on gets more than its target. Those in tree `but`,
 * unless that is DC_NO_NODE, have their part already. */
static uint64_t bearable(struct dc_split *s, uint32_t t, uint32_t but, const uint64_t *got, const uint32_t *target)
{
  const uint32_t *parent = parents(s, t);
  uint64_t most = UINT64_MAX;
  uint32_t now = ++s->now;
  for (uint32_t x = 1; x < s->n; x++)
    if (parent[x] != DC_NO_NODE)
      s->seen[parent[x]] = now;
  for (uint32_t x = 1; x <= s->terminals; x++) {
    if (parent[x] == DC_NO_NODE || s->seen[x] == now || (but != DC_NO_NODE && parents(s, but)[x] != DC_NO_NODE))
      continue;
    uint64_t more = target[x] > got[x] ? target[x] - got[x] : 0;
    most = more < most ? more : most;
  }
  return most;
}

/* Can tree a carry tree b's rate as well, once b is gone? */
static bool carries(struct dc_split *s, uint32_t a, uint32_t b, const uint64_t *got, const uint32_t *target)
{
  const uint32_t *pa = parents(s, a), *pb = parents(s, b);
  for (uint32_t x = 1; x < s->n; x++) {
    if (x <= s->terminals && pb[x] != DC_NO_NODE && pa[x] == DC_NO_NODE)
      return false;
    if (pa[x] != DC_NO_NODE && pa[x] != pb[x] && s->spare[(size_t)pa[x] * s->n + x] < s->weight[b])
      return false;
  }
  return bearable(s, a, b, got, target) >= s->weight[b];
}

static void join(struct dc_split *s, uint64_t *got, const uint32_t *target)
{
  for (uint32_t a = 0; a < s->trees; a++)
    for (uint32_t b = 0; b < s->trees; b++) {
      s->cells += s->n;
      if (a == b || s->cells > 2 * (uint64_t)DC_SPLIT_CELLS || !carries(s, a, b, got, target))
        continue;
      for (uint32_t x = 1; x < s->n; x++) {
        uint32_t pa = parents(s, a)[x], pb = parents(s, b)[x];
        if (pb != DC_NO_NODE)
          s->spare[(size_t)pb * s->n + x] += s->weight[b];
        if (pa != DC_NO_NODE)
          s->spare[(size_t)pa * s->n + x] -= s->weight[b];
        if (x <= s->terminals && pa != DC_NO_NODE && pb == DC_NO_NODE)
          got[x] += s->weight[b];
      }
      s->weight[a] += s->weight[b];
      remove_tree(s, b);
      if (a == s->trees) /* a was the last one and took b's place */
        a = b;
      b = UINT32_MAX; /* again from the first */
    }
}

/* The slowest trees go until there are `most`; the others take what room is left for them. */
static void keep(struct dc_split *s, uint32_t most, const uint32_t *cap, uint64_t *got, const uint32_t *target)
{
  bool dropped = s->trees > most;
  while (s->trees > most) {
    uint32_t least = 0;
    for (uint32_t t = 1; t < s->trees; t++)
      if (s->weight[t] < s->weight[least])
        least = t;
    remove_tree(s, least);
  }
  if (!dropped)
    return;
  count_left(s, cap);
  count_got(s, got);
  for (uint32_t t = 0; t < s->trees; t++) {
    uint64_t bears = bearable(s, t, DC_NO_NODE, got, target);
    uint32_t more = bears < UINT32_MAX ? (uint32_t)bears : UINT32_MAX;
    for (uint32_t x = 1; x < s->n; x++)
      if (parents(s, t)[x] != DC_NO_NODE && s->spare[(size_t)parents(s, t)[x] * s->n + x] < more)
        more = s->spare[(size_t)parents(s, t)[x] * s->n + x];
    for (uint32_t x = 1; x < s->n && more > 0; x++) {
      if (parents(s, t)[x] == DC_NO_NODE)
        continue;
      s->spare[(size_t)parents(s, t)[x] * s->n + x] -= more;
      if (x <= s->terminals)
        got[x] += more;
    }
    s->weight[t] += more;
  }
}

static void take_over(struct dc_rates *r, const struct dc_split *s)
{
  r->count = s->trees;
  r->was_split = true;
  for (uint32_t t = 0; t < s->trees; t++) {
    uint32_t *up = dc_rates_up(r, t);
    r->rate[t] = s->weight[t];
    memset(up, 0xff, r->n * sizeof *up);
    for (uint32_t x = 1; x < r->n; x++) {
      uint32_t p = parents(s, t)[x];
      for (uint32_t a = r->first[x]; p != DC_NO_NODE && a < r->first[x + 1]; a++)
        if (r->head[a] == p)
          up[x] = r->back[a];
    }
  }
}

static uint32_t *take(uint32_t **work, size_t words)
{
  uint32_t *p = *work;
  *work += words;
  return p;
}

void dc_rates_split(struct dc_rates *r)
{
  size_t n = r->n, square = n * n;
  if (n > DC_SPLIT_NODES)
    return;
  uint32_t *work = r->work;
  struct dc_split s = {.n = r->n, .terminals = r->terminals, .log_max = r->n * DC_SPLIT_LOG};
  s.step = (struct dc_split_step *)take(&work, 3 * n);
  s.cap = take(&work, square);
  s.flow = take(&work, r->terminals * square);
  s.spare = take(&work, square);
  s.target = take(&work, n);
  s.extra = take(&work, n);
  s.alive = take(&work, n);
  s.queue = take(&work, n);
  s.seen = take(&work, n);
  s.via = take(&work, n);
  s.done = (bool *)take(&work, n);
  uint64_t *got = (uint64_t *)take(&work, 2 * n + 2 + (size_t)((uintptr_t)work / 4 & 1));
  got = (uint64_t *)(((uintptr_t)got + 7) & ~(uintptr_t)7);
  s.log = (struct dc_split_entry *)take(&work, (size_t)s.log_max * 4);
  s.weight = take(&work, DC_SPLIT_TREES);
  s.trees_max = DC_SPLIT_TREES;
  s.parent = take(&work, (size_t)DC_SPLIT_TREES * n);
  s.enter = take(&work, square);
  memset(s.seen, 0, n * sizeof *s.seen);
  memset(s.enter, 0, square * sizeof *s.enter);
  memset(s.cap, 0, square * sizeof *s.cap);
  uint32_t rate = 0;
  for (uint32_t t = 0; t < r->terminals; t++) {
    s.target[t] = r->target[t + 1];
    rate = s.target[t] > rate ? s.target[t] : rate;
  }
  for (uint32_t a = 0; a < r->m; a++)
    s.cap[(size_t)r->tail[a] * n + r->head[a]] = r->cap[a];
  if (!dc_split_run(&s))
    return;
  dc_split_lift(&s, rate);
  memset(s.cap, 0, square * sizeof *s.cap);
  for (uint32_t a = 0; a < r->m; a++)
    s.cap[(size_t)r->tail[a] * n + r->head[a]] = r->cap[a];
  for (uint32_t t = s.trees; t-- > 0;) {
    prune(&s, t);
    uint32_t x = 1;
    while (x <= s.terminals && parents(&s, t)[x] == DC_NO_NODE)
      x++;
    if (x > s.terminals)
      remove_tree(&s, t);
  }
  count_left(&s, s.cap);
  count_got(&s, got);
  join(&s, got, r->target);
  keep(&s, r->most, s.cap, got, r->target);
  if (dc_rates_compare(r, got, r->got) > 0) {
    take_over(r, &s);
    memcpy(r->got, got, (r->terminals + 1) * sizeof *got);
  }
}
