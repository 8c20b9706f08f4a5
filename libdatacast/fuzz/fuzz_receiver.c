/* libFuzzer: a run of events at a receiver, beside a model of what it was assigned, asks for and holds. The first byte
 * chooses its settings, then come steps:
 *
 *   0x00..0x2f  data for one of the numbers asked for (by age);  0x30..0x37  of a wrong length;  0x38..0x3f  any number
 *   0x40..0x5f  an interest or its data is lost (by age);  0x60..0x8f  poll, for at most so many interests
 *   0x90..0xaf  time goes on;  0xb0..0xcf  an assignment;  0xd0..0xd7  many of one piece each, announced twice
 *   0xd8..0xdf  cut;  0xe0..0xe7  restart;  0xe8..0xef  a block fails its checksum;  0xf0..0xf7  every whole block is
 *               good
 *   0xf8..0xff  a piece comes over another tree
 */
#include <errno.h>
#include <string.h>

#include "datacast/receiver.h"
#include "script.h"

enum { PIECES = 4096, PER_BLOCK = 4, BLOCKS = PIECES / PER_BLOCK, PIECE = 100, LAST = 37, SPACE = 1 << 15, BATCH = 64 };

static struct {
  dc_receiver *r;
  dc_pieces *pieces;
  struct dc_receiver_cfg cfg;
  dc_time now;
  uint32_t begin, end;     /* numbers assigned */
  uint32_t extents, piece; /* extents so far; the next piece to be assigned */
  uint16_t of[SPACE];      /* the piece a number carries, plus one; 0: none */
  bool asked[SPACE];       /* an interest was sent and not answered, as far as the receiver may know */
  bool good[BLOCKS];       /* verified: it never fails any more */
  dc_time at[SPACE];       /* when it was asked for first */
  dc_time longest;         /* from then to its data */
  uint32_t first, n;       /* of the numbers on their way */
  uint32_t told;           /* most that was said that the path holds */
} m;

static uint32_t on_way[2 * SPACE]; /* oldest first */

static uint16_t length_of(uint32_t piece) { return piece + 1 == PIECES ? LAST : PIECE; }

static enum dc_rx_result give(uint32_t seq, uint16_t length)
{
  uint64_t piece = UINT64_MAX;
  struct dc_header h = {.type = DC_TYPE_DATA, .seq = seq, .length = length};
  h.flags = (uint8_t)(seq * 0x50) & DC_FLAG_PATH;
  if (dc_path_packets(h.flags) > m.told)
    m.told = dc_path_packets(h.flags);
  bool known = seq < SPACE && m.of[seq] != 0;
  bool had = known && dc_pieces_has(m.pieces, m.of[seq] - 1u);
  enum dc_rx_result rc = dc_receiver_handle(m.r, m.now, &h, &piece);
  if (rc == DC_RX_UNKNOWN) {
    MUST(!known || m.extents > DC_EXTENTS_MAX); /* what is assigned is known, until it is too much */
    return rc;
  }
  MUST(known && piece == m.of[seq] - 1u);
  if (rc == DC_RX_UNASKED) { /* nothing was asked for, or the receiver has forgotten it */
    MUST(!had && !dc_pieces_has(m.pieces, piece));
    return rc;
  }
  MUST(had || m.asked[seq]); /* what is new was asked for */
  if (m.asked[seq] && m.now - m.at[seq] > m.longest)
    m.longest = m.now - m.at[seq];
  if (rc == DC_RX_LENGTH) {
    MUST(length != length_of((uint32_t)piece) && had == dc_pieces_has(m.pieces, piece));
  } else {
    MUST(length == length_of((uint32_t)piece) && (rc == DC_RX_NEW) == !had && dc_pieces_has(m.pieces, piece));
    m.asked[seq] = false;
  }
  return rc;
}

static void to_way(uint32_t seq)
{
  if (m.n == SPACE)
    return;
  if (m.first + m.n == 2 * SPACE) {
    memcpy(on_way, on_way + m.first, m.n * sizeof on_way[0]);
    m.first = 0;
  }
  on_way[m.first + m.n++] = seq;
}

