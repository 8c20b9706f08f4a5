/* SHA-256 of a part of a file, where somebody has said what it must be. In a thread: it takes its time. */
#ifndef AGENT_SHA256_H
#define AGENT_SHA256_H

#include <stdint.h>

enum { SHA256_LEN = 32 };

/* Of [off, off + len) of the file into `to`. 0, an errno, EIO: it is shorter, EINTR when `stopping` is set. */
int sha256_of(const int *stopping, int fd, uint64_t off, uint64_t len, uint8_t to[SHA256_LEN]) __attribute__((nonnull));

#endif
