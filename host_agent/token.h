/* A registry's token: what it sends those who come without one to, asked for and kept with the origin. */
#ifndef AGENT_TOKEN_H
#define AGENT_TOKEN_H

#include <curl/curl.h>

#include "origin.h"

/* Ask where `challenge` (of WWW-Authenticate) says. The name and password of the origin's entry go to the origin's own host and
 * to its `token_from` only. False with *why (origin_denied). */
bool token_ask(CURL *c, struct origin *o, const char *challenge, struct fault *why) __attribute__((nonnull));
/* The last one, to be freed; NULL: none. */
char *token_of(struct origin *o) __attribute__((nonnull));

#endif
