#include "datacast/source.h"

#include <string.h>

/* What is known of a sequence number, in a ring over the window behind the newest one: nothing, sent, or the place
 * where it waits for tokens (plus one). Two bytes each, so finding and merging are one look. */
enum { UNSEEN = 0, SENT = 0xffff };

/* Two queues wait for tokens. HOLES, the numbers below what was sent already, go first: their first interests were lost
 * on the way, and receivers that have all around them wait for them. */
enum { HOLES, AHEAD, QUEUES };

struct waiting {
  uint32_t seq;
  uint16_t children; /* who asked: bits over s->child */
  uint16_t served;   /* who was sent it while others wait: they ask for a duplicate next time */
};

struct queue {
  uint32_t head, n;
  struct waiting w[DC_SOURCE_QUEUE_MAX];
};

struct again { /* an interest for what was sent already */
  uint32_t seq;
  uint16_t child;
};

struct child {
  struct dc_segment ret;
  uint32_t pending; /* entries in the queues that point here */
  uint64_t used;
};

struct dc_source {
  struct dc_source_cfg cfg;
  dc_time now; /* up to here tokens and ticks are accounted for */
  /* Tokens in bits times 10^9 (rate times nanoseconds), so that nothing is ever rounded. */
  int64_t tokens, cost, depth;
  uint64_t rate, limit; /* limit: 0 for none */
  dc_time tick;

  uint32_t begin, end;
  bool any;         /* newest is valid */
  uint32_t newest;  /* highest number accepted */
  uint32_t next_seq; /* one past the highest number sent */

  uint32_t queued; /* waiting for tokens, in both queues */
  uint32_t dup_head, dups;  /* to be answered at once */
  unsigned children;
  uint64_t uses;
  struct dc_source_counters count;

  uint64_t cc[DC_CC_STATE / 8];
  struct child child[DC_SOURCE_CHILDREN_MAX];
  struct queue queue[QUEUES];
  struct again dup[DC_SOURCE_QUEUE_MAX];
  uint16_t seen[DC_SOURCE_WINDOW];
};

#define UNIT INT64_C(1000000000)
/* Up to this rate, a step of up to STEP ns needs no check for overflow. */
#define RATE_LIMIT ((uint64_t)1 << 42)
#define STEP ((dc_time)1 << 20)

size_t dc_source_size(void) { return sizeof(struct dc_source); }

static void retime(dc_source *s)
{
  s->rate = s->cfg.cc->rate(s->cc);
  if (s->rate > RATE_LIMIT)
    s->rate = RATE_LIMIT;
  if (s->limit != 0 && s->rate > s->limit)
    s->rate = s->limit;
  s->tick = s->cfg.cc->next_tick(s->cc);
}

dc_source *dc_source_init(void *memory, dc_time now, const struct dc_source_cfg *cfg)
{
  dc_source *s = memory;
  memset(s, 0, sizeof *s);
  s->cfg = *cfg;
  s->now = now;
  if (s->cfg.params.packet_bytes == 0)
    s->cfg.params.packet_bytes = 1;
  if (s->cfg.params.interval == 0)
    s->cfg.params.interval = DC_US;
  if (s->cfg.burst_packets == 0)
    s->cfg.burst_packets = 1;
  if (s->cfg.burst_packets > 4096)
    s->cfg.burst_packets = 4096; /* 4096 * 64 KiB * 8 * 10^9 < 2^62 */
  s->cost = (int64_t)s->cfg.params.packet_bytes * 8 * UNIT;
  s->depth = s->cost * s->cfg.burst_packets;
  s->tokens = s->cost;
  cfg->cc->init(s->cc, now, &s->cfg.params);
  retime(s);
  return s;
}

/* ---- the bucket ---- */

static void fill(dc_source *s, dc_time to)
{
  dc_time dt = to - s->now;
  s->now = to;
  if (dt > STEP && s->rate > 0 && dt > (uint64_t)(s->depth - s->tokens) / s->rate)
    s->tokens = s->depth;
  else
    s->tokens += (int64_t)(s->rate * dt);
  if (s->tokens > s->depth)
    s->tokens = s->depth;
}

/* Bring bucket and rule up to `now`. After a long silence the rule catches up in one call. */
static void advance(dc_source *s, dc_time now)
{
  if (now <= s->now)
    return;
  for (int i = 0; s->tick <= now && i < 64; i++) {
    if (s->tick > s->now)
      fill(s, s->tick);
    s->cfg.cc->tick(s->cc, i < 63 ? s->tick : now);
    retime(s);
  }
  fill(s, now);
}

void dc_source_limit(dc_source *s, dc_time now, uint64_t bps)
{
  advance(s, now);
  s->limit = bps;
  retime(s);
}

/* ---- who asks ---- */

