/* The node: forwarding, routes, endpoints on its host, an appliance. */
#include "nodes.h"

static struct seen seen;

static void an_adjacency_is_popped_and_the_rest_sent_on_untouched(void)
{
  struct bench b = bench_of(a_switch());
  static const uint8_t own[6] = {2, 0, 0, 0, 0, 1}, neighbour[6] = {2, 0, 0, 0, 0, 2};
  dc_node_set_port(b.node, 3, own, neighbour);
  uint8_t p[2048];
  write_stack(p, (uint32_t[]){DC_LABEL_ADJ + 3, DC_LABEL_ADJ + 500, DC_LABEL_LOCAL}, 3);
  size_t len = stack_len(3) + write_payload(p + stack_len(3), 1, 5, 0, 600);
  assert(give(&b, 0, p, len) == 1);
  uint8_t out[2048];
  assert(b.tx[0].port == 3 && flatten(&b.tx[0], out, sizeof out) == len - 4);
  assert(memcmp(out, neighbour, 6) == 0 && memcmp(out + 6, own, 6) == 0 && out[12] == 0x88 && out[13] == 0x47);
  assert(memcmp(out + 14, p + 18, len - 18) == 0);

  write_stack(p, (uint32_t[]){DC_LABEL_ADJ + 4},
              1); /* the last label: EtherType 0x88B5 comes out, to whoever is there */
  len = stack_len(1) + write_payload(p + stack_len(1), 1, 5, 0, 600);
  assert(give(&b, 5, p, len) == 1);
  flatten(&b.tx[0], out, sizeof out);
  assert(b.tx[0].port == 4 && out[12] == 0x88 && out[13] == 0xb5 && memcmp(out, ANY, 6) == 0);

  struct dc_port_counters c;
  dc_node_port_counters(b.node, 3, &c);
  assert(c.tx_data == 1 && c.tx_data_payload == 600);
  struct dc_node_counters n;
  dc_node_counters(b.node, &n);
  assert(n.forwarded == 2 && n.data == 0);
  bench_close(&b);
}

/* A stack of adjacencies that lead there and back would make 47 frames on one link of one. */
static void no_frame_leaves_by_the_port_it_came_in_by(void)
{
  struct bench b = bench_of(a_switch());
  uint8_t p[2048];
  write_stack(p, (uint32_t[]){DC_LABEL_ADJ + 4, DC_LABEL_ADJ + 4, DC_LABEL_LOCAL}, 3);
  size_t len = stack_len(3) + write_payload(p + stack_len(3), 1, 5, 0, 600);
  assert(give(&b, 4, p, len) == 0 && dropped(&b, DC_DROP_UTURN) == 1);
  assert(give(&b, 3, p, len) == 1 && b.tx[0].port == 4);
  write_stack(p, (uint32_t[]){DC_LABEL_ADJ + 4}, 1);
  len = stack_len(1) + write_payload(p + stack_len(1), 1, 5, 0, 600);
  assert(give(&b, 4, p, len) == 0 && dropped(&b, DC_DROP_UTURN) == 2);
  bench_close(&b);
}

static void an_interest_never_goes_on_over_the_link_to_its_child(void)
{
  struct dc_node_cfg cfg = a_switch();
  struct bench b = bench_of(cfg);
  struct asking a = from_child(1, 1, 5);
  a.fwd = SEG(false, 1, 2);
  assert(ask(&b, 1, &a) == 0 && dropped(&b, DC_DROP_UTURN) == 1); /* where it came in */
  assert(ask(&b, 2, &a) == 0 && dropped(&b, DC_DROP_UTURN) == 2); /* where its answer would go */
  a = from_child(1, 1, 5);
  assert(ask(&b, 7, &a) == 0 && dropped(&b, DC_DROP_UTURN) == 3);
  assert(tree_count(&b, 1).interests == 0);

  /* One that leads the other way round meets one that waits: its copy would go back where the data came from. */
  assert(child_asks(&b, 1, 1, 5, 0) == 1);
  a = (struct asking){.tree = 1, .seq = 5, .ret = SEG(false, 7, 3), .fwd = SEG(false, 1, 2)};
  assert(ask(&b, 7, &a) == 0 && tree_count(&b, 1).aggregated == 1);
  assert(answer(&b, 7, 1, 5, 0, 100) == 1 && b.tx[0].port == 1 && dropped(&b, DC_DROP_UTURN) == 4);
  bench_close(&b);

  cfg.lone_port = true;
  cfg.ports = 1;
  b = bench_of(cfg);
  a = from_child(3, 1, 5);
  a.fwd = SEG(false, 3, 2); /* the switch's port, not ours */
  assert(ask(&b, 0, &a) == 0 && dropped(&b, DC_DROP_UTURN) == 1);
  assert(child_asks(&b, 0, 1, 5, 0) == 1 && answer(&b, 0, 1, 5, 0, 100) == 1);
  bench_close(&b);
}

