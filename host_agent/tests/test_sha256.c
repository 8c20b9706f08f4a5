/* A digest of a part of a file; one that is too short, and one that nobody waits for any more. */
#include "sha256.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "datapath/tests/check.h"

int main(void)
{
  static const uint8_t of_abc[SHA256_LEN] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
                                             0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
                                             0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
  alarm(30); /* what nobody waits for ends */
  int stopping = 0;
  uint8_t to[SHA256_LEN];
  FILE *f = tmpfile();
  CHECK(f != NULL && fputs("xxabcyy", f) >= 0 && fflush(f) == 0);
  int fd = fileno(f);
  CHECK(sha256_of(&stopping, fd, 2, 3, to) == 0 && memcmp(to, of_abc, sizeof to) == 0);
  CHECK(sha256_of(&stopping, fd, 2, 6, to) == EIO);
  CHECK(sha256_of(&stopping, -1, 0, 1, to) == EBADF);
  stopping = 1;
  CHECK(sha256_of(&stopping, fd, 2, 3, to) == EINTR);
  fclose(f);
  puts("SHA-256: ok");
  return 0;
}
