#include "token.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"

enum { PATIENCE_MS = 10000, TEXT_MAX = 64 << 10, TOKEN_MAX = 16 << 10 };

struct text {
  char *bytes;
  size_t n;
};

static size_t on_text(char *p, size_t one, size_t n, void *arg)
{
  struct text *t = arg;
  n *= one;
  if (n > TEXT_MAX - t->n)
    return 0;
  memcpy(t->bytes + t->n, p, n);
  t->n += n;
  return n;
}

/* {"token": …} or {"access_token": …}; it becomes a part of a header. */
static char *token_in(const struct text *t)
{
  json_t *o = json_loadb(t->bytes, t->n, 0, NULL);
  const char *s = json_string_value(json_object_get(o, "token"));
  s = s != NULL ? s : json_string_value(json_object_get(o, "access_token"));
  char *token = NULL;
  if (s != NULL && *s != '\0' && strlen(s) <= TOKEN_MAX) {
    const char *c = s;
    while (*c > ' ' && *c <= '~')
      c++;
    token = *c == '\0' ? strdup(s) : NULL;
  }
  json_decref(o);
  return token;
}

static char *place_of(CURL *c, const struct challenge *to)
{
  char *service = curl_easy_escape(c, to->service, 0), *scope = curl_easy_escape(c, to->scope, 0), *url = NULL;
  if (service == NULL || scope == NULL ||
      asprintf(&url, "%s%cservice=%s&scope=%s", to->realm, strchr(to->realm, '?') == NULL ? '?' : '&', service, scope) <
          0)
    url = NULL;
  curl_free(service);
  curl_free(scope);
  return url;
}

static void keep(struct origin *o, char *token)
{
  struct origin_token *t = o->token;
  pthread_mutex_lock(&t->lock);
  if (t->text != NULL)
    explicit_bzero(t->text, strlen(t->text));
  free(t->text);
  t->text = token;
  pthread_mutex_unlock(&t->lock);
}

char *token_of(struct origin *o)
{
  struct origin_token *t = o->token;
  pthread_mutex_lock(&t->lock);
  char *token = t->text == NULL ? NULL : strdup(t->text);
  pthread_mutex_unlock(&t->lock);
  return token;
}

static bool busy(CURL *c, CURLcode rc)
{
  long status = 0;
  curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
  return rc == CURLE_HTTP_RETURNED_ERROR && (status == 429 || status == 503);
}

bool token_ask(CURL *c, struct origin *o, const char *challenge, struct fault *why)
{
  struct challenge to;
  if (!answer_challenge(challenge, &to))
    return fault_set(why, "origin_denied", "%.200s: the origin refuses (401): look at its entry in --origins",
                     o->shown);
  bool secure = strncmp(to.realm, "https://", 8) == 0;
  if (!secure && (strncmp(to.realm, "http://", 7) != 0 || strncmp(o->url, "https://", 8) == 0))
    return fault_set(why, "origin_denied", "%.200s: tokens are to be had from %.100s, which is no https://", o->shown,
                     to.realm);
  bool known =
      origin_same_place(to.realm, o->url) || (o->token_from != NULL && origin_same_place(to.realm, o->token_from));
  if (o->login != NULL && !known)
    return fault_set(why, "origin_denied",
                     "%.200s: tokens are to be had from %.100s; token_from in its entry allows it", o->shown, to.realm);
  struct text t = {.bytes = malloc(TEXT_MAX)};
  char *url = place_of(c, &to);
  curl_easy_reset(c);
  curl_easy_setopt(c, CURLOPT_URL, url);
  curl_easy_setopt(c, CURLOPT_USERAGENT, "datacast");
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, secure ? "https" : "https,http");
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
  curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)PATIENCE_MS);
  curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_text);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, &t);
  if (o->ca != NULL)
    curl_easy_setopt(c, CURLOPT_CAINFO, o->ca);
  if (o->login != NULL) {
    curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
    curl_easy_setopt(c, CURLOPT_USERPWD, o->login);
  }
  CURLcode rc = url == NULL || t.bytes == NULL ? CURLE_OUT_OF_MEMORY : curl_easy_perform(c);
  char *token = rc == CURLE_OK ? token_in(&t) : NULL;
  if (token != NULL)
    keep(o, token);
  else if (busy(c, rc))
    fault_set(why, "throttled", "%.200s: %.100s, which gives tokens, has no time", o->shown, to.realm);
  else
    fault_set(why, "origin_denied", "%.200s: no token from %.100s: %s", o->shown, to.realm,
              rc == CURLE_OK ? "the answer has none" : curl_easy_strerror(rc));
  if (t.bytes != NULL)
    explicit_bzero(t.bytes, t.n);
  free(t.bytes);
  free(url);
  return token != NULL;
}
