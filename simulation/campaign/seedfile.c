#include "seedfile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool seedfile_write(const char *folder, uint64_t seed, uint64_t digest)
{
  char path[4096];
  snprintf(path, sizeof path, "%s/campaign-%llu.seed", folder, (unsigned long long)seed);
  FILE *f = fopen(path, "w");
  bool done = f != NULL && fprintf(f, "datacast campaign %d\nseed %llu\ndigest %016llx\n", SEEDFILE_VERSION,
                                   (unsigned long long)seed, (unsigned long long)digest) > 0;
  if (f != NULL && fclose(f) != 0)
    done = false;
  if (done)
    printf("  kept in %s: campaign --replay %s\n", path, path);
  else
    fprintf(stderr, "campaign: %s: %s\n", path, strerror(errno));
  return done;
}

bool seedfile_read(const char *path, uint64_t *seed, uint64_t *digest)
{
  FILE *f = fopen(path, "r");
  if (f == NULL) {
    fprintf(stderr, "campaign: %s: %s\n", path, strerror(errno));
    return false;
  }
  unsigned version = 0;
  unsigned long long s = 0, d = 0;
  int got = fscanf(f, "datacast campaign %u seed %llu digest %llx", &version, &s, &d);
  fclose(f);
  if (got >= 1 && version != SEEDFILE_VERSION) {
    fprintf(
        stderr,
        "campaign: %s is a seed file of version %u, this campaign reads version %d: replay it with the revision that "
        "wrote it\n",
        path, version, SEEDFILE_VERSION);
    return false;
  }
  if (got != 3) {
    fprintf(stderr, "campaign: %s is no seed file (datacast campaign %d, seed N, digest HEX)\n", path,
            SEEDFILE_VERSION);
    return false;
  }
  *seed = s;
  *digest = d;
  return true;
}
