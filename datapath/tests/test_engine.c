/* What of a burst says something about a link: hellos under their own EtherType, and nothing that was forwarded. The others reach
 * the node, and what it sends goes to the ports in runs. */
#include "datapath/engine.h"

#include <stdio.h>
#include <string.h>

#include "datacast/bytes.h"
#include "datapath/bufpool.h"
#include "datapath/tests/check.h"

static struct loop loop;
static struct bufpool pool;
static struct engine_node node = {.name = "n"};
static struct port port = {.name = "p", .mtu = 1500};
static struct engine engine;

static void open_engine(uint16_t ports)
{
  static const struct engine_hooks none;
  struct fault why;
  struct dc_node_cfg cfg;
  dc_node_cfg_default(&cfg);
  cfg.ports = ports;
  cfg.trees = 1;
  bufpool_init(&pool, 1500, 1 << 20);
  CHECK(loop_open(&loop) == 0);
  CHECK(engine_node_open(&node, &cfg, &bufpool_ops, &why));
  CHECK(engine_open(&engine, &loop, &bufpool_ops, ports, &none, NULL, &why));
  engine_attach(&engine, &node, &port, true, true);
}

static void close_engine(void)
{
  engine_close(&engine);
  engine_node_close(&node);
  CHECK(pool.in_use == 0);
  bufpool_close(&pool);
  loop_close(&loop);
}

/* A neighbour's hello, as a frame of `len` bytes under an EtherType. */
static struct dc_frame hello_as(unsigned type, uint32_t len)
{
  static const uint8_t nobody[6];
  struct linkstate neighbour;
  struct dc_buf *b = bufpool_get(&pool, 1500);
  CHECK(b != NULL);
  linkstate_init(&neighbour, 0, 2, true, true, 1500);
  CHECK(linkstate_poll(&neighbour, DC_SEC, nobody, nobody, b->data) > 0);
  CHECK(dc_get16(b->data + 12) == DC_ETHERTYPE_HELLO);
  dc_put16(b->data + 12, (uint16_t)type);
  return (struct dc_frame){.buf = b, .data = b->data, .len = len, .port = 0};
}

static uint64_t at_node(void)
{
  struct dc_port_counters c;
  dc_node_port_counters(node.core, 0, &c);
  return c.rx_frames;
}

/* A hello under ADJ(p) leaves the node before as 0x88B5, whoever wrote it. */
static void a_hello_that_was_forwarded_is_none(void)
{
  open_engine(1);
  struct dc_frame f = hello_as(DC_ETHERTYPE_DATACAST, LINK_HELLO_BYTES);
  engine_frames(&engine, &port, &f, 1, DC_SEC);
  CHECK(port.link.received == 0 && port.link.refused == 0 && at_node() == 1);
  f = hello_as(DC_ETHERTYPE_HELLO, LINK_HELLO_BYTES);
  engine_frames(&engine, &port, &f, 1, DC_SEC);
  CHECK(port.link.received == 1 && port.link.refused == 0 && at_node() == 1);
  close_engine();
}

static void of_a_burst_the_node_gets_all_but_the_hellos(void)
{
  open_engine(1);
  struct dc_frame f[] = {hello_as(DC_ETHERTYPE_DATACAST, LINK_HELLO_BYTES),
                         hello_as(DC_ETHERTYPE_HELLO, LINK_HELLO_BYTES), hello_as(DC_ETHERTYPE_HELLO, DC_ETHER_LEN),
                         hello_as(DC_ETHERTYPE_HELLO, DC_ETHER_LEN - 1), hello_as(DC_ETHERTYPE_MPLS, LINK_HELLO_BYTES)};
  engine_frames(&engine, &port, f, sizeof f / sizeof *f, DC_SEC);
  CHECK(port.link.received == 1 && port.link.refused == 1 && at_node() == 3);
  close_engine();
}

static void where_no_hellos_are_said_none_is_taken(void)
{
  open_engine(1);
  port.link.watched = false;
  struct dc_frame f = hello_as(DC_ETHERTYPE_HELLO, LINK_HELLO_BYTES);
  engine_frames(&engine, &port, &f, 1, DC_SEC);
  CHECK(port.link.received == 0 && at_node() == 1);
  close_engine();
}

/* What a port was handed, call by call. */
static struct {
  uint16_t port;
  unsigned n;
  uint32_t bytes[4];
} handed[4];
static unsigned calls;

static void push(struct port *p, const struct dc_tx *tx, unsigned n, dc_time now)
{
  (void)now;
  CHECK(calls < 4 && n <= 4);
  handed[calls].port = p->number;
  handed[calls].n = n;
  for (unsigned i = 0; i < n; i++) {
    CHECK(tx[i].port == p->number);
    handed[calls].bytes[i] = tx[i].len;
    buf_unref(tx[i].buf);
  }
  calls++;
}

/* A frame of so many bytes that goes on by this port. */
static struct dc_frame that_goes_by(uint16_t to, uint32_t len)
{
  static const uint8_t nobody[6];
  struct dc_buf *b = bufpool_get(&pool, 1500);
  CHECK(b != NULL);
  memset(b->data, 0, len);
  dc_ether_write(b->data, nobody, nobody, DC_ETHERTYPE_MPLS);
  dc_label_write(b->data + DC_ETHER_LEN, DC_LABEL_ADJ + to, true);
  return (struct dc_frame){.buf = b, .data = b->data, .len = len, .port = 0};
}

static void what_goes_by_one_port_in_a_row_is_handed_to_it_together(void)
{
  static const struct port_ops ops = {.push = push};
  static struct port other[] = {{.ops = &ops, .name = "q", .number = 1, .mtu = 1500},
                                {.ops = &ops, .name = "r", .number = 2, .mtu = 1500}};
  open_engine(4);
  engine_attach(&engine, &node, &other[0], false, true);
  engine_attach(&engine, &node, &other[1], false, true);
  struct dc_frame f[] = {that_goes_by(1, 100), that_goes_by(1, 101), that_goes_by(2, 102), that_goes_by(1, 103),
                         that_goes_by(3, 104)}; /* where no port is */
  engine_frames(&engine, &port, f, sizeof f / sizeof *f, DC_SEC);
  CHECK(calls == 3 && node.no_device == 1);
  CHECK(handed[0].port == 1 && handed[0].n == 2 && handed[0].bytes[0] == 100 - 18 && handed[0].bytes[1] == 101 - 18);
  CHECK(handed[1].port == 2 && handed[1].n == 1 && handed[1].bytes[0] == 102 - 18);
  CHECK(handed[2].port == 1 && handed[2].n == 1 && handed[2].bytes[0] == 103 - 18);
  close_engine();
}

int main(void)
{
  a_hello_that_was_forwarded_is_none();
  of_a_burst_the_node_gets_all_but_the_hellos();
  where_no_hellos_are_said_none_is_taken();
  what_goes_by_one_port_in_a_row_is_handed_to_it_together();
  puts("engine: ok");
  return 0;
}