/* Labels between LOCAL and the adjacencies mean something to the two ends of a link only. */
static void what_lies_under_an_adjacency_is_a_segment(void)
{
  struct bench b = bench_of(a_switch());
  uint8_t p[200];
  static const uint32_t odd[] = {0, 3, 999, 1001, 1002, 1023, DC_LABEL_ADJ + DC_PORT_MAX + 1};
  for (unsigned i = 0; i < sizeof odd / sizeof odd[0]; i++) {
    write_stack(p, (uint32_t[]){DC_LABEL_ADJ + 4, odd[i]}, 2);
    size_t len = stack_len(2) + write_payload(p + stack_len(2), 1, 5, 0, 60);
    assert(give(&b, 1, p, len) == 0 && dropped(&b, DC_DROP_LABEL) == i + 1);
  }
  bench_close(&b);
}

static void frames_that_cannot_be_forwarded_are_counted_by_reason(void)
{
  struct bench b = bench_of(a_switch());
  uint8_t p[2048];
  size_t len = stack_len(2) + 16;

  write_stack(p, (uint32_t[]){DC_LABEL_ADJ + 8, DC_LABEL_LOCAL}, 2);
  write_payload(p + stack_len(2), 1, 5, 0, 0);
  assert(give(&b, 0, p, len) == 0 && dropped(&b, DC_DROP_PORT) == 1);
  assert(give(&b, 99, p, len) == 0 && dropped(&b, DC_DROP_PORT) == 2); /* from a port that is none */
  write_stack(p, (uint32_t[]){17, DC_LABEL_LOCAL}, 2);
  assert(give(&b, 0, p, len) == 0 && dropped(&b, DC_DROP_LABEL) == 1);
  write_stack(p, (uint32_t[]){DC_LABEL_ADJ + DC_PORT_MAX + 1, DC_LABEL_LOCAL}, 2);
  assert(give(&b, 0, p, len) == 0 && dropped(&b, DC_DROP_LABEL) == 2);
  write_stack(p, (uint32_t[]){DC_LABEL_ADJ + DC_PORT_MAX, DC_LABEL_LOCAL}, 2);
  assert(give(&b, 0, p, len) == 0 && dropped(&b, DC_DROP_PORT) == 3);
  write_stack(p, (uint32_t[]){DC_LABEL_LOCAL, DC_LABEL_LOCAL}, 2);
  assert(give(&b, 0, p, len) == 0 && dropped(&b, DC_DROP_STACK) == 1);
  write_stack(p, (uint32_t[]){DC_LABEL_ADJ, DC_LABEL_LOCAL}, 2);
  assert(give(&b, 0, p, 14 + 4 + 3) == 0 && dropped(&b, DC_DROP_STACK) == 2);
  for (unsigned i = 0; i < 60; i++)
    dc_label_write(p + stack_len(i), DC_LABEL_ADJ, false);
  assert(give(&b, 0, p, sizeof p) == 0 && dropped(&b, DC_DROP_STACK) == 3);

  dc_ether_write(p, ANY, NOBODY, 0x0800);
  assert(give(&b, 0, p, 60) == 0 && dropped(&b, DC_DROP_ETHERTYPE) == 1);
  assert(give(&b, 0, p, 13) == 0 && dropped(&b, DC_DROP_TRUNCATED) == 1);
  dc_ether_write(p, ANY, NOBODY, DC_ETHERTYPE_MPLS);
  assert(give(&b, 0, p, 17) == 0 && dropped(&b, DC_DROP_TRUNCATED) == 2);
  dc_ether_write(p, ANY, NOBODY, DC_ETHERTYPE_DATACAST);
  assert(give(&b, 0, p, 60) == 0 && dropped(&b, DC_DROP_NO_ENDPOINT) == 1);
  bench_close(&b);
}

