#include "origin.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SITE "site://"

enum { FILE_MAX = 1 << 20, ENTRIES_MAX = 1024 };

struct origin *origin_ref(struct origin *o)
{
  __atomic_add_fetch(&o->refs, 1, __ATOMIC_RELAXED);
  return o;
}

static void wipe(char *s)
{
  if (s != NULL)
    explicit_bzero(s, strlen(s));
  free(s);
}

static struct origin_token *token_new(void)
{
  struct origin_token *t = calloc(1, sizeof *t);
  if (t != NULL) {
    t->refs = 1;
    pthread_mutex_init(&t->lock, NULL);
  }
  return t;
}

static void token_unref(struct origin_token *t)
{
  if (t == NULL || __atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL) > 0)
    return;
  wipe(t->text);
  pthread_mutex_destroy(&t->lock);
  free(t);
}

void origin_share_token(struct origin *o, const struct origin *other)
{
  token_unref(o->token);
  o->token = other->token;
  __atomic_add_fetch(&o->token->refs, 1, __ATOMIC_RELAXED);
}

void origin_unref(struct origin *o)
{
  if (o == NULL || __atomic_sub_fetch(&o->refs, 1, __ATOMIC_ACQ_REL) > 0)
    return;
  free(o->shown);
  free(o->url);
  wipe(o->user);
  wipe(o->bearer);
  wipe(o->login);
  token_unref(o->token);
  free(o->token_from);
  free(o->sigv4);
  free(o->ca);
  free(o);
}

static bool number(const char **p, uint64_t *to)
{
  if (!isdigit((unsigned char)**p))
    return false;
  char *end;
  errno = 0;
  unsigned long long n = strtoull(*p, &end, 10);
  *p = end;
  *to = n;
  return errno == 0 && n < UINT64_C(1) << 53;
}

bool origin_content_range(const char *text, struct content_range *to)
{
  *to = (struct content_range){0};
  if (strncasecmp(text, "bytes ", 6) != 0)
    return false;
  const char *p = text + 6;
  if (*p == '*') {
    p++;
  } else {
    to->ranged = true;
    if (!number(&p, &to->first) || *p++ != '-' || !number(&p, &to->last) || to->last < to->first)
      return false;
  }
  return *p++ == '/' && number(&p, &to->size) && *p == '\0' && (!to->ranged || to->last < to->size);
}

bool origin_printable(const char *s)
{
  while (*s >= ' ' && *s <= '~')
    s++;
  return *s == '\0';
}

static size_t place(const char *url)
{
  const char *host = strstr(url, "://");
  return host == NULL ? 0 : (size_t)(host - url) + 3 + strcspn(host + 3, "/?#");
}

bool origin_same_place(const char *url, const char *other)
{
  size_t n = place(url);
  return n > 0 && n == place(other) && strncasecmp(url, other, n) == 0;
}

bool origin_same_folder(const char *url, const char *other)
{
  const char *end = strrchr(url, '/');
  size_t n = end == NULL ? 0 : (size_t)(end - url) + 1;
  return n > place(url) && strncmp(url, other, n) == 0 && strchr(other + n, '/') == NULL;
}

/* ---- what this host may fetch ---- */

static bool plain(const char *s)
{
  for (; *s != '\0'; s++)
    if ((unsigned char)*s <= ' ' || (unsigned char)*s >= 0x7f)
      return false;
  return true;
}

/* A key of S3 is written as the store shows it, with any letters but control characters: it is escaped here (s3_url). */
static bool is_key(const char *s)
{
  for (const unsigned char *p = (const unsigned char *)s; *p != '\0'; p++)
    if (*p < ' ' || *p == 0x7f || (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0))
      return false;
  return true;
}

/* Bytes of what ends a part of the path here, for some servers at least; 0: nothing does. */
static size_t ends_part(const char *p)
{
  static const char *const coded[] = {"%2f", "%5c", "%3b"};
  for (unsigned i = 0; i < sizeof coded / sizeof coded[0]; i++)
    if (strncasecmp(p, coded[i], strlen(coded[i])) == 0)
      return strlen(coded[i]);
  return *p == '/' || *p == '\\' || *p == ';';
}

/* Is a part of the path up to `end` "." or "..", also written as %2e? It leads elsewhere than it seems to, for libcurl or for
 * the server: out of the prefix that allows it. */
static bool has_dots(const char *path, const char *end)
{
  while (path < end) {
    unsigned dots = 0;
    for (; *path == '.' || strncasecmp(path, "%2e", 3) == 0; dots++)
      path += *path == '.' ? 1 : 3;
    if (dots > 0 && dots < 3 && (path == end || ends_part(path) > 0))
      return true;
    while (path < end && ends_part(path) == 0)
      path++;
    path += ends_part(path);
  }
  return false;
}

