#include "objects.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "params.h"

struct object {
  struct origin *origin; /* or */
  uint8_t *data;
};

struct objects {
  int refs, ended; /* atomic */
  uint64_t last;   /* atomic: when something came */
  uint64_t patience;
  pthread_mutex_t lock;
  unsigned waiting; /* requests that are refused for now; and why the last of them is; under the lock */
  struct fault why;
  uint32_t n;
  struct object *object; /* of each entry of the bundle; without a manifest the one */
  uint8_t *manifest;     /* NULL: none */
  struct bundle bundle;
};

struct objects *objects_ref(struct objects *o)
{
  __atomic_add_fetch(&o->refs, 1, __ATOMIC_RELAXED);
  return o;
}

void objects_unref(struct objects *o)
{
  if (o == NULL || __atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL) > 0)
    return;
  for (uint32_t i = 0; i < o->n; i++) {
    origin_unref(o->object[i].origin);
    free(o->object[i].data);
  }
  free(o->object);
  free(o->manifest);
  bundle_free(&o->bundle);
  pthread_mutex_destroy(&o->lock);
  free(o);
}

static bool busy(const struct fault *why) { return strcmp(why->code, "throttled") == 0; }

bool objects_waits(struct objects *o, const struct fault *why, bool first)
{
  pthread_mutex_lock(&o->lock);
  bool may = !(first && busy(why) && o->waiting > 0 && busy(&o->why));
  if (may) {
    o->waiting += first;
    o->why = *why;
  }
  pthread_mutex_unlock(&o->lock);
  return may;
}

void objects_goes_on(struct objects *o)
{
  pthread_mutex_lock(&o->lock);
  o->waiting--;
  pthread_mutex_unlock(&o->lock);
}

bool objects_wait(struct objects *o, struct fault *why)
{
  pthread_mutex_lock(&o->lock);
  bool waits = o->waiting > 0;
  if (waits)
    *why = o->why;
  pthread_mutex_unlock(&o->lock);
  return waits;
}

bool objects_busy(struct objects *o)
{
  struct fault why;
  return objects_wait(o, &why) && busy(&why);
}

void objects_came(struct objects *o, uint64_t now) { __atomic_store_n(&o->last, now, __ATOMIC_RELAXED); }
uint64_t objects_last(const struct objects *o) { return __atomic_load_n(&o->last, __ATOMIC_RELAXED); }
uint64_t objects_patience(const struct objects *o) { return o->patience; }

void objects_end(struct objects *o) { __atomic_store_n(&o->ended, 1, __ATOMIC_RELAXED); }
bool objects_ended(const struct objects *o) { return __atomic_load_n(&o->ended, __ATOMIC_RELAXED) != 0; }

/* Bytes of a text in base64, whose number is *n; NULL with *why. */
static uint8_t *unbase64(const char *text, size_t *n, struct fault *why)
{
  size_t len = strlen(text);
  uint8_t *to = malloc(len / 4 * 3 + 1);
  int got = to == NULL || len % 4 != 0 ? -1 : EVP_DecodeBlock(to, (const unsigned char *)text, (int)len);
  if (got < 0) {
    free(to);
    fault_set(why, "bad_request", "manifest and data must be base64");
    return NULL;
  }
  *n = (size_t)got - (len > 0 && text[len - 1] == '=') - (len > 1 && text[len - 2] == '=');
  return to;
}

static bool read_manifest(struct objects *o, const json_t *origin, uint64_t size, struct fault *why)
{
  const char *text = need_string(origin, "manifest", OBJECTS_MANIFEST_MAX, why);
  size_t n = 0;
  o->manifest = text == NULL ? NULL : unbase64(text, &n, why);
  if (o->manifest == NULL || !bundle_parse(&o->bundle, o->manifest, n, why))
    return false;
  return o->bundle.bytes == size ||
         fault_set(why, "bad_bundle", "the manifest is of another number of bytes than the group");
}

