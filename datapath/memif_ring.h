/* One end of the two rings of a memif, and the memory behind them.
 *
 * The client's memory is written by the server too, and by both at any time. So what decides anything is read once and
 * checked, an end keeps its own place in each ring, and whoever takes a frame copies it before he looks into it. */
#ifndef DATAPATH_MEMIF_RING_H
#define DATAPATH_MEMIF_RING_H

#include <stdbool.h>

#include "datacast/buf.h"
#include "datapath/memif_wire.h"

enum { MEMIF_LOG2 = 8, MEMIF_SLOTS = 1 << MEMIF_LOG2 /* of a client's rings */, MEMIF_REGIONS = 4 };

struct memif_region {
  uint8_t *map;
  size_t len;
};

struct memif_end { /* of one ring */
  struct memif_ring *ring;
  uint16_t mask;
  uint16_t at;   /* frames that this end has put in or taken out */
  bool in_parts; /* of a ring that is read: the frame whose next part comes is thrown away */
};

struct memif_rings {
  bool server;
  struct memif_region region[MEMIF_REGIONS];
  unsigned regions;
  struct memif_end out, in;
  uint32_t slot; /* a client's: bytes of a buffer */
};

struct memif_taken {
  const uint8_t *data; /* in shared memory */
  uint32_t len;
};

/* Bytes of the region of a client, whose buffers hold `slot` bytes each. */
size_t memif_rings_bytes(uint32_t slot);
/* A client's rings in its region, which is zeros. The buffers are not given out yet. */
void memif_rings_make(struct memif_rings *r, uint32_t slot) __attribute__((nonnull));
uint32_t memif_ring_offset(bool to_server);
/* A client is connected: the server may fill its buffers. */
void memif_rings_begin(struct memif_rings *r) __attribute__((nonnull));
/* A ring of a server's client. False: it is not within the region. */
bool memif_rings_find(struct memif_rings *r, bool to_server, uint16_t region, uint32_t offset, uint8_t log2)
    __attribute__((nonnull));

/* Frames that there is room for; -1: what stands in the ring makes no sense. */
int memif_room(const struct memif_rings *r) __attribute__((nonnull));
/* Copy frames out. Returns how many there was room for; -1: as above. */
int memif_put(struct memif_rings *r, const struct dc_tx *const *tx, unsigned count) __attribute__((nonnull));
/* Something has come in. */
bool memif_waits(const struct memif_rings *r) __attribute__((nonnull));
/* This end wants to be woken for what comes in, or not. */
void memif_wake_me(struct memif_rings *r, bool wake) __attribute__((nonnull));
/* Does the reader want to be woken? */
bool memif_wakes(const struct memif_rings *r) __attribute__((nonnull));

/* Frames that wait, at most `most` of them, *buffers in all with those that were no whole frame (counted in *bad). They are to be
 * copied, then let go. Returns their number; -1: what stands in the ring makes no sense. */
int memif_look(struct memif_rings *r, struct memif_taken *frame, unsigned most, unsigned *buffers, uint64_t *bad)
    __attribute__((nonnull));
/* So many buffers are free again. */
void memif_let_go(struct memif_rings *r, unsigned buffers) __attribute__((nonnull));

#endif
