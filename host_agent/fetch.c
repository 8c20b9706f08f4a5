#include "fetch.h"

#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "again.h"
#include "answer.h"
#include "datapath/loop.h"
#include "token.h"

enum {
  TRIES = 6,
  CONNECT_MS = 10000,
  STALL_BYTES = 1024, /* slower than this a second for STALL_S is standing still */
  STALL_S = 10,
  REDIRECTS = 5,
  PATIENCE_MS = 15000, /* of a probe: somebody waits for its answer */
  SOON_S = 2           /* and one that failed later is not asked again */
};

#define SHA256_OF_NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define IS_HTTPS ": is https:// meant, here and in --origins?"

/* How far a job is: its bytes so far, and the digest of the block that they end in. */
struct progress {
  uint64_t got;
  blake3_hasher hash;
};

/* An answer as it comes in. */
struct answer {
  struct job *job;
  const int *stopping;
  CURL *curl;
  struct origin *origin;
  const char *token; /* a registry's; NULL: none */
  uint64_t off, len; /* what is asked for; a probe asks for the first byte */
  struct answer_head head;
  struct answer_body error;
  char words[CURL_ERROR_SIZE]; /* libcurl's: not told, they may have more than is anybody's */
  long status;
  bool refused;  /* `why` says what is wrong with it */
  uint64_t came; /* bytes of this answer */
  int write_error;
  struct progress at; /* with them */
};

bool fetch_init(struct fault *why)
{
  return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK || fault_set(why, "io", "libcurl does not start");
}

static struct job *new_job(void)
{
  struct job *j = job_new(JOB_FETCH);
  if (j == NULL)
    return NULL;
  j->fetch = calloc(1, sizeof *j->fetch);
  if (j->fetch != NULL)
    return j;
  free(j);
  return NULL;
}

struct job *fetch_probe(struct origin *o)
{
  struct job *j = new_job();
  if (j != NULL)
    j->fetch->probe = origin_ref(o);
  return j;
}

struct job *fetch_bytes(struct objects *o, struct file *file, uint64_t off, uint64_t len, uint64_t block)
{
  struct job *j = new_job();
  if (j == NULL)
    return NULL;
  j->fetch->objects = objects_ref(o);
  j->fetch->block = block;
  j->file = file_ref(file);
  j->off = off;
  j->len = len;
  return j;
}

void fetch_free(struct fetch *f)
{
  if (f == NULL)
    return;
  origin_unref(f->probe);
  objects_unref(f->objects);
  free(f);
}

/* ---- an answer ---- */

static size_t on_header(char *line, size_t one, size_t n, void *arg)
{
  answer_line(&((struct answer *)arg)->head, line, one * n);
  return one * n;
}

/* Is it the answer to what was asked, of the object that is meant? */
static bool expected(struct answer *a)
{
  const struct origin *o = a->origin;
  struct fault *why = &a->job->fetch->why;
  long status = 0;
  curl_easy_getinfo(a->curl, CURLINFO_RESPONSE_CODE, &status);
  if (status == 200)
    return fault_set(why, "no_ranges", "%.200s: the origin does not answer range requests", o->shown);
  if (status != 206)
    return false; /* judged by its status */
  if (!a->head.has_range || !a->head.range.ranged)
    return fault_set(why, "bad_answer", "%.200s: a part without a proper Content-Range", o->shown);
  if (a->job->fetch->probe != NULL)
    return true;
  if (a->head.range.size != o->size || (o->etag[0] != '\0' && strcmp(a->head.etag, o->etag) != 0))
    return fault_set(why, "changed", "%.200s changed while it was fetched", o->shown);
  if (a->head.range.first != a->off || a->head.range.last != a->off + a->len - 1)
    return fault_set(why, "bad_answer", "%.200s: other bytes than those asked for", o->shown);
  return true;
}

