/* What must be known about DPDK's net_af_packet driver to use it well (README, "Kernel interfaces").
 *
 * The driver hides its socket, but only the socket can wake a sleeper, and only a further send on it moves frames that
 * the traffic shaper refused at first. So the socket is looked up among this process's descriptors. */
#ifndef SWITCH_AFPACKET_H
#define SWITCH_AFPACKET_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "failure.h"

struct afpacket_geometry {
  uint32_t frame, block, count; /* framesz, blocksz and framecnt of the driver */
};

/* Rings of at least `frames` frames of `mtu` bytes. The driver takes frame i at i * frame, so blocks are whole
 * frames. */
struct afpacket_geometry afpacket_geometry(uint32_t mtu, uint32_t frames);

/* The driver's arguments for one interface, traffic shaping kept (qdisc_bypass=0). */
void afpacket_arguments(char *out, size_t cap, const char *iface, const struct afpacket_geometry *g, unsigned queues)
    __attribute__((nonnull));

/* Is there such an interface, may we open it, does it carry frames of mtu? 0, or -1 with f. Sets *up and *ifindex. */
int afpacket_check(const char *iface, uint32_t mtu, int *ifindex, bool *up, struct fault *f) __attribute__((nonnull));

/* The driver's socket for this interface's queue, prepared: a send buffer larger than the ring and no copies of what leaves.
 * -1 when it is not found; the port then works without (polled). The driver still owns it. */
int afpacket_socket(int ifindex, unsigned queue, const struct afpacket_geometry *g) __attribute__((nonnull));

/* Send what stands in the ring. True when frames may still be left there. */
bool afpacket_kick(int fd);

/* Frames that found the receive ring full since the last call. */
uint64_t afpacket_missed(int fd);

/* After EPOLLERR: read the error off, else the socket stays "ready" for ever. */
void afpacket_clear_error(int fd);

#endif
