#include "datacast/source.h"

#include <string.h>

#include "early.h"
#include "far.h"
#include "patience.h"
#include "runs.h"

/* Two queues wait for tokens. HOLES, the numbers below what was sent already, go first: their first interests were lost
 * on the way, and receivers that have all around them wait for them. */
enum { HOLES, AHEAD, QUEUES };

/* Of what is asked for again so many are looked at; so many may be answered at once after a pause. */
enum { LOOK = 256, ANSWERS = 8 };

/* What is asked for at once is believed to be so for so many interests. */
enum { BATCHES = 64 };

/* A child that nothing was heard of for so long, and that waits for nothing, is not the slowest. */
#define STILL (150 * DC_MS)

/* A number that waits is found through a hash, which names its place in the queues, plus one. */
enum { PLACES = QUEUES * DC_SOURCE_QUEUE_MAX, HEADS = PLACES, NONE = 0 };
_Static_assert((HEADS & (HEADS - 1)) == 0 && PLACES <= UINT16_MAX, "a place is a head's 16 bits");

struct waiting {
  uint32_t seq;
  uint16_t chain;    /* next in the hash */
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
  bool lost; /* a queue was full: the answer is paced, or the queue would be full again */
};

struct child {
  struct dc_segment ret;
  uint32_t pending; /* entries in the queues that point here */
  uint64_t used;
  dc_time heard;
  bool far;   /* the last of its interests was for numbers far ahead, and is not believed */
  bool known; /* heard of twice, or from the first number on: one damaged interest makes a child that there is not */
  uint32_t end, low; /* one past the furthest number that was asked for there, and by all who ask there */
  uint32_t depth;    /* packets that the caches on its way hold */
};

struct dc_source {
  struct dc_source_cfg cfg;
  dc_time now; /* up to here tokens and ticks are accounted for */
  /* Tokens in bits times 10^9 (rate times nanoseconds), so that nothing is ever rounded. */
  int64_t tokens, cost, depth;
  uint64_t rate, limit; /* limit: 0 for none */
  dc_time tick;
  struct patience patience;

  struct dc_runs given, sent; /* the numbers there are; those that were sent */
  struct early early;
  uint32_t next_seq; /* one past the highest number sent */
  uint32_t end;      /* one past the highest that was asked for */
  /* How many numbers were accepted and sent so far. Rules of rate control think in these: a number far ahead of the others
   * is one more, whatever its value. */
  uint32_t accepted, sent_n;
  bool dry;             /* all that there is has been asked for and sent, and no interest has come since */
  uint32_t more, since; /* numbers beside the first that are asked for at once now; interests since then */

  uint32_t queued; /* waiting for tokens, in both queues */
  uint32_t dup_head, dups;
  dc_time repair, answer; /* the next answer to a loss, and to who fell out of the caches */
  unsigned children;
  uint64_t uses;
  struct dc_source_counters count;

  uint64_t cc[DC_CC_STATE / 8];
  struct child child[DC_SOURCE_CHILDREN_MAX];
  struct queue queue[QUEUES];
  struct again dup[DC_SOURCE_QUEUE_MAX];
  uint16_t head[HEADS];
};

#define UNIT INT64_C(1000000000)
/* Up to this rate, a step of up to STEP ns needs no check for overflow. */
#define RATE_LIMIT ((uint64_t)1 << 42)
#define STEP ((dc_time)1 << 20)

size_t dc_source_size(void) { return sizeof(struct dc_source); }