static bool other_length(const struct answer *a, const char *code, const char *what)
{
  struct fault *why = &a->job->fetch->why;
  if (a->head.encoding[0] != '\0')
    return fault_set(why, "bad_answer", "%.200s: the origin encodes what it sends (%s)", a->origin->shown,
                     a->head.encoding);
  return fault_set(why, code, "%.200s: %s bytes than those asked for", a->origin->shown, what);
}

/* The digest of each block, as its bytes come in. */
static void hash(const struct job *j, struct progress *at, const uint8_t *p, size_t n)
{
  struct fetch *f = j->fetch;
  while (n > 0) {
    uint64_t in = at->got % f->block, left = j->len - at->got, room = f->block - in;
    size_t some = n < room ? n : (size_t)room;
    if (in == 0)
      blake3_hasher_init(&at->hash);
    blake3_hasher_update(&at->hash, p, some);
    if (some == room || some == left)
      blake3_hasher_finalize(&at->hash, f->digest[at->got / f->block], DIGEST_LEN);
    at->got += some;
    p += some;
    n -= some;
  }
}

/* The job's next bytes: into the file and the digest. 0 or an errno. */
static int take(const struct job *j, struct progress *at, const uint8_t *p, size_t n)
{
  for (size_t done = 0; done < n;) {
    ssize_t put = pwrite(j->file->fd, p + done, n - done, (off_t)(j->off + at->got + done));
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0)
      return put < 0 ? errno : ENOSPC;
    done += (size_t)put;
  }
  hash(j, at, p, n);
  return 0;
}

static size_t on_data(char *p, size_t one, size_t n, void *arg)
{
  struct answer *a = arg;
  struct job *j = a->job;
  n *= one;
  if (a->came == 0 && !expected(a)) {
    a->refused = j->fetch->why.code[0] != '\0';
    answer_keep(&a->error, p, n);
    return a->refused || a->error.n == sizeof a->error.text ? 0 : n; /* nobody reads more of it */
  }
  if (n > a->len - a->came) { /* a probe's, too: it would read what comes for as long as it is waited for */
    a->refused = !other_length(a, "bad_answer", "more");
    return 0;
  }
  a->came += n;
  a->write_error = j->fetch->probe != NULL ? 0 : take(j, &a->at, (const uint8_t *)p, n);
  return a->write_error == 0 ? n : 0;
}

/* The agent stops, or nobody needs what is fetched any more. */
static bool stops(const int *stopping, const struct fetch *f)
{
  return __atomic_load_n(stopping, __ATOMIC_RELAXED) != 0 || (f->objects != NULL && objects_ended(f->objects));
}

static int on_progress(void *arg, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up)
{
  const struct answer *a = arg;
  (void)total, (void)now, (void)up_total, (void)up;
  return stops(a->stopping, a->job->fetch);
}

/* ---- one try ---- */

static CURLcode dress(CURL *c, void *ssl_ctx, void *site)
{
  (void)c;
  return tls_dress(site, ssl_ctx, "controller") ? CURLE_OK : CURLE_SSL_CERTPROBLEM;
}

enum verdict { GOOD, AGAIN, BAD, STOPPED };

/* It is about who asks, not about the object. S3 says so with 400 too (another region, an old token), versitygw with 404. */
static bool refuses(const struct origin *o, long status, const char *said)
{
  bool s3 = o->sigv4 != NULL && said[0] != '\0' && strncmp(said, "NoSuch", 6) != 0;
  return status == 401 || status == 403 || (s3 && (status == 400 || status == 404));
}

