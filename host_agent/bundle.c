#include "bundle.h"

#include <stdlib.h>
#include <string.h>

#include "xattrs.h"

static const char magic[8] = "dcbundl1";

enum { FIXED_BYTES = 15, TIME_BYTES = 8, OWNER_BYTES = 8, TEXTS_BYTES = 64 << 10 };

/* What follows the names of an entry. */
static size_t more(const struct bundle_entry *e)
{
  return (e->timed ? TIME_BYTES : 0u) + (e->owned ? OWNER_BYTES : 0u) +
         (e->xattrs != NULL ? xattrs_bytes(e->xattrs) : 0u) + (e->expects != NULL ? SHA256_LEN : 0u);
}

size_t bundle_entry_bytes(const struct bundle_entry *e)
{
  return FIXED_BYTES + strlen(e->name) + strlen(e->target) + more(e);
}

/* ---- entries and their texts ---- */

struct texts {
  struct texts *before;
  size_t used, room;
  char bytes[];
};

const char *bundle_text(struct bundle *t, const void *p, size_t n)
{
  struct texts *all = t->texts;
  if (all == NULL || all->room - all->used <= n) {
    size_t room = n < TEXTS_BYTES ? TEXTS_BYTES : n + 1;
    all = malloc(sizeof *all + room);
    if (all == NULL)
      return NULL;
    *all = (struct texts){.before = t->texts, .room = room};
    t->texts = all;
  }
  char *to = all->bytes + all->used;
  memcpy(to, p, n);
  to[n] = '\0';
  all->used += n + 1;
  return to;
}

struct bundle_entry *bundle_add(struct bundle *t)
{
  if (t->n == t->room) {
    uint32_t room = t->room == 0 ? 64 : t->room + t->room / 2;
    struct bundle_entry *entry = reallocarray(t->entry, room, sizeof *entry);
    if (entry == NULL)
      return NULL;
    t->entry = entry;
    t->room = room;
  }
  struct bundle_entry *e = &t->entry[t->n++];
  *e = (struct bundle_entry){.name = "", .target = ""};
  return e;
}

void bundle_free(struct bundle *t)
{
  for (struct texts *p = t->texts, *before; p != NULL; p = before) {
    before = p->before;
    free(p);
  }
  free(t->entry);
  *t = (struct bundle){0};
}

/* ---- what a manifest may say ---- */

