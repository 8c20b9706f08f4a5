/* The table of trees beside a model of it; how long answers take; and the slowest child. */
#include "node_tree.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TREES = 13, PORTS = 3, LISTS = DC_TREES_OF_PORT + PORTS, IDS = 40 };

static struct dc_tree_table t;
static struct dc_node_cfg cfg;

static void *zeroed(size_t n, size_t each)
{
  void *p = aligned_alloc(64, (n * each + 63) / 64 * 64);
  assert(p != NULL);
  return memset(p, 0, (n * each + 63) / 64 * 64);
}

static void open_table(void)
{
  dc_node_cfg_default(&cfg);
  cfg.ports = PORTS;
  cfg.trees = TREES;
  cfg.store_slots = 4;
  cfg.waiting_slots = 16;
  cfg.cache_bytes = 777;
  t = (struct dc_tree_table){.tree = zeroed(TREES, sizeof *t.tree),
                             .bucket = zeroed(dc_tree_buckets(TREES), sizeof *t.bucket),
                             .bucket_mask = dc_tree_buckets(TREES) - 1,
                             .cap = TREES,
                             .free = DC_TREE_NONE,
                             .list = zeroed(LISTS, sizeof *t.list),
                             .lists = LISTS,
                             .slots = zeroed(TREES * 4, sizeof *t.slots),
                             .sets = zeroed(TREES * 4, sizeof *t.sets),
                             .more = zeroed(TREES * 12, sizeof *t.more),
                             .children = zeroed(TREES, sizeof *t.children),
                             .far = zeroed((size_t)TREES * DC_CHILDREN_FAR, sizeof *t.far)};
  dc_tree_lists_init(&t);
}

static void close_table(void)
{
  void *all[] = {t.tree, t.bucket, t.list, t.slots, t.sets, t.more, t.children, t.far};
  for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
    free(all[i]);
}

static uint32_t random_below(uint32_t n)
{
  static uint64_t x = 88172645463325252u;
  x ^= x << 13, x ^= x >> 7, x ^= x << 17;
  return (uint32_t)(x % n);
}

/* Of the model: the ids of each list, the one used longest ago first. */
static uint32_t list[LISTS][TREES + 1], listed[LISTS];
static dc_time moved[LISTS][TREES + 1];

static bool find(uint32_t id, unsigned *which, unsigned *at)
{
  for (*which = 0; *which < LISTS; ++*which)
    for (*at = 0; *at < listed[*which]; ++*at)
      if (list[*which][*at] == id)
        return true;
  return false;
}

static void take_out(unsigned which, unsigned at)
{
  listed[which]--;
  for (; at < listed[which]; at++) {
    list[which][at] = list[which][at + 1];
    moved[which][at] = moved[which][at + 1];
  }
}

static void put_last(unsigned which, uint32_t id, dc_time now)
{
  list[which][listed[which]] = id;
  moved[which][listed[which]++] = now;
}

static uint32_t id_of(const struct dc_tree *tree) { return tree == NULL ? UINT32_MAX : tree->id; }

static void agree(void)
{
  unsigned n = 0, seen = 0, most = DC_TREES_OF_HOST, which, at;
  for (unsigned l = 0; l < LISTS; l++) {
    n += listed[l];
    assert(t.list[l].n == listed[l]);
    const struct dc_tree *tree = t.list[l].oldest == DC_TREE_NONE ? NULL : &t.tree[t.list[l].oldest];
    uint32_t before = DC_TREE_NONE;
    for (unsigned i = 0; i < listed[l]; i++) {
      assert(id_of(tree) == list[l][i] && tree->list == l && tree->older == before);
      before = (uint32_t)(tree - t.tree);
      tree = dc_tree_newer(&t, tree);
    }
    assert(tree == NULL && t.list[l].newest == before);
    if (l > DC_TREES_OF_HOST && listed[l] > listed[most])
      most = l;
  }
  assert(t.n == n);
  for (uint32_t id = 0; id < IDS; id++)
    assert(id_of(dc_tree_find(&t, id)) == (find(id, &which, &at) ? id : UINT32_MAX));
  for (struct dc_tree *tree = NULL; (tree = dc_tree_next(&t, tree)) != NULL; seen++)
    assert(find(tree->id, &which, &at));
  assert(seen == n);
  assert(id_of(dc_tree_oldest(&t)) == (listed[DC_TREES_PROVEN] > 0 ? list[DC_TREES_PROVEN][0] : UINT32_MAX));
  assert(id_of(dc_tree_unproven(&t)) == (listed[most] > 0 ? list[most][0] : UINT32_MAX));
}

