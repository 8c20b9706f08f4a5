#include "datapath/netif.h"

#include <string.h>
#include <sys/socket.h>

void netif_failed(const struct netif *n)
{
  int error = 0;
  socklen_t len = sizeof error;
  if (getsockopt(n->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error != 0)
    log_debug("%s: %s", n->name, strerror(error));
}
