/* A stream that has come whole becomes the directory that it is (bundle.h). In a thread. */
#ifndef AGENT_UNPACK_H
#define AGENT_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "datapath/log.h"

/* The file `from` of `bytes` bytes as the directory `name` in the folder `dir`, made under `temp` first and renamed when it is
 * whole; `sync`: and on the disk. 0, an errno (EEXIST: the name is taken), EINTR when `stopping` is set, EBADMSG: it is no
 * such stream. Nothing of it stays behind when it fails. */
int unpack(const int *stopping, int from, uint64_t bytes, int dir, const char *temp, const char *name, bool sync)
    __attribute__((nonnull));

#endif
