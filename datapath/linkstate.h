/* One data port's link as its owner sees it: carrier and hellos together.
 *
 * The link is up while there is carrier and the hellos (datacast/hello.h) did not fail. A neighbour that never says
 * hello leaves carrier alone to decide. No clock and no socket here. */
#ifndef DATAPATH_LINKSTATE_H
#define DATAPATH_LINKSTATE_H

#include "datacast/hello.h"

enum { LINK_HELLO_BYTES = DC_ETHER_LEN + DC_HELLO_LEN };

struct linkstate {
  struct dc_hello hello;
  bool watched; /* hellos are sent and judged */
  bool proven;  /* down until the neighbour said hello: no carrier vouches for it */
  bool carrier;
  bool up;                          /* as last settled */
  uint64_t sent, received, refused; /* hellos */
};

/* `instance`: random, another one at every start. `mtu`: of the port, the Ethernet header not counted. */
void linkstate_init(struct linkstate *l, dc_time now, uint32_t instance, bool watched, bool carrier, unsigned mtu)
    __attribute__((nonnull));

/* It leads elsewhere from now on: what was heard before proves nothing. */
void linkstate_anew(struct linkstate *l, dc_time now) __attribute__((nonnull));

/* A frame arrived under DC_ETHERTYPE_HELLO: what follows its Ethernet header. False: hellos are not looked at here. */
bool linkstate_hello(struct linkstate *l, dc_time now, const uint8_t *p, size_t len) __attribute__((nonnull));
/* Frames that are none arrived. */
void linkstate_heard(struct linkstate *l, dc_time now) __attribute__((nonnull));
/* A link that has no carrier of its own and whose path may change, such as a tunnel: every hello has full size. */
void linkstate_proven(struct linkstate *l) __attribute__((nonnull));
/* Data moves through this machine. */
void linkstate_busy(struct linkstate *l, dc_time now) __attribute__((nonnull));
/* This end stops, to start again within `away`: the neighbour is to wait for it. */
void linkstate_leave(struct linkstate *l, dc_time now, dc_time away) __attribute__((nonnull));
void linkstate_carrier(struct linkstate *l, dc_time now, bool carrier) __attribute__((nonnull));

/* After everything that arrived: judges, and writes the hello that is due. The length of its frame, zeros after what is
 * written, or 0. */
unsigned linkstate_poll(struct linkstate *l, dc_time now, const uint8_t neighbour[6], const uint8_t own[6],
                        uint8_t out[LINK_HELLO_BYTES]) __attribute__((nonnull));
dc_time linkstate_next_wake(const struct linkstate *l) __attribute__((nonnull));

/* True when `up` changed since the last call. */
bool linkstate_settle(struct linkstate *l) __attribute__((nonnull));
/* Why it is not up: "carrier", "silent" or "unheard"; NULL while it is up. */
const char *linkstate_reason(const struct linkstate *l) __attribute__((nonnull));

#endif