static void retime(dc_source *s)
{
  s->rate = patience_rate(&s->patience, s->now, s->cfg.cc->rate(s->cc), s->cfg.params.packet_bytes);
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
  if (s->cfg.params.rate_max > RATE_LIMIT)
    s->cfg.params.rate_max = RATE_LIMIT;
  if (s->cfg.burst_packets == 0)
    s->cfg.burst_packets = 1;
  if (s->cfg.burst_packets > 4096)
    s->cfg.burst_packets = 4096; /* 4096 * 64 KiB * 8 * 10^9 < 2^62 */
  s->cost = (int64_t)s->cfg.params.packet_bytes * 8 * UNIT;
  s->depth = s->cost * s->cfg.burst_packets;
  s->tokens = s->cost;
  s->patience = (struct patience){.most = cfg->patience, .since = now};
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

/* ---- what there is, and what waits ---- */

void dc_source_assign(dc_source *s, uint32_t seq, uint32_t count)
{
  if (count > 0 && count <= UINT32_MAX - seq && seq >= dc_runs_end(&s->given)) {
    dc_runs_add(&s->given, seq, seq + count);
    s->early.due = s->early.n > 0;
  }
}

void dc_source_cut(dc_source *s, uint32_t seq) { dc_runs_cut(&s->given, seq); }

static struct waiting *at_place(dc_source *s, uint16_t place)
{
  return &s->queue[(place - 1u) / DC_SOURCE_QUEUE_MAX].w[(place - 1u) % DC_SOURCE_QUEUE_MAX];
}

static struct waiting *find(dc_source *s, uint32_t seq)
{
  for (uint16_t p = s->head[seq % HEADS]; p != NONE; p = at_place(s, p)->chain)
    if (at_place(s, p)->seq == seq)
      return at_place(s, p);
  return NULL;
}

static void refuse(dc_source *s, enum dc_drop why) { s->count.drop[why]++; }

/* What an interest with cache code 0 finds at a node of which nothing else is known. */
#define CACHE_BYTES_DEFAULT (128 * 1024)

/* Packets that the caches on the way of this interest hold. */
static uint32_t depth(const dc_source *s, const struct dc_header *h)
{
  uint64_t c = h->cache == 0 ? CACHE_BYTES_DEFAULT : dc_cache_bytes(h->cache);
  uint64_t n = c / s->cfg.params.packet_bytes;
  return n < 1 ? 1 : n > DC_NODE_SLOTS_MAX ? DC_NODE_SLOTS_MAX : (uint32_t)n;
}

/* Numbers from `from` on, below `to`. */
static uint32_t given(const dc_source *s, uint32_t from, uint32_t to)
{
  uint32_t above =
      from > 0 ? dc_runs_above(&s->given, from - 1) : dc_runs_above(&s->given, 0) + dc_runs_has(&s->given, 0);
  return above - dc_runs_above(&s->given, to - 1);
}

/* How many of the numbers asked for the slowest has not asked for yet, and how many packets the least cache holds. A number
 * that a damaged interest asked for, far ahead of the others, is one. Who is silent for long and waits for nothing is done. */
static void find_slowest(const dc_source *s, dc_time now, struct dc_cc_event *e)
{
  uint32_t low = s->end;
  for (unsigned i = 0; i < s->children; i++) {
    const struct child *c = &s->child[i];
    if (!c->known || c->low == UINT32_MAX || (c->pending == 0 && now - c->heard > STILL))
      continue;
    low = c->low < low ? c->low : low;
    e->depth = c->depth < e->depth ? c->depth : e->depth;
  }
  if (low == s->end)
    return;
  e->lag = dc_runs_above(&s->sent, low - 1);
  for (unsigned i = 0; i < QUEUES; i++) {
    const struct queue *q = &s->queue[i];
    uint32_t seq = q->w[q->head].seq, below = q->n > 0 && seq < low ? given(s, seq, low) : 0;
    e->lag += below < q->n ? q->n - below : 0;
  }
  e->lag -= s->more < e->lag ? s->more : e->lag;
}

/* Who asks for several numbers at once is ahead of those in step by as many, and they of it in turn: that is no distance. It
 * falls by one at a time, or what the slowest has asked for would seem to be less than before. */
static void count_batches(dc_source *s, const struct dc_header *h)
{
  if ((h->flags & DC_FLAG_RETX) != 0)
    return;
  if (h->more >= s->more && h->more < s->cfg.batch) {
    s->more = h->more;
    s->since = 0;
  } else if (++s->since >= BATCHES) {
    s->more -= s->more > 0;
    s->since = 0;
  }
}

static void heard(const dc_source *s, struct child *c, dc_time now, const struct dc_header *h)
{
  uint32_t end = h->seq + h->more + 1, behind = dc_lag_packets(h->lag);
  c->known |= c->heard != 0 || h->seq == 0;
  c->heard = now;
  c->depth = depth(s, h);
  if (end < c->end)
    return;
  c->far = c->low != UINT32_MAX && !c->far && dc_far(c->end, h->seq);
  if (c->far)
    return;
  c->end = end;
  c->low = (h->flags & DC_FLAG_LAST) != 0 ? UINT32_MAX : end > behind ? end - behind : 1;
}

/* A rule is told where among the others a number stands, not its value. */
static void tell(dc_source *s, dc_time now, const struct dc_header *h, uint32_t seq, bool duplicate)
{
  uint32_t behind = duplicate ? dc_runs_above(&s->sent, seq) + 1 : 0;
  struct dc_cc_event e = {.duplicate = duplicate,
                          .retx = h->flags & DC_FLAG_RETX,
                          .seq = !duplicate           ? s->accepted - 1
                                 : behind < s->sent_n ? s->sent_n - behind
                                                      : 0,
                          .next_seq = s->sent_n,
                          .depth = depth(s, h),
                          .dry = s->dry,
                          .last = s->end >= dc_runs_end(&s->given)};
  s->dry = false;
  find_slowest(s, now, &e);
  s->cfg.cc->interest(s->cc, now, &e);
  retime(s);
}

static struct again *dup_at(dc_source *s, uint32_t i) { return &s->dup[(s->dup_head + i) % DC_SOURCE_QUEUE_MAX]; }

/* Who asks a third time while the second answer waits for its turn gets one. */
static bool dup_waits(dc_source *s, uint32_t seq, unsigned child)
{
  for (uint32_t i = 0; i < s->dups && i < LOOK; i++)
    if (dup_at(s, i)->seq == seq && dup_at(s, i)->child == child)
      return true;
  return false;
}

/* One number that an interest of this child asks for. */
static void asked(dc_source *s, dc_time now, const struct dc_header *h, uint32_t seq, unsigned child)
{
  s->count.interests++;
  if (!dc_runs_has(&s->given, seq)) {
    refuse(s, DC_DROP_BEYOND);
    return;
  }
  if (seq >= s->end)
    s->end = seq + 1;
  struct waiting *w = find(s, seq);
  if (w != NULL ? w->served >> child & 1 : dc_runs_has(&s->sent, seq)) {
    s->count.duplicates++;
    if (s->dups == DC_SOURCE_QUEUE_MAX) {
      refuse(s, DC_DROP_QUEUE);
    } else if (!dup_waits(s, seq, child)) {
      if (s->dups == 0 && s->repair < now)
        s->repair = now; /* what is made up for is a wait, no rest */
      *dup_at(s, s->dups++) = (struct again){seq, (uint16_t)child, (h->flags & DC_FLAG_RETX) != 0};
      s->child[child].pending++;
    }
    if (h->flags & DC_FLAG_NOCACHE)
      s->count.refetches++; /* corruption says nothing about congestion */
    else
      tell(s, now, h, seq, true);
  } else if (w != NULL) {
    s->count.merged++;
    if (!(w->children >> child & 1)) {
      w->children |= (uint16_t)(1u << child);
      s->child[child].pending++;
    }
    tell(s, now, h, seq, false);
  } else {
    if (s->queued == DC_SOURCE_QUEUE_MAX) { /* bounds each of the two */
      refuse(s, DC_DROP_QUEUE);
      return;
    }
    uint32_t which = seq < s->next_seq ? HOLES : AHEAD;
    struct queue *q = &s->queue[which];
    uint32_t at = (q->head + q->n++) % DC_SOURCE_QUEUE_MAX;
    uint16_t *head = &s->head[seq % HEADS];
    s->queued++;
    s->accepted++;
    q->w[at] = (struct waiting){.seq = seq, .chain = *head, .children = (uint16_t)(1u << child)};
    *head = (uint16_t)(which * DC_SOURCE_QUEUE_MAX + at + 1);
    s->child[child].pending++;
    tell(s, now, h, seq, false);
  }
}

/* What it asks for behind the first `there` numbers. */
static void wait_for_numbers(dc_source *s, const struct dc_header *h, uint32_t there, const struct dc_segment *ret)
{
  struct dc_header rest = *h;
  rest.seq += there;
  rest.more -= (uint8_t)there;
  uint32_t lost = early_put(&s->early, &rest, ret);
  s->count.interests += lost;
  s->count.drop[DC_DROP_BEYOND] += lost;
}

void dc_source_handle(dc_source *s, dc_time now, const struct dc_header *h, const struct dc_segment *ret)
{
  advance(s, now);
  if (h->more > UINT32_MAX - h->seq) {
    refuse(s, DC_DROP_RANGE);
    return;
  }
  uint32_t end = dc_runs_end(&s->given), count = h->more + 1u;
  if (h->seq + h->more >= end) {
    count = h->seq < end ? end - h->seq : 0;
    wait_for_numbers(s, h, count, ret);
    if (count == 0)
      return; /* before it takes a child's place */
  }
  int child = child_of(s, ret);
  if (child < 0) {
    s->count.interests += count;
    s->count.drop[DC_DROP_CHILDREN] += count;
    return;
  }
  heard(s, &s->child[child], now, h);
  count_batches(s, h);
  for (uint32_t i = 0; i < count; i++) /* as good as an interest for each of them */
    asked(s, now, h, h->seq + i, (unsigned)child);
}

/* Numbers were assigned that may have been asked for before. */
static void hear_early(dc_source *s, dc_time now)
{
  struct early_interest i;
  s->early.due = false;
  for (uint32_t n = s->early.n; n > 0 && early_take(&s->early, &i); n--)
    dc_source_handle(s, now, &i.h, &i.ret);
}

static struct waiting *first(struct queue *q) { return &q->w[q->head]; }

/* The first waiting interest leaves a queue. */
static void shift(dc_source *s, unsigned which)
{
  struct queue *q = &s->queue[which];
  uint16_t place = (uint16_t)(which * DC_SOURCE_QUEUE_MAX + q->head + 1);
  uint16_t *at = &s->head[first(q)->seq % HEADS];
  while (*at != place)
    at = &at_place(s, *at)->chain;
  *at = first(q)->chain;
  q->head = (q->head + 1) % DC_SOURCE_QUEUE_MAX;
  q->n--;
  s->queued--;
}

/* Forget what was cut off after it had been asked for. */
static void drop_gone(dc_source *s, unsigned which)
{
  struct queue *q = &s->queue[which];
  while (q->n > 0 && !dc_runs_has(&s->given, first(q)->seq)) {
    for (unsigned c = 0; c < DC_SOURCE_CHILDREN_MAX; c++)
      if (first(q)->children >> c & 1)
        s->child[c].pending--;
    refuse(s, DC_DROP_BEYOND);
    shift(s, which);
  }
}

/* Who is furthest behind is answered first: on its way it comes to where the next one waits, and from there one answer
 * serves both. Answered in turn they would all go on side by side, each with packets of its own, and never meet. */
static void lowest_first(dc_source *s)
{
  struct again *head = dup_at(s, 0), *least = head;
  for (uint32_t i = 1; i < s->dups && i < LOOK; i++)
    if (dup_at(s, i)->seq < least->seq)
      least = dup_at(s, i);
  struct again d = *least;
  *least = *head;
  *head = d;
}

/* When the first duplicate may be answered. */
static dc_time answer_at(const dc_source *s)
{
  dc_time at = s->dup[s->dup_head].lost && s->repair > s->answer ? s->repair : s->answer;
  return at > s->now ? at : s->now;
}

/* All that a tree sends fits its part of the source's link, or the rest would stand in that link's queue, where nobody puts
 * the furthest behind first. What a process that ran late could not send is made up for, up to ANSWERS packets. */
static dc_time each(const dc_source *s)
{
  uint64_t most = s->limit != 0 && s->limit < s->cfg.params.rate_max ? s->limit : s->cfg.params.rate_max;
  return (dc_time)s->cfg.params.packet_bytes * 8 * DC_SEC / (most + 1);
}

static void take_time(dc_time *clock, dc_time now, dc_time step, dc_time taken)
{
  if (*clock + ANSWERS * step < now)
    *clock = now - ANSWERS * step;
  *clock += taken;
}

/* What was lost comes at half of that. Under the paper's rule all is answered at once. */
static void pace_answers(dc_source *s, bool lost)
{
  dc_time step = each(s);
  take_time(&s->answer, s->now, step, step);
  if (lost)
    take_time(&s->repair, s->now, 2 * step, 2 * step);
}

/* New data leaves less for answers, but never less than a fourth. */
static void pace_new(dc_source *s)
{
  dc_time step = each(s);
  if (s->cfg.cc->spreads_repairs)
    take_time(&s->answer, s->now, step, s->answer < s->now + step ? step - step / 4 : 0);
}

static unsigned repeat(dc_source *s, struct dc_source_tx *out, unsigned cap)
{
  unsigned n = 0;
  for (; n < cap && s->dups > 0; n++) {
    if (s->cfg.cc->spreads_repairs)
      lowest_first(s);
    struct again *d = &s->dup[s->dup_head];
    if (answer_at(s) > s->now)
      break;
    if (s->cfg.cc->spreads_repairs)
      pace_answers(s, d->lost);
    out[n] = (struct dc_source_tx){.seq = d->seq, .flags = DC_FLAG_DUP, .ret = &s->child[d->child].ret};
    s->child[d->child].pending--;
    s->dup_head = (s->dup_head + 1) % DC_SOURCE_QUEUE_MAX;
    s->dups--;
    s->count.dup_packets++;
  }
  return n;
}

/* The lower number. Numbers that waited before one damaged interest asked for a far one are ahead still, and what is asked for
 * since then are holes: these had gone first, for ever. */
static unsigned next_queue(dc_source *s)
{
  const struct queue *holes = &s->queue[HOLES], *ahead = &s->queue[AHEAD];
  if (holes->n == 0 || ahead->n == 0)
    return holes->n > 0 ? HOLES : AHEAD;
  return holes->w[holes->head].seq < ahead->w[ahead->head].seq ? HOLES : AHEAD;
}

static unsigned send_new(dc_source *s, struct dc_source_tx *out, unsigned cap)
{
  for (unsigned n = 0;; n++) {
    drop_gone(s, HOLES);
    drop_gone(s, AHEAD);
    if (s->queued == 0 && n > 0 && s->end >= dc_runs_end(&s->given))
      s->dry = true;
    if (n == cap || s->queued == 0 || s->tokens < s->cost)
      return n;
    unsigned which = next_queue(s);
    struct waiting *w = first(&s->queue[which]);
    unsigned c = (unsigned)__builtin_ctz(w->children);
    out[n] = (struct dc_source_tx){.seq = w->seq, .ret = &s->child[c].ret};
    if (w->served == 0 && !dc_runs_has(&s->sent, w->seq)) {
      dc_runs_add(&s->sent, w->seq, w->seq + 1);
      s->sent_n++;
    }
    w->children &= (uint16_t)(w->children - 1);
    w->served |= (uint16_t)(1u << c);
    s->child[c].pending--;
    s->count.new_packets++;
    s->tokens -= s->cost;
    pace_new(s);
    if (w->seq >= s->next_seq)
      s->next_seq = w->seq + 1;
    if (w->children == 0)
      shift(s, which);
  }
}

unsigned dc_source_poll(dc_source *s, dc_time now, struct dc_source_tx *out, unsigned cap)
{
  advance(s, now);
  if (s->early.due)
    hear_early(s, now);
  uint32_t sent = s->sent_n;
  unsigned again = repeat(s, out, cap), fresh = send_new(s, out + again, cap - again);
  if (again + fresh > 0 && s->cfg.cc->told != NULL) {
    uint8_t path = s->cfg.cc->told(s->cc, sent, s->limit);
    for (unsigned i = 0; i < again + fresh; i++)
      out[i].flags |= path;
  }
  patience_sent(&s->patience, s->now, fresh, again, s->cfg.params.packet_bytes);
  return again + fresh;
}

uint32_t dc_source_bore(const dc_source *s) { return s->patience.times; }

dc_time dc_source_next_wake(const dc_source *s)
{
  dc_time answer = s->early.due ? s->now : s->dups > 0 ? answer_at(s) : DC_NEVER;
  if (answer <= s->now || s->queued == 0)
    return answer; /* tokens and ticks are caught up with when something arrives */
  if (s->tokens >= s->cost)
    return s->now;
  dc_time at = s->tick;
  if (s->rate > 0) {
    uint64_t missing = (uint64_t)(s->cost - s->tokens);
    dc_time full = s->now + (missing + s->rate - 1) / s->rate;
    at = full < at ? full : at;
  }
  return answer < at ? answer : at;
}

void dc_source_counters(const dc_source *s, struct dc_source_counters *out)
{
  *out = s->count;
  out->rate = s->rate;
  out->queued = s->queued;
  out->next_seq = s->next_seq;
  out->numbers = s->sent_n;
}