static bool is_s3(const char *url) { return strncmp(url, "s3://", 5) == 0; }

static bool check_url(const char *url, struct fault *why)
{
  const char *rest = strncmp(url, "https://", 8) == 0  ? url + 8
                     : strncmp(url, "http://", 7) == 0 ? url + 7
                     : is_s3(url)                      ? url + 5
                     : strncmp(url, SITE, 7) == 0      ? url + 7
                                                       : NULL;
  if (rest == NULL)
    return fault_set(why, "bad_origin", "the URL of an origin begins with https://, http:// or s3://");
  size_t host = strcspn(rest, "/?#");
  bool s3 = is_s3(url);
  if (s3 && (rest[host] != '/' || rest[host + 1] == '\0'))
    return fault_set(why, "bad_origin", "no key is named: give s3://BUCKET/KEY");
  if (s3 && !is_key(rest))
    return fault_set(why, "bad_origin", "a key with a control character is not fetched");
  if (strlen(url) > ORIGIN_URL_MAX || host == 0 || (!s3 && (!plain(url) || strchr(rest, '#') != NULL)))
    return fault_set(why, "bad_origin", "the URL of an origin has a host or bucket, no blank, and at most %d bytes",
                     ORIGIN_URL_MAX);
  if (memchr(rest, '@', host) != NULL)
    return fault_set(why, "bad_origin", "a URL with a password in it: credentials belong into the file of --origins");
  const char *path = rest + host; /* in S3 a "?" is of the key */
  if (has_dots(path, path + (s3 ? strlen(path) : strcspn(path, "?#"))))
    return fault_set(why, "bad_origin", "a URL with \".\" or \"..\" in its path: %.200s", url);
  return true;
}

static const char *text(const json_t *entry, const char *key)
{
  const char *s = json_string_value(json_object_get(entry, key));
  return s == NULL || *s == '\0' || strlen(s) > 4096 || !plain(s) ? NULL : s;
}

/* NULL with *why. Nothing of the file is ever part of what is told. */
json_t *origin_allowed(const char *file, struct fault *why)
{
  if (file == NULL)
    return json_object();
  struct stat st;
  int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0 || fstat(fd, &st) < 0) {
    fault_set(why, fault_passes(errno) ? "busy" : "denied", "the file of --origins cannot be read: %s",
              strerror(errno));
  } else if (!S_ISREG(st.st_mode) || (st.st_mode & 077) != 0 || st.st_size > FILE_MAX) {
    fault_set(why, "denied", "the file of --origins must be a file that its owner alone may read (chmod 600)");
  } else {
    json_error_t error;
    json_t *o = json_loadfd(fd, JSON_REJECT_DUPLICATES, &error);
    close(fd);
    if (o == NULL)
      fault_set(why, "denied", "the file of --origins is no JSON: line %d", error.line);
    else if (json_object_size(o) == 0 ? json_is_object(o) : json_is_array(json_object_get(o, "origins")))
      return o;
    else
      fault_set(why, "denied", "the file of --origins must be {\"origins\": [{\"prefix\": …}, …]}");
    json_decref(o);
    return NULL;
  }
  if (fd >= 0)
    close(fd);
  return NULL;
}

/* The entry with the longest prefix of `url`. A prefix ends where a part of the URL does. */
static const json_t *entry_for(const json_t *o, const char *url)
{
  const json_t *list = json_object_get(o, "origins"), *best = NULL;
  size_t most = 0;
  for (size_t i = 0; i < json_array_size(list) && i < ENTRIES_MAX; i++) {
    const char *prefix = json_string_value(json_object_get(json_array_get(list, i), "prefix"));
    size_t n = prefix == NULL ? 0 : strlen(prefix);
    if (n > most && prefix[n - 1] == '/' && strncmp(url, prefix, n) == 0) {
      best = json_array_get(list, i);
      most = n;
    }
  }
  return best;
}

static char *copy(const char *s) { return s == NULL ? NULL : strdup(s); }

static char *format(const char *form, const char *a, const char *b)
{
  char *s;
  return asprintf(&s, form, a, b) < 0 ? NULL : s;
}

