/* What this host tells the fabric manager of itself, and takes from it: tunnels, which slots behind the ports of the command
 * line become. */
#ifndef AGENT_REGISTRANT_H
#define AGENT_REGISTRANT_H

#include "datapath/registration.h"
#include "host.h"

struct registrant host_registrant(struct host *host) __attribute__((nonnull));

#endif