/* Parts that are no "", "." or ".."; how many there are, 0: it is not such a name. */
static unsigned depth(const char *name)
{
  unsigned n = 0;
  for (const char *p = name;; p++) {
    size_t len = strcspn(p, "/");
    if (len == 0 || len > 255 || (len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.'))
      return 0;
    n++;
    p += len;
    if (*p == '\0')
      return n <= BUNDLE_DEPTH_MAX ? n : 0;
  }
}

/* Only "../" at its front, no more of them than there are folders above the link, and then only down: what lies there may
 * be another link, which stays beneath the directory likewise. */
static bool stays(const char *target, unsigned above)
{
  while (strncmp(target, "../", 3) == 0 && above > 0) {
    target += 3;
    above--;
  }
  return (strcmp(target, "..") == 0 && above > 0) || depth(target) > 0;
}

static int by_name(const void *key, const void *entry)
{
  return strcmp(key, ((const struct bundle_entry *)entry)->name);
}

const struct bundle_entry *bundle_named(const struct bundle *t, const char *name, uint32_t n)
{
  return n == 0 ? NULL : bsearch(name, t->entry, n, sizeof *t->entry, by_name);
}

/* The entry before `i` that the name lies in is a folder, or there is none above it. */
static bool beneath_folder(const struct bundle *t, uint32_t i)
{
  char above[BUNDLE_NAME_MAX + 1];
  const char *slash = strrchr(t->entry[i].name, '/');
  if (slash == NULL)
    return true;
  size_t len = (size_t)(slash - t->entry[i].name);
  memcpy(above, t->entry[i].name, len);
  above[len] = '\0';
  const struct bundle_entry *e = bundle_named(t, above, i);
  return e != NULL && e->kind == BUNDLE_FOLDER;
}

/* What it is another name of is a file that stands before it. */
static bool names_file(const struct bundle *t, uint32_t i)
{
  const struct bundle_entry *e = bundle_named(t, t->entry[i].target, i);
  return e != NULL && e->kind == BUNDLE_FILE;
}

/* Entry i, with what stands before it; its place in the stream is set. */
static bool check(struct bundle *t, uint32_t i, struct fault *why)
{
  struct bundle_entry *e = &t->entry[i];
  unsigned parts = depth(e->name);
  if (parts == 0)
    return fault_set(why, "bad_bundle", "a name that leads outside, or is too long or deep: %.200s", e->name);
  if (i > 0 && strcmp(t->entry[i - 1].name, e->name) >= 0)
    return fault_set(why, "bad_bundle", "%.200s is there twice, or in the wrong place", e->name);
  if (!beneath_folder(t, i))
    return fault_set(why, "bad_bundle", "%.200s lies in no folder of the directory", e->name);
  if ((e->kind == BUNDLE_LINK || e->kind == BUNDLE_SAME) != (e->target[0] != '\0') ||
      (e->kind != BUNDLE_FILE && e->size != 0) || (e->mode & ~0777) != 0)
    return fault_set(why, "bad_bundle", "%.200s: kind, size, rights and target do not go together", e->name);
  if (e->kind == BUNDLE_LINK && !stays(e->target, parts - 1))
    return fault_set(why, "bad_bundle", "%.200s is a link that may lead outside: %.200s", e->name, e->target);
  if (e->kind == BUNDLE_SAME && !names_file(t, i))
    return fault_set(why, "bad_bundle", "%.200s is another name of no file before it: %.200s", e->name, e->target);
  e->at = t->bytes; /* of all kinds, so that places are in order */
  if (e->kind == BUNDLE_FILE) {
    e->at = e->size >= BUNDLE_BIG ? (t->bytes + BUNDLE_ALIGN - 1) / BUNDLE_ALIGN * BUNDLE_ALIGN : t->bytes;
    if (e->size >= UINT64_C(1) << 53 || e->at + e->size >= UINT64_C(1) << 53)
      return fault_set(why, "bad_bundle", "%.200s is too large", e->name);
    t->bytes = e->at + e->size;
  }
  return true;
}

/* ---- to and from bytes ---- */

static uint64_t take(const uint8_t **p, unsigned bytes)
{
  uint64_t v = 0;
  for (unsigned i = 0; i < bytes; i++)
    v = v << 8 | *(*p)++;
  return v;
}

static void put(uint8_t **p, uint64_t v, unsigned bytes)
{
  for (unsigned i = bytes; i-- > 0;)
    *(*p)++ = (uint8_t)(v >> 8 * i);
}

uint32_t bundle_manifest_bytes(const uint8_t head[BUNDLE_HEAD])
{
  const uint8_t *p = head + 8;
  uint64_t n = take(&p, 4), bytes = take(&p, 4);
  return memcmp(head, magic, sizeof magic) == 0 && bytes >= BUNDLE_HEAD && n <= (bytes - BUNDLE_HEAD) / FIXED_BYTES &&
                 bytes <= BUNDLE_MANIFEST_MAX
             ? (uint32_t)bytes
             : 0;
}

/* A text with its length in front; NULL: it is longer than what is left, too long, or has a zero in it; or no memory. */
static const char *text(struct bundle *t, const uint8_t **p, const uint8_t *end)
{
  if (end - *p < 2)
    return NULL;
  size_t n = (size_t)take(p, 2);
  if (n > BUNDLE_NAME_MAX || n > (size_t)(end - *p) || memchr(*p, '\0', n) != NULL)
    return NULL;
  const char *s = n == 0 ? "" : bundle_text(t, *p, n);
  *p += n;
  return s;
}

/* The next `n`; NULL: there are not so many, or none; or no memory. */
static const uint8_t *bytes(struct bundle *t, const uint8_t **p, const uint8_t *end, size_t n)
{
  if (n == 0 || n > (size_t)(end - *p))
    return NULL;
  const char *s = bundle_text(t, *p, n);
  *p += n;
  return (const uint8_t *)s;
}

/* One entry at *p; false: it is broken, or there is no memory. */
static bool read_entry(struct bundle *t, struct bundle_entry *e, const uint8_t **p, const uint8_t *end)
{
  if (end - *p < 11)
    return false;
  uint64_t kind = take(p, 1);
  bool expects = (kind & BUNDLE_EXPECTS) != 0, xattrs = (kind & BUNDLE_XATTRS) != 0;
  e->kind = (uint8_t)(kind & ~(uint64_t)(BUNDLE_EXPECTS | BUNDLE_TIMED | BUNDLE_OWNED | BUNDLE_XATTRS));
  e->timed = (kind & BUNDLE_TIMED) != 0;
  e->owned = (kind & BUNDLE_OWNED) != 0;
  e->mode = (uint16_t)take(p, 2);
  e->size = take(p, 8);
  const char *name = text(t, p, end), *target = name == NULL ? NULL : text(t, p, end);
  if (target == NULL || e->kind < BUNDLE_FOLDER || e->kind > BUNDLE_SAME || (size_t)(end - *p) < more(e) ||
      (expects && e->kind != BUNDLE_FILE) || (xattrs && e->kind > BUNDLE_FILE))
    return false;
  e->name = name;
  e->target = target;
  if (e->timed)
    e->mtime_ns = (int64_t)take(p, TIME_BYTES);
  if (e->owned) {
    e->uid = (uint32_t)take(p, 4);
    e->gid = (uint32_t)take(p, 4);
  }
  return (!xattrs || (e->xattrs = bytes(t, p, end, xattrs_check(*p, (size_t)(end - *p)))) != NULL) &&
         (!expects || (e->expects = bytes(t, p, end, SHA256_LEN)) != NULL);
}

bool bundle_parse(struct bundle *t, const uint8_t *p, size_t n, struct fault *why)
{
  *t = (struct bundle){0};
  const uint8_t *end = p + n, *at = p + 8;
  if (n < BUNDLE_HEAD || bundle_manifest_bytes(p) != n)
    return fault_set(why, "bad_bundle", "the manifest does not begin as one");
  uint32_t entries = (uint32_t)take(&at, 4);
  at += 4;
  t->room = entries + 1;
  t->entry = calloc(t->room, sizeof *t->entry);
  t->manifest = t->bytes = n;
  bool ok = t->entry != NULL || fault_set(why, "io", "out of memory");
  for (uint32_t i = 0; ok && i < entries; i++) {
    ok =
        read_entry(t, bundle_add(t), &at, end) || fault_set(why, "bad_bundle", "entry %u of the manifest is broken", i);
    ok = ok && check(t, i, why);
  }
  if (ok && at != end)
    ok = fault_set(why, "bad_bundle", "there is something behind the manifest's last entry");
  if (!ok)
    bundle_free(t);
  return ok;
}

bool bundle_too_many(uint32_t entries, struct fault *why)
{
  return fault_set(
      why, "too_many",
      "the list of its files, which travels with it, is longer than %d MiB with %u entries: send a tar file "
      "of it, or its folders one by one",
      BUNDLE_MANIFEST_MAX >> 20, entries);
}

uint8_t *bundle_write(struct bundle *t, struct fault *why)
{
  uint64_t bytes = BUNDLE_HEAD;
  for (uint32_t i = 0; i < t->n; i++)
    bytes += bundle_entry_bytes(&t->entry[i]);
  if (bytes > BUNDLE_MANIFEST_MAX) {
    bundle_too_many(t->n, why);
    return NULL;
  }
  t->manifest = t->bytes = bytes;
  for (uint32_t i = 0; i < t->n; i++)
    if (!check(t, i, why))
      return NULL;
  uint8_t *made = malloc(bytes), *p = made;
  if (made == NULL) {
    fault_set(why, "io", "out of memory");
    return NULL;
  }
  memcpy(p, magic, sizeof magic);
  p += sizeof magic;
  put(&p, t->n, 4);
  put(&p, bytes, 4);
  for (uint32_t i = 0; i < t->n; i++) {
    const struct bundle_entry *e = &t->entry[i];
    size_t name = strlen(e->name), target = strlen(e->target);
    put(&p,
        e->kind | (e->expects != NULL ? BUNDLE_EXPECTS : 0) | (e->timed ? BUNDLE_TIMED : 0) |
            (e->owned ? BUNDLE_OWNED : 0) | (e->xattrs != NULL ? BUNDLE_XATTRS : 0),
        1);
    put(&p, e->mode, 2);
    put(&p, e->size, 8);
    put(&p, name, 2);
    memcpy(p, e->name, name);
    p += name;
    put(&p, target, 2);
    memcpy(p, e->target, target);
    p += target;
    if (e->timed)
      put(&p, (uint64_t)e->mtime_ns, 8);
    if (e->owned) {
      put(&p, e->uid, 4);
      put(&p, e->gid, 4);
    }
    if (e->xattrs != NULL) {
      size_t n = xattrs_bytes(e->xattrs);
      memcpy(p, e->xattrs, n);
      p += n;
    }
    if (e->expects != NULL) {
      memcpy(p, e->expects, SHA256_LEN);
      p += SHA256_LEN;
    }
  }
  return made;
}

uint32_t bundle_find(const struct bundle *t, uint64_t at)
{
  uint32_t low = 0, high = t->n;
  while (low < high) {
    uint32_t mid = low + (high - low) / 2;
    if (t->entry[mid].at + t->entry[mid].size <= at)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}
