#include "fetch.h"

#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "answer.h"
#include "token.h"

enum {
  TRIES = 6,
  WAIT_MS = 200, /* before the second try; twice as long before each further one */
  RETRY_AFTER_MAX_MS = 30000,
  CONNECT_MS = 10000,
  STALL_BYTES = 1024, /* slower than this a second for STALL_S is standing still */
  STALL_S = 10,
  REDIRECTS = 5,
  PATIENCE_MS = 15000 /* of a probe: somebody waits for its answer */
};

#define SHA256_OF_NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* An answer as it comes in. */
struct answer {
  struct job *job;
  const int *stopping;
  CURL *curl;
  struct answer_head head;
  struct answer_body error;
  long status;
  bool refused; /* `why` says what is wrong with it */
  uint64_t got;
  int write_error;
  blake3_hasher hash;
};

bool fetch_init(struct fault *why)
{
  return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK || fault_set(why, "io", "libcurl does not start");
}

struct job *fetch_job(struct origin *o, struct file *file, uint64_t off, uint64_t len, uint64_t block)
{
  struct job *j = job_new(JOB_FETCH);
  if (j == NULL)
    return NULL;
  j->fetch = calloc(1, sizeof *j->fetch);
  if (j->fetch == NULL) {
    free(j);
    return NULL;
  }
  j->fetch->origin = origin_ref(o);
  j->fetch->probe = file == NULL;
  j->fetch->block = block;
  j->file = file == NULL ? NULL : file_ref(file);
  j->off = off;
  j->len = len;
  return j;
}

void fetch_free(struct fetch *f)
{
  if (f == NULL)
    return;
  origin_unref(f->origin);
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
  const struct job *j = a->job;
  const struct origin *o = j->fetch->origin;
  struct fault *why = &j->fetch->why;
  long status = 0;
  curl_easy_getinfo(a->curl, CURLINFO_RESPONSE_CODE, &status);
  if (status == 200)
    return fault_set(why, "no_ranges", "%.200s: the origin does not answer range requests", o->shown);
  if (status != 206)
    return false; /* judged by its status */
  if (!a->head.has_range || !a->head.range.ranged)
    return fault_set(why, "bad_answer", "%.200s: a part without a proper Content-Range", o->shown);
  if (j->fetch->probe)
    return true;
  if (a->head.range.size != o->size || (o->etag[0] != '\0' && strcmp(a->head.etag, o->etag) != 0))
    return fault_set(why, "changed", "%.200s changed while it was fetched", o->shown);
  if (a->head.range.first != j->off || a->head.range.last != j->off + j->len - 1)
    return fault_set(why, "bad_answer", "%.200s: other bytes than those asked for", o->shown);
  return true;
}

/* The digest of each block, as its bytes come in. */
static void hash(struct answer *a, const uint8_t *p, size_t n)
{
  struct fetch *f = a->job->fetch;
  while (n > 0) {
    uint64_t in = a->got % f->block, left = a->job->len - a->got, room = f->block - in;
    size_t some = n < room ? n : (size_t)room;
    if (in == 0)
      blake3_hasher_init(&a->hash);
    blake3_hasher_update(&a->hash, p, some);
    if (some == room || some == left)
      blake3_hasher_finalize(&a->hash, f->digest[a->got / f->block], DIGEST_LEN);
    a->got += some;
    p += some;
    n -= some;
  }
}

static size_t on_data(char *p, size_t one, size_t n, void *arg)
{
  struct answer *a = arg;
  struct job *j = a->job;
  n *= one;
  if (a->got == 0 && !expected(a)) {
    a->refused = j->fetch->why.code[0] != '\0';
    answer_keep(&a->error, p, n);
    return a->refused ? 0 : n;
  }
  if (j->fetch->probe) {
    a->got += n;
    return n;
  }
  if (n > j->len - a->got) {
    a->refused = true;
    fault_set(&j->fetch->why, "bad_answer", "%.200s: more bytes than those asked for", j->fetch->origin->shown);
    return 0;
  }
  for (size_t done = 0; done < n;) {
    ssize_t put = pwrite(j->file->fd, p + done, n - done, (off_t)(j->off + a->got + done));
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0) {
      a->write_error = put < 0 ? errno : ENOSPC;
      return 0;
    }
    done += (size_t)put;
  }
  hash(a, (const uint8_t *)p, n);
  return n;
}