static void trees_stand_in_lists_by_their_last_use(void)
{
  open_table();
  memset(listed, 0, sizeof listed);
  dc_time now = DC_SEC;
  for (unsigned step = 0; step < 6000; step++) {
    now += random_below(3) * 50 * DC_MS;
    uint32_t id = random_below(IDS), kind = random_below(6);
    unsigned which, at;
    if (!find(id, &which, &at)) {
      unsigned to = random_below(2) == 0 && kind > 3 ? DC_TREES_OF_HOST : DC_TREES_OF_PORT + random_below(PORTS);
      uint16_t port = to == DC_TREES_OF_HOST ? DC_PORT_HOST : (uint16_t)(to - DC_TREES_OF_PORT);
      bool full = t.n == TREES;
      struct dc_tree *tree = dc_tree_add(&t, &cfg, id, port, now);
      assert((tree == NULL) == full);
      if (tree != NULL) {
        put_last(to, id, now);
        assert(tree->used == now && tree->moved == now && tree->store.capacity == 777 && tree->store.slots == 4);
        assert(tree->children->n == 0 && tree->children->slowest_due == 0 && tree->response == 0 && tree->order == 0);
        tree->response = tree->order = tree->newest = 5; /* of it the next tree in its place knows nothing */
        tree->children->n = tree->children->slowest_due = 7;
      }
    } else if (kind == 0) {
      dc_tree_remove(&t, dc_tree_find(&t, id));
      take_out(which, at);
    } else if (kind == 1) {
      dc_tree_prove(&t, dc_tree_find(&t, id));
      if (which != DC_TREES_PROVEN) {
        put_last(DC_TREES_PROVEN, id, moved[which][at]);
        take_out(which, at);
      }
    } else {
      struct dc_tree *tree = dc_tree_find(&t, id);
      dc_tree_touch(&t, tree, now);
      assert(tree->used == now && t.clock == now);
      if (at + 1 < listed[which] && now - moved[which][at] >= 100 * DC_MS) {
        put_last(which, id, now);
        take_out(which, at);
      }
    }
    agree();
  }
  close_table();
}

/* A power of two, at most half full. */
static void there_are_twice_as_many_buckets(void)
{
  static const uint32_t want[][2] = {{1, 2}, {2, 4}, {3, 8}, {4, 8}, {5, 16}, {256, 512}, {65536, 131072}};
  for (unsigned i = 0; i < sizeof want / sizeof want[0]; i++)
    assert(dc_tree_buckets(want[i][0]) == want[i][1]);
}

static void answers_are_smoothed_and_the_shortest_is_kept(void)
{
  static const dc_time took[][3] = {{800, 800, 800}, {1600, 900, 800}, {100, 800, 100},    {800, 800, 100},
                                    {0, 700, 1},     {5, 614, 1},      {DC_MS, 125537, 1}, {125537, 125537, 1}};
  struct dc_tree tree;
  memset(&tree, 0, sizeof tree);
  for (unsigned i = 0; i < sizeof took / sizeof took[0]; i++) {
    dc_tree_sample(&tree, took[i][0]);
    assert(tree.response == took[i][1] && tree.shortest == took[i][2]);
  }
}

/* ---- the slowest child ---- */

static struct dc_tree tree;
static struct dc_children children;

static struct dc_child *begun(unsigned n)
{
  static struct dc_child far[DC_CHILDREN_FAR];
  memset(&tree, 0, sizeof tree);
  memset(&children, 0, sizeof children);
  memset(far, 0, sizeof far);
  children.far = far;
  children.n = n;
  tree.children = &children;
  for (unsigned i = 0; i < n; i++)
    *dc_child_at(&children, i) = (struct dc_child){.heard = DC_SEC, .seq = 1000, .gap = 10, .again = 2};
  if (n < DC_CHILDREN_MAX) /* another tree's, in whose place it is */
    *dc_child_at(&children, n) = (struct dc_child){.heard = DC_SEC, .seq = 1, .gap = 10, .again = 2};
  return children.near;
}

