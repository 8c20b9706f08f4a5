/* What of a burst says something about a link: hellos under their own EtherType, and nothing that was forwarded. The others reach
 * the node. */
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

static void open_engine(void)
{
  static const struct engine_hooks none;
  struct fault why;
  struct dc_node_cfg cfg;
  dc_node_cfg_default(&cfg);
  cfg.ports = 1;
  cfg.trees = 1;
  bufpool_init(&pool, 1500, 1 << 20);
  CHECK(loop_open(&loop) == 0);
  CHECK(engine_node_open(&node, &cfg, &bufpool_ops, &why));
  CHECK(engine_open(&engine, &loop, &bufpool_ops, 1, &none, NULL, &why));
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
  open_engine();
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
  open_engine();
  struct dc_frame f[] = {hello_as(DC_ETHERTYPE_DATACAST, LINK_HELLO_BYTES),
                         hello_as(DC_ETHERTYPE_HELLO, LINK_HELLO_BYTES), hello_as(DC_ETHERTYPE_HELLO, DC_ETHER_LEN),
                         hello_as(DC_ETHERTYPE_HELLO, DC_ETHER_LEN - 1), hello_as(DC_ETHERTYPE_MPLS, LINK_HELLO_BYTES)};
  engine_frames(&engine, &port, f, sizeof f / sizeof *f, DC_SEC);
  CHECK(port.link.received == 1 && port.link.refused == 1 && at_node() == 3);
  close_engine();
}

static void where_no_hellos_are_said_none_is_taken(void)
{
  open_engine();
  port.link.watched = false;
  struct dc_frame f = hello_as(DC_ETHERTYPE_HELLO, LINK_HELLO_BYTES);
  engine_frames(&engine, &port, &f, 1, DC_SEC);
  CHECK(port.link.received == 0 && at_node() == 1);
  close_engine();
}

int main(void)
{
  a_hello_that_was_forwarded_is_none();
  of_a_burst_the_node_gets_all_but_the_hellos();
  where_no_hellos_are_said_none_is_taken();
  puts("engine: ok");
  return 0;
}
