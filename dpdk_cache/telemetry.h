/* Commands under /datacast of DPDK's telemetry socket (`dpdk-telemetry.py`): nodes, ports, workers, trees, in the words of the
 * control socket. DPDK runs them in threads of its own; what they ask is answered by worker 0 between two rounds. */
#ifndef SWITCH_TELEMETRY_H
#define SWITCH_TELEMETRY_H

#include "workers.h"

/* Once per process, where the configuration says eal.telemetry. 0, or -1 with f. */
int telemetry_open(struct workers *w, struct fault *f) __attribute__((nonnull));
/* What is asked afterwards is refused. Nothing where it was not opened. */
void telemetry_close(void);

#endif