static uint8_t lag(dc_time now, uint32_t first, uint32_t last)
{
  children.slowest_due = 0;
  return dc_tree_lag(&tree, now, dc_child_at(&children, children.n - 1), first, last);
}

static void who_has_asked_for_least_of_those_that_are_there_counts(void)
{
  struct dc_child *c = begun(3);
  c[0].seq = 980;
  assert(lag(DC_SEC, 1001, 1001) == dc_lag_code(21) && children.slowest == 0 && tree.slowest_seq == 980);
  c[1].seq = 990;
  c[1].lag = dc_lag_code(11); /* with all below it */
  assert(lag(DC_SEC, 1001, 1001) == dc_lag_code(22) && children.slowest == 1 && tree.slowest_seq == 979);
  c[1].done = 1;
  assert(lag(DC_SEC, 1001, 1001) == dc_lag_code(21));
  c[0].again = 1; /* twice in all: perhaps there is no such child */
  assert(lag(DC_SEC, 1001, 1001) == 1 && children.slowest == 2);
  c[0].begins = 1;
  assert(lag(DC_SEC, 1001, 1001) == dc_lag_code(21));
  c[0].begins = 0;
  c[0].again = 2;
  assert(lag(DC_SEC + 150 * DC_MS, 1001, 1001) == dc_lag_code(21)); /* it stands still for a moment */
  assert(lag(DC_SEC + 150 * DC_MS + 1, 1001, 1001) == 0 && tree.slowest_seq == UINT32_MAX);
  c[0].gap = 20000; /* in its own time: sixteen of them */
  assert(lag(DC_SEC + 320 * DC_MS, 1001, 1001) == dc_lag_code(21));
  assert(lag(DC_SEC + 320 * DC_MS + 1, 1001, 1001) == 0);
}

/* Of several numbers at once others may have all but the first, or of many the last, still to ask for. */
static void the_own_child_counts_to_its_last_number_the_others_to_the_batch(void)
{
  struct dc_child *c = begun(2);
  c[0].seq = 990;
  assert(lag(DC_SEC, 1001, 1008) == dc_lag_code(11)); /* the own one has asked for 1,000: 8 */
  assert(lag(DC_SEC, 1001, 1009) == dc_lag_code(19));
  c[0].seq = 999;
  assert(lag(DC_SEC, 1001, 1008) == 8);
  c[1].seq = 1008;
  assert(lag(DC_SEC, 1001, 1008) == 2);
  c[1].lag = 3;
  assert(lag(DC_SEC, 1001, 1008) == 3);
  c[0].seq = 1500; /* ahead */
  assert(lag(DC_SEC, 1001, 1008) == 3 && lag(DC_SEC, 990, 990) == 0);
}

/* Once per an eighth as many interests as there are children. */
static void the_slowest_is_looked_up_now_and_then(void)
{
  static const unsigned often[][2] = {{1, 1}, {7, 1}, {8, 2}, {15, 2}, {16, 3}, {DC_CHILDREN_MAX, 17}};
  for (unsigned i = 0; i < sizeof often / sizeof often[0]; i++) {
    struct dc_child *c = begun(often[i][0]);
    const struct dc_child *by = dc_child_at(&children, often[i][0] - 1);
    (void)dc_tree_lag(&tree, DC_SEC, by, 1001, 1001);
    assert(tree.slowest_seq == 1000);
    c[0].seq = 900;
    for (unsigned k = 1; k < often[i][1]; k++) {
      (void)dc_tree_lag(&tree, DC_SEC, by, 1001, 1001);
      assert(tree.slowest_seq == 1000);
    }
    (void)dc_tree_lag(&tree, DC_SEC, by, 1001, 1001);
    assert(tree.slowest_seq == 900);
  }
}

int main(void)
{
  there_are_twice_as_many_buckets();
  trees_stand_in_lists_by_their_last_use();
  answers_are_smoothed_and_the_shortest_is_kept();
  who_has_asked_for_least_of_those_that_are_there_counts();
  the_own_child_counts_to_its_last_number_the_others_to_the_batch();
  the_slowest_is_looked_up_now_and_then();
  puts("node, tree: ok");
  return 0;
}
