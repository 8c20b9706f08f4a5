/* A server that says more than its turn is: a client parts from it, and goes on. */
#include "datapath/memif.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "datapath/memif_wire.h"
#include "datapath/tests/check.h"

static char path[64];
static int listener;

static void nobody(void *arg, struct dc_frame *frame, unsigned n)
{
  (void)arg, (void)frame, (void)n;
  CHECK(false);
}

/* What the client says to it; its descriptor goes. */
static void say(int s, struct netif *client, uint16_t type, uint16_t answer)
{
  struct memif_message x = {.type = type};
  char room[CMSG_SPACE(sizeof(int))];
  struct iovec iov = {&x, sizeof x};
  struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
  if (type == MEMIF_HELLO) {
    x.hello.min_version = x.hello.max_version = MEMIF_VERSION;
    x.hello.max_log2 = MEMIF_LOG2_MAX;
  }
  CHECK(send(s, &x, sizeof x, MSG_NOSIGNAL) == sizeof x);
  client->ops->ready(client);
  if (answer == 0)
    return;
  CHECK(recvmsg(s, &h, MSG_DONTWAIT) == sizeof x && x.type == answer);
  const struct cmsghdr *got = CMSG_FIRSTHDR(&h);
  if (got != NULL) {
    int fd;
    memcpy(&fd, CMSG_DATA(got), sizeof fd);
    close(fd);
  }
}

static void a_word_too_many_ends_the_connection(uint16_t type)
{
  struct memif_cfg cfg = {.mtu = 1500};
  struct fault why;
  memcpy(cfg.path, path, sizeof path);
  struct netif *client = memif_open(&cfg, &why);
  CHECK(client != NULL);
  int s = accept(listener, NULL, NULL);
  say(s, client, MEMIF_HELLO, MEMIF_INIT);
  say(s, client, MEMIF_ACK, MEMIF_ADD_REGION);
  say(s, client, MEMIF_ACK, MEMIF_ADD_RING);
  say(s, client, MEMIF_ACK, MEMIF_ADD_RING);
  say(s, client, MEMIF_ACK, MEMIF_CONNECT);
  say(s, client, MEMIF_CONNECTED, 0);
  CHECK(client->up);
  say(s, client, type, 0);
  CHECK(!client->up && client->ops->rx(client, nobody, NULL, 64) == 0);
  struct dc_tx tx = {.prefix_len = DC_ETHER_LEN};
  CHECK(client->ops->send(client, &tx, 1) < 0 && recv(s, &tx, 1, MSG_DONTWAIT) == 0);
  client->ops->close(client);
  close(s);
}

int main(void)
{
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  log_open("test", LOG_ERROR);
  snprintf(path, sizeof path, "/tmp/test-memif-server-%d", (int)getpid());
  memcpy(a.sun_path, path, sizeof path);
  listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  CHECK(bind(listener, (struct sockaddr *)&a, sizeof a) == 0 && listen(listener, 4) == 0);
  a_word_too_many_ends_the_connection(MEMIF_HELLO);
  a_word_too_many_ends_the_connection(MEMIF_ACK);
  close(listener);
  CHECK(unlink(path) == 0);
  return 0;
}
