/* The waiting interests of one tree: for each sequence number that was sent on, which children want it.
 *
 * A sequence number may stand in any of the DC_WAITING_WAYS places of its set (seq & mask), so that children far apart
 * in the sequence do not push each other out. */
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

_Static_assert(sizeof(struct dc_waiting_entry) == 32, "two entries to a cache line");

/* Which number stands in a place, and in whose time: epoch << 32 | number; other epochs mean free. Apart from the
 * entries, the places of a set side by side: a look-up reads one cache line. */
typedef uint64_t dc_waiting_tag;

struct dc_waiting {
  dc_waiting_tag *tag;            /* the caller's, zeroed once; by set, then by way */
  struct dc_waiting_entry *entry; /* the caller's; by way, then by set: neighbouring numbers are neighbours */
  uint32_t mask;                  /* of sets */
  uint32_t epoch;                 /* counts up when the table is given to another tree: nothing needs clearing */
  uint32_t n;
};

/* `slots` is a power of two, at least DC_WAITING_WAYS. May be called again on the same table: it is empty then. */
void dc_waiting_init(struct dc_waiting *w, dc_waiting_tag *tag, struct dc_waiting_entry *entry, uint32_t slots)
    __attribute__((nonnull));

/* A number is about to be looked for: have its lines fetched. */
static inline void dc_waiting_prefetch(const struct dc_waiting *w, uint32_t seq)
{
  uint32_t set = seq & w->mask;
  __builtin_prefetch(&w->tag[(size_t)set * DC_WAITING_WAYS], 1);
  __builtin_prefetch(&w->entry[set], 1);
}

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
