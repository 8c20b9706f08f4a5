/* A stream that has come whole becomes the directory that it is (bundle.h). In a thread. */
#ifndef AGENT_UNPACK_H
#define AGENT_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "datapath/log.h"

/* Room that is needed beside the stream. Where too many files are open, here or on the machine, it waits for one to be closed,
 * so often in all and so long each time: what is broken off would have to come again. */
enum { UNPACK_STEP = 16 << 20, UNPACK_WAITS = 600, UNPACK_WAIT_NS = 50000000 };

/* What is to be made of the stream, and what must be right about it. */
struct unpacking {
  const int *stopping;
  int from;           /* a file of `bytes` bytes */
  const int *readers; /* atomic; 1: nobody else reads it, and what has been copied may be taken out of it */
  uint64_t bytes;
  const uint8_t *expects; /* the manifest's SHA-256; NULL: any */
  int dir;                /* the folder it is made in, under `temp` first; renamed when it is whole */
  const char *temp, *name;
  bool sync;                     /* and on the disk */
  bool owners;                   /* those of the source, where they were told; else whoever runs this */
  bool xattrs;                   /* and extended attributes */
  uint64_t needs, looked, given; /* its own: room for all; where it last looked for it; bytes that are gone */
  unsigned waits;                /* its own, too */
  /* With EBADE: the file whose digest is another one than the manifest's, "": the manifest's own. With ENOTSUP and E2BIG: whose
   * attributes the file system does not keep, or only smaller ones. */
  char wrong[256];
};

/* 0, an errno (EEXIST: the name is taken), EINTR when `stopping` is set, EBADMSG: it is no such stream, EBADE. Nothing of it
 * stays behind when it fails. */
int unpack(struct unpacking *u) __attribute__((nonnull));

/* The name of the folder that a stream named `temp` is unpacked in at first. */
void unpack_folder(char to[256], const char *temp) __attribute__((nonnull));
/* Away with that folder: an agent that was killed left it, and nobody will go on with it. */
void unpack_drop(int dir, const char *temp) __attribute__((nonnull));

#endif
