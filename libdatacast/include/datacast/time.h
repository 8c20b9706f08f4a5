/* Time comes in as an argument: nanoseconds on any monotonic clock. The core owns none. */
#ifndef DATACAST_TIME_H
#define DATACAST_TIME_H

#include <stdint.h>

typedef uint64_t dc_time;

#define DC_NEVER UINT64_MAX
#define DC_US ((dc_time)1000)
#define DC_MS ((dc_time)1000000)
#define DC_SEC ((dc_time)1000000000)

#endif
