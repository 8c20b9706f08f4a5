/* Discovery frames (LLDP, IEEE 802.1AB) of the controller, as a cache appliance gets them from its switch. */
#ifndef SWITCH_DISCOVERY_H
#define SWITCH_DISCOVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct discovery {
  uint16_t copies; /* ports of the switch that a REPLICATE label from here may name; 0: the switch does not copy */
};

/* Is it a probe of the controller's? Reads nothing beyond `len`; other frames leave *d untouched. */
bool discovery_read(const uint8_t *frame, size_t len, struct discovery *d) __attribute__((nonnull));

#endif