static void interests_with_a_wrong_route_are_refused(void)
{
  struct bench b = bench_of(a_switch());
  struct asking a = from_child(1, 1, 5);
  uint8_t p[2048];
  write_stack(p, (uint32_t[]){DC_LABEL_LOCAL}, 1);
  uint8_t *h = p + stack_len(1);
  size_t len = stack_len(1) + write_asking(h, 1024, &a);

  h[12] = 1; /* this stop would be the last */
  assert(give(&b, 1, p, len) == 0 && dropped(&b, DC_DROP_ROUTE) == 1);
  h[12] = 3; /* one stop more than there is, and the segment does not end at a waypoint */
  assert(give(&b, 1, p, len) == 0 && dropped(&b, DC_DROP_ROUTE) == 2);
  h[12] = 65;
  assert(give(&b, 1, p, len) == 0 && dropped(&b, DC_DROP_ROUTE) == 3);
  h[12] = 2;
  h[17] = 49; /* more ports than a segment may have */
  assert(give(&b, 1, p, len) == 0 && dropped(&b, DC_DROP_ROUTE) == 4);

  a.ret = SEG(false, 8); /* no such port */
  assert(ask(&b, 1, &a) == 0 && dropped(&b, DC_DROP_PORT) == 1);
  a = from_child(1, 1, 5);
  a.fwd = SEG(false, 8);
  assert(ask(&b, 1, &a) == 0 && dropped(&b, DC_DROP_PORT) == 2);
  a.fwd = HERE(false); /* the source is on this host, but this is none */
  assert(ask(&b, 1, &a) == 0 && dropped(&b, DC_DROP_NO_ENDPOINT) == 1);
  a.fwd = HERE(true); /* to itself */
  assert(ask(&b, 1, &a) == 0 && dropped(&b, DC_DROP_ROUTE) == 5);
  a = from_child(1, 1, 5);
  a.ret = HERE(true);
  assert(ask(&b, 1, &a) == 0 && dropped(&b, DC_DROP_ROUTE) == 6);
  struct dc_node_counters c;
  dc_node_counters(b.node, &c);
  assert(c.trees == 0 && c.interests == 0); /* nothing of it left a trace */
  bench_close(&b);
}

static void an_interest_has_as_many_stops_and_bytes_of_a_route_as_there_may_be_and_no_more(void)
{
  struct bench b = bench_of(a_switch());
  struct asking a = from_child(1, 1, 5);
  a.fwd = SEG(true, 7);
  uint8_t p[2048] = {0};
  write_stack(p, (uint32_t[]){DC_LABEL_LOCAL}, 1);
  uint8_t *h = p + stack_len(1);
  (void)write_asking(h, 1024, &a);
  size_t len = stack_len(1) + DC_HEADER_LEN + DC_ROUTE_MAX;
  struct dc_header most = {.type = DC_TYPE_INTEREST, .tree = 1, .seq = 5};
  most.stops = DC_STOPS_MAX;
  most.length = DC_ROUTE_MAX;
  dc_header_write(h, &most);
  assert(give(&b, 1, p, len) == 1);
  look(&b.tx[0], &seen);
  assert(seen.h.stops == DC_STOPS_MAX - 1);

  most.stops = DC_STOPS_MAX + 1;
  dc_header_write(h, &most);
  assert(give(&b, 1, p, len) == 0 && dropped(&b, DC_DROP_ROUTE) == 1);
  most.stops = DC_STOPS_MAX;
  most.length = DC_ROUTE_MAX + 1;
  dc_header_write(h, &most);
  assert(give(&b, 1, p, len + 1) == 0 && dropped(&b, DC_DROP_ROUTE) == 2);
  bench_close(&b);
}

