#include "datapath/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char scheme[] = "datacast://";

struct tls_ctx {
  SSL_CTX *ssl;
};

struct tls {
  SSL *ssl;
  bool server, standing;
  struct tls_expect expect;
  char peer[TLS_IDENTITY_MAX];
  char broken[160];
};

/* ---- who is it ---- */

/* "role/name" of a certificate, the first when it names several of one role; false when it names none, or several
 * roles. */
static bool identity_of(X509 *cert, char to[TLS_IDENTITY_MAX])
{
  GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
  size_t role = 0; /* its length with the slash */
  bool ok = true;
  for (int i = 0; ok && i < sk_GENERAL_NAME_num(names); i++) {
    const GENERAL_NAME *n = sk_GENERAL_NAME_value(names, i);
    if (n->type != GEN_URI)
      continue;
    const char *uri = (const char *)ASN1_STRING_get0_data(n->d.uniformResourceIdentifier);
    size_t len = (size_t)ASN1_STRING_length(n->d.uniformResourceIdentifier), head = sizeof scheme - 1;
    if (len <= head || strncmp(uri, scheme, head) != 0)
      continue;
    const char *who = uri + head, *slash = memchr(who, '/', len - head);
    size_t rest = len - head, at = slash == NULL ? 0 : (size_t)(slash - who) + 1;
    ok = at > 1 && at < rest && rest < TLS_IDENTITY_MAX && memchr(who, '\0', rest) == NULL &&
         memchr(who + at, '/', rest - at) == NULL && (role == 0 || (at == role && strncmp(who, to, role) == 0));
    if (ok && role == 0) {
      memcpy(to, who, rest);
      to[rest] = '\0';
      role = at;
    }
  }
  GENERAL_NAMES_free(names);
  return ok && role != 0;
}

/* Is `word` one of the words of `list`? */
static bool listed(const char *list, const char *word, size_t len)
{
  for (const char *p = list; *p != '\0';) {
    size_t n = strcspn(p, " ");
    if (n == len && strncmp(p, word, n) == 0)
      return true;
    p += n + (p[n] == ' ');
  }
  return false;
}

static bool expected(const struct tls_expect *e, const char *identity)
{
  const char *slash = strchr(identity, '/');
  return listed(e->roles, identity, (size_t)(slash - identity)) && (e->name == NULL || strcmp(e->name, slash + 1) == 0);
}

/* ---- certificates ---- */

static const char *openssl_words(void)
{
  const char *data = NULL, *text;
  int flags = 0;
  unsigned long code = ERR_peek_last_error_all(NULL, NULL, NULL, &data, &flags);
  text = ERR_reason_error_string(code);
  ERR_clear_error();
  return text == NULL ? "unknown error" : text;
}

static bool load(SSL_CTX *c, const char *ca, const char *cert, const char *key, struct fault *why)
{
  if (SSL_CTX_load_verify_file(c, ca) != 1)
    return fault_set(why, "tls", "%s holds no certificate of an authority: %s", ca, openssl_words());
  if (SSL_CTX_use_certificate_chain_file(c, cert) != 1)
    return fault_set(why, "tls", "%s holds no certificate: %s", cert, openssl_words());
  if (SSL_CTX_use_PrivateKey_file(c, key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(c) != 1)
    return fault_set(why, "tls", "%s is not the private key of %s: %s", key, cert, openssl_words());
  return true;
}

static bool own(SSL_CTX *c, const char *cert, const char *role, const char *name, struct fault *why)
{
  char identity[TLS_IDENTITY_MAX] = "";
  X509 *x = SSL_CTX_get0_certificate(c);
  struct tls_expect e = {role, name};
  if (!identity_of(x, identity))
    return fault_set(why, "tls", "%s names nobody: its subject alternative name must be the URI %s%s/NAME", cert,
                     scheme, role);
  if (!expected(&e, identity))
    return fault_set(why, "tls", "%s is the certificate of %s; this is %s/%s", cert, identity, role,
                     name == NULL ? "…" : name);
  if (X509_cmp_current_time(X509_get0_notAfter(x)) < 0)
    return fault_set(why, "tls", "%s has expired; make a new one with `datacast certs`", cert);
  return true;
}

struct tls_ctx *tls_open(const char *ca, const char *cert, const char *key, const char *role, const char *name,
                         struct fault *why)
{
  struct tls_ctx *ctx = calloc(1, sizeof *ctx);
  SSL_CTX *c = ctx == NULL ? NULL : SSL_CTX_new(TLS_method());
  if (c == NULL) {
    free(ctx);
    fault_set(why, "tls", "TLS: out of memory");
    return NULL;
  }
  ctx->ssl = c;
  ERR_clear_error();
  SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION);
  SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
  SSL_CTX_set_num_tickets(c, 0);
  SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  if (load(c, ca, cert, key, why) && own(c, cert, role, name, why))
    return ctx;
  tls_close(ctx);
  return NULL;
}

void tls_close(struct tls_ctx *ctx)
{
  if (ctx != NULL)
    SSL_CTX_free(ctx->ssl);
  free(ctx);
}

