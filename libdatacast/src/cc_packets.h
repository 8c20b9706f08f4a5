/* Rates are bit/s of whole frames, what paths and queues hold are packets: from one to the other. */
#ifndef DATACAST_CC_PACKETS_H
#define DATACAST_CC_PACKETS_H

#include <stdint.h>

#include "datacast/time.h"

/* bit/s of so many packets of `bytes` in so long, without overflow for up to 2^33 bits. */
static inline uint64_t packets_rate(uint64_t packets, dc_time dt, uint32_t bytes)
{
  return dt == 0 ? UINT64_MAX : packets * bytes * 8 * DC_SEC / dt;
}

/* Packets of some time at a rate, below 2^42 and some hours. */
static inline uint64_t packets_held(uint64_t rate, dc_time t, uint32_t bytes)
{
  return rate / 1000 * (t / DC_US) / 1000 / (8 * (uint64_t)bytes);
}

#endif
