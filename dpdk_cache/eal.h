/* Starting DPDK so that many such processes can live side by side on one machine, with hugepages or without. */
#ifndef SWITCH_EAL_H
#define SWITCH_EAL_H

#include <rte_config.h>
#include <stddef.h>

#include "config.h"

enum { EAL_ARGS_MAX = 16 + 2 * RTE_MAX_ETHPORTS };

struct eal_args {
  char *v[EAL_ARGS_MAX];
  int n;
};

/* What EAL is told: it touches no PCI device but those that the configuration names. */
void eal_arguments(struct eal_args *a, const struct config *c, size_t memory_mb) __attribute__((nonnull));
void eal_arguments_free(struct eal_args *a) __attribute__((nonnull));

/* Once per process. pool_bytes: what the packet pools will take. 0, or -1 with EAL's own words in f. */
int eal_start(const struct config *c, size_t pool_bytes, struct fault *f) __attribute__((nonnull));
/* There is no end of it but the process's: rte_eal_cleanup takes away the memory under DPDK's interrupt thread, where drivers
 * leave handles of theirs behind (memif's). Ports are closed one by one, and no files are left in these modes. */
/* Do it in the thread in which DPDK calls the drivers for their interrupts, and wait for its end: no driver is being called
 * meanwhile. What a driver still uses there must not be taken away elsewhere. */
void eal_between_interrupts(void (*work)(void *arg), void *arg) __attribute__((nonnull(1)));
/* Does the configuration name PCI devices? */
bool eal_uses_pci(const struct config *c) __attribute__((nonnull));

#endif