static unsigned poll(unsigned cap)
{
  struct dc_interest out[BATCH];
  struct dc_receiver_counters before, c;
  if (cap == 0 || cap > BATCH)
    cap = BATCH;
  dc_receiver_counters(m.r, &before);
  unsigned n = dc_receiver_poll(m.r, m.now, out, cap);
  MUST(n <= cap);
  uint32_t numbers = 0;
  for (unsigned i = 0; i < n; numbers += out[i++].more + 1u)
    MUST(out[i].more <= DC_RANGE_MORE_MAX && out[i].more <= UINT32_MAX - out[i].seq);
  for (unsigned i = 0, k = 0; i < n; k < out[i].more ? k++ : (k = 0, i++)) {
    uint32_t seq = out[i].seq + k;
    MUST(seq < SPACE && m.of[seq] != 0 && seq < m.end);
    MUST(!dc_pieces_has(m.pieces, m.of[seq] - 1u)); /* nobody asks for what he has */
    uint8_t known = DC_FLAG_RETX | DC_FLAG_NOCACHE | (i + 1 == n ? DC_FLAG_LAST : 0);
    MUST((out[i].flags & ~known) == 0);
    if (out[i].flags & DC_FLAG_RETX)
      MUST(m.asked[seq]);
    else if (!(out[i].flags & DC_FLAG_NOCACHE)) /* one may be forgotten when its piece came another way, and failed */
      MUST(!m.asked[seq]);
    if (!m.asked[seq])
      m.at[seq] = m.now;
    m.asked[seq] = true;
    to_way(seq);
  }
  dc_receiver_counters(m.r, &c);
  MUST(c.interests == before.interests + numbers && c.retransmitted <= c.interests);
  if (n < cap)
    MUST(dc_receiver_next_wake(m.r) > m.now);
  return n;
}

static void check(void)
{
  struct dc_receiver_counters c;
  uint32_t asked = 0;
  dc_receiver_counters(m.r, &c);
  for (uint32_t i = m.begin; i < m.end; i++)
    asked += m.asked[i];
  MUST(c.outstanding <= asked && c.outstanding <= DC_CREDITS_MAX && c.outstanding <= c.credits);
  MUST(c.outstanding <= m.cfg.credits + m.told);
  MUST(c.duplicates <= c.data);
  MUST(c.rto >= m.cfg.rto_min && (c.rto <= m.cfg.rto_max || c.rto <= 2 * m.longest));
}

/* An announcement of pieces, and the model's share of it. */
static void assign(uint32_t count)
{
  if (count > PIECES - m.piece)
    m.piece = 0; /* what other trees did not finish is assigned again */
  if (count > SPACE - m.end)
    return;
  struct dc_extent e = {.seq = m.end, .count = count, .first = m.piece};
  int rc = dc_receiver_assign(m.r, &e);
  MUST(rc == 0 || count == 0 || rc == -ENOSPC);
  if (rc != 0)
    return;
  for (uint32_t i = 0; i < count; i++)
    m.of[e.seq + i] = (uint16_t)(m.piece + i + 1);
  m.extents++;
  m.end += count;
  m.piece = (m.piece + count) % PIECES;
  MUST(dc_receiver_assign(m.r, &e) == 0); /* said again */
}

static void cut(uint32_t seq)
{
  dc_receiver_cut(m.r, seq);
  for (uint32_t i = seq; i < m.end; i++) {
    m.of[i] = 0;
    m.asked[i] = false;
  }
  if (seq < m.end)
    m.end = seq;
  if (m.begin > m.end)
    m.begin = m.end;
  uint32_t *way = on_way + m.first, n = 0;
  for (uint32_t i = 0; i < m.n; i++)
    if (way[i] < seq)
      way[n++] = way[i];
  m.n = n;
}

static void fail_block(uint32_t block)
{
  if (m.good[block])
    return;
  dc_pieces_drop_block(m.pieces, block);
  dc_receiver_refetch(m.r, (uint64_t)block * PER_BLOCK, PER_BLOCK);
}

