/* memif-wires SOCKET=IFACE …: what comes in at one goes out at the other, so that tests that speak to interfaces reach ports in
 * shared memory. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datapath/memif.h"

enum { WIRES_MAX = 16, MTU = 9000 };

static void pass(void *arg, struct dc_frame *frame, unsigned n)
{
  struct netif *to = arg;
  for (unsigned i = 0; i < n; i++) {
    static uint8_t all[2 * MTU]; /* a payload that ends here stands in the memory that is shared */
    struct dc_buf copy = {.data = all};
    struct dc_tx tx = {.buf = &copy, .len = frame[i].len};
    frame_copy(all, &frame[i]);
    while (to->ops->send(to, &tx, 1) == -EAGAIN)
      ;
    buf_unref(frame[i].buf);
  }
}

int main(int argc, char **argv)
{
  struct netif *end[WIRES_MAX][2];
  struct pollfd fd[2 * WIRES_MAX];
  struct fault why = {.text = ""};
  int wires = argc - 1, up = 0;
  if (wires < 1 || wires > WIRES_MAX)
    return 2;
  log_open("memif-wires", LOG_INFO);
  for (int i = 0; i < wires; i++) {
    struct memif_cfg cfg = {.mtu = MTU};
    char *iface = strchr(argv[i + 1], '=');
    if (iface == NULL || iface - argv[i + 1] >= (long)sizeof cfg.path)
      return 2;
    memcpy(cfg.path, argv[i + 1], (size_t)(iface - argv[i + 1]));
    end[i][0] = memif_open(&cfg, &why);
    end[i][1] = afpacket_open(&(struct afpacket_cfg){.name = iface + 1}, &why);
    if (end[i][0] == NULL || end[i][1] == NULL) {
      log_error("%s", why.text);
      return 1;
    }
    for (int s = 0; s < 2; s++)
      fd[2 * i + s] = (struct pollfd){.fd = end[i][s]->fd, .events = POLLIN};
  }
  for (;;) {
    (void)poll(fd, 2 * (nfds_t)wires, -1);
    int now = 0;
    for (int i = 0; i < wires; i++) {
      if (fd[2 * i].revents != 0)
        end[i][0]->ops->ready(end[i][0]);
      for (int s = 0; s < 2; s++)
        (void)end[i][s]->ops->rx(end[i][s], pass, end[i][1 - s], 64);
      now += end[i][0]->up;
    }
    if (now == wires && up < wires)
      log_info("all up");
    up = now;
  }
}
