/* libFuzzer: a run of events at a source, beside a model of what was asked and sent. The first byte chooses the rule of
 * rate control, the bucket and the rates, then come steps:
 *
 *   0x00..0x9f  interest: seq relative to the newest, flags, lag, cache code, how many more; its child from the low bits
 *   0xa0..0xbf  poll, for at most so many packets
 *   0xc0..0xdf  time goes on
 *   0xe0..0xef  the range grows;  0xf0..0xf7  it is cut back
 *   0xf8..0xff  a run of interests, one after another
 */
#include <string.h>

#include "datacast/source.h"
#include "script.h"

enum { SPACE = 1 << 17, CHILDREN_MAX = 24, BATCH = 32 };

static struct {
  dc_source *s;
  struct dc_source_cfg cfg;
  dc_time now, start;
  unsigned children; /* more than a source remembers, or not */
  uint32_t begin, end, newest;
  uint64_t sent; /* new packets */
  /* Per number: children that asked since they were sent it last. */
  uint32_t asked[SPACE];
  uint32_t fresh[SPACE]; /* children that were sent it as new */
} m;

static void interest(struct script *s, uint32_t seq, uint8_t more, unsigned child, uint8_t bits)
{
  struct dc_header h = {.type = DC_TYPE_INTEREST, .seq = seq, .more = more, .stops = 1};
  h.flags = bits & (DC_FLAG_RETX | DC_FLAG_NOCACHE);
  if (bits & 0x80) {
    h.lag = next(s);
    h.cache = next(s);
  }
  struct dc_segment ret = {.n = (uint8_t)(1 + child % 3), .local = true};
  ret.port[0] = (uint16_t)child;
  dc_source_handle(m.s, m.now, &h, &ret);
  if (more > UINT32_MAX - seq)
    return;
  for (uint32_t i = seq; i <= seq + more && i >= seq; i++)
    if (i >= m.begin && i < SPACE) { /* those that are not there yet are remembered */
      m.asked[i] |= 1u << child;
      if (i > m.newest && i < m.end)
        m.newest = i;
    }
}

static unsigned poll(unsigned cap)
{
  struct dc_source_tx tx[BATCH];
  struct dc_source_counters c;
  if (cap == 0 || cap > BATCH)
    cap = BATCH;
  unsigned n = dc_source_poll(m.s, m.now, tx, cap);
  MUST(n <= cap);
  for (unsigned i = 0; i < n; i++) {
    MUST(tx[i].seq < SPACE);
    unsigned child = tx[i].ret->port[0];
    MUST(child < m.children && tx[i].ret->n == 1 + child % 3);
    MUST(m.asked[tx[i].seq] >> child & 1); /* nobody is sent what he did not ask for */
    if ((tx[i].flags & DC_FLAG_MASK) == 0) {
      MUST(tx[i].seq >= m.begin && tx[i].seq < m.end);
      /* A second time is a duplicate, and says so. */
      MUST(!(m.fresh[tx[i].seq] >> child & 1) || m.children > DC_SOURCE_CHILDREN_MAX);
      m.fresh[tx[i].seq] |= 1u << child;
      m.sent++;
    } else {
      MUST((tx[i].flags & DC_FLAG_MASK) == DC_FLAG_DUP);
    }
  }
  dc_source_counters(m.s, &c);
  MUST(c.new_packets == m.sent && c.dup_packets <= c.duplicates);
  if (n < cap)
    MUST(dc_source_next_wake(m.s) > m.now && c.queued <= 2 * DC_SOURCE_QUEUE_MAX);
  return n;
}

static void check(void)
{
  struct dc_source_counters c;
  dc_source_counters(m.s, &c);
  MUST(c.rate >= m.cfg.params.rate_min && c.rate <= m.cfg.params.rate_max);
  /* The bucket: never more than its depth and what the highest rate fills in. */
  double bits = (double)m.sent * m.cfg.params.packet_bytes * 8;
  double most = ((double)m.cfg.burst_packets + 1) * m.cfg.params.packet_bytes * 8 +
                (double)m.cfg.params.rate_max * (double)(m.now - m.start) / 1e9;
  MUST(bits <= most * 1.000001);
  MUST(c.merged + c.duplicates <= c.interests && c.refetches <= c.duplicates);
  MUST(c.new_packets + c.queued <= c.interests && c.dup_packets <= c.interests);
}