/* Text of what this host proves itself with, which an origin that gives it back must not bring into a message. */
static bool secret(const struct answer *a, const char *said)
{
  const char *hidden[] = {a->origin->user, a->origin->bearer, a->origin->login, a->token};
  for (unsigned i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
    if (hidden[i] != NULL && strstr(hidden[i], said) != NULL)
      return true;
  return false;
}

static enum verdict judge_status(struct answer *a, long status)
{
  struct fetch *f = a->job->fetch;
  const char *what = a->origin->shown;
  char said[ANSWER_REASON_MAX] = "";
  if (answer_reason(&a->error, said) && secret(a, said))
    said[0] = '\0';
  const char *gap = said[0] == '\0' ? "" : " ";
  if (refuses(a->origin, status, said)) {
    fault_set(&f->why, "origin_denied", "%.200s: the origin refuses (%ld%s%s): look at %s", what, status, gap, said,
              strcmp(said, "RequestTimeTooSkewed") == 0 ? "this host's clock" : "its entry in --origins");
    return BAD;
  }
  switch (status) {
  case 206:
    return GOOD;
  case 200: /* of an empty object there is no part; of another one on_data has said what is wrong */
    if (f->probe != NULL && a->came == 0) {
      a->head.range = (struct content_range){0};
      return GOOD;
    }
    fault_set(&f->why, "changed", "%.200s is empty now", what);
    return BAD;
  case 404:
  case 410:
    fault_set(&f->why, "not_found", "%.200s: there is no such object (%ld%s%s)", what, status, gap, said);
    return BAD;
  case 412:
    fault_set(&f->why, "changed", "%.200s changed while it was fetched", what);
    return BAD;
  case 416:
    if (f->probe != NULL &&
        (a->head.has_range ? !a->head.range.ranged && a->head.range.size == 0 : strcmp(said, "InvalidRange") == 0)) {
      a->head.range = (struct content_range){0};
      return GOOD; /* an empty object has no first byte; S3 says no more of it */
    }
    fault_set(&f->why, "changed", "%.200s is shorter than it was (416)", what);
    return BAD;
  case 408:
  case 425:
  case 429:
  case 503:
    fault_set(&f->why, "throttled", "%.200s: the origin has no time (%ld%s%s)", what, status, gap, said);
    return AGAIN;
  default:
    fault_set(&f->why, status >= 500 ? "origin_failed" : "bad_answer", "%.200s: the origin answers %ld%s%s", what,
              status, gap, said);
    return status >= 500 ? AGAIN : BAD;
  }
}

/* The host that redirects have led to, and no more of it: what follows may be a signature. */
static bool led(const struct answer *a, char host[128])
{
  long times = 0;
  char *url = NULL, *found = NULL;
  CURLU *u = NULL;
  host[0] = '\0';
  if (curl_easy_getinfo(a->curl, CURLINFO_REDIRECT_COUNT, &times) == CURLE_OK && times > 0 &&
      curl_easy_getinfo(a->curl, CURLINFO_EFFECTIVE_URL, &url) == CURLE_OK && url != NULL && (u = curl_url()) != NULL &&
      curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK && curl_url_get(u, CURLUPART_HOST, &found, 0) == CURLUE_OK)
    snprintf(host, 128, "%s", found);
  curl_free(found);
  curl_url_cleanup(u);
  return host[0] != '\0';
}

static enum verdict judge(struct answer *a, CURLcode rc)
{
  struct fetch *f = a->job->fetch;
  const char *what = a->origin->shown, *said = curl_easy_strerror(rc), *more;
  char host[128];
  long status = 0;
  curl_easy_getinfo(a->curl, CURLINFO_RESPONSE_CODE, &status);
  if (a->write_error != 0) {
    fault_set(&f->why, a->write_error == ENOSPC || a->write_error == EDQUOT ? "disk_full" : "io", "%.200s: %s", what,
              strerror(a->write_error));
    return BAD;
  }
  if (a->refused)
    return BAD;
  if (rc == CURLE_WRITE_ERROR && a->error.n == sizeof a->error.text)
    rc = CURLE_OK;
  if (rc == CURLE_RECV_ERROR && status != 0)
    rc = CURLE_PARTIAL_FILE;
  switch (rc) {
  case CURLE_OK:
    break;
  case CURLE_ABORTED_BY_CALLBACK:
    return STOPPED;
  case CURLE_SSL_CACERT_BADFILE:
    fault_set(&f->why, "certificate",
              "%.200s: `ca` of its entry in --origins is no file of certificates that this agent can read", what);
    return BAD;
  case CURLE_PEER_FAILED_VERIFICATION:
    fault_set(&f->why, "certificate",
              "%.200s: the origin's certificate is not that of its name and authority: "
              "`ca` of its entry in --origins names another one",
              what);
    return BAD;
  case CURLE_TOO_MANY_REDIRECTS:
    fault_set(&f->why, "bad_answer", "%.200s: the origin redirects more than %d times", what, REDIRECTS);
    return BAD;
  case CURLE_UNSUPPORTED_PROTOCOL:
    if (strstr(a->words, "HTTP/0.9") != NULL) { /* it has no head: an alert of TLS looks like that */
      fault_set(&f->why, "bad_answer", "%.200s: what comes back is no HTTP%s", what, IS_HTTPS);
      return BAD;
    }
    fault_set(&f->why, "bad_answer", "%.200s: the origin redirects to what is not https%s", what,
              strncmp(a->origin->url, "https:", 6) == 0 ? "" : " or http");
    return BAD;
  case CURLE_URL_MALFORMAT:
    fault_set(&f->why, "bad_answer", "%.200s: that is no URL, or the origin redirects to none", what);
    return BAD;
  case CURLE_OPERATION_TIMEDOUT:
    fault_set(&f->why, "stalled", "%.200s: the origin stands still", what);
    return AGAIN;
  case CURLE_PARTIAL_FILE:
    fault_set(&f->why, "truncated", "%.200s: the origin's answer breaks off", what);
    return AGAIN;
  default:
    if (rc == CURLE_SSL_CONNECT_ERROR && strstr(a->words, "wrong version number") != NULL)
      said = "it does not speak TLS there: is http:// meant, here and in --origins?";
    else if ((rc == CURLE_RECV_ERROR || rc == CURLE_GOT_NOTHING) && status == 0 &&
             strncmp(a->origin->url, "http:", 5) == 0)
      said = "the connection ends without an answer" IS_HTTPS;
    more = led(a, host)               ? ", where it redirects to: "
           : a->origin->sigv4 != NULL ? ": look at `endpoint` of its entry"
                                      : "";
    fault_set(&f->why, "origin_unreachable", "%.200s: %s%s%.100s", what, said, more, host);
    return AGAIN;
  }
  if (status == 206 && !expected(a)) /* without a body nobody has looked */
    return BAD;
  enum verdict v = judge_status(a, status);
  if (v != GOOD || f->probe != NULL || a->came == a->len)
    return v;
  other_length(a, "truncated", "fewer");
  a->came = 0; /* what is whole and too short may be anything */
  return a->head.encoding[0] != '\0' ? BAD : AGAIN;
}

static enum verdict attempt(CURL *c, struct answer *a)
{
  struct job *j = a->job;
  struct origin *o = a->origin;
  char range[48], match[ORIGIN_ETAG_MAX + 16];
  struct curl_slist *headers = NULL;
  char *token = token_of(o);
  a->token = token;
  curl_easy_reset(c); /* its connections stay */
  snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, a->off, a->off + a->len - 1);
  if (j->fetch->probe == NULL && o->etag[0] == '"') { /* a weak one cannot be asked for; it is compared */
    snprintf(match, sizeof match, "If-Match: %s", o->etag);
    headers = curl_slist_append(headers, match);
  }
  if (o->sigv4 != NULL) /* of no body; S3 wants it said, and libcurl signs it */
    headers = curl_slist_append(headers, "x-amz-content-sha256: " SHA256_OF_NOTHING);
  else /* one that signs what it is told might not find there what a proxy has made of it */
    headers = curl_slist_append(headers, "Accept-Encoding: identity");
  curl_easy_setopt(c, CURLOPT_URL, o->url);
  curl_easy_setopt(c, CURLOPT_RANGE, range);
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(c, CURLOPT_USERAGENT, "datacast");
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "https,http");
  curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, strncmp(o->url, "https:", 6) == 0 ? "https" : "https,http");
  curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(c, CURLOPT_MAXREDIRS, (long)REDIRECTS);
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, (long)STALL_BYTES);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)STALL_S);
  if (j->fetch->probe != NULL)
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)PATIENCE_MS);
  if (o->sigv4 != NULL) {
    curl_easy_setopt(c, CURLOPT_AWS_SIGV4, o->sigv4);
    curl_easy_setopt(c, CURLOPT_USERPWD, o->user);
  } else if (o->bearer != NULL || token != NULL) { /* libcurl takes it to no other host */
    curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
    curl_easy_setopt(c, CURLOPT_XOAUTH2_BEARER, token != NULL ? token : o->bearer);
  }
  if (o->site != NULL) {
    curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, 0L); /* it is the role that counts, as in signalling */
    curl_easy_setopt(c, CURLOPT_CAINFO, NULL);
    curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
    curl_easy_setopt(c, CURLOPT_SSL_SESSIONID_CACHE, 0L);
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(c, CURLOPT_SSL_CTX_FUNCTION, dress);
    curl_easy_setopt(c, CURLOPT_SSL_CTX_DATA, (void *)(uintptr_t)o->site);
  }
  if (o->ca != NULL)
    curl_easy_setopt(c, CURLOPT_CAINFO, o->ca);
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, a->words);
  curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(c, CURLOPT_HEADERDATA, a);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, a);
  curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(c, CURLOPT_XFERINFODATA, a);
  curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
  j->fetch->why.code[0] = '\0';
  enum verdict v = judge(a, curl_easy_perform(c));
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, NULL);
  curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &a->status);
  curl_slist_free_all(headers);
  if (token != NULL)
    explicit_bzero(token, strlen(token));
  free(token);
  a->token = NULL;
  return v;
}

