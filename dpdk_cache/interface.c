#include "interface.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

int interface_check(const char *iface, uint32_t mtu, bool *up, struct fault *f)
{
  struct ifreq ifr = {0};
  int rc = 0;
  int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (s < 0)
    return fail(f, "cannot open a socket: %s", strerror(errno));
  snprintf(ifr.ifr_name, sizeof ifr.ifr_name, "%s", iface);
  if (ioctl(s, SIOCGIFMTU, &ifr) < 0) {
    rc = errno == ENODEV ? fail(f, "interface %s does not exist", iface)
                         : fail(f, "interface %s: %s", iface, strerror(errno));
  } else if ((uint32_t)ifr.ifr_mtu < mtu) {
    rc = fail(f, "interface %s has an MTU of %d, the configuration says %u: `ip link set dev %s mtu %u`, or lower mtu",
              iface, ifr.ifr_mtu, mtu, iface, mtu);
  } else if (ioctl(s, SIOCGIFFLAGS, &ifr) < 0) {
    rc = fail(f, "interface %s: %s", iface, strerror(errno));
  } else {
    *up = (ifr.ifr_flags & IFF_RUNNING) != 0;
  }
  close(s);
  return rc;
}
