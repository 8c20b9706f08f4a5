/* Files of this agent that are never sent, by no name: its private key, and what proves it to origins. */
#ifndef AGENT_SECRETS_H
#define AGENT_SECRETS_H

#include <sys/stat.h>

enum { SECRETS_MAX = 2 };

struct secrets {
  unsigned n;
  struct {
    dev_t dev;
    ino_t ino;
    const char *what;
  } one[SECRETS_MAX];
};

/* As they are now; NULL: it has none. */
void secrets_look(struct secrets *s, const char *key_file, const char *origins) __attribute__((nonnull(1)));
/* What it is; NULL: none of them. */
const char *secrets_name(const struct secrets *s, const struct stat *st) __attribute__((nonnull));

#endif
