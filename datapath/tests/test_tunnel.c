/* Two tunnels that lead to each other over the loopback interface: frames of a train lie close together, and where the Ethernet
 * header of each would be is the end of the one before it. */
#include "datapath/tunnel.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "datapath/netport.h"
#include "datapath/tests/check.h"

enum { FRAMES = 3 * PORT_QUEUE, PAYLOAD = 1000, TRAIN = 60 };

static struct fault why;
static struct loop loop;
static struct bufpool pool;
static struct netport port;
static unsigned out, wrong;

static struct netif *lead(const char *from, const char *to)
{
  struct tunnel_cfg cfg;
  CHECK(tunnel_parse(from, to, 9000, &cfg));
  struct netif *n = tunnel_open(&cfg, &why);
  if (n == NULL)
    fprintf(stderr, "%s\n", why.text);
  CHECK(n != NULL);
  return n;
}

/* Frames of a few labels' bytes, then the payload: its number all over. */
static void send_train(struct netif *n, unsigned first, unsigned count)
{
  static uint8_t payload[TRAIN][PAYLOAD];
  static struct dc_buf buf[TRAIN];
  struct dc_tx tx[TRAIN];
  for (unsigned i = 0; i < count; i++) {
    memset(payload[i], (int)(first + i) % 251, PAYLOAD);
    buf[i].data = payload[i];
    tx[i] = (struct dc_tx){.buf = &buf[i], .len = PAYLOAD, .prefix_len = DC_ETHER_LEN + DC_LABEL_LEN};
    tx[i].prefix[12] = DC_ETHERTYPE_MPLS >> 8, tx[i].prefix[13] = DC_ETHERTYPE_MPLS & 0xff;
    dc_label_write(tx[i].prefix + DC_ETHER_LEN, DC_LABEL_LOCAL, true);
  }
  for (unsigned done = 0; done < count;) {
    int sent = n->ops->send(n, tx + done, count - done);
    CHECK(sent > 0);
    done += (unsigned)sent;
  }
}

/* The way on: whatever leaves is whole. */
static int take(struct netif *n, const struct dc_tx *tx, unsigned count)
{
  (void)n;
  for (unsigned i = 0; i < count; i++, out++) {
    const uint8_t *p = tx[i].buf->data + tx[i].off;
    for (unsigned k = 0; k < tx[i].len; k++)
      if (p[k] != out % 251) {
        wrong++;
        break;
      }
  }
  return (int)count;
}

static void closed(struct netif *n) { (void)n; }

static const struct netif_ops ops = {.send = take, .close = closed};
static struct netif way_on = {.ops = &ops, .fd = -1, .mtu = 9000};

/* As a node that passes frames on. */
static void pass(void *arg, struct dc_frame *frame, unsigned n)
{
  unsigned *frames = arg;
  for (unsigned i = 0; i < n; i++) {
    uint32_t head = DC_ETHER_LEN + DC_LABEL_LEN;
    CHECK(frame[i].len == head + PAYLOAD && dc_frame_ethertype(&frame[i]) == DC_ETHERTYPE_MPLS);
    struct dc_tx tx = {.buf = frame[i].buf, .off = head, .len = PAYLOAD, .prefix_len = DC_ETHER_LEN};
    port.base.ops->push(&port.base, &tx, 1, loop.now);
    ++*frames;
  }
}

static struct dc_buf *held[FRAMES];

static void hold(void *arg, struct dc_frame *frame, unsigned n)
{
  unsigned *kept = arg;
  for (unsigned i = 0; i < n; i++) {
    CHECK(*kept < FRAMES);
    held[(*kept)++] = frame[i].buf;
  }
}

/* Or whoever reads would do so again and again until somebody lets go. */
static void where_all_trains_are_held_nothing_comes_and_nothing_is_said_to_wait(void)
{
  char here[16], there[16];
  unsigned id = (unsigned)getpid(), kept = 0, rounds = 0;
  snprintf(here, sizeof here, "127.%u.%u.3", id >> 8 & 0xff, id & 0xff);
  snprintf(there, sizeof there, "127.%u.%u.4", id >> 8 & 0xff, id & 0xff);
  struct netif *a = lead(here, there), *b = lead(there, here);
  for (unsigned i = 0; i < 16; i++) /* twice as many as one holds */
    send_train(a, 0, TRAIN);
  struct pollfd p = {.fd = b->fd, .events = POLLIN};
  CHECK(poll(&p, 1, 1000) > 0);
  while (b->ops->rx(b, hold, &kept, 64) > 0)
    CHECK(++rounds < 100);
  CHECK(kept > 0 && poll(&p, 1, 1000) > 0);
  CHECK(b->ops->rx(b, hold, &kept, 64) == 0);
  for (unsigned i = 0; i < kept; i++)
    buf_unref(held[i]);
  kept = 0;
  CHECK(b->ops->rx(b, hold, &kept, 64) > 0 && kept > 0);
  for (unsigned i = 0; i < kept; i++)
    buf_unref(held[i]);
  a->ops->close(a);
  b->ops->close(b);
}

static void more_than_a_queue_holds_goes_on_whole_and_what_is_missed_is_counted(void)
{
  static const uint8_t neighbour[6];
  char here[16], there[16]; /* of this run alone */
  unsigned id = (unsigned)getpid();
  snprintf(here, sizeof here, "127.%u.%u.1", id >> 8 & 0xff, id & 0xff);
  snprintf(there, sizeof there, "127.%u.%u.2", id >> 8 & 0xff, id & 0xff);
  struct netif *a = lead(here, there), *b = lead(there, here);
  unsigned came = 0;
  CHECK(loop_open(&loop) == 0);
  bufpool_init(&pool, 9216, 1 << 20);
  CHECK(netport_open(&port, 0, &way_on, &loop, &pool, neighbour));
  for (unsigned first = 0; first < FRAMES;) {
    unsigned before = came;
    for (unsigned t = 0; t < 6 && first < FRAMES; t++, first += TRAIN)
      send_train(a, first, first + TRAIN < FRAMES ? TRAIN : FRAMES - first);
    struct pollfd p = {.fd = b->fd, .events = POLLIN};
    while (poll(&p, 1, 100) > 0 && b->ops->rx(b, pass, &came, 1024) > 0) /* a round */
      port.base.ops->flush(&port.base, loop.now);
    CHECK(came > before);
  }
  CHECK(came == FRAMES && out == FRAMES && port.extra.queue_full == 0);
  CHECK(wrong == 0);
  CHECK(b->ops->missed(b) == 0);
  for (unsigned i = 0; i < 300; i++) /* 18 MB, which nobody takes */
    send_train(a, 0, TRAIN);
  CHECK(b->ops->missed(b) > 0 && b->ops->missed(b) == 0);
  netport_close(&port);
  CHECK(pool.in_use == 0);
  bufpool_close(&pool);
  a->ops->close(a);
  b->ops->close(b);
  loop_close(&loop);
}

int main(void)
{
  log_open("test", LOG_ERROR);
  more_than_a_queue_holds_goes_on_whole_and_what_is_missed_is_counted();
  where_all_trains_are_held_nothing_comes_and_nothing_is_said_to_wait();
  puts("tunnels: ok");
  return 0;
}
