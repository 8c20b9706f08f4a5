/* The children of a tree at one place: its distinct return segments, each with a small number.
 *
 * Each child below a branch node always brings the same return segment, so who waits for a packet is a bitmask over
 * this table. */
#ifndef DATACAST_CHILDREN_H
#define DATACAST_CHILDREN_H

#include "datacast/route.h"
#include "datacast/time.h"
#include "datacast/wire.h"
#include "segment.h"

/* Ethernet and up to four labels: what is built once for a child. Longer ones are written each time. */
enum { DC_FRONT_MAX = DC_ETHER_LEN + 4 * DC_LABEL_LEN };

/* The bits of a child's gap. */
#define DC_CHILD_GAP 0x7ffffffu

struct dc_child {
  dc_time heard;      /* last interest */
  uint32_t seq;       /* furthest sequence number it asked for */
  uint32_t gap : 27;  /* microseconds between its interests, smoothed, at least 1; 0: heard once, or said LAST */
  uint32_t again : 2; /* times it was heard of after the first; two are as good as more */
  uint32_t done : 1, begins : 1, far : 1; /* said LAST; asked for the first number; asked last for one far ahead */
  uint8_t lag;                            /* as it told of `seq` */
  uint8_t front_len;                      /* 0: not built */
  uint8_t front[DC_FRONT_MAX];            /* what stands before the Datacast header of its data */
  struct dc_segment ret;                  /* all of it that is mostly used stands in one cache line */
} __attribute__((aligned(64)));

enum { DC_CHILDREN_HINTS = 16, DC_CHILDREN_NEAR = 4, DC_CHILDREN_FAR = DC_CHILDREN_MAX - DC_CHILDREN_NEAR };

/* Most trees have few children. Where there are many trees, what finds their pages is in no cache of the processor either; so
 * the first children lie close together, and the others apart. */
struct dc_children {
  struct dc_child *far; /* the caller's, DC_CHILDREN_FAR of them: from number DC_CHILDREN_NEAR on */
  uint32_t n;
  uint8_t hint[DC_CHILDREN_HINTS]; /* who was found last among those whose ports fall there: one comparison mostly */
  uint8_t slowest;                 /* who has asked for least, with all below it; */
  uint8_t slowest_due;             /* interests to send on until that is looked up anew */
  uint32_t hash[DC_CHILDREN_MAX];  /* apart from the rest: a look-up reads these only */
  struct dc_child near[DC_CHILDREN_NEAR];
};

static inline struct dc_child *dc_child_at(const struct dc_children *c, uint32_t i)
{
  return i < DC_CHILDREN_NEAR ? (struct dc_child *)(uintptr_t)&c->near[i] : &c->far[i - DC_CHILDREN_NEAR];
}

/* Index of the child with this segment, added when it is new (dc_child_heard follows). When `max` (at most
 * DC_CHILDREN_MAX) are there already, one not heard of for `stale` gives way and *replaced is set: the caller forgets
 * what waits under its index. -1: full. */
int dc_children_add(struct dc_children *c, unsigned max, dc_time now, dc_time stale, const struct dc_segment_view *ret,
                    bool *replaced) __attribute__((nonnull));

/* The addresses of a port have changed: fronts are built anew. */
void dc_children_forget_fronts(struct dc_children *c) __attribute__((nonnull));

/* Is there one that has more to ask for, as far as is known? */
bool dc_children_asking(const struct dc_children *c) __attribute__((nonnull));

/* The furthest number that all below it have asked for, as it told. */
static inline uint32_t dc_child_asked(const struct dc_child *c)
{
  uint32_t behind = dc_lag_packets(c->lag);
  return c->seq > behind ? c->seq - behind : 0;
}

/* It asks for numbers up to `last`, and tells so. What it asks for again counts too: a node that was restarted knows nothing else
 * of it, and who asks for no more may have heard that its slowest has come further (seed 146707). True: something is new. */
bool dc_child_tells(struct dc_child *child, uint32_t last, uint8_t lag) __attribute__((nonnull));

/* An interest of it came. */
void dc_child_heard(struct dc_child *child, dc_time now) __attribute__((nonnull));

#endif
