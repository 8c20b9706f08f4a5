/* What two programs that share memory agree on: memif 2.0, as DPDK's net_memif and VPP speak it. */
#ifndef DATAPATH_MEMIF_WIRE_H
#define DATAPATH_MEMIF_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum { MEMIF_VERSION = 0x200, MEMIF_COOKIE = 0x3e31f20, MEMIF_NAME = 32, MEMIF_MESSAGE = 128, MEMIF_LOG2_MAX = 14 };

enum memif_type {
  MEMIF_ACK = 1,
  MEMIF_HELLO,
  MEMIF_INIT,
  MEMIF_ADD_REGION,
  MEMIF_ADD_RING,
  MEMIF_CONNECT,
  MEMIF_CONNECTED,
  MEMIF_DISCONNECT
};

enum { MEMIF_RING_TO_SERVER = 1 }; /* of ADD_RING */
enum { MEMIF_MASK_INT = 1 };       /* of a ring: who reads it wants no wake-ups */
enum { MEMIF_DESC_NEXT = 1 };      /* of a descriptor: the frame goes on in the next one */

#define MEMIF_PACKED __attribute__((packed))

struct MEMIF_PACKED memif_message {
  uint16_t type;
  union {
    struct MEMIF_PACKED {
      char name[MEMIF_NAME];
      uint16_t min_version, max_version, max_region, max_to_client, max_to_server;
      uint8_t max_log2;
    } hello;
    struct MEMIF_PACKED {
      uint16_t version;
      uint32_t id;
      uint8_t mode; /* 0: Ethernet */
      char secret[24], name[MEMIF_NAME];
    } init;
    struct MEMIF_PACKED {
      uint16_t index;
      uint64_t size;
    } region;
    struct MEMIF_PACKED {
      uint16_t flags, index, region;
      uint32_t offset;
      uint8_t log2;
      uint16_t private_bytes;
    } ring;
    char name[MEMIF_NAME]; /* of CONNECT and CONNECTED */
    struct MEMIF_PACKED {
      uint32_t code;
      char why[96];
    } disconnect;
    char room[MEMIF_MESSAGE - 2];
  };
};
_Static_assert(sizeof(struct memif_message) == MEMIF_MESSAGE, "a message's length is fixed");

struct memif_desc {
  uint16_t flags, region;
  uint32_t length, offset, metadata;
};

struct memif_ring {
  _Alignas(64) uint32_t cookie;
  uint16_t flags;
  uint16_t head; /* to the server: behind the frames; to the client: behind the free buffers */
  _Alignas(64) uint16_t tail;
  _Alignas(64) struct memif_desc desc[];
};
_Static_assert(sizeof(struct memif_desc) == 16 && offsetof(struct memif_ring, tail) == 64 &&
                   offsetof(struct memif_ring, desc) == 128,
               "layout of shared memory");

#endif