/* Index of the return segment, or -1 when the table is full of segments in use. */
static int child_of(dc_source *s, const struct dc_segment *ret)
{
  int oldest = -1;
  for (unsigned i = 0; i < s->children; i++) {
    if (dc_segment_equal(&s->child[i].ret, ret)) {
      s->child[i].used = ++s->uses;
      return (int)i;
    }
    if (s->child[i].pending == 0 && (oldest < 0 || s->child[i].used < s->child[oldest].used))
      oldest = (int)i;
  }
  if (s->children < DC_SOURCE_CHILDREN_MAX)
    oldest = (int)s->children++;
  if (oldest >= 0)
    s->child[oldest] = (struct child){.ret = *ret, .used = ++s->uses};
  return oldest;
}

/* ---- what was sent ---- */

static uint16_t *slot(dc_source *s, uint32_t seq) { return &s->seen[seq % DC_SOURCE_WINDOW]; }

/* seq becomes the newest number: what falls out of the window is forgotten. */
static void move_window(dc_source *s, uint32_t seq)
{
  uint32_t step = s->any ? seq - s->newest : 1;
  if (step >= DC_SOURCE_WINDOW)
    memset(s->seen, 0, sizeof s->seen);
  else
    for (uint32_t i = 0; i < step; i++)
      *slot(s, seq - i) = UNSEEN;
  s->newest = seq;
  s->any = true;
}

void dc_source_set_range(dc_source *s, uint32_t begin, uint32_t end)
{
  s->begin = begin;
  s->end = end;
}

static void refuse(dc_source *s, enum dc_drop why) { s->count.drop[why]++; }

/* What an interest with cache code 0 finds at a node of which nothing else is known. */
#define CACHE_BYTES_DEFAULT (128 * 1024)

/* Packets that the caches on the way of this interest hold. */
static uint32_t depth(const dc_source *s, const struct dc_header *h)
{
  uint64_t c = h->cache == 0 ? CACHE_BYTES_DEFAULT : dc_cache_bytes(h->cache);
  uint64_t n = c / s->cfg.params.packet_bytes;
  return n < 1 ? 1 : n > DC_SOURCE_WINDOW ? DC_SOURCE_WINDOW : (uint32_t)n;
}

static void tell(dc_source *s, dc_time now, const struct dc_header *h, bool duplicate)
{
  struct dc_cc_event e = {.duplicate = duplicate,
                          .retx = h->flags & DC_FLAG_RETX,
                          .lag = h->lag,
                          .seq = h->seq,
                          .behind = h->seq < s->next_seq ? s->next_seq - h->seq : 0,
                          .queued = s->queued,
                          .next_seq = s->next_seq,
                          .depth = depth(s, h)};
  s->cfg.cc->interest(s->cc, now, &e);
  retime(s);
}

/* One number that an interest of this child asks for. */
static void asked(dc_source *s, dc_time now, const struct dc_header *h, unsigned child)
{
  s->count.interests++;
  if (h->seq < s->begin || h->seq >= s->end) {
    refuse(s, DC_DROP_BEYOND);
    return;
  }

  bool ahead = !s->any || h->seq > s->newest;
  bool old = !ahead && s->newest - h->seq >= DC_SOURCE_WINDOW;
  uint16_t known = ahead ? UNSEEN : old ? SENT : *slot(s, h->seq);
  struct waiting *w = known == UNSEEN || known == SENT
                          ? NULL
                          : &s->queue[(known - 1u) / DC_SOURCE_QUEUE_MAX].w[(known - 1u) % DC_SOURCE_QUEUE_MAX];
  if (known == UNSEEN) {
    if (s->queued == DC_SOURCE_QUEUE_MAX) { /* bounds each of the two */
      refuse(s, DC_DROP_QUEUE);
      return;
    }
    if (ahead)
      move_window(s, h->seq);
    uint32_t which = h->seq < s->next_seq ? HOLES : AHEAD;
    struct queue *q = &s->queue[which];
    uint32_t at = (q->head + q->n++) % DC_SOURCE_QUEUE_MAX;
    s->queued++;
    q->w[at] = (struct waiting){.seq = h->seq, .children = (uint16_t)(1u << child)};
    s->child[child].pending++;
    *slot(s, h->seq) = (uint16_t)(which * DC_SOURCE_QUEUE_MAX + at + 1);
    tell(s, now, h, false);
  } else if (w != NULL && !(w->served >> child & 1)) {
    s->count.merged++;
    if (!(w->children >> child & 1)) {
      w->children |= (uint16_t)(1u << child);
      s->child[child].pending++;
    }
    tell(s, now, h, false);
  } else {
    s->count.duplicates++;
    if (s->dups == DC_SOURCE_QUEUE_MAX)
      refuse(s, DC_DROP_QUEUE);
    else {
      s->dup[(s->dup_head + s->dups++) % DC_SOURCE_QUEUE_MAX] = (struct again){h->seq, (uint16_t)child};
      s->child[child].pending++;
    }
    if (h->flags & DC_FLAG_NOCACHE)
      s->count.refetches++; /* corruption says nothing about congestion */
    else
      tell(s, now, h, true);
  }
}

