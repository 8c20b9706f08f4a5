/* A port's queue on a netif that takes what the test lets it: what waits leaves in order, interests before data, a hello before
 * all of it. */
#include "datapath/netport.h"

#include <errno.h>
#include <string.h>

#include "datapath/tests/check.h"

static struct loop loop;
static struct bufpool pool;
static struct netport port;
static unsigned room;        /* frames that the netif takes */
static int later = -ENOBUFS; /* how it says that it takes no more for now */
static uint8_t sent[BACKLOG_PLACES];
static unsigned n;

static int take(struct netif *nif, const struct dc_tx *tx, unsigned count)
{
  unsigned took = count < room ? count : room;
  (void)nif;
  for (unsigned i = 0; i < took; i++)
    sent[n++] = tx[i].prefix[0];
  room -= took;
  return took > 0 ? (int)took : later;
}

static void closed(struct netif *nif) { (void)nif; }

static const struct netif_ops ops = {.send = take, .close = closed};
static struct netif nif = {.ops = &ops, .fd = -1, .mtu = 1500};

static struct dc_tx frame(uint8_t mark)
{
  struct dc_tx tx = {.buf = bufpool_get(&pool, 100), .len = 100, .prefix_len = DC_ETHER_LEN};
  CHECK(tx.buf != NULL);
  memset(tx.prefix, mark, DC_ETHER_LEN);
  return tx;
}

static void push(uint8_t mark)
{
  struct dc_tx tx = frame(mark);
  port.base.ops->push(&port.base, &tx, 1, loop.now);
}

/* Its first byte is the mark, as of all. */
static void ask(uint8_t mark)
{
  struct dc_tx tx = frame(mark);
  tx.prefix[12] = DC_ETHERTYPE_MPLS >> 8, tx.prefix[13] = DC_ETHERTYPE_MPLS & 0xff;
  dc_label_write(tx.buf->data, DC_LABEL_LOCAL, true);
  tx.buf->data[DC_LABEL_LEN] = DC_VERSION << 4 | DC_TYPE_INTEREST;
  port.base.ops->push(&port.base, &tx, 1, loop.now);
}

static void hello(uint8_t mark)
{
  struct dc_tx tx = {.prefix_len = DC_ETHER_LEN};
  memset(tx.prefix, mark, DC_ETHER_LEN);
  port.base.ops->hello(&port.base, &tx, 0, loop.now);
}

static void leave(unsigned frames)
{
  n = 0;
  room = frames;
  port.blocked = false;
  port.base.ops->flush(&port.base, loop.now);
}

static void test_a_hello_leaves_before_what_waits(void)
{
  for (uint8_t i = 1; i <= 5; i++)
    push(i);
  leave(2); /* the queue's head is somewhere in its ring by now */
  CHECK(n == 2 && sent[0] == 1 && sent[1] == 2 && port.blocked);
  hello(99);
  leave(PORT_QUEUE);
  CHECK(n == 4 && sent[0] == 99 && sent[1] == 3 && sent[3] == 5 && pool.in_use == 0);
}

static void test_interests_leave_before_data_that_waits(void)
{
  push(1);
  push(2);
  ask(11);
  leave(1); /* of what the link takes first */
  CHECK(n == 1 && sent[0] == 11 && port.blocked);
  push(3);
  ask(12);
  ask(13);
  hello(99);
  leave(PORT_QUEUE);
  CHECK(n == 6 && sent[0] == 99 && sent[1] == 12 && sent[2] == 13 && sent[3] == 1 && sent[5] == 3 && pool.in_use == 0);
}

