/* What a tunnel leads to: two addresses and an MTU, from text and back. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "datacast/constants.h"
#include "datapath/tunnel.h"

uint32_t tunnel_overhead(bool ipv6) { return (ipv6 ? 40u : 20u) + 8u + DC_LABEL_LEN; }

void tunnel_address(char *to, size_t cap, const struct sockaddr_storage *a)
{
  const void *at = a->ss_family == AF_INET6 ? (const void *)&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr
                                            : (const void *)&((const struct sockaddr_in *)(const void *)a)->sin_addr;
  if (inet_ntop(a->ss_family, at, to, (socklen_t)cap) == NULL)
    snprintf(to, cap, "?");
}

static bool parse_one(const char *text, struct sockaddr_storage *to, socklen_t *len)
{
  struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)to;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)to;
  memset(to, 0, sizeof *to);
  if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
    to->ss_family = AF_INET;
    *len = sizeof *v4;
  } else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
    to->ss_family = AF_INET6;
    *len = sizeof *v6;
  } else {
    return false;
  }
  return true;
}

bool tunnel_parse(const char *local, const char *remote, uint32_t mtu, struct tunnel_cfg *to)
{
  socklen_t len;
  to->mtu = mtu;
  return parse_one(local, &to->local, &to->len) && parse_one(remote, &to->remote, &len) &&
         to->local.ss_family == to->remote.ss_family && memcmp(&to->local, &to->remote, sizeof to->local) != 0 &&
         (mtu == 0 || (mtu >= TUNNEL_MTU_MIN && mtu <= UINT16_MAX));
}

bool tunnel_same(const struct tunnel_cfg *a, const struct tunnel_cfg *b)
{
  return a->mtu == b->mtu && memcmp(&a->local, &b->local, sizeof a->local) == 0 &&
         memcmp(&a->remote, &b->remote, sizeof a->remote) == 0;
}
