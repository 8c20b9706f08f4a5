/* TLS 1.3 for signalling, both sides authenticated.
 *
 * A process has one certificate of the fabric's own authority; its subject alternative name is a URI that says who it
 * is: datacast://ROLE/NAME, roles agent, switch, master, fabric-manager, controller (several of one role: the first
 * counts; the fabric manager lets a switch process speak for all). A session belongs to a nonblocking socket. */
#ifndef DATAPATH_TLS_H
#define DATAPATH_TLS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "datapath/log.h"

enum { TLS_IDENTITY_MAX = 128 };

struct tls_ctx;
struct tls;

/* What a process may do: TLS when ctx is set; plain TCP over the loopback interface, or anywhere when `insecure`. */
struct security {
  struct tls_ctx *ctx;
  bool insecure;
};

/* Whom we expect: "agent" or "master agent"; name NULL: any. Both must outlive the session. */
struct tls_expect {
  const char *roles, *name;
};

/* PEM files. NULL with *why; a certificate that is not `role`'s, or not `name`'s (NULL: any), is refused. */
struct tls_ctx *tls_open(const char *ca, const char *cert, const char *key, const char *role, const char *name,
                         struct fault *why) __attribute__((nonnull(1, 2, 3, 4, 6)));
void tls_close(struct tls_ctx *ctx); /* NULL is nothing */

/* May a plain connection go there, or a plain listener stand there? */
bool security_allows_plain(const struct security *s, const struct sockaddr_storage *a) __attribute__((nonnull));

/* What a library that makes its own connections (an SSL_CTX of OpenSSL's, of a client) needs to speak as this process, to
 * nobody but one of `roles`, which must outlive it. False: it cannot. */
bool tls_dress(const struct tls_ctx *ctx, void *ssl_ctx, const char *roles) __attribute__((nonnull));

enum tls_step { TLS_DONE, TLS_WANT_READ, TLS_WANT_WRITE, TLS_FAILED, TLS_STRANGER };

/* NULL without memory. */
struct tls *tls_new(struct tls_ctx *ctx, int fd, bool server, struct tls_expect expect) __attribute__((nonnull));
void tls_free(struct tls *t); /* says goodbye if it can; NULL is nothing */

/* A step of the handshake. TLS_FAILED with *why; TLS_STRANGER: the session stands, but the other side is not whom we
 * expect
 * (*why). */
enum tls_step tls_handshake(struct tls *t, struct fault *why) __attribute__((nonnull));
const char *tls_peer(const struct tls *t) __attribute__((nonnull)); /* "agent/00"; "" before */

/* As recv(2) and send(2); EPROTO: the session is broken. */
ssize_t tls_read(struct tls *t, void *p, size_t n) __attribute__((nonnull));
ssize_t tls_write(struct tls *t, const void *p, size_t n) __attribute__((nonnull));
bool tls_pending(const struct tls *t) __attribute__((nonnull));       /* bytes wait that no event will announce */
const char *tls_broken(const struct tls *t) __attribute__((nonnull)); /* after EPROTO, in words */

#endif
