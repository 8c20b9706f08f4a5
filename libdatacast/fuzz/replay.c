/* The fuzzers' inputs once more, without libFuzzer: each argument is a file, or a folder of them. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "script.h"

static unsigned runs;

static void file(const char *path)
{
  static uint8_t bytes[1 << 16];
  FILE *f = fopen(path, "rb");
  MUST(f != NULL);
  size_t n = fread(bytes, 1, sizeof bytes, f);
  fclose(f);
  uint8_t *exact = malloc(n > 0 ? n : 1); /* reading behind its end is seen */
  MUST(exact != NULL);
  memcpy(exact, bytes, n);
  (void)LLVMFuzzerTestOneInput(exact, n);
  free(exact);
  runs++;
}

int main(int argc, char **argv)
{
  for (int i = 1; i < argc; i++) {
    DIR *d = opendir(argv[i]);
    if (d == NULL) {
      file(argv[i]);
      continue;
    }
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
      char path[4096];
      struct stat st;
      snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
      if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        file(path);
    }
    closedir(d);
  }
  printf("%s: %u inputs ok\n", argv[0], runs);
  return runs > 0 ? 0 : 1;
}
