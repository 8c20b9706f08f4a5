/* The waiting interests of one tree: for each sequence number that was sent on, which children want it.
 *
 * A sequence number may stand in any of the DC_WAITING_WAYS places of its set (seq & mask), so that children far apart
 * in the sequence do not push each other out. A table begins small and grows with what waits in it: one per set, so that most stand in the
 * first place of theirs. */
#ifndef DATACAST_WAITING_H
#define DATACAST_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datacast/limits.h"
#include "datacast/time.h"

enum { DC_WAITING_WORDS = DC_CHILDREN_MAX / 64 };

struct dc_waiting_entry {
  dc_time sent;                     /* when it was last sent on */
  uint64_t child[DC_WAITING_WORDS]; /* who waits: a bit per child */
  uint32_t order;                   /* number of the last sending on */
  uint16_t up; /* the port of the last sending on, DC_PORT_HOST for this host's source: data comes from there only */
  uint16_t way : 13; /* tells its route from others */
  bool store : 1;    /* the data is to be stored */
  bool nocache : 1;  /* the interest that was sent on is not to be answered from a cache */
  bool again : 1;    /* sent on more than once: says nothing of the response time */
};

/* Which number stands in a place, and in whose time: epoch << 32 | number; other epochs mean free. */
typedef uint64_t dc_waiting_tag;

/* Numbers mostly stand in the first place of their set: tags and that entry are one line of the caches. */
struct dc_waiting_set {
  dc_waiting_tag tag[DC_WAITING_WAYS];
  struct dc_waiting_entry first;
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct dc_waiting_set) == 64, "a set is a cache line");

struct dc_waiting {
  struct dc_waiting_set *set;    /* the caller's, zeroed once */
  struct dc_waiting_entry *more; /* the caller's: the other places of each set */
  uint32_t mask;                 /* of the sets in use */
  uint32_t most;                 /* sets that have been in use, of any tree: nobody gives their memory back */
  uint32_t epoch;                /* counts up when the table is given to another tree: nothing needs clearing */
  uint32_t n;
};

/* Sets, and entries beside those in them, of a table of so many slots. */
static inline uint32_t dc_waiting_sets(uint32_t slots) { return slots / DC_WAITING_WAYS; }
static inline uint32_t dc_waiting_more(uint32_t slots) { return slots - dc_waiting_sets(slots); }

/* What a set takes of memory, once it is in use. */
#define DC_WAITING_SET_BYTES (sizeof(struct dc_waiting_set) + (DC_WAITING_WAYS - 1) * sizeof(struct dc_waiting_entry))

/* `slots` is a power of two, at least DC_WAITING_WAYS: the table's most. May be called again on the same table: it is empty then, and
 * small. */
void dc_waiting_init(struct dc_waiting *w, struct dc_waiting_set *set, struct dc_waiting_entry *more, uint32_t slots)
    __attribute__((nonnull));

/* A number is about to be looked for: have its line fetched. */
static inline void dc_waiting_prefetch(const struct dc_waiting *w, uint32_t seq)
{
  __builtin_prefetch(&w->set[seq & w->mask], 1);
}

/* There are as many as sets, so that they begin to share them. */
static inline bool dc_waiting_crowded(const struct dc_waiting *w) { return w->n > w->mask; }
/* Twice as many sets from now on; the caller has made sure that there are so many. Entries move. */
void dc_waiting_grow(struct dc_waiting *w) __attribute__((nonnull));

struct dc_waiting_entry *dc_waiting_find(const struct dc_waiting *w, uint32_t seq) __attribute__((nonnull));

/* A place for a sequence number that is not there yet, with no child. One that was last sent on `life` ago or earlier
 * gives way when the set is full; NULL when none is so old. */
struct dc_waiting_entry *dc_waiting_add(struct dc_waiting *w, uint32_t seq, dc_time now, dc_time life)
    __attribute__((nonnull));

/* The interest was answered. */
void dc_waiting_remove(struct dc_waiting *w, const struct dc_waiting_entry *e) __attribute__((nonnull));

/* Nobody waits under this child's index any more (another child has it now). */
void dc_waiting_forget_child(struct dc_waiting *w, unsigned child) __attribute__((nonnull));

static inline void dc_waiting_mark(struct dc_waiting_entry *e, unsigned child)
{
  e->child[child / 64] |= UINT64_C(1) << child % 64;
}

#endif
