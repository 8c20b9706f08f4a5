/* libFuzzer: a directory's manifest. What is taken is written again, and the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"

#define MUST(x) ((x) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x), abort()))

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
  struct bundle t;
  struct fault why;
  if (!bundle_parse(&t, p, len, &why)) {
    MUST(strcmp(why.code, "bad_bundle") == 0);
    return 0;
  }
  uint64_t at = t.manifest, bytes = t.bytes;
  for (uint32_t i = 0; i < t.n; i++) {
    const struct bundle_entry *e = &t.entry[i];
    MUST(e->at >= at && e->at + e->size >= e->at && e->name[0] != '/' && strstr(e->name, "//") == NULL);
    MUST(strncmp(e->name, "../", 3) != 0 && strstr(e->name, "/../") == NULL && e->target[0] != '/');
    if (e->kind == BUNDLE_SAME) { /* of one that is a file, and made before */
      uint32_t k = 0;
      while (k < i && strcmp(t.entry[k].name, e->target) != 0)
        k++;
      MUST(k < i && t.entry[k].kind == BUNDLE_FILE && e->size == 0);
    }
    at = e->at + e->size;
  }
  MUST(at == bytes && bundle_find(&t, bytes) == t.n);
  uint8_t *again = bundle_write(&t, &why);
  MUST(again != NULL && t.manifest == len && memcmp(again, p, len) == 0 && t.bytes == bytes);
  free(again);
  bundle_free(&t);
  return 0;
}
