#include "trees_address.h"

#include <string.h>

enum {
  DIGITS_MAX = 32,
  COMB_MIN = 10 /* rings from here on are combed: below, the long way is no longer */
};

static uint64_t power(uint64_t n, uint32_t k)
{
  uint64_t p = 1;
  for (uint32_t i = 0; i < k && p <= UINT32_MAX; i++)
    p *= n;
  return p;
}

uint32_t dc_address_trees(enum dc_net_kind kind, uint32_t n, uint32_t k)
{
  (void)n;
  switch (kind) {
  case DC_NET_BCUBE:
    return k + 1;
  case DC_NET_TORUS:
    return 2 * k;
  case DC_NET_HYPERCUBE:
    return k;
  default:
    return 0;
  }
}

static uint32_t digits_of(const struct dc_net *net) { return net->kind == DC_NET_BCUBE ? net->k + 1 : net->k; }

static void split(uint32_t v, uint32_t n, uint32_t digits, uint32_t *d)
{
  for (uint32_t i = 0; i < digits; i++, v /= n)
    d[i] = v % n;
}

/* ---- is it what it says it is? ---- */

static bool leads(const struct dc_net *net, uint32_t v, uint32_t port, uint32_t to, uint32_t back)
{
  uint32_t a = dc_net_arc(net, v, port);
  return a != DC_NO_ARC && net->to[a] == to && net->rev[a] == net->first[to] + back;
}

static bool is_bcube(struct dc_net *net)
{
  uint64_t hosts = power(net->n, net->k + 1), level = power(net->n, net->k);
  if (net->n < 2 || net->k + 1 > DIGITS_MAX || net->n > 254 || net->nodes != hosts + (net->k + 1) * level ||
      net->arcs != 2 * hosts * (net->k + 1))
    return false;
  net->hosts = (uint32_t)hosts;
  net->per_level = (uint32_t)level;
  for (uint32_t v = 0; v < net->hosts; v++) {
    uint32_t unit = 1; /* n^level */
    for (uint32_t l = 0; l <= net->k; l++, unit *= net->n) {
      uint32_t digit = v / unit % net->n, rest = v / unit / net->n * unit + v % unit;
      if (!leads(net, v, l, net->hosts + l * net->per_level + rest, digit))
        return false;
    }
  }
  return true;
}

static bool is_torus(struct dc_net *net)
{
  uint64_t hosts = power(net->n, net->k);
  if (net->n < 3 || net->k < 1 || 2 * net->k > DIGITS_MAX || net->nodes != hosts || net->arcs != 2 * hosts * net->k)
    return false;
  net->hosts = (uint32_t)hosts;
  for (uint32_t v = 0; v < net->hosts; v++) {
    uint32_t unit = 1;
    for (uint32_t i = 0; i < net->k; i++, unit *= net->n) {
      uint32_t digit = v / unit % net->n, up = digit + 1 == net->n ? v - digit * unit : v + unit;
      if (!leads(net, v, 2 * i, up, 2 * i + 1))
        return false;
    }
  }
  return true;
}

static bool is_hypercube(struct dc_net *net)
{
  if (net->k < 1 || net->k >= DIGITS_MAX || net->nodes != (1u << net->k) || net->arcs != net->nodes * net->k)
    return false;
  net->hosts = net->nodes;
  net->n = 2;
  for (uint32_t v = 0; v < net->nodes; v++)
    for (uint32_t i = 0; i < net->k; i++)
      if (!leads(net, v, i, v ^ (1u << i), i))
        return false;
  return true;
}

