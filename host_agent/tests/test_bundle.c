/* A directory's manifest: there and back, and everything that it may not say. */
#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bundle.h"
#include "xattrs.h"

static struct bundle_entry entry(enum bundle_kind kind, const char *name, uint64_t size, const char *target)
{
  return (struct bundle_entry){.kind = (uint8_t)kind, .mode = 0644, .size = size, .name = name, .target = target};
}

static uint8_t *made(struct bundle *t, const struct bundle_entry *e, uint32_t n)
{
  struct fault why;
  *t = (struct bundle){0};
  for (uint32_t i = 0; i < n; i++) {
    struct bundle_entry *to = bundle_add(t);
    assert(to != NULL);
    *to = e[i];
  }
  return bundle_write(t, &why);
}

/* "a" is empty, "b" is "cd". */
static const uint8_t two_attributes[] = "\0\0\0\016\1a\0\0\0\0\1b\0\0\0\2cd";

static void there_and_back(void)
{
  struct bundle t, back;
  struct fault why;
  struct bundle_entry e[] = {entry(BUNDLE_FOLDER, "a", 0, ""),         entry(BUNDLE_FILE, "a/empty", 0, ""),
                             entry(BUNDLE_FILE, "a/large", 70000, ""), entry(BUNDLE_LINK, "a/link", 0, "../b"),
                             entry(BUNDLE_FILE, "b", 5, ""),           entry(BUNDLE_SAME, "c", 0, "a/large")};
  e[0].timed = e[4].timed = e[5].timed = e[4].owned = e[5].owned = true;
  e[0].mtime_ns = -1, e[4].mtime_ns = 1700000000123456789, e[4].uid = 4000000000, e[4].gid = 7;
  uint8_t sha256[SHA256_LEN];
  memset(sha256, 7, sizeof sha256);
  e[1].expects = e[4].expects = sha256;
  e[0].xattrs = e[4].xattrs = two_attributes;
  uint8_t *p = made(&t, e, 6);
  assert(p != NULL && bundle_manifest_bytes(p) == t.manifest);
  assert(bundle_parse(&back, p, t.manifest, &why) && back.n == 6 && back.bytes == t.bytes);
  assert(back.entry[1].at == t.manifest && back.entry[2].at == 4096 && back.entry[4].at == 4096 + 70000);
  assert(back.bytes == 4096 + 70000 + 5 && strcmp(back.entry[3].target, "../b") == 0);
  assert(back.entry[1].expects != NULL && back.entry[2].expects == NULL && back.entry[4].expects[31] == 7);
  assert(back.entry[0].timed && !back.entry[0].owned && back.entry[0].mtime_ns == -1 && !back.entry[1].timed &&
         back.entry[5].mtime_ns == 0);
  assert(back.entry[4].mtime_ns == 1700000000123456789 && back.entry[4].uid == 4000000000 && back.entry[4].gid == 7);
  assert(back.entry[0].xattrs != NULL && back.entry[1].xattrs == NULL && xattrs_bytes(back.entry[4].xattrs) == 18);
  assert(memcmp(back.entry[4].xattrs, two_attributes, 18) == 0);
  assert(back.entry[5].kind == BUNDLE_SAME && strcmp(back.entry[5].target, "a/large") == 0);
  assert(bundle_find(&back, t.manifest) == 2 && bundle_find(&back, 4096) == 2 && bundle_find(&back, 4095 + 70000) == 2);
  assert(bundle_find(&back, 4096 + 70000) == 4 && bundle_find(&back, back.bytes) == 6);
  bundle_free(&back);
  for (size_t n = 0; n < t.manifest; n++) {
    uint8_t *some = malloc(n + 1); /* of its own: what is read behind it is seen */
    memcpy(some, p, n);
    assert(!bundle_parse(&back, some, n, &why));
    if (n >= BUNDLE_HEAD) { /* the same, and it says so itself */
      some[12] = 0, some[13] = 0, some[14] = (uint8_t)(n >> 8), some[15] = (uint8_t)n;
      assert(!bundle_parse(&back, some, n, &why) && strcmp(why.code, "bad_bundle") == 0);
    }
    free(some);
  }
  free(p);
  bundle_free(&t);
}

