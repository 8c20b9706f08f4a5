/* A directory as one stream of bytes: a manifest, then the files' bytes one after another. Groups carry streams.
 *
 *   "dcbundl1", entries (u32), bytes of the manifest (u32), then of each entry, in the order of names (network byte order):
 *   kind (u8), mode (u16), bytes (u64), length of the name (u16), name, length of the target (u16), target,
 *   of an entry whose kind has the bit BUNDLE_TIMED: time of the last change in nanoseconds (i64),
 *   where it has the bit BUNDLE_OWNED: user (u32), group (u32),
 *   of a file or folder where it has the bit BUNDLE_XATTRS: its extended attributes (xattrs.h),
 *   and of a file whose kind has the bit BUNDLE_EXPECTS: SHA-256 (32 bytes), which it must have
 *
 * The target of BUNDLE_SAME is another name of a file that stands before it: one file with several names (hard links).
 *
 * Files of BUNDLE_BIG bytes or more begin at a multiple of BUNDLE_ALIGN, so that a file system that can shares their blocks
 * instead of copying them; smaller ones follow at once. There are no rights beyond rwx. */
#ifndef AGENT_BUNDLE_H
#define AGENT_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datapath/log.h"
#include "sha256.h"

enum {
  BUNDLE_MANIFEST_MAX = 256 << 20, /* which bounds the entries too: some 3 million with names of 60 bytes */
  BUNDLE_NAME_MAX = 1023,
  BUNDLE_DEPTH_MAX = 64,
  BUNDLE_HEAD = 16,
  BUNDLE_BIG = 64 << 10,
  BUNDLE_ALIGN = 4096
};

enum bundle_kind {
  BUNDLE_FOLDER = 1,
  BUNDLE_FILE = 2,
  BUNDLE_LINK = 3,
  BUNDLE_SAME = 4,
  BUNDLE_XATTRS = 0x10,
  BUNDLE_OWNED = 0x20,
  BUNDLE_TIMED = 0x40,
  BUNDLE_EXPECTS = 0x80
};

/* There may be millions: what it points to is the bundle's. */
struct bundle_entry {
  const char *name;       /* from the directory on, beneath which it stays: checked */
  const char *target;     /* of a link, beneath the directory as well; of BUNDLE_SAME an entry's name; else "" */
  const uint8_t *expects; /* SHA-256 that the file must have; NULL: any */
  const uint8_t *xattrs;  /* NULL: none are told */
  uint64_t size, at;      /* of a file: where its bytes are in the stream */
  int64_t mtime_ns;
  uint64_t seen; /* folder.c: what the file was like */
  uint32_t uid, gid;
  uint16_t mode;
  uint8_t kind; /* enum bundle_kind */
  bool timed, owned;
};

struct texts;

struct bundle {
  struct bundle_entry *entry;
  uint32_t n, room;
  uint64_t manifest, bytes; /* of the manifest, of the whole stream */
  struct texts *texts;      /* names, targets, attributes, digests */
};

void bundle_free(struct bundle *t) __attribute__((nonnull));
/* The first `n` bytes of `p` and a zero, which live as long as the bundle. NULL without memory. */
const char *bundle_text(struct bundle *t, const void *p, size_t n) __attribute__((nonnull));
/* Room for one more entry, which is empty; NULL without memory. It moves the others. */
struct bundle_entry *bundle_add(struct bundle *t) __attribute__((nonnull));
/* What an entry takes of the manifest. */
size_t bundle_entry_bytes(const struct bundle_entry *e) __attribute__((nonnull));
/* The entry of this name among the first `n`; NULL: there is none. */
const struct bundle_entry *bundle_named(const struct bundle *t, const char *name, uint32_t n) __attribute__((nonnull));

/* Bytes of the manifest that begins so; 0: it is none. */
uint32_t bundle_manifest_bytes(const uint8_t head[BUNDLE_HEAD]) __attribute__((nonnull));
/* A manifest, whole. Names that lead outside, twice the same, links that do, files beneath links: false with *why
 * (bad_bundle). */
bool bundle_parse(struct bundle *t, const uint8_t *p, size_t n, struct fault *why) __attribute__((nonnull));
/* false, with *why: the manifest would be too long. */
bool bundle_too_many(uint32_t entries, struct fault *why) __attribute__((nonnull));
/* The manifest of `t`, whose entries are in order; at, manifest and bytes are set. NULL with *why. */
uint8_t *bundle_write(struct bundle *t, struct fault *why) __attribute__((nonnull));
/* The entry that holds this byte, or follows it; n: none. */
uint32_t bundle_find(const struct bundle *t, uint64_t at) __attribute__((nonnull));

#endif
