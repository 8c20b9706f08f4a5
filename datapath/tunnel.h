/* Tunnels as ports: MPLS in UDP. */
#ifndef DATAPATH_TUNNEL_H
#define DATAPATH_TUNNEL_H

#include <sys/socket.h>

#include "datapath/netif.h"

enum { TUNNEL_MTU_MIN = 576, SLOT_MTU = 9216 /* the largest of a tunnel that was not known at the start */ };

struct tunnel_cfg {
  struct sockaddr_storage local, remote; /* addresses; their ports do not count */
  socklen_t len;
  uint32_t mtu; /* of the path, IP header included; 0: as the routing table has it */
};

/* From text; one family. False for anything else. */
bool tunnel_parse(const char *local, const char *remote, uint32_t mtu, struct tunnel_cfg *to) __attribute__((nonnull));
void tunnel_address(char *to, size_t cap, const struct sockaddr_storage *a) __attribute__((nonnull));

/* Bytes of a path's MTU that a link over it does not have. */
uint32_t tunnel_overhead(bool ipv6);

bool tunnel_same(const struct tunnel_cfg *a, const struct tunnel_cfg *b) __attribute__((nonnull));

/* NULL with *why. */
struct netif *tunnel_open(const struct tunnel_cfg *cfg, struct fault *why) __attribute__((nonnull));

/* A port that becomes a tunnel when the fabric manager says where to. It keeps sockets ready: their large buffers want a
 * right that a daemon gives up when it has started. */
struct netif *tunnel_slot_open(struct fault *why) __attribute__((nonnull));
/* The tunnel of a slot, with its sockets where it has some left; the slot stays the caller's. NULL with *why, and the slot
 * keeps what it had. */
struct netif *tunnel_slot_fill(struct netif *slot, const struct tunnel_cfg *cfg, struct fault *why)
    __attribute__((nonnull));
/* The same tunnel for another thread: it sends by the same socket, and nothing comes in there. Of a slot, an empty one; `slot`:
 * what it fills then, or NULL. NULL with *why. */
struct netif *tunnel_share(const struct netif *n, struct netif *slot, struct fault *why) __attribute__((nonnull(1, 3)));
/* The slot that this tunnel fills, or NULL; and what it leads to, NULL for what is no tunnel. */
struct netif *tunnel_slot(const struct netif *n) __attribute__((nonnull));
const struct tunnel_cfg *tunnel_cfg(const struct netif *n) __attribute__((nonnull));

#endif
