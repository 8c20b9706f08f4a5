/* Every way a frame is built: in place, shared, cloned, linear, bare; and pools that run empty. After each test all
 * mbufs are back, and what was built is counted. */
#include <rte_mempool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datapath/tests/check.h"
#include "eal.h"
#include "packet.h"

enum { DATA = 1023, HEADERS = 1023, FRAME = 9216, LEN = 5000, OFF = 40, PREFIX = 34 };

static struct packet_pools pools;

static uint8_t byte_at(uint32_t i) { return (uint8_t)(i * 7 + i / 256); }

/* A frame of LEN bytes as a driver hands it over. */
static struct rte_mbuf *arrival(void)
{
  struct rte_mbuf *m = rte_pktmbuf_alloc(pools.data);
  CHECK(m != NULL);
  uint8_t *p = (uint8_t *)rte_pktmbuf_append(m, LEN);
  for (uint32_t i = 0; i < LEN; i++)
    p[i] = byte_at(i);
  packet_arrived(m);
  return m;
}

static struct dc_tx tx_of(struct rte_mbuf *m, uint32_t off, uint16_t prefix, uint8_t fill)
{
  struct dc_tx tx = {
      .buf = m != NULL ? packet_buf(m) : NULL, .off = off, .len = m != NULL ? LEN - off : 0, .prefix_len = prefix};
  memset(tx.prefix, fill, prefix);
  return tx;
}

/* The frame reads prefix, then the buffer's bytes from off on, over all its segments. */
static void check_frame(struct rte_mbuf *m, uint32_t off, uint16_t prefix, uint8_t fill, unsigned segments)
{
  uint8_t flat[FRAME];
  const char *why;
  CHECK(m != NULL && m->nb_segs == segments && m->pkt_len == prefix + LEN - off);
  CHECK(rte_mbuf_check(m, 1, &why) == 0);
  const uint8_t *p = rte_pktmbuf_read(m, 0, m->pkt_len, flat);
  for (uint32_t i = 0; i < prefix; i++)
    CHECK(p[i] == fill);
  for (uint32_t i = off; i < LEN; i++)
    CHECK(p[prefix + i - off] == byte_at(i));
}

/* All mbufs are back, and so much was built since the last test. */
static void check_over(struct packet_counters built)
{
  packet_round_over();
  CHECK(rte_mempool_avail_count(pools.data) == DATA);
  CHECK(rte_mempool_avail_count(pools.headers) == HEADERS);
  CHECK(memcmp(&pools.counters, &built, sizeof built) == 0);
  pools.counters = (struct packet_counters){0};
}

static void sole_owner_is_written_in_place(void)
{
  struct rte_mbuf *m = arrival();
  struct dc_tx tx = tx_of(m, OFF, PREFIX, 0xa1);
  struct rte_mbuf *out = packet_build(&pools, &tx, true);
  CHECK(out == m);
  check_frame(out, OFF, PREFIX, 0xa1, 1);
  rte_pktmbuf_free(out);
  check_over((struct packet_counters){.in_place = 1, .bytes_referenced = LEN - OFF});
}

static void shared_packet_gets_a_header_in_front(bool last_in_place)
{
  struct rte_mbuf *m = arrival();
  packet_buf_ops.ref(packet_buf(m)); /* the content store's */
  packet_buf_ops.ref(packet_buf(m)); /* the second copy's */
  struct dc_tx a = tx_of(m, OFF, PREFIX, 1), b = tx_of(m, OFF, DC_PREFIX_MAX, 2);
  struct rte_mbuf *one = packet_build(&pools, &a, false), *two = packet_build(&pools, &b, false);
  check_frame(one, OFF, PREFIX, 1, 2);
  check_frame(two, OFF, DC_PREFIX_MAX, 2, 2);
  CHECK(one->next == m && two->next == m);
  rte_pktmbuf_free(one);
  rte_pktmbuf_free(two);
  CHECK(rte_mbuf_refcnt_read(m) == 1);
  if (last_in_place) { /* the store gives it away with its last frame */
    struct dc_tx c = tx_of(m, OFF, PREFIX, 3);
    struct rte_mbuf *three = packet_build(&pools, &c, false);
    CHECK(three == m);
    check_frame(three, OFF, PREFIX, 3, 1);
    rte_pktmbuf_free(three);
  } else {
    packet_buf_ops.unref(packet_buf(m));
  }
  uint64_t frames = last_in_place ? 3 : 2;
  check_over((struct packet_counters){.shared = 2, .in_place = frames - 2, .bytes_referenced = frames * (LEN - OFF)});
}

static void other_bytes_of_a_shared_packet_are_cloned(void)
{
  struct rte_mbuf *m = arrival();
  packet_buf_ops.ref(packet_buf(m));
  packet_buf_ops.ref(packet_buf(m));
  struct dc_tx a = tx_of(m, OFF, PREFIX, 1), b = tx_of(m, OFF + 16, PREFIX, 2);
  struct rte_mbuf *one = packet_build(&pools, &a, false), *two = packet_build(&pools, &b, false);
  CHECK(two->next != m);
  check_frame(one, OFF, PREFIX, 1, 2); /* not disturbed by the second one */
  check_frame(two, OFF + 16, PREFIX, 2, 2);
  rte_pktmbuf_free(one);
  CHECK(rte_mbuf_refcnt_read(m) == 2);
  rte_pktmbuf_free(two);
  packet_buf_ops.unref(packet_buf(m));
  check_over((struct packet_counters){.shared = 1, .cloned = 1, .bytes_referenced = 2 * (LEN - OFF) - 16});
}

