/* libFuzzer: what a master says that a group fetches. How (a byte), the list of objects (JSON, to the line's end), the
 * manifest. Of what is taken every byte of the stream comes from one place, a file's from where the manifest has it. */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bundle.h"
#include "objects.h"

#define MUST(x) ((x) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x), abort()))

enum { MANIFEST = 1, AS_TEXT = 2, ODD_SIZE = 4 };

static const char allowed[] = "{\"origins\": ["
                              "{\"prefix\": \"https://a/\", \"bearer\": \"t\"}, {\"prefix\": \"http://a/\"},"
                              "{\"prefix\": \"https://a/v2/\", \"user\": \"u\", \"password\": \"p\"},"
                              "{\"prefix\": \"s3://b/\", \"endpoint\": \"http://s\", \"access_key\": \"k\", "
                              "\"secret_key\": \"s\"}]}";

static const char *allowed_file(void)
{
  static char path[64];
  if (path[0] == '\0') {
    snprintf(path, sizeof path, "/tmp/fuzz-objects-XXXXXX");
    int fd = mkstemp(path);
    MUST(fd >= 0 && write(fd, allowed, sizeof allowed - 1) == (ssize_t)sizeof allowed - 1 && close(fd) == 0);
  }
  return path;
}

static void forget(void) { unlink(allowed_file()); }

/* A text member: the bytes in base64, or as they are; not UTF-8: none. */
static void add_manifest(json_t *origin, const uint8_t *p, size_t n, bool as_text)
{
  char *text = malloc(n / 3 * 4 + 5);
  MUST(text != NULL);
  size_t len = as_text ? n : (size_t)EVP_EncodeBlock((unsigned char *)text, p, (int)n);
  json_t *made = json_stringn(as_text ? (const char *)p : text, len);
  if (made != NULL)
    json_object_set_new(origin, "manifest", made);
  free(text);
}

/* All of the stream, `most` bytes at a time at most. */
static void walk(const struct objects *o, const struct bundle *t, uint64_t size, uint64_t most)
{
  unsigned seen = 0;
  uint64_t steps = 0;
  for (uint64_t at = 0; at < size && steps < 100000; steps++) {
    uint64_t n = size - at < most ? size - at : most;
    struct object_run run = objects_at(o, at, n);
    MUST(run.len > 0 && run.len <= n && (run.origin == NULL || run.bytes == NULL));
    MUST(run.origin == NULL || (run.off + run.len <= run.origin->size && run.origin->url != NULL));
    for (uint64_t i = 0; run.bytes != NULL && i < run.len; i++)
      seen += run.bytes[i];
    if (t != NULL && at >= t->manifest && (run.origin != NULL || run.bytes != NULL)) {
      const struct bundle_entry *e = &t->entry[bundle_find(t, at)];
      MUST(e->kind == BUNDLE_FILE && at >= e->at && run.off == at - e->at && run.off + run.len <= e->size);
    }
    at += run.len;
  }
  MUST(seen <= UINT32_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
  static const struct security plain;
  if (len == 0)
    return 0;
  static bool first = true;
  if (first)
    atexit(forget);
  first = false;
  uint8_t how = p[0];
  const uint8_t *list = p + 1, *end = p + len, *stop = memchr(list, '\n', len - 1),
                *rest = stop == NULL ? end : stop + 1;
  json_error_t error;
  json_t *origin = json_object(),
         *objects =
             json_loadb((const char *)list, (size_t)((stop == NULL ? end : stop) - list), JSON_DECODE_ANY, &error);
  if (objects != NULL)
    json_object_set_new(origin, "objects", objects);
  size_t n = (size_t)(end - rest);
  if ((how & MANIFEST) != 0)
    add_manifest(origin, rest, n, (how & AS_TEXT) != 0);
  struct bundle t = {0};
  struct fault why = {0};
  bool bundled = (how & MANIFEST) != 0 && (how & AS_TEXT) == 0 && bundle_parse(&t, rest, n, &why);
  uint64_t size = (bundled ? t.bytes : how >> 3) + ((how & ODD_SIZE) != 0);
  why = (struct fault){0};
  struct objects *o = objects_open(origin, size, 1, allowed_file(), &plain, &why);
  MUST(o != NULL || (why.code[0] != '\0' && why.text[0] != '\0'));
  if (o != NULL) {
    MUST(!bundled || (how & ODD_SIZE) == 0);
    walk(objects_ref(o), bundled ? &t : NULL, size, UINT64_MAX);
    walk(o, bundled ? &t : NULL, size, 1 + how % 7u);
    objects_unref(o);
  }
  objects_unref(o);
  bundle_free(&t);
  json_decref(origin);
  return 0;
}
