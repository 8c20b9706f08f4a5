/* What the set-up of a memif (memif.c) and its frames (memif_frames.c) have between them. */
#ifndef DATAPATH_MEMIF_LANES_H
#define DATAPATH_MEMIF_LANES_H

#include "datapath/memif.h"
#include "datapath/memif_ring.h"

enum memif_state { APART, WAIT_HELLO, WAIT_INIT, WAIT_REGION, WAIT_RING_OUT, WAIT_RING_IN, WAIT_CONNECTED, JOINED };

struct memif_lent {
  struct dc_buf buf; /* first: the buffer is this */
  struct memif *owner;
};

struct memif_lane { /* a connection */
  struct memif *owner;
  unsigned index; /* which of the client's threads has it */
  enum memif_state state;
  int control;
  int wake_in, wake_out; /* eventfds */
  struct memif_rings rings;
  bool lends; /* frames in its memory are being looked at */
};

struct memif {
  struct netif base; /* its fd is an epoll of what follows */
  struct memif_cfg cfg;
  struct memif_lane lane[MEMIF_LANES]; /* a client has the first alone */
  unsigned lanes;
  struct memif_lane *joined[MEMIF_LANES]; /* by their index */
  unsigned of;                            /* so many there are to be; 0: nobody said */
  unsigned turn;                          /* the lane that is looked at next */
  int listener, spare, timer;             /* spare: of the listener (accepting.h) */
  bool told;                              /* that it cannot be reached */
  uint32_t slot;
  struct memif_lent *lent;
  uint8_t *frames; /* of `lent` */
  struct dc_buf *free;
};

static inline struct memif *memif_of(struct netif *n) { return (struct memif *)(void *)n; }

/* The connection is over; a client tries again. */
void memif_again_later(struct memif_lane *l, const char *why) __attribute__((nonnull));

/* The memory of one that is over. */
void memif_unmap(struct memif_lane *l) __attribute__((nonnull));

/* Its functions as a netif. */
unsigned memif_rx(struct netif *n, netif_rx_fn *fn, void *arg, unsigned budget);
int memif_send(struct netif *n, const struct dc_tx *tx, unsigned count);
bool memif_awake(struct netif *n, bool is);
void memif_give_back(struct dc_buf *b);

#endif