void dc_source_handle(dc_source *s, dc_time now, const struct dc_header *h, const struct dc_segment *ret)
{
  advance(s, now);
  struct dc_header one = *h; /* a range is as good as an interest for each of its numbers */
  if (h->more > UINT32_MAX - h->seq) {
    refuse(s, DC_DROP_RANGE);
    return;
  }
  if (h->seq >= s->end || h->seq + h->more < s->begin) {
    s->count.interests += h->more + 1u;
    s->count.drop[DC_DROP_BEYOND] += h->more + 1u;
    return;
  }
  int child = child_of(s, ret);
  if (child < 0) {
    s->count.interests += h->more + 1u;
    s->count.drop[DC_DROP_CHILDREN] += h->more + 1u;
    return;
  }
  for (uint32_t i = 0; i <= h->more; i++, one.seq++)
    asked(s, now, &one, (unsigned)child);
}

static struct waiting *first(struct queue *q) { return &q->w[q->head]; }

/* The first waiting interest leaves a queue. */
static void shift(dc_source *s, unsigned which)
{
  struct queue *q = &s->queue[which];
  uint16_t *known = slot(s, first(q)->seq);
  /* The window may have jumped past an entry that waited: then its slot is another number's. */
  if (*known == which * DC_SOURCE_QUEUE_MAX + q->head + 1)
    *known = SENT;
  q->head = (q->head + 1) % DC_SOURCE_QUEUE_MAX;
  q->n--;
  s->queued--;
}

/* Forget what was cut off after it had been asked for. */
static void drop_beyond(dc_source *s, unsigned which)
{
  struct queue *q = &s->queue[which];
  while (q->n > 0 && first(q)->seq >= s->end) {
    for (unsigned c = 0; c < DC_SOURCE_CHILDREN_MAX; c++)
      if (first(q)->children >> c & 1)
        s->child[c].pending--;
    refuse(s, DC_DROP_BEYOND);
    uint16_t *known = slot(s, first(q)->seq);
    bool sent = first(q)->served != 0;
    shift(s, which);
    if (*known == SENT && !sent)
      *known = UNSEEN;
  }
}

unsigned dc_source_poll(dc_source *s, dc_time now, struct dc_source_tx *out, unsigned cap)
{
  unsigned n = 0;
  advance(s, now);
  for (; n < cap && s->dups > 0; n++) {
    struct again *d = &s->dup[s->dup_head];
    out[n] = (struct dc_source_tx){.seq = d->seq, .flags = DC_FLAG_DUP, .ret = &s->child[d->child].ret};
    s->child[d->child].pending--;
    s->dup_head = (s->dup_head + 1) % DC_SOURCE_QUEUE_MAX;
    s->dups--;
    s->count.dup_packets++;
  }
  for (;; n++) {
    drop_beyond(s, HOLES);
    drop_beyond(s, AHEAD);
    if (n == cap || s->queued == 0 || s->tokens < s->cost)
      return n;
    unsigned which = s->queue[HOLES].n > 0 ? HOLES : AHEAD;
    struct waiting *w = first(&s->queue[which]);
    unsigned c = (unsigned)__builtin_ctz(w->children);
    out[n] = (struct dc_source_tx){.seq = w->seq, .ret = &s->child[c].ret};
    w->children &= (uint16_t)(w->children - 1);
    w->served |= (uint16_t)(1u << c);
    s->child[c].pending--;
    s->count.new_packets++;
    s->tokens -= s->cost;
    if (w->seq >= s->next_seq)
      s->next_seq = w->seq + 1;
    if (w->children == 0)
      shift(s, which);
  }
}

dc_time dc_source_next_wake(const dc_source *s)
{
  if (s->dups > 0)
    return s->now;
  if (s->queued == 0)
    return DC_NEVER; /* tokens and ticks are caught up with when something arrives */
  if (s->tokens >= s->cost)
    return s->now;
  if (s->rate == 0)
    return s->tick;
  uint64_t missing = (uint64_t)(s->cost - s->tokens);
  dc_time at = s->now + (missing + s->rate - 1) / s->rate;
  return at < s->tick ? at : s->tick;
}

void dc_source_counters(const dc_source *s, struct dc_source_counters *out)
{
  *out = s->count;
  out->rate = s->rate;
  out->queued = s->queued;
  out->next_seq = s->next_seq;
}
