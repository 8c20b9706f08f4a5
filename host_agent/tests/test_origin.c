/* What is believed of an origin's answer, and what this host may fetch. */
#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "answer.h"
#include "objects.h"

static void ranges(void)
{
  struct content_range r;
  assert(origin_content_range("bytes 0-99/1234", &r) && r.ranged && r.first == 0 && r.last == 99 && r.size == 1234);
  assert(origin_content_range("BYTES 5-5/6", &r) && r.first == 5 && r.last == 5);
  assert(origin_content_range("bytes */0", &r) && !r.ranged && r.size == 0);
  static const char *const bad[] = {"",
                                    "bytes",
                                    "bytes 0-99",
                                    "bytes 0-99/*",
                                    "bytes 9-8/10",
                                    "bytes 0-9/9",
                                    "bytes -1-2/3",
                                    "bytes 0-1/2x",
                                    "items 0-1/2",
                                    "bytes  0-1/2",
                                    "bytes 0-/2",
                                    "bytes 0-99999999999999999999/999999999999999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert(!origin_content_range(bad[i], &r));
}

static void lines_of(struct answer_head *a, const char *const *line)
{
  for (; *line != NULL; line++)
    answer_line(a, *line, strlen(*line));
}

static void heads(void)
{
  struct answer_head a = {0};
  lines_of(&a, (const char *const[]){"HTTP/1.1 503 Busy\r\n", "etag:\t\"x\" \r\n", "Content-Range: bytes 0-4/9\r\n",
                                     "WWW-Authenticate: Bearer realm=a\r\n", NULL});
  assert(strcmp(a.etag, "\"x\"") == 0 && a.has_range && a.range.size == 9);
  assert(strcmp(a.challenge, "Bearer realm=a") == 0);
  lines_of(&a,
           (const char *const[]){"HTTP/1.1 206 OK\r\n", "etag: \"caf\xe9\"\r\n", NULL}); /* one may have such bytes */
  assert(a.etag[0] == '\0');
  lines_of(&a, (const char *const[]){"etag: \"a\rHost: b\"\r\n", NULL});
  assert(a.etag[0] == '\0');
  static const char *const encodings[] = {"gzip", "identity", "br;\x01", "0123456789abcdef"}, *const as[] = {"gzip", "",
                                                                                                             "br", ""};
  for (size_t i = 0; i < sizeof as / sizeof as[0]; i++) {
    char line[64];
    a = (struct answer_head){0};
    answer_line(&a, line, (size_t)snprintf(line, sizeof line, "Content-Encoding: %s", encodings[i]));
    assert(strcmp(a.encoding, as[i]) == 0);
  }
  lines_of(&a, (const char *const[]){"HTTP/1.1 200 OK", NULL}); /* where it was sent on to */
  assert(a.etag[0] == '\0' && a.challenge[0] == '\0' && !a.has_range);
}

static void places(void)
{
  assert(origin_same_place("https://a:1/x", "HTTPS://A:1?y") && origin_same_place("https://a", "https://a/b"));
  assert(!origin_same_place("https://a/x", "http://a/x") && !origin_same_place("https://a/x", "https://a.b/x"));
  assert(!origin_same_place("https://a/x", "https://a:2/x") && !origin_same_place("x", "x"));
}

static void challenges(void)
{
  struct challenge c;
  assert(answer_challenge("Bearer realm=\"https://a/t\",service=\"s\",scope=\"repository:x:pull\",error=none", &c));
  assert(strcmp(c.realm, "https://a/t") == 0 && strcmp(c.service, "s") == 0 &&
         strcmp(c.scope, "repository:x:pull") == 0);
  assert(answer_challenge("bearer scope=b, realm=\"a\\\"b\"", &c) && strcmp(c.realm, "a\"b") == 0);
  static const char *const bad[] = {
      "",          "Basic realm=\"x\"", "Bearer ",           "Bearer realm=\"x", "Bearer realm",
      "Bearer =x", "Bearer service=x",  "Bearer realm=\"x\\"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert(!answer_challenge(bad[i], &c));
}

static void reasons(void)
{
  struct answer_body b = {.n = 0};
  char name[ANSWER_REASON_MAX];
  assert(!answer_reason(&b, name));
  answer_keep(&b, "<Error><Code>NoSuchKey</Code>", 29);
  assert(answer_reason(&b, name) && strcmp(name, "NoSuchKey") == 0);
  b.n = 0;
  answer_keep(&b, "<Code>AKIA key</Code>", 21); /* no name: not told */
  assert(!answer_reason(&b, name));
}

static const struct security none; /* no certificates */

static const char *file(const char *text, mode_t mode)
{
  static char path[64];
  snprintf(path, sizeof path, "/tmp/test-origins-%d", (int)getpid());
  (void)unlink(path);
  FILE *f = fopen(path, "w");
  assert(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0 && chmod(path, mode) == 0);
  return path;
}

static struct origin *opened(const char *url, const char *path, struct fault *why)
{
  json_t *allowed = origin_allowed(path, why);
  struct origin *o = allowed == NULL ? NULL : origin_open(url, allowed, &none, why);
  json_decref(allowed);
  return o;
}

static void refused(const char *url, const char *path, const char *code)
{
  struct fault why;
  assert(opened(url, path, &why) == NULL);
  if (strcmp(why.code, code) != 0)
    fprintf(stderr, "%s: %s: %s\n", url, why.code, why.text);
  assert(strcmp(why.code, code) == 0);
  assert(strstr(why.text, "hidden") == NULL);
}

static void permissions(void)
{
  const char *text =
      "{\"origins\":[{\"prefix\":\"https://h/a/\"},"
      "{\"prefix\":\"https://h/a/b/\",\"bearer\":\"hidden\"},{\"prefix\":\"http://h/\",\"bearer\":\"hidden\"},"
      "{\"prefix\":\"https://half\"},{\"prefix\":\"s3://bucket/my "
      "\u00e9/\",\"endpoint\":\"http://t:1/\"},{\"prefix\":\"s3://bucket/\",\"endpoint\":\"http://s:1/\","
      "\"region\":\"eu\",\"access_key\":\"k\",\"secret_key\":\"hidden\"}]}";
  struct fault why;
  const char *path = file(text, 0600);
  struct origin *o = opened("https://h/a/x?y=1", path, &why);
  assert(o != NULL && o->bearer == NULL && strcmp(o->url, "https://h/a/x?y=1") == 0);
  origin_unref(o);
  o = opened("https://h/a/b/x", path, &why);
  assert(o != NULL && strcmp(o->bearer, "hidden") == 0);
  origin_unref(o);
  o = opened("s3://bucket/dir/a+ key?%#\u00e9\U0001f40d", path, &why);
  assert(o != NULL && strcmp(o->url, "http://s:1/bucket/dir/a%2B%20key%3F%25%23%C3%A9%F0%9F%90%8D") == 0);
  assert(strcmp(o->sigv4, "aws:amz:eu:s3") == 0 && strcmp(o->user, "k:hidden") == 0);
  origin_unref(o);
  o = opened("s3://bucket/my \u00e9/x", path, &why);
  assert(o != NULL && strcmp(o->url, "http://t:1/bucket/my%20%C3%A9/x") == 0);
  origin_unref(o);
  refused("https://h/other", path, "denied");
  refused("site://10.0.0.1:7580/site/objects/s-1", path, "denied"); /* without certificates */
  refused("https://half.evil/x", path, "denied");                   /* a prefix is a whole part */
  refused("https://h/a/x", NULL, "denied");
  refused("http://h/x", path, "bad_origin"); /* a token in the clear */
  refused("ftp://h/x", path, "bad_origin");
  refused("file:///etc/shadow", path, "bad_origin");
  refused("https://user:hidden@h/a/x", path, "bad_origin");
  refused("https:///x", path, "bad_origin");
  refused("https://h/a/\r\nx", path, "bad_origin");
  static const char *const out[] = {"..",        ".",        "b/../../x", "../a/../x", "%2e%2E/x", ".%2e/x",
                                    "%2e",       "..\\x",    "x/..?y",    "x/..#y",    "..%2fx",   "b%2F..%2fx",
                                    "x%5c..%5C", "..;a=b/x", "..%3bx",    "%2e;"};
  for (size_t i = 0; i < sizeof out / sizeof out[0]; i++) { /* libcurl, or the server, would go there */
    char url[64];
    snprintf(url, sizeof url, "https://h/a/%s", out[i]);
    refused(url, path, "bad_origin");
  }
  static const char *const no_key[] = {"s3://bucket",      "s3://bucket/",      "s3://bucket?/x",
                                       "s3://bucket/a\nb", "s3://bucket/a\x7f", "s3://bucket/\xc2\x85"};
  for (size_t i = 0; i < sizeof no_key / sizeof no_key[0]; i++)
    refused(no_key[i], path, "bad_origin");
  refused("s3://bucket/../other/key", path, "bad_origin");
  refused("s3://bucket/a?/../../other/key", path, "bad_origin"); /* "?" is of the key */
  o = opened("https://h/a/..x/...;b=.c/%2ex/%252e%2fy?../y", path, &why);
  assert(o != NULL);
  origin_unref(o);
  refused("https://h/a/x", file(text, 0644), "denied");
  refused("https://h/a/x", file("{", 0600), "denied");
  refused("https://h/a/x", file("[1]", 0600), "denied");
  refused("https://h/a/x", "/nowhere", "denied");
  (void)unlink(path);
}

static struct objects *objects(const char *text, uint64_t size, const char *path, const char *code)
{
  struct fault why;
  json_t *origin = json_loads(text, 0, NULL);
  assert(origin != NULL);
  struct objects *o = objects_open(origin, size, 1, path, &none, &why);
  json_decref(origin);
  if (code != NULL)
    assert(o == NULL && strcmp(why.code, code) == 0);
  return o;
}

/* A manifest of "a" (3 bytes), "b" (none) and "c" (70,000 bytes, at 4,096), in base64. */
#define MANIFEST                                                                                                       \
  "\"manifest\":\"ZGNidW5kbDEAAAADAAAAQAIBpAAAAAAAAAADAAFhAAACAaQAAAAAAAAAAAABYgAAAgGkAAAAAAABEXAAAWMAAA==\""

static void several(void)
{
  const char *path = file("{\"origins\":[{\"prefix\":\"https://h/v2/\"}]}", 0600);
  struct objects *o = objects("{" MANIFEST ",\"objects\":[{\"data\":\"YWJj\"},"
                              "{\"url\":\"https://h/v2/c\",\"etag\":\"\\\"e\\\"\"}]}",
                              4096 + 70000, path, NULL);
  assert(o != NULL);
  struct object_run r = objects_at(o, 0, 1000);
  assert(r.bytes != NULL && r.origin == NULL && r.len == 64 && memcmp(r.bytes, "dcbundl1", 8) == 0);
  r = objects_at(o, 65, 1000);
  assert(r.bytes[0] == 'b' && r.len == 2);
  r = objects_at(o, 67, 1000);
  assert(r.bytes == NULL && r.origin == NULL && r.len == 1000);
  r = objects_at(o, 4000, 1000);
  assert(r.bytes == NULL && r.origin == NULL && r.len == 96);
  r = objects_at(o, 4096 + 69000, 1000);
  assert(r.origin != NULL && r.off == 69000 && r.len == 1000 && r.origin->size == 70000);
  assert(strcmp(r.origin->etag, "\"e\"") == 0);
  objects_unref(o);
  objects("{" MANIFEST ",\"objects\":[{\"data\":\"YWJj\"}]}", 4096 + 70000, path, "bad_request");
  objects("{" MANIFEST ",\"objects\":[{\"data\":\"YWI=\"},{\"url\":\"https://h/v2/c\"}]}", 4096 + 70000, path,
          "bad_request");
  objects("{" MANIFEST ",\"objects\":[{\"data\":\"YWJj\"},{\"url\":\"https://g/c\"}]}", 4096 + 70000, path, "denied");
  objects("{" MANIFEST ",\"objects\":[]}", 4096, path, "bad_bundle");
  objects("{\"manifest\":\"%\",\"objects\":[]}", 1, path, "bad_request");
  objects("{\"objects\":[{\"url\":\"https://h/v2/c\"},{\"url\":\"https://h/v2/d\"}]}", 1, path, "bad_request");
  o = objects("{\"objects\":[{\"data\":\"YWJj\"}]}", 3, path, NULL);
  r = objects_at(o, 1, 2);
  assert(r.bytes[0] == 'b' && r.len == 2 && r.origin == NULL);
  objects_unref(o);
  objects("{\"objects\":[{\"url\":\"https://h/v2/c\",\"etag\":\"\\\"e\\\"\\r\\n\\r\\nGET /other HTTP/1.1\"}]}", 1, path,
          "bad_request"); /* it becomes a line of a request's head */
  objects("{\"objects\":[{\"url\":\"https://h/v2/c\",\"etag\":\"\\\"\\u00e9\\\"\"}]}", 1, path, "bad_request");
  objects("{\"objects\":3}", 1, path, "bad_request");
  objects("{}", 1, path, "bad_request");
  (void)unlink(path);
}

static void no_descriptors(void)
{
  const char *path = file("{\"origins\":[]}", 0600);
  struct rlimit most, few = {.rlim_cur = 0};
  struct fault why;
  assert(getrlimit(RLIMIT_NOFILE, &most) == 0);
  few.rlim_max = most.rlim_max;
  assert(setrlimit(RLIMIT_NOFILE, &few) == 0 && origin_allowed(path, &why) == NULL);
  assert(setrlimit(RLIMIT_NOFILE, &most) == 0 && strcmp(why.code, "busy") == 0); /* it is tried again */
  (void)unlink(path);
}

static void folders(void)
{
  assert(origin_same_folder("https://h/v2/x/blobs/1", "https://h/v2/x/blobs/2"));
  assert(!origin_same_folder("https://h/v2/x/blobs/1", "https://h/v2/y/blobs/2"));
  assert(!origin_same_folder("https://h/v2/x/1", "https://h/v2/x/y/2") &&
         !origin_same_folder("https://h", "https://g"));
}

int main(void)
{
  ranges();
  heads();
  places();
  challenges();
  reasons();
  permissions();
  folders();
  several();
  no_descriptors();
  return 0;
}
