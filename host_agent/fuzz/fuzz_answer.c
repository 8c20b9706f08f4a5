/* libFuzzer: an origin's answer, its head line by line, then the text of an error in pieces. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"

#define MUST(x) ((x) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x), abort()))

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
  static struct answer_head head;
  static struct answer_body body;
  char reason[ANSWER_REASON_MAX];
  const char *at = (const char *)p, *end = at + len;
  memset(&head, 0, sizeof head);
  body.n = 0;
  while (at < end) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    stop = stop == NULL ? end : stop + 1;
    char *line = malloc((size_t)(stop - at)); /* of its own: what is read behind it is seen */
    MUST(line != NULL);
    memcpy(line, at, (size_t)(stop - at));
    answer_line(&head, line, (size_t)(stop - at));
    free(line);
    MUST(memchr(head.etag, '\0', sizeof head.etag) != NULL);
    MUST(!head.has_range || !head.range.ranged ||
         (head.range.first <= head.range.last && head.range.last < head.range.size));
    struct challenge to;
    if (answer_challenge(head.challenge, &to))
      MUST(memchr(to.realm, '\0', sizeof to.realm) != NULL && memchr(to.service, '\0', sizeof to.service) != NULL &&
           memchr(to.scope, '\0', sizeof to.scope) != NULL);
    bool last = stop - at <= 2;
    at = stop;
    if (last)
      break;
  }
  while (at < end) {
    size_t n = 1 + (uint8_t)*at % 200u, left = (size_t)(end - at);
    n = n < left ? n : left;
    answer_keep(&body, at, n);
    at += n;
  }
  if (answer_reason(&body, reason)) {
    MUST(reason[0] != '\0');
    for (const char *c = reason; *c != '\0'; c++)
      MUST(isalnum((unsigned char)*c) || *c == '_');
  }
  return 0;
}
