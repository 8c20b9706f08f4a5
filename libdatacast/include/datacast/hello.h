/* Is the link alive? A light hello per link finds what carrier does not show: a link that swallows frames in one or
 * both directions. The three states and their exchange are those of BFD (RFC 5880, section 6.2); timing adapts:
 *
 * - Hellos come at the slow interval while nothing else moves on this machine, at the fast one while transfers run
 *   (dc_hello_busy). Each hello says how soon the next one comes.
 * - Every frame that arrives proves the link, not hellos alone: a queue full of data delays no verdict.
 * - A link is silent after three intervals and four deviations of the neighbour's observed timing.
 * - Time in which this process itself did not run is not held against the neighbour.
 * - A link that has just failed is trusted again only after a hold that doubles with each failure.
 *
 * - A hello says how long a frame its port takes. Now and then one is as long as both ends take (RFC 9764), so that a
 *   device between which carries less is found (carried). On a tunnel every hello is.
 *
 * A neighbour that never said hello (an OpenFlow switch, an older peer) leaves the link DC_LINK_UNKNOWN: carrier
 * decides.
 *
 * Calling order: handle() and heard() for everything that arrived, then poll(), then sleep until next_wake(). */
#ifndef DATACAST_HELLO_H
#define DATACAST_HELLO_H

#include "datacast/time.h"
#include "datacast/wire.h"

/* A hello under its Ethernet header (EtherType 0x88B6, no label): the Datacast header with the sender's instance as
 * tree id and its count as sequence number, then state (1), 0 (1), interval in ms (2), the neighbour's instance (4), the
 * sender's MTU (2), for how long it will be away in ms (2), and zeros in a long one. The last two may be missing. */
enum { DC_HELLO_LEN = 16 + 12, DC_HELLO_SHORTEST = 16 + 8 };

#define DC_HELLO_AWAY_MAX (10 * DC_SEC) /* nobody is waited for longer */

struct dc_hello_cfg {
  dc_time fast, slow;         /* intervals, whole milliseconds (25 ms, 250 ms) */
  dc_time timeout_min;        /* never called silent sooner (135 ms: a neighbour may miss its turn under load) */
  unsigned timeout_intervals; /* nor, beyond that, later than so many intervals (4) */
  dc_time busy;               /* fast for so long after the last dc_hello_busy (2 s) */
  dc_time hold_min, hold_max; /* 50 ms, 5 s */
  dc_time whole;              /* a long one so often (2 s); 0: all are */
  unsigned mtu;               /* of this end's port, the Ethernet header not counted; 0: neither said nor tried */
};

void dc_hello_cfg_default(struct dc_hello_cfg *cfg) __attribute__((nonnull));

enum dc_link {
  DC_LINK_UNKNOWN, /* no hello was ever heard: not watched */
  DC_LINK_UP,      /* both directions work */
  DC_LINK_SILENT,  /* nothing arrives any more */
  DC_LINK_UNHEARD  /* the neighbour says that nothing arrives there */
};

const char *dc_link_name(enum dc_link link);

struct dc_hello {
  struct dc_hello_cfg cfg;
  uint32_t instance, seq;
  uint8_t state; /* BFD's Down, Init, Up */
  enum dc_link link;
  bool met; /* a hello arrived at least once since the last failure or the start */
  uint32_t peer_instance, peer_seq;
  dc_time peer_interval;
  dc_time heard, hello; /* the last frame, the last hello */
  dc_time deviation;
  dc_time next;   /* when to send */
  dc_time polled; /* next_wake() as last returned by poll's end, to notice that this process did not run */
  dc_time busy_until;
  dc_time up_since, hold, held_until;
  dc_time away;        /* what this end says of itself */
  dc_time away_until;  /* the neighbour's silence is no failure before */
  bool awaited;        /* as of the last call: the neighbour said that it is away */
  unsigned peer_mtu;   /* 0: it did not say */
  dc_time whole_next;  /* when to send a long one */
  unsigned whole;      /* the length of the last long one that arrived */
  dc_time whole_heard; /* when */
  int carried; /* how long a frame (its Ethernet header not counted) came whole from the neighbour lately: 0 when none
                        * longer than a usual hello did though they should, -1 when nothing can be said */
  uint64_t failures;
};

/* `instance` differs between two starts of the same program (a random number). The first poll sends. */
void dc_hello_init(struct dc_hello *h, dc_time now, const struct dc_hello_cfg *cfg, uint32_t instance)
    __attribute__((nonnull));

/* A hello arrived on this link: its parsed header and what follows it. DC_DROP_NONE, or why it was ignored. */
enum dc_drop dc_hello_handle(struct dc_hello *h, dc_time now, const struct dc_header *header, const uint8_t *rest)
    __attribute__((nonnull));

/* Any other frame arrived on this link. */
void dc_hello_heard(struct dc_hello *h, dc_time now) __attribute__((nonnull));

/* Transfers run over this machine: watch closely for a while. */
void dc_hello_busy(struct dc_hello *h, dc_time now) __attribute__((nonnull));

/* This end is about to stop and to start again within `away`: each hello from now on says so, the first one at the next
 * poll. 0: it stays after all. */
void dc_hello_leave(struct dc_hello *h, dc_time now, dc_time away) __attribute__((nonnull));

/* Decides on silence and writes the hello that is due, from the Datacast header on. Returns how long it is to be, at least
 * DC_HELLO_LEN: zeros follow what is written. Or 0. */
unsigned dc_hello_poll(struct dc_hello *h, dc_time now, uint8_t out[DC_HELLO_LEN]) __attribute__((nonnull));
dc_time dc_hello_next_wake(const struct dc_hello *h) __attribute__((nonnull));

#endif