/* s3://BUCKET/KEY under an endpoint, by path; bytes of the key that a URL does not take are escaped. */
static char *s3_url(const char *endpoint, const char *rest)
{
  size_t n = strlen(endpoint);
  while (n > 0 && endpoint[n - 1] == '/')
    n--;
  char *s = malloc(n + 2 + 3 * strlen(rest)), *to = s;
  if (s == NULL)
    return NULL;
  to += sprintf(to, "%.*s/", (int)n, endpoint);
  for (; *rest != '\0'; rest++)
    to += isalnum((unsigned char)*rest) || strchr("-._~/", *rest) != NULL ? sprintf(to, "%c", *rest)
                                                                          : sprintf(to, "%%%02X", (unsigned char)*rest);
  return s;
}

/* What is misspelt would not be missed: the origin refuses, and nobody knows why. */
static bool check_entry(const json_t *entry, const char *url, struct fault *why)
{
  static const char *const known[] = {"access_key", "secret_key", "user",   "password", "endpoint",
                                      "region",     "token_from", "bearer", "ca"};
  size_t found = 1; /* the prefix */
  for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++) {
    bool there = json_object_get(entry, known[i]) != NULL;
    found += there;
    if (there && text(entry, known[i]) == NULL)
      return fault_set(why, "bad_origin", "%.200s: `%s` of its entry in --origins must be text without a blank", url,
                       known[i]);
    const char *other = i < 4 ? known[i ^ 1] : NULL; /* these come in pairs */
    if (there && other != NULL && json_object_get(entry, other) == NULL)
      return fault_set(why, "bad_origin", "%.200s: its entry in --origins has `%s`, and no `%s`", url, known[i], other);
  }
  return found == json_object_size(entry) ||
         fault_set(why, "bad_origin", "%.200s: its entry in --origins has a name that means nothing (docs/origins.md)",
                   url);
}

static bool fill(struct origin *o, const char *url, const json_t *entry, struct fault *why)
{
  if (!check_entry(entry, url, why))
    return false;
  const char *key = text(entry, "access_key"), *secret = text(entry, "secret_key"), *region = text(entry, "region");
  const char *user = text(entry, "user"), *password = text(entry, "password");
  o->shown = strdup(url);
  o->bearer = copy(text(entry, "bearer"));
  o->ca = copy(text(entry, "ca"));
  o->token_from = copy(text(entry, "token_from"));
  if (user != NULL && password != NULL)
    o->login = format("%s:%s", user, password);
  region = region == NULL ? "us-east-1" : region;
  if (key != NULL && secret != NULL) {
    o->user = format("%s:%s", key, secret);
    o->sigv4 = format("aws:amz:%s:%s", region, "s3");
  }
  if (is_s3(url)) {
    char aws[128];
    snprintf(aws, sizeof aws, "https://s3.%.60s.amazonaws.com", region);
    const char *endpoint = text(entry, "endpoint");
    o->url = s3_url(endpoint == NULL ? aws : endpoint, url + 5);
  } else {
    o->url = strdup(url);
  }
  if ((o->bearer != NULL || o->login != NULL) && o->url != NULL && strncmp(o->url, "https://", 8) != 0)
    return fault_set(why, "bad_origin", "tokens and passwords go over https:// only");
  return (o->shown != NULL && o->url != NULL && o->token != NULL) || fault_set(why, "io", "out of memory");
}

/* The controller of this host's own authority may be asked for anything: it says what comes from where. */
static bool fill_of_site(struct origin *o, const char *url, const struct security *security, struct fault *why)
{
  if (security->ctx == NULL)
    return fault_set(why, "denied",
                     "what comes from another site needs certificates: --tls-ca, --tls-cert and --tls-key");
  o->site = security->ctx;
  o->shown = strdup(url);
  o->url = format("https://%s%s", url + sizeof SITE - 1, "");
  return (o->shown != NULL && o->url != NULL && o->token != NULL) || fault_set(why, "io", "out of memory");
}

struct origin *origin_open(const char *url, const json_t *allowed, const struct security *security, struct fault *why)
{
  if (!check_url(url, why))
    return NULL;
  bool site = strncmp(url, SITE, sizeof SITE - 1) == 0;
  const json_t *entry = site ? NULL : entry_for(allowed, url);
  if (entry == NULL && !site) {
    if (json_object_size(allowed) == 0)
      fault_set(why, "denied", "this agent fetches nothing: --origins FILE says what it may");
    else
      fault_set(why, "denied", "no prefix in the file of --origins allows %.200s (each ends with /)", url);
    return NULL;
  }
  struct origin *o = calloc(1, sizeof *o);
  if (o == NULL) {
    fault_set(why, "io", "out of memory");
    return NULL;
  }
  o->refs = 1;
  o->token = token_new();
  if (site ? !fill_of_site(o, url, security, why) : !fill(o, url, entry, why)) {
    origin_unref(o);
    return NULL;
  }
  return o;
}