/* False when it stops meanwhile. */
static bool rest(const int *stopping, const struct fetch *f, long ms)
{
  for (; ms > 0; ms -= 20) {
    if (stops(stopping, f))
      return false;
    struct timespec t = {0, 20 * 1000 * 1000};
    (void)nanosleep(&t, NULL);
  }
  return true;
}

/* Each thread keeps its connections from one block to the next. */
static __thread CURL *handle;

static void note_wait(struct fetch *f)
{
  curl_off_t us = 0;
  if (curl_easy_getinfo(handle, CURLINFO_STARTTRANSFER_TIME_T, &us) != CURLE_OK || us <= 0)
    return;
  uint64_t ns = (uint64_t)us * 1000;
  f->wait_ns = f->wait_ns == 0 || ns < f->wait_ns ? ns : f->wait_ns;
}

/* Milliseconds until the next try; -1: there is none, with why. A clock's nanoseconds are chance enough. */
static long next_try(struct again *again, struct job *j, const struct answer *a, uint64_t now)
{
  struct fetch *f = j->fetch;
  curl_off_t asked_s = 0;
  if (strcmp(f->why.code, "throttled") != 0)
    return again_failed(again, f->probe != NULL ? 2 : TRIES, now);
  if (curl_easy_getinfo(a->curl, CURLINFO_RETRY_AFTER, &asked_s) != CURLE_OK || asked_s < 0)
    asked_s = 0;
  f->later_s = (uint64_t)asked_s;
  if (f->probe != NULL)
    return -1; /* somebody waits for the answer: who asked asks again */
  long ms = again_refused(again, now, objects_last(f->objects), objects_patience(f->objects), (uint64_t)asked_s, now);
  if (ms < 0) {
    const struct fault told = f->why;
    char asked[48] = "";
    if (asked_s > 0)
      snprintf(asked, sizeof asked, ", for %ld s as it says", (long)asked_s);
    fault_set(&f->why, told.code, "%.640s%s: longer than the group's lease_ms, %" PRIu64, told.text, asked,
              objects_patience(f->objects) / DC_MS);
  }
  return ms;
}

