/* Two workers on ring devices: a frame that comes to the wrong one gets to the right one, hellos to the first, nothing is lost
 * but by a full ring, and a question is answered by both in one. */
#include <datacast/endpoint.h>
#include <malloc.h>
#include <rte_ethdev.h>
#include <rte_mempool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datapath/tests/check.h"
#include "eal.h"
#include "datapath/steering.h"
#include "workers.h"

enum { SOURCE, RECEIVER, PORTS, FRAME = 2048, WORKERS = 2 };

static const uint8_t nobody[6];
static struct workers all;
static unsigned whole; /* mbufs of the pool when nothing is under way */

static struct sw *part(unsigned worker) { return &all.worker[worker].sw; }

/* The first tree that is this worker's. */
static uint32_t tree_of(unsigned worker)
{
  uint32_t tree = 1;
  while (steering_of_tree(tree, WORKERS) != worker)
    tree++;
  return tree;
}

/* A ring device is a loop: what is sent to a queue arrives from it. */
static void arrive(unsigned port, unsigned queue, const uint8_t *frame, size_t len)
{
  struct rte_mbuf *m = rte_pktmbuf_alloc(part(0)->pools.data);
  CHECK(m != NULL);
  memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, len);
  CHECK(rte_eth_tx_burst(part(0)->ports[port].dev, (uint16_t)queue, &m, 1) == 1);
}

static void receive(unsigned worker, unsigned port)
{
  bool more = false;
  struct engine *e = &part(worker)->engine;
  engine_receive(e, e->port[port], loop_clock(), &more);
  sw_hand_over(part(worker));
  engine_flush(e, loop_clock());
}

static unsigned take(unsigned worker)
{
  unsigned n = sw_take(part(worker), loop_clock());
  engine_flush(&part(worker)->engine, loop_clock());
  return n;
}

/* Frames that left by this queue; they are given back. */
static unsigned left(unsigned port, unsigned queue)
{
  struct rte_mbuf *m[32];
  unsigned n = rte_eth_rx_burst(part(0)->ports[port].dev, (uint16_t)queue, m, 32);
  for (unsigned i = 0; i < n; i++)
    rte_pktmbuf_free(m[i]);
  return n;
}

static size_t interest(uint8_t *p, uint32_t tree, uint32_t seq)
{
  struct dc_stop receiver = {.fwd = {.n = 1, .local = true}};
  struct dc_stop here = {.store = true, .ret = {.n = 1, .port = {RECEIVER}}, .fwd = {.n = 1, .port = {SOURCE}}};
  struct dc_stop source = {.ret = {.n = 1, .local = true}};
  struct dc_header h = {.type = DC_TYPE_INTEREST, .tree = tree, .seq = seq};
  struct dc_path path;
  uint8_t blob[DC_ROUTE_MAX];
  size_t len = dc_stop_write(blob, sizeof blob, &receiver);
  len += dc_stop_write(blob + len, sizeof blob - len, &here);
  len += dc_stop_write(blob + len, sizeof blob - len, &source);
  CHECK(dc_path_parse(&path, blob, len) >= 0);
  return dc_interest_write(p, FRAME, &path, &h, nobody, nobody);
}

static size_t data(uint8_t *p, uint32_t tree, uint32_t seq)
{
  struct dc_segment here = {.n = 1, .local = true};
  struct dc_header h = {.type = DC_TYPE_DATA, .length = 100, .tree = tree, .seq = seq};
  size_t n = dc_data_write(p, FRAME, &here, &h, nobody, nobody);
  memset(p + n, 0x5a, 100);
  return n + 100;
}

static uint64_t interests(unsigned worker)
{
  struct dc_node_counters c;
  dc_node_counters(part(worker)->members[0].node.core, &c);
  return c.interests;
}

static void a_frame_gets_to_the_worker_of_its_tree(void)
{
  uint8_t p[FRAME];
  for (unsigned w = 0; w < WORKERS; w++)
    for (unsigned at = 0; at < WORKERS; at++) { /* where the interest arrives, and its data at the other one */
      uint64_t before = interests(w), others = interests(1 - w), handed = part(at)->counters.handed_over;
      arrive(RECEIVER, at, p, interest(p, tree_of(w), at));
      receive(at, RECEIVER);
      CHECK(part(at)->counters.handed_over == handed + (at != w) && take(w) == (at != w));
      CHECK(interests(w) == before + 1 && interests(1 - w) == others);
      CHECK(left(SOURCE, w) == 1 && left(SOURCE, 1 - w) == 0);
      arrive(SOURCE, 1 - at, p, data(p, tree_of(w), at));
      receive(1 - at, SOURCE);
      CHECK(take(w) == (1 - at != w));
      CHECK(left(RECEIVER, w) == 1 && left(RECEIVER, 1 - w) == 0);
    }
}

static void hellos_are_the_first_ones(void)
{
  uint8_t p[60] = {0};
  dc_ether_write(p, nobody, nobody, DC_ETHERTYPE_HELLO); /* a malformed one: refused, and by the first */
  arrive(SOURCE, 1, p, sizeof p);
  receive(1, SOURCE);
  CHECK(take(0) == 1 && part(0)->ports[SOURCE].base.link.refused == 1);
  CHECK(part(1)->ports[SOURCE].base.link.refused == 0);
}