static int on_progress(void *arg, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up)
{
  (void)total, (void)now, (void)up_total, (void)up;
  return __atomic_load_n(((struct answer *)arg)->stopping, __ATOMIC_RELAXED);
}

/* ---- one try ---- */

enum verdict { GOOD, AGAIN, BAD, STOPPED };

/* It is about who asks, not about the object. S3 says so with 400 too (another region, an old token), versitygw with 404. */
static bool refuses(const struct origin *o, long status, const char *said)
{
  bool s3 = o->sigv4 != NULL && said[0] != '\0' && strncmp(said, "NoSuch", 6) != 0;
  return status == 401 || status == 403 || (s3 && (status == 400 || status == 404));
}

static enum verdict judge_status(struct answer *a, long status)
{
  struct fetch *f = a->job->fetch;
  const char *what = f->origin->shown;
  char said[ANSWER_REASON_MAX] = "";
  (void)answer_reason(&a->error, said);
  const char *gap = said[0] == '\0' ? "" : " ";
  if (refuses(f->origin, status, said)) {
    fault_set(&f->why, "origin_denied", "%.200s: the origin refuses (%ld%s%s): look at its entry in --origins", what,
              status, gap, said);
    return BAD;
  }
  switch (status) {
  case 206:
    return GOOD;
  case 200: /* of an empty object there is no part; of another one on_data has said what is wrong */
    if (f->probe && a->got == 0) {
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
    if (f->probe && a->head.has_range && !a->head.range.ranged && a->head.range.size == 0)
      return GOOD; /* an empty object has no first byte */
    fault_set(&f->why, "changed", "%.200s is shorter than it was (416)", what);
    return BAD;
  case 408:
  case 425:
  case 429:
    fault_set(&f->why, "throttled", "%.200s: the origin has no time (%ld%s%s)", what, status, gap, said);
    return AGAIN;
  default:
    fault_set(&f->why, status >= 500 ? "origin_failed" : "bad_answer", "%.200s: the origin answers %ld%s%s", what,
              status, gap, said);
    return status >= 500 ? AGAIN : BAD;
  }
}

static enum verdict judge(struct answer *a, CURLcode rc)
{
  struct fetch *f = a->job->fetch;
  const char *what = f->origin->shown, *said = curl_easy_strerror(rc);
  long status = 0;
  curl_easy_getinfo(a->curl, CURLINFO_RESPONSE_CODE, &status);
  if (a->write_error != 0) {
    fault_set(&f->why, a->write_error == ENOSPC || a->write_error == EDQUOT ? "disk_full" : "io", "%.200s: %s", what,
              strerror(a->write_error));
    return BAD;
  }
  if (a->refused)
    return BAD;
  switch (rc) {
  case CURLE_OK:
    break;
  case CURLE_ABORTED_BY_CALLBACK:
    return STOPPED;
  case CURLE_PEER_FAILED_VERIFICATION:
  case CURLE_SSL_CACERT_BADFILE:
    fault_set(&f->why, "certificate", "%.200s: the origin's certificate is not that of its name and authority", what);
    return BAD;
  case CURLE_TOO_MANY_REDIRECTS:
  case CURLE_UNSUPPORTED_PROTOCOL:
  case CURLE_URL_MALFORMAT:
    fault_set(&f->why, "bad_answer", "%.200s: %s", what, said);
    return BAD;
  case CURLE_OPERATION_TIMEDOUT:
    fault_set(&f->why, "stalled", "%.200s: the origin stands still", what);
    return AGAIN;
  case CURLE_PARTIAL_FILE:
    fault_set(&f->why, "truncated", "%.200s: the origin's answer breaks off", what);
    return AGAIN;
  default:
    fault_set(&f->why, "origin_unreachable", "%.200s: %s", what, said);
    return AGAIN;
  }
  if (status == 206 && !expected(a)) /* without a body nobody has looked */
    return BAD;
  enum verdict v = judge_status(a, status);
  if (v == GOOD && !f->probe && a->got != a->job->len) {
    fault_set(&f->why, "truncated", "%.200s: the origin's answer breaks off", what);
    return AGAIN;
  }
  return v;
}

static enum verdict attempt(CURL *c, struct answer *a)
{
  struct job *j = a->job;
  struct origin *o = j->fetch->origin;
  char range[48], match[ORIGIN_ETAG_MAX + 16];
  struct curl_slist *headers = NULL;
  char *token = token_of(o);
  curl_easy_reset(c); /* its connections stay */
  snprintf(range, sizeof range, "%" PRIu64 "-%" PRIu64, j->fetch->probe ? 0 : j->off,
           j->fetch->probe ? 0 : j->off + j->len - 1);
  if (!j->fetch->probe && o->etag[0] == '"') { /* a weak one cannot be asked for; it is compared */
    snprintf(match, sizeof match, "If-Match: %s", o->etag);
    headers = curl_slist_append(headers, match);
  }
  if (o->sigv4 != NULL) /* of no body; S3 wants it said, and libcurl signs it */
    headers = curl_slist_append(headers, "x-amz-content-sha256: " SHA256_OF_NOTHING);
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
  if (j->fetch->probe)
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)PATIENCE_MS);
  if (o->sigv4 != NULL) {
    curl_easy_setopt(c, CURLOPT_AWS_SIGV4, o->sigv4);
    curl_easy_setopt(c, CURLOPT_USERPWD, o->user);
  } else if (o->bearer != NULL || token != NULL) { /* libcurl takes it to no other host */
    curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
    curl_easy_setopt(c, CURLOPT_XOAUTH2_BEARER, token != NULL ? token : o->bearer);
  }
  if (o->ca != NULL)
    curl_easy_setopt(c, CURLOPT_CAINFO, o->ca);
  curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(c, CURLOPT_HEADERDATA, a);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, a);
  curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(c, CURLOPT_XFERINFODATA, a);
  curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
  j->fetch->why.code[0] = '\0';
  enum verdict v = judge(a, curl_easy_perform(c));
  curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &a->status);
  curl_slist_free_all(headers);
  if (token != NULL)
    explicit_bzero(token, strlen(token));
  free(token);
  return v;
}

