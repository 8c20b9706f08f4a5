/* What this host tells the fabric manager of itself, and takes from it: tunnels, which slots behind the ports of the command
 * line become. */
#ifndef AGENT_REGISTRANT_H
#define AGENT_REGISTRANT_H

#include "datapath/registration.h"
#include "host.h"

/* As engine's link_changed, in the shard. */
void host_link(void *host, struct port *p) __attribute__((nonnull));
struct registrant host_registrant(struct host *host) __attribute__((nonnull));

#endif