static void what_arrives_at_another_proves_the_link(void)
{
  uint8_t p[FRAME];
  sw_hear(part(0));
  part(0)->engine.traffic = false;
  dc_time before = part(0)->ports[SOURCE].heard_told;
  arrive(SOURCE, 1, p, data(p, tree_of(1), 77));
  receive(1, SOURCE);
  sw_hear(part(0));
  CHECK(part(0)->engine.traffic && part(0)->ports[SOURCE].heard_told > before);
}

static void a_full_ring_loses_frames_and_nothing_else(void)
{
  uint8_t p[FRAME];
  size_t len = interest(p, tree_of(1), 500);
  uint64_t handed = part(0)->counters.handed_over;
  for (unsigned i = 0; i < HANDED_FRAMES + 100; i++) {
    arrive(RECEIVER, 0, p, len);
    receive(0, RECEIVER);
  }
  CHECK(part(0)->counters.handed_over == handed + HANDED_FRAMES + 100);
  CHECK(part(0)->counters.handed_lost == 101); /* a ring holds one less than its size */
  while (take(1) > 0)
    (void)left(SOURCE, 1);
  sw_wipe(&part(0)->members[0], true);
  sw_wipe(&part(1)->members[0], true);
  (void)left(SOURCE, 1);
  CHECK(rte_mempool_avail_count(part(0)->pools.data) == whole);
}

/* Nobody runs the second one yet. What it is asked then is its own to free when it gets to it. */
static void one_that_is_stuck_holds_up_nobody_for_ever(void)
{
  bool stop = false;
  json_t *request = json_pack("{s:s}", "op", "counters"), *answer = workers_answer(&all, request, &stop);
  const char *said = json_string_value(json_object_get(answer, "error"));
  CHECK(json_is_false(json_object_get(answer, "ok")) && said != NULL && strcmp(said, "worker 1 does not answer") == 0);
  json_decref(answer);
  json_decref(request);
}

static void both_answer_in_one(void)
{
  uint8_t p[FRAME];
  struct fault f;
  bool stop = false;
  for (unsigned w = 0; w < WORKERS; w++) {
    arrive(RECEIVER, w, p, interest(p, tree_of(w), 900));
    receive(w, RECEIVER);
  }
  CHECK(workers_start(&all, &f) == 0);
  json_t *request = json_pack("{s:s}", "op", "counters"), *answer = workers_answer(&all, request, &stop);
  const json_t *node = json_object_get(json_object_get(answer, "nodes"), "n");
  CHECK(json_is_true(json_object_get(answer, "ok")) && !stop);
  CHECK(json_integer_value(json_object_get(node, "trees")) == WORKERS);
  CHECK(json_array_size(json_object_get(node, "tree_counters")) == WORKERS);
  const json_t *port = json_object_get(json_object_get(node, "ports"), "1");
  CHECK(json_integer_value(json_object_get(port, "mtu")) == 1500);
  CHECK(json_is_integer(json_object_get(port, "segments")));
  json_decref(answer);
  json_decref(request);
}

static void ask(unsigned times)
{
  bool stop = false;
  for (unsigned i = 0; i < times; i++) {
    json_t *request = json_pack("{s:s}", "op", "totals");
    json_decref(workers_answer(&all, request, &stop));
    json_decref(request);
  }
}

/* Two threads own a question, and whoever is last frees it. (The sanitizer's own allocator says nothing here.) */
static void questions_leave_nothing_behind(void)
{
  enum { TIMES = 500 };
  ask(TIMES);
  size_t before = mallinfo2().uordblks;
  ask(TIMES);
  CHECK(mallinfo2().uordblks < before + (size_t)TIMES * 16);
}

int main(void)
{
  static struct port_cfg ports[PORTS] = {{.port = SOURCE, .vdev = "net_ring0"},
                                         {.port = RECEIVER, .vdev = "net_ring1"}};
  static struct node_cfg node = {.name = "n", .ports = ports, .nports = PORTS};
  struct config c = {.nodes = &node, .nnodes = 1, .mtu = 1500, .ring_frames = 128, .workers = WORKERS};
  struct fault f;
  uint32_t data_mbufs, headers;
  dc_node_cfg_default(&node.core);
  node.core.ports = PORTS;
  node.core.trees = 16;
  node.core.memory_bytes = 1 << 20;
  node.core.memory_packets = 600;
  sw_pool_sizes(&c, &data_mbufs, &headers);
  if (log_catch_eal() < 0 || eal_start(&c, packet_pools_bytes(data_mbufs, headers, ports_frame_bytes(&c)), &f) < 0 ||
      workers_open(&all, &c, LOOP_PAUSES, &f) < 0) {
    fprintf(stderr, "%s\n", f.text);
    return 1;
  }
  whole = rte_mempool_avail_count(part(0)->pools.data);
  a_frame_gets_to_the_worker_of_its_tree();
  hellos_are_the_first_ones();
  what_arrives_at_another_proves_the_link();
  a_full_ring_loses_frames_and_nothing_else();
  one_that_is_stuck_holds_up_nobody_for_ever();
  both_answer_in_one();
  questions_leave_nothing_behind();
  workers_close(&all);
  printf("test_workers: 7 tests passed\n");
  return 0;
}
