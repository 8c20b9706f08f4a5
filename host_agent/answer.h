/* What an origin says: the lines of its answer's head, and the reason it gives for an error. Pure; the bytes are anybody's. */
#ifndef AGENT_ANSWER_H
#define AGENT_ANSWER_H

#include <stddef.h>

#include "origin.h"

enum { ANSWER_REASON_MAX = 64, ANSWER_CHALLENGE_MAX = 1024, ANSWER_PART_MAX = 512, ANSWER_BODY_MAX = 1024 };

struct answer_head {
  struct content_range range;
  bool has_range;                       /* a proper one */
  char etag[ORIGIN_ETAG_MAX];           /* "": none, a longer one, or one with other letters than ASCII's */
  char encoding[16];                    /* of Content-Encoding; "": none, identity, or a longer one */
  char challenge[ANSWER_CHALLENGE_MAX]; /* of WWW-Authenticate; "": none */
};

/* The next line, with or without its end. A status line begins anew: a redirect's head is nobody's. */
void answer_line(struct answer_head *a, const char *line, size_t n) __attribute__((nonnull));

/* Bearer realm="…",service="…",scope="…", as registries send it. False: another kind, or malformed. */
struct challenge {
  char realm[ANSWER_PART_MAX], service[ANSWER_PART_MAX], scope[ANSWER_PART_MAX]; /* "": not given */
};
bool answer_challenge(const char *value, struct challenge *to) __attribute__((nonnull));

/* The beginning of an error's text. */
struct answer_body {
  char text[ANSWER_BODY_MAX];
  size_t n;
};
void answer_keep(struct answer_body *b, const char *p, size_t n) __attribute__((nonnull));
/* The name of the error, as S3 (<Code>NAME</Code>) and registries ("code":"NAME") give it: letters, digits and _ only, so
 * that nothing else of the text, which may repeat a key, is ever told. False: there is none. */
bool answer_reason(const struct answer_body *b, char to[ANSWER_REASON_MAX]) __attribute__((nonnull));

#endif
