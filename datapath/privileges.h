/* Giving up capabilities that a daemon does not need any more. */
#ifndef DATAPATH_PRIVILEGES_H
#define DATAPATH_PRIVILEGES_H

#include <linux/capability.h>
#include <stdint.h>

#include "datapath/log.h"

#define PRIVILEGE(cap) (UINT64_C(1) << (cap))

/* Keep of the present capabilities those in `keep` (PRIVILEGE(CAP_…) | …), in this thread and those it starts later; no
 * program that is started can have more (no_new_privs). False with *why. */
bool privileges_keep(uint64_t keep, struct fault *why) __attribute__((nonnull));

/* Has this thread the capability (CAP_…)? */
bool privileges_has(unsigned cap);

#endif
