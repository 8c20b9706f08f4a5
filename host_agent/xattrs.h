/* Extended attributes of a file or folder, those that users give (`user.`), as a directory's manifest carries them:
 *
 *   bytes that follow (u32), then of each, in the order of names (network byte order):
 *   length of the name (u8), name without `user.`, length of the value (u32), value
 *
 * All others mean something on their own host only, and this program's own mark stays where it is. */
#ifndef AGENT_XATTRS_H
#define AGENT_XATTRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { XATTRS_HEAD = 4, XATTRS_MOST = 128 << 10 }; /* Linux allows a value 64 KiB */

#define XATTRS_MARK "datacast" /* worker.c */

/* Of an open file: *all is its own memory, NULL where it has none. 0 or an errno; E2BIG: they are more than XATTRS_MOST
 * bytes. */
int xattrs_read(int fd, uint8_t **all) __attribute__((nonnull));
/* What they take in a manifest. */
size_t xattrs_bytes(const uint8_t *all) __attribute__((nonnull));
/* The bytes that they take of these `n`; 0: they are not such. */
size_t xattrs_check(const uint8_t *p, size_t n) __attribute__((nonnull));
/* Checked ones. 0 or an errno; ENOTSUP: the file system has none. */
int xattrs_write(int fd, const uint8_t *all) __attribute__((nonnull));

#endif