static void test_a_full_queue_has_room_for_interests_and_gives_the_newest_of_them_for_a_hello(void)
{
  uint64_t before = port.extra.queue_full;
  leave(0);
  push(1);
  port.base.ops->flush(&port.base, loop.now);
  CHECK(port.blocked);
  for (unsigned i = 1; i < PORT_QUEUE; i++)
    push(2);
  CHECK(port.extra.queue_full == before);
  push(3);
  CHECK(port.extra.queue_full == before + 1 && pool.in_use == PORT_QUEUE);
  for (uint8_t i = 0; i < BACKLOG_FIRST; i++)
    ask(i);
  CHECK(port.extra.queue_full == before + 1);
  ask(200);
  CHECK(port.extra.queue_full == before + 2 && pool.in_use == PORT_QUEUE + BACKLOG_FIRST);
  hello(99);
  CHECK(port.extra.queue_full == before + 3 && pool.in_use == PORT_QUEUE + BACKLOG_FIRST - 1);
  leave(BACKLOG_PLACES);
  CHECK(n == PORT_QUEUE + BACKLOG_FIRST && sent[0] == 99 && sent[1] == 0 &&
        sent[BACKLOG_FIRST - 1] == BACKLOG_FIRST - 2);
  CHECK(sent[BACKLOG_FIRST] == 1 && sent[BACKLOG_FIRST + 1] == 2 && pool.in_use == 0);
}

static void test_a_hello_too_long_for_the_link_is_dropped(void)
{
  uint64_t before = port.extra.oversized;
  nif.mtu = 200;
  struct dc_tx tx = {.prefix_len = DC_ETHER_LEN};
  port.base.ops->hello(&port.base, &tx, 201, loop.now);
  nif.mtu = 1500;
  CHECK(port.extra.oversized == before + 1 && pool.in_use == 0);
}

static void given(struct dc_buf *b) { b->cap = 0; }

static void test_what_a_ring_lends_is_copied_when_it_waits_and_what_may_stay_is_not(void)
{
  static uint8_t bytes[100];
  struct dc_buf ring = {.refs = 1, .cap = 100, .data = bytes, .give_back = given}, block = ring;
  block.stays = true;
  struct dc_tx tx = {.buf = &ring, .len = 100, .prefix_len = DC_ETHER_LEN};
  port.base.ops->push(&port.base, &tx, 1, loop.now);
  tx.buf = &block;
  port.base.ops->push(&port.base, &tx, 1, loop.now);
  leave(0);
  CHECK(ring.cap == 0 && block.cap == 100 && pool.in_use == 1);
  leave(2);
  CHECK(n == 2 && block.cap == 0 && pool.in_use == 0);
}

static void test_a_full_queue_loses_data_and_keeps_interests(void)
{
  uint64_t before = port.extra.queue_full;
  push(1);
  ask(11);
  push(2);
  hello(99);
  leave(1);
  CHECK(n == 1 && sent[0] == 99 && port.blocked && port.extra.queue_full == before && pool.in_use == 3);
  leave(1); /* and no room for what comes after the interest */
  CHECK(n == 1 && sent[0] == 11 && !port.blocked && port.extra.queue_full == before + 2 && pool.in_use == 0);
}

static void test_an_interest_that_is_never_taken_does_not_stop_the_port(void)
{
  uint64_t before = port.extra.errors;
  ask(11);
  for (unsigned i = 0; i < 600 && port.extra.errors == before; i++)
    leave(0);
  CHECK(port.extra.errors == before + 1);
  push(6);
  leave(PORT_QUEUE);
  CHECK(n == 1 && sent[0] == 6 && pool.in_use == 0);
}

int main(void)
{
  static const uint8_t neighbour[6];
  CHECK(loop_open(&loop) == 0);
  bufpool_init(&pool, 2048, 1 << 20);
  CHECK(netport_open(&port, 0, &nif, &loop, &pool, neighbour));
  static const int ways[] = {-EAGAIN, -ENOMEM};
  for (unsigned i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    later = ways[i];
    test_a_hello_leaves_before_what_waits();
    test_interests_leave_before_data_that_waits();
    test_a_full_queue_has_room_for_interests_and_gives_the_newest_of_them_for_a_hello();
  }
  test_a_hello_too_long_for_the_link_is_dropped();
  test_what_a_ring_lends_is_copied_when_it_waits_and_what_may_stay_is_not();
  later = -ENOBUFS;
  test_a_full_queue_loses_data_and_keeps_interests();
  test_an_interest_that_is_never_taken_does_not_stop_the_port();
  netport_close(&port);
  bufpool_close(&pool);
  loop_close(&loop);
  return 0;
}