static void an_empty_stack_is_for_the_endpoint(void)
{
  struct bench b = bench_of(a_host());
  uint8_t p[100] = {0};
  write_stack(p, NULL, 0);
  write_payload(p + 14, 1, 5, 0, 20);
  assert(give(&b, 0, p, 60) == 1); /* Ethernet pads to 60 */
  assert(b.tx[0].port == DC_PORT_HOST && b.tx[0].prefix_len == 0 && b.tx[0].off == 14 && b.tx[0].len == 36);
  assert(give(&b, 0, p, 14 + 16 + 19) == 0 && dropped(&b, DC_DROP_TRUNCATED) == 1);
  p[14] = 0x23; /* a hello that was routed here */
  assert(give(&b, 0, p, 60) == 0 && dropped(&b, DC_DROP_TYPE) == 1);
  p[14] = 0x12;
  assert(give(&b, 0, p, 60) == 0 && dropped(&b, DC_DROP_VERSION) == 1);
  bench_close(&b);
}

static void a_receiver_on_a_waypoints_host_asks_its_own_node(void)
{
  struct bench b = bench_of(a_host());
  struct asking a = {.tree = 1, .seq = 5, .ret = HERE(false), .fwd = SEG(false, 1)};
  assert(ask(&b, DC_PORT_HOST, &a) == 1);
  look(&b.tx[0], &seen);
  assert(seen.port == 1 && seen.labels == 0 && seen.h.stops == 1);
  a.ret = SEG(false, 0, 4); /* another child below */
  assert(ask(&b, 0, &a) == 0);
  assert(answer(&b, 1, 1, 5, 0, 300) == 2);
  assert(b.tx[0].port == DC_PORT_HOST && b.tx[0].prefix_len == 0);
  look(&b.tx[0], &seen);
  assert(seen.h.seq == 5 && seen.rest_len == 300);
  look(&b.tx[1], &seen);
  assert(seen.port == 0 && seen.labels == 1 && seen.label[0] == DC_LABEL_ADJ + 4);
  a.ret = HERE(false);
  assert(ask(&b, DC_PORT_HOST, &a) == 1); /* a hit, for this host */
  assert(b.tx[0].port == DC_PORT_HOST && tree_count(&b, 1).hits == 1);
  bench_close(&b);
}

static void a_source_with_two_children_is_asked_once(void)
{
  struct bench b = bench_of(a_host());
  struct dc_segment to_node = HERE(true);
  struct asking a = {.tree = 1, .seq = 5, .ret = SEG(true, 0), .fwd = HERE(false), .next_ret = &to_node};
  assert(ask(&b, 0, &a) == 1);
  assert(b.tx[0].port == DC_PORT_HOST && b.tx[0].prefix_len == DC_HEADER_LEN);
  uint8_t p[2048];
  size_t len = flatten(&b.tx[0], p, sizeof p);
  struct dc_header h;
  struct dc_segment ret;
  assert(dc_interest_at_source(p, len, &h, &ret) == DC_DROP_NONE);
  assert(h.seq == 5 && ret.n == 0 && ret.local);

  a.ret = SEG(true, 1, 6);
  assert(ask(&b, 1, &a) == 0);
  assert(answer(&b, DC_PORT_HOST, 1, 5, 0, 300) == 2); /* the source answers its own node */
  look(&b.tx[0], &seen);
  assert(seen.port == 0 && seen.labels == 1 && seen.label[0] == DC_LABEL_LOCAL);
  look(&b.tx[1], &seen);
  assert(seen.port == 1 && seen.labels == 2 && seen.label[0] == DC_LABEL_ADJ + 6 && seen.label[1] == DC_LABEL_LOCAL);
  assert(seen.h.seq == 5 && seen.rest_len == 300);
  bench_close(&b);
}