static bool is_fattree(struct dc_net *net)
{
  uint32_t half = net->n / 2;
  if (net->n < 2 || net->n % 2 != 0 || net->k < 1 || net->k > DIGITS_MAX)
    return false;
  uint64_t hosts = 2 * power(half, net->k), per = 2 * power(half, net->k - 1);
  if (hosts > UINT32_MAX || net->nodes != hosts + per * (net->k - 1) + per / 2 || net->arcs != 2 * hosts * net->k)
    return false;
  net->hosts = (uint32_t)hosts;
  net->per_level = (uint32_t)per;
  /* With one layer the only switch is the highest one: its port is the whole address. */
  for (uint32_t v = 0; v < net->hosts; v++)
    if (!leads(net, v, 0, net->hosts + (net->k == 1 ? 0 : v / half), net->k == 1 ? v : v % half))
      return false;
  /* Switch i of a layer: which of the parallel switches of which subtree below. */
  for (uint32_t l = 0, unit = 1; l + 1 < net->k; l++, unit *= half)
    for (uint32_t i = 0; i < net->per_level; i++) {
      uint32_t tree = i / unit, first = i % unit + (l + 2 < net->k ? tree / half * (unit * half) : 0);
      for (uint32_t c = 0; c < half; c++)
        if (!leads(net, net->hosts + l * net->per_level + i, half + c,
                   net->hosts + (l + 1) * net->per_level + c * unit + first, l + 2 == net->k ? tree : tree % half))
          return false;
    }
  return true;
}

static bool flags_fit(const struct dc_net *net)
{
  bool forward = net->kind != DC_NET_FATTREE;
  for (uint32_t v = 0; v < net->nodes; v++) {
    uint32_t want = v < net->hosts ? DC_NODE_HOST | (forward ? DC_NODE_FORWARDS : 0) : DC_NODE_FORWARDS;
    if ((net->flags[v] & (DC_NODE_HOST | DC_NODE_FORWARDS)) != want)
      return false;
  }
  return true;
}

/* ---- the trees of source 0 ---- */

/* BCube and hypercube, tree i: what has a digit i other than 0 is reached by setting digit i first, then the others in
 * the order i+1, i+2, … around; so its last step is at the first digit other than 0 that comes before i in that circle.
 * What has digit i = 0 is reached from a neighbour at level i that has not. Every node thus uses each of its levels for
 * another tree. */
static uint32_t step(uint32_t digits, const uint32_t *d, uint32_t i)
{
  if (d[i] == 0)
    return i;
  uint32_t l = i;
  do
    l = l == 0 ? digits - 1 : l - 1;
  while (d[l] == 0);
  return l;
}

static void fill_bcube(struct dc_net *net)
{
  uint32_t d[DIGITS_MAX], levels = net->k + 1;
  memset(net->port, DC_NO_PORT, (size_t)levels * net->nodes);
  for (uint32_t x = 1; x < net->hosts; x++) {
    split(x, net->n, levels, d);
    for (uint32_t i = 0; i < levels; i++) {
      uint8_t *row = net->port + (size_t)i * net->nodes;
      uint32_t l = step(levels, d, i);
      row[x] = (uint8_t)l;
      /* The switch on the way is fed by the host whose digit l is 0; for a digit i = 0 by one whose is not: the choice
       * is spread by the other digits, so that no host feeds all of them. */
      uint32_t sum = 0, unit = 1;
      for (uint32_t j = 0; j < levels; j++)
        sum += d[j];
      for (uint32_t j = 0; j < l; j++)
        unit *= net->n;
      uint32_t rest = x / unit / net->n * unit + x % unit;
      row[net->hosts + l * net->per_level + rest] = (uint8_t)(d[i] == 0 ? 1 + sum % (net->n - 1) : 0);
    }
  }
}

static void fill_hypercube(struct dc_net *net)
{
  uint32_t d[DIGITS_MAX];
  memset(net->port, DC_NO_PORT, (size_t)net->k * net->nodes);
  for (uint32_t x = 1; x < net->hosts; x++) {
    split(x, 2, net->k, d);
    for (uint32_t i = 0; i < net->k; i++)
      net->port[(size_t)i * net->nodes + x] = (uint8_t)step(net->k, d, i);
  }
}

