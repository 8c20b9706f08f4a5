#include "datapath/accepting.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "datapath/log.h"

int accept_spare(int listener) { return fcntl(listener, F_DUPFD_CLOEXEC, 0); }

int accept_or_refuse(int listener, int *spare, struct sockaddr *from, socklen_t *len)
{
  if (*spare < 0) /* another thread had it */
    *spare = accept_spare(listener);
  int fd = accept4(listener, from, len, SOCK_CLOEXEC | SOCK_NONBLOCK), error = errno;
  if (fd >= 0 || (error != EMFILE && error != ENFILE) || *spare < 0)
    return fd;
  close(*spare);
  fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  if (fd >= 0)
    close(fd);
  *spare = accept_spare(listener);
  log_warn("a connection is refused: %s", strerror(error));
  return -1;
}