static void an_appliance_leaves_every_port_to_its_switch(void)
{
  struct dc_node_cfg cfg = a_switch();
  cfg.ports = 1;
  cfg.lone_port = true;
  struct bench b = bench_of(cfg);
  struct asking a = from_child(30, 1, 5);
  assert(ask(&b, 0, &a) == 1);
  look(&b.tx[0], &seen);
  assert(seen.port == 0 && seen.labels == 2 && seen.label[0] == DC_LABEL_ADJ + 7 && seen.label[1] == DC_LABEL_ADJ + 2);

  uint8_t p[2048]; /* its switch may have taken LOCAL off */
  write_stack(p, NULL, 0);
  size_t len = stack_len(0) + write_payload(p + stack_len(0), 1, 5, 0, 200);
  assert(give(&b, 0, p, len) == 1);
  look(&b.tx[0], &seen);
  assert(seen.port == 0 && seen.labels == 2 && seen.label[0] == DC_LABEL_ADJ + 30 && seen.label[1] == DC_LABEL_ADJ + 3);
  bench_close(&b);
}

/* Data under LOCAL that nobody asked this host's node for is for the host itself: a switch copied it for others as well. */
static void a_host_takes_what_did_not_come_by_its_node(void)
{
  struct dc_node_cfg cfg = a_host();
  struct bench b = bench_of(cfg);
  uint8_t p[400];
  write_stack(p, (uint32_t[]){DC_LABEL_LOCAL}, 1);
  size_t len = stack_len(1) + write_payload(p + stack_len(1), 1, 5, 0, 200);
  assert(give(&b, 0, p, len) == 1 && b.tx[0].port == DC_PORT_HOST && b.tx[0].len == DC_HEADER_LEN + 200);
  assert(give(&b, DC_PORT_HOST, p + stack_len(1), len - stack_len(1)) == 0); /* its own does not come back to it */
  assert(dropped(&b, DC_DROP_UNKNOWN_TREE) == 1);
  struct dc_node_counters c;
  dc_node_counters(b.node, &c);
  assert(c.to_endpoint == 1);
  bench_close(&b);

  cfg = a_switch(); /* nobody is there */
  b = bench_of(cfg);
  assert(give(&b, 0, p, len) == 0 && dropped(&b, DC_DROP_UNKNOWN_TREE) == 1);
  bench_close(&b);
}

/* What stands before a child's data is built once; it is built anew when the neighbour behind the port is another one. */
static void data_goes_to_whoever_is_behind_the_port_now(void)
{
  struct bench b = bench_of(a_switch());
  static const uint8_t own[6] = {2, 0, 0, 0, 0, 1}, one[6] = {2, 0, 0, 0, 0, 2}, other[6] = {2, 0, 0, 0, 0, 3};
  /* Labels that have a place of their own with the child, and one more. */
  struct dc_segment child[] = {SEG(true, 3), SEG(false, 3, 1, 2, 4, 5), SEG(true, 3, 1, 2, 4, 5)};
  for (unsigned i = 0; i < 3; i++) {
    dc_node_set_port(b.node, 3, own, one);
    struct asking a = {.tree = 1, .seq = 10 * i, .ret = child[i], .fwd = SEG(false, 7, 2)};
    assert(ask(&b, 3, &a) == 1 && answer(&b, 7, 1, a.seq, 0, 200) == 1);
    for (unsigned turn = 0; turn < 4; turn++) {
      if (turn == 2)
        dc_node_set_port(b.node, 3, own, other);
      uint8_t out[2048];
      assert(ask(&b, 3, &a) == 1); /* a hit */
      flatten(&b.tx[0], out, sizeof out);
      assert(memcmp(out, turn < 2 ? one : other, 6) == 0 && memcmp(out + 6, own, 6) == 0);
      look(&b.tx[0], &seen);
      assert(seen.port == 3 && seen.rest_len == 200 && seen.labels == child[i].n - 1u + child[i].local);
      for (unsigned k = 1; k < child[i].n; k++)
        assert(seen.label[k - 1] == (uint32_t)DC_LABEL_ADJ + child[i].port[k]);
      assert(!child[i].local || seen.label[seen.labels - 1] == DC_LABEL_LOCAL);
    }
  }
  bench_close(&b);
}

