/* What a node knows of one tree, and the table of all of them. Soft state only.
 *
 * Trees stand in lists by their last use: those that brought data in one, those that never did in one per port their first
 * interest came in by. Anybody can invent a tree, but not make data come; and whoever invents many takes places from his
 * own port first. */
#ifndef DATACAST_NODE_TREE_H
#define DATACAST_NODE_TREE_H

#include <stddef.h>

#include "children.h"
#include "datacast/node.h"
#include "store.h"
#include "waiting.h"

struct dc_tree_events {
  uint64_t interests, misses, data, stored, evicted, replicated; /* of a packet that comes to one child */
  uint64_t hits, aggregated, retx_forwarded, dup_data;
};

/* What each frame touches stands in front, three lines of the caches. */
struct dc_tree {
  uint32_t id;
  uint32_t newer, older; /* its list, in order of their last use; DC_TREE_NONE at the ends */
  uint32_t list;         /* DC_TREE_NONE: this place holds no tree */
  dc_time used;
  dc_time moved; /* when it last became the newest of its list */

  dc_time response;  /* smoothed time from sending an interest on to its data; 0: not measured yet */
  dc_time shortest;  /* the least of them: nothing waited at the source, which may be slow on purpose */
  uint32_t order;    /* interests sent on so far */
  uint32_t answered; /* newest of them, by that count, that was answered with new data */

  uint32_t newest;      /* highest sequence number stored */
  uint32_t slowest_seq; /* what the slowest child and all below it have asked for */

  struct dc_store store;
  struct dc_waiting waiting;
  struct dc_children *children;
  struct dc_tree_events count;
} __attribute__((aligned(64)));

enum { DC_TREE_HOT = offsetof(struct dc_tree, count.hits) };
_Static_assert(DC_TREE_HOT <= 3 * 64, "three lines");

#define DC_TREE_NONE UINT32_MAX

/* A tree that is used again sooner keeps its place in its list: the order is right to so much, and two trees beside it in the
 * list, which are in no cache of the processor, need not be touched for each frame. */
#define DC_TREE_MOVES (100 * DC_MS)

struct dc_tree_list {
  uint32_t newest, oldest, n;
};

enum { DC_TREES_PROVEN, DC_TREES_OF_HOST, DC_TREES_OF_PORT /* + port */ };

struct dc_tree_table {
  struct dc_tree *tree;
  uint32_t *bucket; /* index of a tree + 1; 0: empty */
  uint32_t bucket_mask;
  dc_time clock; /* when a tree was last used */
  uint32_t n, cap;
  uint32_t used; /* [used, cap) never held a tree: their memory was never touched */
  uint32_t free; /* removed ones, linked by `older` */
  struct dc_tree_list *list;
  uint32_t lists;
  /* memory shared out by index */
  struct dc_store_slot *slots;
  struct dc_waiting_set *sets;
  struct dc_waiting_entry *more;
  struct dc_children *children;
  struct dc_child *far;
};

/* Buckets of a table for so many trees: a power of two, at most half full. */
uint32_t dc_tree_buckets(uint32_t trees);

struct dc_tree *dc_tree_find(const struct dc_tree_table *t, uint32_t id) __attribute__((nonnull));

/* It will be looked for. */
void dc_tree_prefetch(const struct dc_tree_table *t, uint32_t id) __attribute__((nonnull));
/* The one that it mostly is, without a look at it; or NULL. */
const struct dc_tree *dc_tree_likely(const struct dc_tree_table *t, uint32_t id) __attribute__((nonnull));
/* It will be touched, and perhaps move in its list. */
void dc_tree_prefetch_move(const struct dc_tree_table *t, const struct dc_tree *tree) __attribute__((nonnull));

/* The table's memory is there: its lists are empty. */
void dc_tree_lists_init(struct dc_tree_table *t) __attribute__((nonnull));
/* All trees, in no order: the one after `tree`, the first for NULL; NULL at the end. */
struct dc_tree *dc_tree_next(const struct dc_tree_table *t, const struct dc_tree *tree) __attribute__((nonnull(1)));
/* Of those that brought data, the tree used longest ago; NULL when there is none. */
struct dc_tree *dc_tree_oldest(const struct dc_tree_table *t) __attribute__((nonnull));
/* The one of the same list that was used next after it; NULL at the end. */
struct dc_tree *dc_tree_newer(const struct dc_tree_table *t, const struct dc_tree *tree) __attribute__((nonnull));
/* Of those that never did, the one used longest ago of the port that brought most of them; NULL when there is none. */
struct dc_tree *dc_tree_unproven(const struct dc_tree_table *t) __attribute__((nonnull));

/* A tree that is not there yet, first asked for by this port. NULL when the table is full: remove one first. */
struct dc_tree *dc_tree_add(struct dc_tree_table *t, const struct dc_node_cfg *cfg, uint32_t id, uint16_t port,
                            dc_time now) __attribute__((nonnull));

/* It brought data. */
void dc_tree_prove(struct dc_tree_table *t, struct dc_tree *tree) __attribute__((nonnull));

/* Its content store is empty already. */
void dc_tree_remove(struct dc_tree_table *t, struct dc_tree *tree) __attribute__((nonnull));

/* It was used now. */
void dc_tree_touch(struct dc_tree_table *t, struct dc_tree *tree, dc_time now) __attribute__((nonnull));

/* A response took so long (smoothed as RFC 6298 does, gain 1/8; and the least is kept). */
void dc_tree_sample(struct dc_tree *tree, dc_time took) __attribute__((nonnull));

/* How far the slowest child that asks is behind as `by` asks for [first, last], as a code (wire.h). Children that told of slower
 * ones below themselves count with what they told. The others have such a batch still to ask for: that is no distance, or each
 * level of a tree would add one (a ring of sixteen receivers took 200 times as long). Looked up anew once per an eighth as many
 * interests as there are children, so that it costs O(1) each. */
uint8_t dc_tree_lag(struct dc_tree *tree, dc_time now, const struct dc_child *by, uint32_t first, uint32_t last)
    __attribute__((nonnull));

#endif
