/* Directories that are read as streams (folder.h). They are walked in a thread, one at a time: a large one takes seconds,
 * and the loop forwards meanwhile. One that was walked is kept for a moment, since who asked what it is reads it next. */
#ifndef AGENT_WALKS_H
#define AGENT_WALKS_H

#include <stdbool.h>

#include "datapath/log.h"
#include "datapath/loop.h"

struct host;
struct file;
struct walk;

struct walks {
  struct host *host;
  struct lane *lane;
  struct walk *first;
};

/* False without memory. */
bool walks_open(struct walks *w, struct host *host) __attribute__((nonnull));
void walks_close(struct walks *w) __attribute__((nonnull));

/* By its name: a path at a source, or (`dest`) of what was received. */
struct walk_name {
  const char *path;
  bool dest;
};

/* A reference to one that was walked and looks the same; NULL: there is none. `anew`: only one that nobody has had yet. */
struct file *walks_kept(struct walks *w, struct walk_name name, bool anew) __attribute__((nonnull));

/* Walk the directory `f`, which is taken over in any case, or wait for that walk which is under way. In a later round `had` gets
 * the directory (a reference) or NULL with *why; `walking`, where it takes longer: ask again. `had` may be NULL. False
 * with *why. */
bool walks_ask(struct walks *w, struct walk_name name, struct file *f,
               void (*had)(void *arg, struct file *f, const struct fault *why), void *arg, struct fault *why)
    __attribute__((nonnull(1, 3, 6)));
/* Those that nobody has asked for since are closed. */
void walks_tidy(struct walks *w) __attribute__((nonnull));

#endif
