/* The source's extents against a plain table of what every sequence number carries. */
#include <errno.h>
#include <string.h>

#include "agent_limits.h"
#include "datapath/tests/check.h"
#include "extent_map.h"

enum { SEQS = 4000 };

static struct dc_extent extent(uint32_t seq, uint64_t first, uint32_t count)
{
  return (struct dc_extent){.seq = seq, .first = first, .count = count};
}

static void order_and_gaps(void)
{
  struct extent_map m = {0};
  struct dc_extent e = extent(10, 100, 5);
  uint64_t piece = 0;
  CHECK(extent_map_from(&m, 0) == NULL && extent_map_end(&m) == 0);
  CHECK(!extent_map_piece(&m, 0, &piece));
  CHECK(extent_map_append(&m, &e) == 0);
  CHECK(extent_map_append(&m, &e) == 0); /* told again */
  CHECK(m.n == 1);
  e = extent(14, 0, 5);
  CHECK(extent_map_append(&m, &e) == -EINVAL); /* overlaps */
  e = extent(20, 7, 0);
  CHECK(extent_map_append(&m, &e) == -EINVAL); /* empty */
  e = extent(UINT32_MAX - 1, 7, 5);
  CHECK(extent_map_append(&m, &e) == -EINVAL); /* beyond the numbers */
  e = extent(20, 7, 4);
  CHECK(extent_map_append(&m, &e) == 0); /* a gap is allowed */
  CHECK(!extent_map_piece(&m, 9, &piece) && !extent_map_piece(&m, 15, &piece) && !extent_map_piece(&m, 24, &piece));
  CHECK(extent_map_piece(&m, 14, &piece) && piece == 104);
  CHECK(extent_map_piece(&m, 20, &piece) && piece == 7);
  CHECK(extent_map_find(&m, 23)->first == 7 && extent_map_find(&m, 17) == NULL);
  CHECK(extent_map_from(&m, 0)->first == 100 && extent_map_from(&m, 14)->first == 100);
  CHECK(extent_map_from(&m, 15)->first == 7 && extent_map_from(&m, 23)->first == 7 && extent_map_from(&m, 24) == NULL);
  CHECK(extent_map_from(&m, 0)->seq == 10 && extent_map_end(&m) == 24);
  extent_map_free(&m);
  CHECK(m.n == 0);
}

static void marks(void)
{
  struct extent_map m = {0};
  struct dc_extent a = extent(0, 0, 10), b = extent(10, 50, 1), c = extent(20, 60, 4);
  CHECK(extent_map_mark(&m, 0) == UINT32_MAX);
  extent_map_append(&m, &a);
  extent_map_append(&m, &b);
  extent_map_append(&m, &c);
  CHECK(extent_map_mark(&m, 0) == 5);
  CHECK(extent_map_mark(&m, 4) == 5);
  CHECK(extent_map_mark(&m, 5) == 10);
  CHECK(extent_map_mark(&m, 10) == 11);
  CHECK(extent_map_mark(&m, 11) == 22);
  CHECK(extent_map_mark(&m, 22) == 24);
  CHECK(extent_map_mark(&m, 24) == UINT32_MAX);
  /* Every mark lies behind where it is asked for: progress never repeats. */
  for (uint32_t seq = 0; seq < 30; seq++)
    CHECK(extent_map_mark(&m, seq) > seq);
  extent_map_free(&m);
}

static void against_a_table(unsigned seed)
{
  static uint64_t table[SEQS]; /* piece + 1; 0: nothing */
  struct extent_map m = {0};
  uint32_t end = 0;
  memset(table, 0, sizeof table);
  srand(seed);
  for (unsigned step = 0; step < 400; step++) {
    if (rand() % 8 == 0 && end > 0) {
      uint32_t cut = (uint32_t)rand() % (end + 5);
      extent_map_cut(&m, cut);
      for (uint32_t i = cut; i < SEQS; i++)
        table[i] = 0;
      end = extent_map_end(&m);
    } else if (end < SEQS - 40) {
      struct dc_extent e =
          extent(end + (uint32_t)(rand() % 3), (uint64_t)(rand() % 100000), 1 + (uint32_t)(rand() % 20));
      CHECK(extent_map_append(&m, &e) == 0);
      for (uint32_t i = 0; i < e.count; i++)
        table[e.seq + i] = e.first + i + 1;
      end = e.seq + e.count;
    }
    CHECK(extent_map_end(&m) == end || table[0] == 0);
    for (uint32_t i = 0; i < SEQS; i += 1 + (uint32_t)(rand() % 7)) {
      uint64_t piece;
      bool there = extent_map_piece(&m, i, &piece);
      CHECK(there == (table[i] != 0));
      CHECK(!there || piece + 1 == table[i]);
    }
  }
  extent_map_free(&m);
}

static void limit(void)
{
  struct extent_map m = {0};
  for (uint32_t i = 0; i < SOURCE_EXTENTS_MAX; i++) {
    struct dc_extent e = extent(i, i, 1);
    CHECK(extent_map_append(&m, &e) == 0);
  }
  struct dc_extent e = extent(SOURCE_EXTENTS_MAX, 0, 1);
  CHECK(extent_map_append(&m, &e) == -ENOSPC);
  extent_map_free(&m);
}

int main(void)
{
  order_and_gaps();
  marks();
  for (unsigned seed = 1; seed <= 20; seed++)
    against_a_table(seed);
  limit();
  puts("extent map: ok");
  return 0;
}