static void all_good(void)
{
  for (uint32_t b = 0; b < BLOCKS; b++)
    if (dc_pieces_block_whole(m.pieces, b)) {
      m.good[b] = true;
      dc_pieces_seal_block(m.pieces, b);
    }
}

/* The few that are older move up, not all that are younger. */
static uint32_t from_way(uint8_t age, bool take)
{
  uint32_t *way = on_way + m.first, i = age % m.n, seq = way[i];
  if (take) {
    for (; i > 0; i--)
      way[i] = way[i - 1];
    m.first++;
    m.n--;
  }
  return seq;
}

/* Everything asked for is answered: whatever was assigned is held in the end, the blocks that failed included. */
static void finish(void)
{
  for (unsigned rounds = 0; !dc_receiver_idle(m.r); rounds++) {
    MUST(rounds < 100000);
    while (poll(BATCH) == BATCH)
      ;
    if (dc_receiver_idle(m.r))
      break;
    if (m.n == 0)
      m.now = dc_receiver_next_wake(m.r);
    MUST(m.now != DC_NEVER);
    while (m.n > 0) {
      uint32_t seq = from_way(0, true);
      if (m.of[seq] != 0)
        give(seq, length_of(m.of[seq] - 1u));
    }
    m.now += DC_MS;
    check();
  }
  for (uint32_t seq = m.begin; seq < m.end; seq++)
    MUST(m.of[seq] == 0 || dc_pieces_has(m.pieces, m.of[seq] - 1u) || !dc_receiver_carries(m.r, m.of[seq] - 1u));
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
  static const struct dc_layout layout = {.size = (PIECES - 1) * PIECE + LAST, .piece = PIECE, .per_block = PER_BLOCK};
  struct script s = {p, p + len};
  uint8_t kind = next(&s);
  void *memory = malloc(dc_receiver_size()), *held = calloc(1, dc_pieces_size(&layout));
  MUST(memory != NULL && held != NULL);
  memset(&m, 0, sizeof m);
  m.now = DC_SEC;
  dc_receiver_cfg_default(&m.cfg);
  m.cfg.credits = kind & 1 ? 3 : 64;
  m.cfg.batch = kind & 8 ? 4 : 1;
  m.pieces = dc_pieces_init(held, &layout);
  m.r = dc_receiver_init(memory, m.now, &m.cfg, m.pieces);
  m.begin = m.end = kind & 4 ? 1000 : 0;

  while (s.p < s.end) {
    uint8_t op = next(&s);
    if (op < 0x30) {
      if (m.n > 0) {
        uint32_t seq = from_way(op & 15 ? op & 15 : next(&s), !(op & 0x20));
        if (m.of[seq] != 0)
          give(seq, length_of(m.of[seq] - 1u));
      }
    } else if (op < 0x38) {
      if (m.n > 0)
        give(from_way(next(&s), true), op & 1 ? 0 : PIECE + 1);
    } else if (op < 0x40) {
      give(next16(&s), PIECE);
    } else if (op < 0x60) {
      if (m.n > 0)
        from_way(op & 31, true);
    } else if (op < 0x90) {
      poll(op % 48);
    } else if (op < 0xb0) {
      m.now += span(&s);
    } else if (op < 0xd0) {
      assign((uint32_t)next(&s) + 1);
    } else if (op < 0xd8) {
      for (unsigned i = next(&s); i > 0; i--) {
        m.piece = (m.piece + 2 * PER_BLOCK + 1) % (PIECES - 1); /* not next to the last one */
        assign(1);
      }
    } else if (op < 0xe0) {
      uint32_t back = next(&s);
      cut(back < m.end ? m.end - back : 0);
    } else if (op < 0xe8) {
      dc_receiver_restart(m.r, m.now);
    } else if (op < 0xf0) {
      fail_block(next16(&s) % BLOCKS);
    } else if (op < 0xf8) {
      all_good();
    } else {
      dc_pieces_add(m.pieces, next16(&s) % PIECES);
    }
    check();
  }
  finish();
  free(memory);
  free(held);
  return 0;
}