/* False when the agent stops meanwhile. */
static bool rest(const int *stopping, long ms)
{
  for (; ms > 0; ms -= 20) {
    if (__atomic_load_n(stopping, __ATOMIC_RELAXED))
      return false;
    struct timespec t = {0, 20 * 1000 * 1000};
    (void)nanosleep(&t, NULL);
  }
  return true;
}

/* Each thread keeps its connections from one block to the next. */
static __thread CURL *handle;

int fetch_run(const int *stopping, struct job *j)
{
  if (handle == NULL)
    handle = curl_easy_init();
  if (handle == NULL) {
    fault_set(&j->fetch->why, "io", "out of memory");
    return -1;
  }
  bool asked_token = false;
  for (int k = 0;; k++) {
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    struct answer a = {.job = j, .stopping = stopping, .curl = handle};
    switch (attempt(handle, &a)) {
    case GOOD:
      clock_gettime(CLOCK_MONOTONIC, &ended);
      j->fetch->took_ns = (uint64_t)((ended.tv_sec - began.tv_sec) * 1000000000L + ended.tv_nsec - began.tv_nsec);
      j->fetch->size = a.head.range.size;
      memcpy(j->fetch->etag, a.head.etag, sizeof a.head.etag);
      return 0;
    case STOPPED:
      return EINTR;
    case BAD:
      if (a.status != 401 || a.head.challenge[0] == '\0' || asked_token || j->fetch->origin->sigv4 != NULL ||
          j->fetch->origin->bearer != NULL)
        return -1;
      if (!token_ask(handle, j->fetch->origin, a.head.challenge, &j->fetch->why))
        return -1;
      asked_token = true; /* one that is refused at once is no good */
      k--;
      continue;
    case AGAIN:
      break;
    }
    if (k + 1 == (j->fetch->probe ? 2 : TRIES))
      return -1;
    long ms = (long)WAIT_MS << k, asked = a.head.retry_after_s * 1000;
    if (a.head.retry_after_s > 0)
      ms = asked < RETRY_AFTER_MAX_MS ? asked : RETRY_AFTER_MAX_MS;
    if (!rest(stopping, ms))
      return EINTR;
  }
}

void fetch_thread_ends(void)
{
  if (handle != NULL)
    curl_easy_cleanup(handle);
  handle = NULL;
}