/* Torus, trees 2i (leaves the source upwards in dimension i) and 2i+1 (downwards); a digit is positive up to n/2,
 * negative beyond. Trees in the manner of Tang et al. (2010): small rings go the long way round where they have to; for
 * large ones the trees are combed so that none does, and the depth is near the diameter (27 links in Torus(16,3), where
 * the diameter is 24 and the long way takes 31).
 *
 * Let Z be the dimensions where node x is not 0, and before(i) the one before i in Z, around. Every node has an arc
 * from further inside and one from further outside for each dimension in Z, and two for each other dimension.
 * - i not in Z: tree (i,+) comes from x + e_i, tree (i,-) from x - e_i.
 * - i in Z, l = before(i), |Z| > 1: the inner arc of l and the outer arc of i serve two trees: the one that left the
 *   source on x's side of dimension i, and the one that left it on the other side of dimension l. The first takes the
 *   inner arc where |x_i| is odd, the second where it is even. So whoever takes an outer arc takes an inner one next.
 *   In small rings: the first takes the inner arc, and the tree that left on the other side of i takes the outer one.
 * - |Z| = 1: the tree of x's side comes along the axis; the tree of the other side comes from outside where |x_i| is
 *   even, and from the side (in place of tree (i+1,+), which comes from outside then) where it is odd.
 * A test walks all trees of many sizes. */
static void comb(struct dc_net *net, uint32_t x, const uint32_t *d)
{
  uint32_t n = net->n, k = net->k, z = 0, positive = n % 4 == 3 && n >= COMB_MIN ? n / 2 + 1 : n / 2;
  bool combed = n >= COMB_MIN && k > 1;
  bool negative[DIGITS_MAX];
  uint32_t size[DIGITS_MAX];
  for (uint32_t i = 0; i < k; i++) {
    z += d[i] != 0;
    negative[i] = d[i] > positive;
    size[i] = negative[i] ? n - d[i] : d[i];
  }
  for (uint32_t i = 0; i < k; i++) {
    uint32_t inner = 2 * i + (negative[i] ? 0 : 1), outer = inner ^ 1;
    uint32_t own = 2 * i + negative[i], other = own ^ 1; /* trees */
    if (d[i] == 0) {
      uint32_t lender = (i + k - 1) % k; /* the axis x lies on, if it lends tree (i,+) its outer arc */
      bool lent = z == 1 && combed && d[lender] != 0 && size[lender] % 2 == 1;
      if (!lent)
        net->port[(size_t)(2 * i) * net->nodes + x] = (uint8_t)(2 * i);
      net->port[(size_t)(2 * i + 1) * net->nodes + x] = (uint8_t)(2 * i + 1);
    } else if (z == 1) {
      uint32_t side = 2 * ((i + 1) % k);
      bool lends = combed && size[i] % 2 == 1;
      net->port[(size_t)own * net->nodes + x] = (uint8_t)inner;
      net->port[(size_t)other * net->nodes + x] = (uint8_t)(lends ? side : outer);
      if (lends)
        net->port[(size_t)side * net->nodes + x] = (uint8_t)outer;
    } else {
      uint32_t l = step(k, d, i), l_inner = 2 * l + (negative[l] ? 0 : 1), l_other = 2 * l + !negative[l];
      if (!combed) {
        net->port[(size_t)own * net->nodes + x] = (uint8_t)l_inner;
        net->port[(size_t)other * net->nodes + x] = (uint8_t)outer;
        continue;
      }
      bool odd = size[i] % 2 == 1;
      net->port[(size_t)own * net->nodes + x] = (uint8_t)(odd ? l_inner : outer);
      net->port[(size_t)l_other * net->nodes + x] = (uint8_t)(odd ? outer : l_inner);
    }
  }
}

static void fill_torus(struct dc_net *net)
{
  uint32_t d[DIGITS_MAX];
  memset(net->port, DC_NO_PORT, (size_t)2 * net->k * net->nodes);
  for (uint32_t x = 1; x < net->hosts; x++) {
    split(x, net->n, net->k, d);
    comb(net, x, d);
  }
}

