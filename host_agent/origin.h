/* An object that this host may fetch: where it is, how to ask for it, which state of it is meant.
 *
 * What may be fetched, and with which credentials, stands in a file on this host alone (--origins). Nothing of it is ever
 * told: not in an answer, an event or the log. */
#ifndef AGENT_ORIGIN_H
#define AGENT_ORIGIN_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "datapath/tls.h"

enum { ORIGIN_URL_MAX = 2048, ORIGIN_ETAG_MAX = 256 };

/* A registry's last token; of one object, or of all that lie in one folder. */
struct origin_token {
  int refs; /* atomic */
  pthread_mutex_t lock;
  char *text; /* under the lock; NULL: none yet */
};

/* Shared by the loop and the threads that fetch; once it is open only its token changes. */
struct origin {
  int refs;                   /* atomic */
  char *shown;                /* as the master names it */
  char *url;                  /* that is asked: https://… or http://… */
  char *user, *sigv4;         /* KEY:SECRET, "aws:amz:REGION:s3"; NULL: none */
  char *bearer, *ca;          /* a token; a file of authorities; NULL: none, the system's */
  const struct tls_ctx *site; /* of site://: this host's own certificate, shown to a controller and to nobody else */
  char *login;                /* NAME:PASSWORD for a registry's tokens; NULL: anybody's */
  char *token_from;           /* where `login` may go beside the origin itself; NULL: nowhere */
  struct origin_token *token;
  char etag[ORIGIN_ETAG_MAX]; /* "": any */
  uint64_t size;
};

/* What the file of --origins allows (NULL: there is none: nothing); NULL with *why. */
json_t *origin_allowed(const char *file, struct fault *why) __attribute__((nonnull(2)));
/* `url`: https://, http:// or s3://BUCKET/KEY, as `allowed`, or site://HOST:PORT/PATH, what this site's controller gets from
 * another site; `security`: this host's. NULL with *why. */
struct origin *origin_open(const char *url, const json_t *allowed, const struct security *security, struct fault *why)
    __attribute__((nonnull));
struct origin *origin_ref(struct origin *o) __attribute__((nonnull));
void origin_unref(struct origin *o);

/* `o`, which has asked for none yet, has the same as `other` from now on. */
void origin_share_token(struct origin *o, const struct origin *other) __attribute__((nonnull));

/* Do both differ behind their last slash only? */
bool origin_same_folder(const char *url, const char *other) __attribute__((nonnull));
/* Do both begin with the same scheme, host and port? */
bool origin_same_place(const char *url, const char *other) __attribute__((nonnull));

/* "bytes 0-99/1234" or "bytes * /1234" (without the blank), the whole of the header's value. False when malformed. A range
 * that was not given is [0, 0) with `ranged` false. */
struct content_range {
  uint64_t first, last, size;
  bool ranged;
};
bool origin_content_range(const char *text, struct content_range *to) __attribute__((nonnull));
/* Only letters that a line of a head may have: an ETag that is told becomes one. */
bool origin_printable(const char *s) __attribute__((nonnull));

#endif
