/* A port in memory shared with another program of this machine (memif.c). */
#ifndef DATAPATH_MEMIF_H
#define DATAPATH_MEMIF_H

#include "datapath/netif.h"

enum {
  MEMIF_PATH_MAX = 108,
  MEMIF_MTU_MIN = 576,
  MEMIF_MTU_MAX = 16000,
  MEMIF_ID_MAX = 0xffff,
  MEMIF_LANES = 8 /* clients of one port */
};

struct memif_cfg {
  bool server; /* it listens, and the other side's memory is used; a client connects, and brings the memory */
  char path[MEMIF_PATH_MAX]; /* of the server's socket */
  uint32_t id;               /* of its interface */
  uint8_t lane,
      of; /* a client: which of so many that share the port by tree, with a server of ours; 0 of 0 or 1: alone */
  uint32_t mtu;
  bool
      raw; /* what is lent stands in shared memory: whoever gets it copies it before he looks into it, and gives it back at once */
};

/* A client connects by itself, and again when the other side went; until then there is no carrier. NULL with *why set. */
struct netif *memif_open(const struct memif_cfg *cfg, struct fault *why) __attribute__((nonnull));

#endif