static void refused(const struct bundle_entry *e, uint32_t n)
{
  struct bundle t;
  uint8_t *p = made(&t, e, n);
  if (p != NULL)
    fprintf(stderr, "taken: %s %s\n", e[n - 1].name, e[n - 1].target);
  assert(p == NULL);
  bundle_free(&t);
}

static void names_and_links(void)
{
  static const char *const names[] = {"",       "/a",  "a/",  "a//b", ".", "..",     "../a",
                                      "a/../b", "./a", "a/.", "x/y",  "/", "a/b/..", "a/./b"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    struct bundle_entry e[] = {entry(BUNDLE_FILE, names[i], 1, "")};
    refused(e, 1); /* x/y: in no folder */
  }
  static const char *const targets[] = {"/etc/passwd", "..", "../x", "b/../../x", "./x", "b/..", "x//y", "b/../c"};
  for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
    struct bundle_entry e[] = {entry(BUNDLE_LINK, "link", 0, targets[i])};
    refused(e, 1);
  }
  struct bundle_entry twice[] = {entry(BUNDLE_FILE, "a", 1, ""), entry(BUNDLE_FILE, "a", 1, "")};
  refused(twice, 2);
  struct bundle_entry order[] = {entry(BUNDLE_FILE, "b", 1, ""), entry(BUNDLE_FILE, "a", 1, "")};
  refused(order, 2);
  struct bundle_entry through[] = {entry(BUNDLE_LINK, "a", 0, "b"), entry(BUNDLE_FILE, "a/x", 1, "")};
  refused(through, 2); /* through a link */
  struct bundle_entry below[] = {entry(BUNDLE_FILE, "a", 1, ""), entry(BUNDLE_FILE, "a/x", 1, "")};
  refused(below, 2);
  struct bundle_entry sized[] = {entry(BUNDLE_FOLDER, "a", 1, "")};
  refused(sized, 1);
  struct bundle_entry huge[] = {entry(BUNDLE_FILE, "a", UINT64_C(1) << 52, ""),
                                entry(BUNDLE_FILE, "b", UINT64_C(1) << 52, "")};
  refused(huge, 2);
  static const char *const others[] = {"", "a", "c", "d", "d/x", "../b", "/b"};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) { /* only of a file before it, which b is */
    struct bundle_entry e[] = {entry(BUNDLE_FOLDER, "a", 0, ""), entry(BUNDLE_FILE, "b", 1, ""),
                               entry(BUNDLE_SAME, "c", 0, others[i]), entry(BUNDLE_FILE, "d", 1, "")};
    refused(e, 4);
  }
  struct bundle_entry same_of_same[] = {entry(BUNDLE_FILE, "a", 1, ""), entry(BUNDLE_SAME, "b", 0, "a"),
                                        entry(BUNDLE_SAME, "c", 0, "b")};
  refused(same_of_same, 3);
  struct bundle_entry root[] = {entry(BUNDLE_FILE, "a", 1, "")};
  root[0].mode = 04755;
  refused(root, 1);
}

/* Whatever the names are, a list that is too long is refused before anything is made of it. */
static void too_many(void)
{
  enum { ENTRIES = 300000 };
  struct bundle t = {0};
  struct fault why;
  char name[BUNDLE_NAME_MAX + 1];
  memset(name, 'x', BUNDLE_NAME_MAX);
  name[BUNDLE_NAME_MAX] = '\0';
  for (uint32_t i = 0; i < ENTRIES; i++) {
    struct bundle_entry *e = bundle_add(&t);
    assert(e != NULL);
    *e = entry(BUNDLE_FILE, name, 1, "");
  }
  assert(bundle_write(&t, &why) == NULL && strcmp(why.code, "too_many") == 0 && strstr(why.text, "300000") != NULL);
  uint8_t head[BUNDLE_HEAD] = "dcbundl1";
  for (unsigned i = 8; i < BUNDLE_HEAD; i++)
    head[i] = i < 12 ? 0 : 0xff; /* 4 GiB of it */
  assert(bundle_manifest_bytes(head) == 0);
  head[8] = 0xff, head[12] = 0, head[13] = 0x10; /* more entries than bytes for them */
  assert(bundle_manifest_bytes(head) == 0);
  bundle_free(&t);
}

int main(void)
{
  too_many();
  there_and_back();
  names_and_links();
  return 0;
}
