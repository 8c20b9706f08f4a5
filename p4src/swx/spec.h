/* What p4c-dpdk writes (.spec), made a pipeline by the library's calls. The library's own way, C code from a .spec, needs a header
 * that Debian's libdpdk-dev does not have (docs/decisions/p4-on-swx.md). */
#ifndef DATACAST_SWX_SPEC_H
#define DATACAST_SWX_SPEC_H

#include <rte_swx_pipeline.h>

/* Registers what the file names; ports come before, rte_swx_pipeline_build after. 0, or -errno with the line at fault said on
 * stderr. */
int spec_load(struct rte_swx_pipeline *p, const char *path) __attribute__((nonnull));

#endif