/* Children that need the same frame behind the first port get one, under a bitmap of the switch's ports. */
static void an_appliance_lets_its_switch_copy(void)
{
  struct dc_node_cfg cfg = a_switch();
  cfg.ports = 1;
  cfg.lone_port = true;
  struct bench b = bench_of(cfg);
  dc_node_set_copies(b.node, 200); /* the label has room for 19 */

  /* Three plain hosts, two waypoints, one behind a port without a bit, one two switches away. */
  struct dc_segment child[] = {SEG(false, 0), SEG(false, 5),  SEG(false, 18),  SEG(true, 2),
                               SEG(true, 3),  SEG(false, 19), SEG(false, 4, 1)};
  for (unsigned i = 0; i < 7; i++) {
    struct asking a = {.tree = 1, .seq = 5, .ret = child[i], .fwd = SEG(false, 7, 2)};
    assert(ask(&b, 0, &a) == (i == 0));
  }
  assert(answer(&b, 0, 1, 5, 0, 200) == 3 && tree_count(&b, 1).replicated == 7);
  static const struct {
    uint32_t label[2];
    unsigned n;
  } want[] = {{{DC_LABEL_REPLICATE | 1u | 1u << 5 | 1u << 18 | 1u << 2 | 1u << 3, DC_LABEL_LOCAL}, 2},
              {{DC_LABEL_ADJ + 19}, 1},
              {{DC_LABEL_ADJ + 4, DC_LABEL_ADJ + 1}, 2}};
  for (unsigned i = 0; i < 3; i++) {
    look(&b.tx[i], &seen);
    assert(seen.port == 0 && seen.labels == want[i].n && seen.rest_len == 200);
    for (unsigned k = 0; k < want[i].n; k++)
      assert(seen.label[k] == want[i].label[k]);
  }

  /* Without a waypoint among them nothing is under the bitmap. */
  for (unsigned i = 0; i < 3; i++) {
    struct asking a = {.tree = 1, .seq = 15, .ret = child[i], .fwd = SEG(false, 7, 2)};
    assert(ask(&b, 0, &a) == (i == 0));
  }
  assert(answer(&b, 0, 1, 15, 0, 200) == 1);
  look(&b.tx[0], &seen);
  assert(seen.labels == 1 && seen.label[0] == (DC_LABEL_REPLICATE | 1u | 1u << 5 | 1u << 18));
  for (unsigned i = 1; i < 3; i++) { /* the first of them counts, whichever port it has */
    struct asking a = {.tree = 1, .seq = 16, .ret = child[i], .fwd = SEG(false, 7, 2)};
    assert(ask(&b, 0, &a) == (i == 1));
  }
  assert(answer(&b, 0, 1, 16, 0, 200) == 1);
  look(&b.tx[0], &seen);
  assert(seen.labels == 1 && seen.label[0] == (DC_LABEL_REPLICATE | 1u << 5 | 1u << 18));

  /* A host and the waypoint on it are behind one port: one frame, as for the waypoint alone. */
  static const struct dc_segment both[] = {SEG(false, 5), SEG(true, 5)};
  for (unsigned i = 0; i < 2; i++) {
    struct asking a = {.tree = 1, .seq = 17, .ret = both[i], .fwd = SEG(false, 7, 2)};
    assert(ask(&b, 0, &a) == (i == 0));
  }
  assert(answer(&b, 0, 1, 17, 0, 200) == 1);
  look(&b.tx[0], &seen);
  assert(seen.labels == 2 && seen.label[0] == DC_LABEL_ADJ + 5 && seen.label[1] == DC_LABEL_LOCAL);

  /* Two switches away: one frame for those whose way is the same from the next switch on, and ends alike. */
  static const struct dc_segment farther[] = {SEG(false, 4, 1), SEG(false, 5, 1), SEG(false, 6, 2), SEG(true, 3, 1)};
  for (unsigned i = 0; i < 4; i++) {
    struct asking a = {.tree = 1, .seq = 18, .ret = farther[i], .fwd = SEG(false, 7, 2)};
    assert(ask(&b, 0, &a) == (i == 0));
  }
  assert(answer(&b, 0, 1, 18, 0, 200) == 3);
  look(&b.tx[0], &seen);
  assert(seen.labels == 2 && seen.label[0] == (DC_LABEL_REPLICATE | 1u << 4 | 1u << 5));
  assert(seen.label[1] == DC_LABEL_ADJ + 1);

  /* Nobody waits any more; one child alone needs no copies; and where the data comes from nothing goes back. */
  assert(answer(&b, 0, 1, 5, 0, 200) == 0);
  struct asking a = {.tree = 1, .seq = 6, .ret = child[1], .fwd = SEG(false, 7, 2)};
  assert(ask(&b, 0, &a) == 1 && answer(&b, 0, 1, 6, 0, 200) == 1);
  look(&b.tx[0], &seen);
  assert(seen.labels == 1 && seen.label[0] == DC_LABEL_ADJ + 5);
  a.seq = 7;
  assert(ask(&b, 0, &a) == 1);
  a.ret = (struct dc_segment)SEG(false, 7);
  a.fwd = (struct dc_segment)SEG(false, 6, 2);
  assert(ask(&b, 0, &a) == 0);
  assert(answer(&b, 0, 1, 7, 0, 200) == 1 && dropped(&b, DC_DROP_UTURN) == 1);

  /* A switch that copies no more is sent copies. */
  dc_node_set_copies(b.node, 0);
  for (unsigned i = 0; i < 2; i++) {
    a = (struct asking){.tree = 1, .seq = 8, .ret = child[i], .fwd = SEG(false, 7, 2)};
    assert(ask(&b, 0, &a) == (i == 0));
  }
  assert(answer(&b, 0, 1, 8, 0, 200) == 2);
  bench_close(&b);
}

