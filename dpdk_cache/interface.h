/* Kernel interfaces, looked at before they are opened as ports. */
#ifndef SWITCH_INTERFACE_H
#define SWITCH_INTERFACE_H

#include <stdbool.h>
#include <stdint.h>

#include "failure.h"

/* Does it exist, has it the MTU? 0 and *up (its carrier), or -1 with f. */
int interface_check(const char *iface, uint32_t mtu, bool *up, struct fault *f) __attribute__((nonnull));

#endif
