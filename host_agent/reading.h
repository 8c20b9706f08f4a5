/* A controller reads what this host has, for another site (docs/sites.md). */
#ifndef AGENT_READING_H
#define AGENT_READING_H

#include "signal_tree.h"

struct reading;

/* A message `read`: `off`, `len` (READ_MAX at most; 0: what is it now), and one of `path` (of a file or a directory that may be
 * sent), `group` (what this host has of it, verified: fewer bytes than asked for, or none) and `dest` (what was received). A
 * directory is read as the stream that it is sent as (bundle.h). Answered with `bytes`, later, or with an error. */
void reading_begin(struct signalling *s, struct conn *from, const json_t *m) __attribute__((nonnull));
bool reading_needs(const struct signalling *s, const struct conn *from) __attribute__((nonnull));
/* The connection is gone. */
void reading_lost(struct signalling *s, const struct conn *from) __attribute__((nonnull));

#endif