/* However many children there are: those that get one frame are found among the last, too. */
static void an_appliance_lets_its_switch_copy_for_the_last_of_many_children(void)
{
  struct dc_node_cfg cfg = a_switch();
  cfg.ports = 1;
  cfg.lone_port = true;
  struct bench b = bench_of(cfg);
  dc_node_set_copies(b.node, 19);
  for (uint16_t i = 0; i < 66; i++) {
    struct asking a = {.tree = 1, .seq = 1, .ret = SEG(false, 4, i), .fwd = SEG(false, 7, 2)};
    assert(ask(&b, 0, &a) == (i == 0));
  }
  static const struct dc_segment last[] = {SEG(false, 5), SEG(false, 18)};
  for (unsigned i = 0; i < 2; i++) {
    struct asking a = {.tree = 1, .seq = 5, .ret = last[i], .fwd = SEG(false, 7, 2)};
    assert(ask(&b, 0, &a) == (i == 0));
  }
  assert(answer(&b, 0, 1, 5, 0, 200) == 1);
  look(&b.tx[0], &seen);
  assert(seen.labels == 1 && seen.label[0] == (DC_LABEL_REPLICATE | 1u << 5 | 1u << 18));
  bench_close(&b);
}

int main(void)
{
  an_adjacency_is_popped_and_the_rest_sent_on_untouched();
  no_frame_leaves_by_the_port_it_came_in_by();
  an_interest_never_goes_on_over_the_link_to_its_child();
  what_lies_under_an_adjacency_is_a_segment();
  frames_that_cannot_be_forwarded_are_counted_by_reason();
  interests_with_a_wrong_route_are_refused();
  an_interest_has_as_many_stops_and_bytes_of_a_route_as_there_may_be_and_no_more();
  an_empty_stack_is_for_the_endpoint();
  a_receiver_on_a_waypoints_host_asks_its_own_node();
  a_source_with_two_children_is_asked_once();
  an_appliance_leaves_every_port_to_its_switch();
  an_appliance_lets_its_switch_copy_for_the_last_of_many_children();
  data_goes_to_whoever_is_behind_the_port_now();
  an_appliance_lets_its_switch_copy();
  a_host_takes_what_did_not_come_by_its_node();
  puts("node, forward: ok");
  return 0;
}