/* [off, off + len) of this origin, with retries; `at`: how far the job is. 0, EINTR, or -1 with why. */
static int tries(const int *stopping, struct job *j, struct origin *o, uint64_t off, uint64_t len, struct progress *at,
                 struct again *again, bool *waits)
{
  struct fetch *f = j->fetch;
  bool asked_token = false;
  for (;;) {
    uint64_t began = loop_clock();
    struct answer a = {.job = j, .stopping = stopping, .curl = handle, .origin = o, .off = off, .len = len, .at = *at};
    enum verdict v = attempt(handle, &a);
    uint64_t now = loop_clock();
    if (a.came > 0 && f->objects != NULL)
      objects_came(f->objects, now);
    switch (v) {
    case GOOD:
      f->took_ns += now - began;
      note_wait(f);
      f->size = a.head.range.size;
      memcpy(f->etag, a.head.etag, sizeof a.head.etag);
      *at = a.at;
      return 0;
    case STOPPED:
      return EINTR;
    case BAD:
      if (a.status != 401 || a.head.challenge[0] == '\0' || asked_token || o->sigv4 != NULL || o->bearer != NULL)
        return -1;
      asked_token = token_ask(handle, o, a.head.challenge, &f->why); /* one that is refused at once is no good */
      if (asked_token)
        continue;
      if (strcmp(f->why.code, "throttled") != 0)
        return -1;
      break;
    case AGAIN:
      if (f->probe == NULL && a.came > 0 && a.head.encoding[0] == '\0') {
        *at = a.at; /* what it has brought is not asked for again */
        again_came(again, a.came, now - began, STALL_BYTES);
        f->took_ns += now - began;
        off += a.came;
        len -= a.came;
      }
      if (len == 0)
        return 0;
    }
    if (f->probe != NULL && now - began > SOON_S * DC_SEC)
      return -1;
    long ms = next_try(again, j, &a, now);
    if (ms < 0)
      return -1;
    if (f->objects != NULL && !objects_waits(f->objects, &f->why, !*waits))
      return EAGAIN;
    *waits = f->objects != NULL;
    if (!rest(stopping, f, ms))
      return EINTR;
  }
}

