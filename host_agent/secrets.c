#include "secrets.h"

#include <stddef.h>

static void look(struct secrets *s, const char *path, const char *what)
{
  struct stat st;
  if (path == NULL || stat(path, &st) < 0)
    return;
  s->one[s->n].dev = st.st_dev;
  s->one[s->n].ino = st.st_ino;
  s->one[s->n++].what = what;
}

void secrets_look(struct secrets *s, const char *key_file, const char *origins)
{
  s->n = 0;
  look(s, key_file, "this agent's private key");
  look(s, origins, "this agent's file of --origins");
}

const char *secrets_name(const struct secrets *s, const struct stat *st)
{
  for (unsigned i = 0; i < s->n; i++)
    if (s->one[i].dev == st->st_dev && s->one[i].ino == st->st_ino)
      return s->one[i].what;
  return NULL;
}