static void fill_far(struct dc_net *net)
{
  memset(net->far, DC_FAR, (size_t)net->structured * net->nodes);
  for (uint32_t t = 0; t < net->structured; t++) {
    uint8_t *far = net->far + (size_t)t * net->nodes;
    const uint8_t *port = net->port + (size_t)t * net->nodes;
    far[0] = 0;
    for (uint32_t v = 1; v < net->nodes; v++) {
      /* Up to what is known, then down again. */
      uint32_t up = 0, x = v;
      while (far[x] == DC_FAR && port[x] != DC_NO_PORT && up < net->nodes) {
        x = net->to[net->first[x] + port[x]];
        up++;
      }
      if (far[x] == DC_FAR)
        continue;
      uint32_t depth = far[x] + up;
      for (x = v; far[x] == DC_FAR; x = net->to[net->first[x] + port[x]], depth--)
        far[x] = (uint8_t)(depth < DC_FAR - 1 ? depth : DC_FAR - 1);
    }
  }
}

void dc_address_init(struct dc_net *net, enum dc_net_kind kind)
{
  static bool (*const is[])(struct dc_net *) = {NULL, is_bcube, is_torus, is_hypercube, is_fattree};
  uint32_t trees = dc_address_trees(kind, net->n, net->k);
  net->kind = kind;
  if (kind == DC_NET_ANY || trees > net->trees || !is[kind](net) || !flags_fit(net)) {
    net->kind = DC_NET_ANY;
    return;
  }
  net->structured = trees;
  if (kind == DC_NET_BCUBE)
    fill_bcube(net);
  else if (kind == DC_NET_TORUS)
    fill_torus(net);
  else if (kind == DC_NET_HYPERCUBE)
    fill_hypercube(net);
  fill_far(net);
  uint32_t digits = digits_of(net);
  net->wide = kind == DC_NET_HYPERCUBE ? digits : kind == DC_NET_TORUS ? digits * (net->n / 2) : 2 * digits;
  for (size_t i = 0; i < (size_t)trees * net->nodes; i++)
    if (net->far[i] != DC_FAR && net->far[i] > net->high)
      net->high = net->far[i];
  if (net->high == DC_FAR - 1) { /* or higher: more than the tables can say */
    net->kind = DC_NET_ANY;
    net->structured = 0;
  }
  net->fold = (uint32_t)power(net->n, (digits + 1) / 2);
}

/* ---- addresses relative to a source ---- */

size_t dc_relative_words(const struct dc_net *net)
{
  if (net->kind != DC_NET_BCUBE && net->kind != DC_NET_TORUS)
    return 0;
  return net->fold + net->hosts / net->fold;
}

/* out[j] for j of `digits` digits: each digit minus the source's, times its unit. */
static void table(uint32_t *out, uint32_t n, uint32_t digits, const uint32_t *source, uint32_t unit)
{
  uint32_t have = 1;
  out[0] = 0;
  for (uint32_t d = 0; d < digits; d++) {
    /* From the highest value of the new digit down, so that out[0..have) is read before it is written. */
    for (uint32_t value = n; value-- > 0;) {
      uint32_t moved = (value >= source[d] ? value - source[d] : value + n - source[d]) * unit;
      for (uint32_t j = 0; j < have; j++)
        out[value * have + j] = out[j] + moved;
    }
    have *= n;
    unit *= n;
  }
}

void dc_relative_init(const struct dc_net *net, struct dc_relative *rel, uint32_t *words, uint32_t source)
{
  rel->source = source;
  if (dc_relative_words(net) == 0)
    return;
  uint32_t digits = digits_of(net), below = (digits + 1) / 2;
  split(source, net->n, digits, rel->digit);
  rel->low = words;
  rel->high = words + net->fold;
  table(rel->low, net->n, below, rel->digit, 1);
  table(rel->high, net->n, digits - below, rel->digit + below, net->fold);
}