/* An interest that was answered is the header of its answer, whatever it was before; with the round's end it is back. */
static void what_was_let_go_is_the_next_header(void)
{
  struct rte_mbuf *interest = arrival(), *m = arrival();
  packet_buf_ops.ref(packet_buf(m));
  packet_buf_ops.unref(packet_buf(interest));
  struct dc_tx a = tx_of(m, OFF, PREFIX, 1);
  struct rte_mbuf *out = packet_build(&pools, &a, false);
  CHECK(out == interest && rte_mempool_avail_count(pools.headers) == HEADERS);
  check_frame(out, OFF, PREFIX, 1, 2);
  rte_pktmbuf_free(out);
  packet_buf_ops.unref(packet_buf(m));
  CHECK(rte_mempool_avail_count(pools.data) == DATA - 1);
  check_over((struct packet_counters){.shared = 1, .bytes_referenced = LEN - OFF});
}

static void single_segment_drivers_get_a_copy(void)
{
  struct rte_mbuf *m = arrival();
  packet_buf_ops.ref(packet_buf(m));
  struct dc_tx tx = tx_of(m, OFF, PREFIX, 9);
  struct rte_mbuf *out = packet_build(&pools, &tx, true);
  CHECK(out != m);
  check_frame(out, OFF, PREFIX, 9, 1);
  rte_pktmbuf_free(out);
  packet_buf_ops.unref(packet_buf(m));
  check_over((struct packet_counters){.linear = 1, .bytes_copied = LEN - OFF});
}

static void a_prefix_longer_than_the_room_in_front_is_chained(void)
{
  struct rte_mbuf *m = arrival();
  struct dc_tx tx = tx_of(m, 0, DC_PREFIX_MAX, 5);
  _Static_assert((int)DC_PREFIX_MAX > RTE_PKTMBUF_HEADROOM, "else there is room");
  struct rte_mbuf *out = packet_build(&pools, &tx, false);
  check_frame(out, 0, DC_PREFIX_MAX, 5, 2);
  rte_pktmbuf_free(out);
  check_over((struct packet_counters){.shared = 1, .bytes_referenced = LEN});
}

static void nothing_but_a_prefix(void)
{
  struct dc_tx tx = tx_of(NULL, 0, PREFIX, 7);
  struct rte_mbuf *out = packet_build(&pools, &tx, false);
  CHECK(out != NULL && out->pkt_len == PREFIX);
  rte_pktmbuf_free(out);
  struct rte_mbuf *m = arrival();
  struct dc_tx empty = tx_of(m, LEN, PREFIX, 7);
  out = packet_build(&pools, &empty, false);
  CHECK(out != NULL && out->pkt_len == PREFIX);
  rte_pktmbuf_free(out);
  check_over((struct packet_counters){.bare = 2});
}

static void empty_pools_are_counted_and_lose_nothing(void)
{
  static struct rte_mbuf *all[HEADERS];
  struct rte_mbuf *m = arrival();
  unsigned n = 0;
  while ((all[n] = rte_pktmbuf_alloc(pools.headers)) != NULL && ++n < HEADERS)
    continue;
  packet_buf_ops.ref(packet_buf(m));
  struct dc_tx tx = tx_of(m, OFF, PREFIX, 1);
  CHECK(packet_build(&pools, &tx, false) == NULL);
  CHECK(rte_mbuf_refcnt_read(m) == 1);
  /* One header is left: enough for a chain, one too few for a clone. */
  rte_pktmbuf_free(all[--n]);
  packet_buf_ops.ref(packet_buf(m));
  packet_buf_ops.ref(packet_buf(m));
  struct dc_tx a = tx_of(m, OFF, PREFIX, 1), b = tx_of(m, OFF + 4, PREFIX, 1);
  struct rte_mbuf *one = packet_build(&pools, &a, false);
  CHECK(one != NULL);
  rte_pktmbuf_free(all[--n]);
  CHECK(packet_build(&pools, &b, false) == NULL);
  CHECK(rte_mempool_avail_count(pools.headers) == 1 && rte_mbuf_refcnt_read(m) == 2);
  rte_pktmbuf_free(one);
  packet_buf_ops.unref(packet_buf(m));
  while (n > 0)
    rte_pktmbuf_free(all[--n]);
  check_over((struct packet_counters){.shared = 1, .bytes_referenced = LEN - OFF, .no_mbuf = 2});
}

int main(void)
{
  struct config c = {.mtu = 9000, .workers = 1};
  struct fault f;
  if (log_catch_eal() < 0 || eal_start(&c, packet_pools_bytes(DATA, HEADERS, FRAME), &f) < 0 ||
      packet_pools_open(&pools, DATA, HEADERS, FRAME, &f) < 0) {
    fprintf(stderr, "%s\n", f.text);
    return 1;
  }
  sole_owner_is_written_in_place();
  shared_packet_gets_a_header_in_front(false);
  shared_packet_gets_a_header_in_front(true);
  other_bytes_of_a_shared_packet_are_cloned();
  what_was_let_go_is_the_next_header();
  single_segment_drivers_get_a_copy();
  a_prefix_longer_than_the_room_in_front_is_chained();
  nothing_but_a_prefix();
  empty_pools_are_counted_and_lose_nothing();
  packet_pools_close(&pools);
  printf("test_packet: 9 tests passed\n");
  return 0;
}
