#include "sha256.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <unistd.h>

enum { READ_BYTES = 256 << 10 };

int sha256_of(const int *stopping, int fd, uint64_t off, uint64_t len, uint8_t to[SHA256_LEN])
{
  EVP_MD_CTX *c = EVP_MD_CTX_new();
  uint8_t *buffer = malloc(READ_BYTES);
  int error = c != NULL && buffer != NULL && EVP_DigestInit_ex(c, EVP_sha256(), NULL) == 1 ? 0 : ENOMEM;
  while (error == 0 && len > 0) {
    ssize_t n = pread(fd, buffer, len < READ_BYTES ? (size_t)len : READ_BYTES, (off_t)off);
    if (__atomic_load_n(stopping, __ATOMIC_RELAXED))
      error = EINTR;
    else if (n == 0)
      error = EIO;
    else if (n < 0)
      error = errno == EINTR ? 0 : errno;
    else if (EVP_DigestUpdate(c, buffer, (size_t)n) != 1)
      error = EIO;
    else {
      off += (uint64_t)n;
      len -= (uint64_t)n;
    }
  }
  if (error == 0 && EVP_DigestFinal_ex(c, to, NULL) != 1)
    error = EIO;
  EVP_MD_CTX_free(c);
  free(buffer);
  return error;
}