/* The last certificate of a chain that holds is its owner's: who is it? */
static int look(int good, X509_STORE_CTX *chain)
{
  char identity[TLS_IDENTITY_MAX] = "";
  const SSL *ssl = X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx());
  if (!good || X509_STORE_CTX_get_error_depth(chain) > 0)
    return good;
  struct tls_expect e = {SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), 0), NULL};
  if (e.roles != NULL && identity_of(X509_STORE_CTX_get_current_cert(chain), identity) && expected(&e, identity))
    return 1;
  X509_STORE_CTX_set_error(chain, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

bool tls_dress(const struct tls_ctx *ctx, void *ssl_ctx, const char *roles)
{
  SSL_CTX *to = ssl_ctx, *from = ctx->ssl;
  SSL_CTX_set_min_proto_version(to, TLS1_3_VERSION);
  SSL_CTX_set1_cert_store(to, SSL_CTX_get_cert_store(from));
  SSL_CTX_set_verify(to, SSL_VERIFY_PEER, look);
  return SSL_CTX_set_ex_data(to, 0, (void *)(uintptr_t)roles) == 1 &&
         SSL_CTX_use_certificate(to, SSL_CTX_get0_certificate(from)) == 1 &&
         SSL_CTX_use_PrivateKey(to, SSL_CTX_get0_privatekey(from)) == 1;
}

bool security_allows_plain(const struct security *s, const struct sockaddr_storage *a)
{
  if (s->insecure)
    return true;
  if (a->ss_family == AF_INET)
    return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
  return a->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

/* ---- sessions ---- */

struct tls *tls_new(struct tls_ctx *ctx, int fd, bool server, struct tls_expect expect)
{
  struct tls *t = calloc(1, sizeof *t);
  if (t == NULL)
    return NULL;
  *t = (struct tls){.ssl = SSL_new(ctx->ssl), .server = server, .expect = expect};
  if (t->ssl == NULL || SSL_set_fd(t->ssl, fd) != 1) {
    tls_free(t);
    return NULL;
  }
  if (server)
    SSL_set_accept_state(t->ssl);
  else
    SSL_set_connect_state(t->ssl);
  return t;
}

void tls_free(struct tls *t)
{
  if (t == NULL)
    return;
  if (t->ssl != NULL && t->standing)
    (void)SSL_shutdown(t->ssl);
  SSL_free(t->ssl);
  ERR_clear_error();
  free(t);
}

/* Why a handshake or a session broke, in words for whoever reads the log. */
static void explain(struct tls *t, const char *otherwise)
{
  long verdict = SSL_get_verify_result(t->ssl);
  int reason = ERR_GET_REASON(ERR_peek_error());
  const char *text = NULL;
  if (verdict == X509_V_ERR_CERT_HAS_EXPIRED)
    text = "its certificate has expired";
  else if (verdict == X509_V_ERR_CERT_NOT_YET_VALID)
    text = "its certificate is not valid yet (are the clocks right?)";
  else if (verdict != X509_V_OK)
    text = "its certificate is of another authority";
  else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    text = "it shows no certificate";
  else if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
           reason == SSL_R_PACKET_LENGTH_TOO_LONG || reason == SSL_R_UNEXPECTED_MESSAGE)
    text = "it does not speak TLS";
  else if (reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION)
    text = "it does not speak TLS 1.3";
  else if (reason == SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED)
    text = "it refuses our certificate: expired";
  else if (reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA)
    text = "it refuses our certificate: of another authority";
  else if (reason == SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED || reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE)
    text = "it refuses our certificate";
  if (text != NULL)
    snprintf(t->broken, sizeof t->broken, "%s", text);
  else if (ERR_peek_error() != 0)
    snprintf(t->broken, sizeof t->broken, "TLS: %s", openssl_words());
  else
    snprintf(t->broken, sizeof t->broken, "%s", otherwise);
  ERR_clear_error();
}

enum tls_step tls_handshake(struct tls *t, struct fault *why)
{
  ERR_clear_error();
  errno = 0;
  int rc = SSL_do_handshake(t->ssl);
  if (rc != 1) {
    int error = SSL_get_error(t->ssl, rc);
    if (error == SSL_ERROR_WANT_READ)
      return TLS_WANT_READ;
    if (error == SSL_ERROR_WANT_WRITE)
      return TLS_WANT_WRITE;
    explain(t, errno != 0 ? strerror(errno) : "it closed the connection in the handshake (does it speak TLS?)");
    fault_set(why, "tls", "%s", t->broken);
    return TLS_FAILED;
  }
  t->standing = true;
  X509 *x = SSL_get0_peer_certificate(t->ssl);
  if (x == NULL || !identity_of(x, t->peer)) {
    t->peer[0] = '\0';
    fault_set(why, "denied", "its certificate names no role (%sROLE/NAME)", scheme);
    return TLS_STRANGER;
  }
  if (expected(&t->expect, t->peer))
    return TLS_DONE;
  fault_set(why, "denied", "it is %s, expected is %s%s%s", t->peer, t->expect.roles, t->expect.name == NULL ? "" : "/",
            t->expect.name == NULL ? "" : t->expect.name);
  return TLS_STRANGER;
}

const char *tls_peer(const struct tls *t) { return t->peer; }

static ssize_t outcome(struct tls *t, int rc)
{
  if (rc > 0)
    return rc;
  int saved = errno, error = SSL_get_error(t->ssl, rc);
  switch (error) {
  case SSL_ERROR_WANT_READ:
  case SSL_ERROR_WANT_WRITE:
    errno = EAGAIN;
    return -1;
  case SSL_ERROR_ZERO_RETURN:
    return 0;
  default:
    t->standing = false;
    explain(t, saved != 0 ? strerror(saved) : "cut off");
    errno = EPROTO;
    return -1;
  }
}

static int clip(size_t n) { return n > 1 << 30 ? 1 << 30 : (int)n; }

ssize_t tls_read(struct tls *t, void *p, size_t n)
{
  ERR_clear_error();
  errno = 0;
  return outcome(t, SSL_read(t->ssl, p, clip(n)));
}

ssize_t tls_write(struct tls *t, const void *p, size_t n)
{
  ERR_clear_error();
  errno = 0;
  return outcome(t, SSL_write(t->ssl, p, clip(n)));
}

bool tls_pending(const struct tls *t) { return SSL_pending(t->ssl) > 0; }

const char *tls_broken(const struct tls *t) { return t->broken; }