/* `one`: an object of `size` bytes. */
static bool read_object(struct objects *o, uint32_t i, const json_t *one, uint64_t size, const json_t *allowed,
                        const struct security *security, struct fault *why)
{
  struct object *to = &o->object[i];
  size_t n = 0;
  if (json_object_get(one, "data") != NULL) {
    const char *text = need_string(one, "data", 2 << 20, why);
    to->data = text == NULL ? NULL : unbase64(text, &n, why);
    return to->data != NULL && (n == size || fault_set(why, "bad_request", "data has not its file's size"));
  }
  const char *url = need_string(one, "url", ORIGIN_URL_MAX, why),
             *etag = json_string_value(json_object_get(one, "etag"));
  if (url == NULL)
    return false;
  if (etag != NULL && (strlen(etag) >= ORIGIN_ETAG_MAX || !origin_printable(etag)))
    return fault_set(why, "bad_request", "the ETag is longer than %d bytes, or has letters that none has",
                     ORIGIN_ETAG_MAX - 1);
  to->origin = origin_open(url, allowed, security, why);
  if (to->origin == NULL)
    return false;
  snprintf(to->origin->etag, sizeof to->origin->etag, "%s", etag == NULL ? "" : etag);
  to->origin->size = size;
  for (uint32_t k = 0; k < i; k++) /* one token for all layers of an image */
    if (o->object[k].origin != NULL && origin_same_folder(o->object[k].origin->url, to->origin->url)) {
      origin_share_token(to->origin, o->object[k].origin);
      break;
    }
  return true;
}

static bool read_all(struct objects *o, const json_t *list, uint64_t size, const json_t *allowed,
                     const struct security *security, struct fault *why)
{
  size_t at = 0, given = json_array_size(list);
  if (o->manifest == NULL)
    return given == 1 ? read_object(o, 0, json_array_get(list, 0), size, allowed, security, why)
                      : fault_set(why, "bad_request", "several objects need a manifest");
  for (uint32_t i = 0; i < o->n; i++) {
    const struct bundle_entry *e = &o->bundle.entry[i];
    if (e->kind == BUNDLE_FILE && e->size > 0 && at < given &&
        !read_object(o, i, json_array_get(list, at), e->size, allowed, security, why))
      return false;
    at += e->kind == BUNDLE_FILE && e->size > 0;
  }
  return at == given || fault_set(why, "bad_request", "%zu objects for the manifest's %zu files", given, at);
}

struct objects *objects_open(const json_t *origin, uint64_t size, uint64_t patience, const char *allowed,
                             const struct security *security, struct fault *why)
{
  const json_t *list = json_object_get(origin, "objects");
  if (!json_is_array(list) || json_array_size(list) > OBJECTS_MAX) {
    fault_set(why, "bad_request", "objects must be a list of at most %d", OBJECTS_MAX);
    return NULL;
  }
  json_t *may = origin_allowed(allowed, why);
  struct objects *o = may == NULL ? NULL : calloc(1, sizeof *o);
  bool ok = o != NULL;
  if (ok) {
    o->refs = 1;
    o->patience = patience;
    pthread_mutex_init(&o->lock, NULL);
    ok = json_object_get(origin, "manifest") == NULL || read_manifest(o, origin, size, why);
  }
  if (ok) {
    uint32_t n = o->manifest == NULL ? 1 : o->bundle.n;
    o->object = calloc(n + 1, sizeof *o->object);
    o->n = o->object == NULL ? 0 : n;
    ok = o->object == NULL ? fault_set(why, "io", "out of memory") : read_all(o, list, size, may, security, why);
  }
  if (!ok) {
    objects_unref(o);
    o = NULL;
  }
  json_decref(may);
  return o;
}

static uint64_t less(uint64_t a, uint64_t b) { return a < b ? a : b; }

static struct object_run run_of(const struct object *one, uint64_t off, uint64_t len)
{
  return (struct object_run){
      .origin = one->origin, .bytes = one->data == NULL ? NULL : one->data + off, .off = off, .len = len};
}

struct object_run objects_at(const struct objects *o, uint64_t at, uint64_t most)
{
  if (o->manifest == NULL)
    return run_of(&o->object[0], at, most);
  if (at < o->bundle.manifest)
    return (struct object_run){.bytes = o->manifest + at, .len = less(most, o->bundle.manifest - at)};
  uint32_t i = bundle_find(&o->bundle, at);
  const struct bundle_entry *e = &o->bundle.entry[i];
  if (at < e->at)
    return (struct object_run){.len = less(most, e->at - at)};
  return run_of(&o->object[i], at - e->at, less(most, e->at + e->size - at));
}