static int ask(const int *stopping, struct job *j, struct origin *o, uint64_t off, uint64_t len, struct progress *at)
{
  struct again again = {0};
  bool waits = false;
  int error = tries(stopping, j, o, off, len, at, &again, &waits);
  if (waits)
    objects_goes_on(j->fetch->objects);
  return error;
}

/* What no origin has: a manifest, small files that came with the order, the gaps between files. */
static int fill(struct job *j, const struct object_run *run, struct progress *at)
{
  static const uint8_t zeros[4096];
  for (uint64_t done = 0; done < run->len;) {
    uint64_t left = run->len - done;
    size_t n = run->bytes == NULL && left > sizeof zeros ? sizeof zeros : (size_t)left;
    int error = take(j, at, run->bytes == NULL ? zeros : run->bytes + done, n);
    if (error != 0) {
      fault_set(&j->fetch->why, error == ENOSPC || error == EDQUOT ? "disk_full" : "io", "%s", strerror(error));
      return -1;
    }
    done += n;
  }
  return 0;
}

int fetch_run(const int *stopping, struct job *j)
{
  if (handle == NULL)
    handle = curl_easy_init();
  if (handle == NULL) {
    fault_set(&j->fetch->why, "io", "out of memory");
    return -1;
  }
  struct progress at = {.got = 0};
  if (j->fetch->probe != NULL)
    return ask(stopping, j, j->fetch->probe, 0, 1, &at);
  int error = 0;
  while (error == 0 && at.got < j->len) {
    struct object_run run = objects_at(j->fetch->objects, j->off + at.got, j->len - at.got);
    error = run.origin == NULL ? fill(j, &run, &at) : ask(stopping, j, run.origin, run.off, run.len, &at);
  }
  return error;
}

void fetch_thread_ends(void)
{
  if (handle != NULL)
    curl_easy_cleanup(handle);
  handle = NULL;
}