/* Nothing more is asked: all that waits goes out, in a time that the lowest rate explains. */
static void drain(void)
{
  struct dc_source_counters c;
  dc_time each = (dc_time)m.cfg.params.packet_bytes * 8 * DC_SEC / m.cfg.params.rate_min;
  dc_source_counters(m.s, &c);
  dc_time repairs = DC_SOURCE_QUEUE_MAX * 16 * (dc_time)m.cfg.params.packet_bytes * DC_SEC / m.cfg.params.rate_max;
  dc_time until = m.now + repairs + (CHILDREN_MAX * (dc_time)c.queued + 4) * (each + m.cfg.params.interval);
  for (;;) {
    while (poll(BATCH) == BATCH)
      ;
    dc_time at = dc_source_next_wake(m.s);
    if (at == DC_NEVER)
      break;
    MUST(at <= until);
    m.now = at > m.now + each ? at : m.now + each;
  }
  dc_source_counters(m.s, &c);
  MUST(c.queued == 0);
  check();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
  static const uint64_t rates[] = {1000000, 100000000, 10000000000, 400000000000};
  struct script s = {p, p + len};
  uint8_t kind = next(&s);
  void *memory = malloc(dc_source_size());
  MUST(memory != NULL);
  memset(&m, 0, sizeof m);
  m.now = m.start = DC_SEC;
  uint64_t rate = rates[kind >> 1 & 3];
  m.cfg = (struct dc_source_cfg){.cc = dc_cc_find(kind & 1 ? "steady" : "datacast"),
                                 .params = {.rate_init = kind & 8 ? rate : rate / 16,
                                            .rate_min = rate / 256,
                                            .rate_max = rate,
                                            .delta = rate / 20,
                                            .interval = DC_MS,
                                            .packet_bytes = kind & 16 ? 1464 : 9000},
                                 .burst_packets = kind & 32 ? 64 : 2,
                                 .patience = kind & 128 ? 100 * DC_MS : 0};
  m.s = dc_source_init(memory, m.now, &m.cfg);
  m.begin = kind & 64 ? 1000 : 0;
  m.end = m.begin;
  m.children = kind & 128 ? CHILDREN_MAX : DC_SOURCE_CHILDREN_MAX;
  m.newest = m.begin;

  while (s.p < s.end) {
    uint8_t op = next(&s);
    if (op < 0xa0) {
      uint8_t bits = next(&s), away = next(&s);
      uint32_t seq = op & 0x40 ? m.newest - away : m.newest + away / 4;
      uint8_t more = bits & 0x40 ? next(&s) & DC_RANGE_MORE_MAX : 0;
      interest(&s, seq, more, op % m.children, bits);
    } else if (op < 0xc0) {
      poll(op & 31);
    } else if (op < 0xe0) {
      m.now += span(&s);
    } else if (op < 0xf0) {
      uint32_t more = (uint32_t)next(&s) << (op & 7);
      if (more > SPACE - m.end)
        more = SPACE - m.end;
      dc_source_assign(m.s, m.end, more);
      m.end += more;
    } else if (op < 0xf8) {
      struct dc_source_counters c;
      dc_source_counters(m.s, &c);
      uint32_t to = c.next_seq + next(&s) - 32;
      if (to < m.end && to >= m.begin) {
        m.end = to;
        dc_source_cut(m.s, m.end);
      }
    } else {
      unsigned n = next16(&s) % 9000, child = op & 7;
      uint32_t from = m.newest + (next(&s) & 1);
      for (unsigned i = 0; i < n; i++)
        interest(&s, from + i, 0, child, 0);
    }
    check();
  }
  drain();
  free(memory);
  return 0;
}
