#include "datacast/source.h"

#include <stddef.h>
#include <string.h>

#include "batch.h"
#include "bucket.h"
#include "early.h"
#include "patience.h"
#include "runs.h"
#include "source_answers.h"
#include "source_children.h"
#include "source_queue.h"

struct dc_source {
  struct dc_source_cfg cfg;
  dc_time now; /* up to here tokens and ticks are accounted for */
  struct bucket bucket;
  uint64_t limit; /* bit/s, 0 for none */
  dc_time tick;
  struct patience patience;

  struct dc_runs given, sent; /* the numbers there are; those that were sent */
  struct early early;
  uint32_t next_seq; /* one past the highest number sent */
  uint32_t end;      /* one past the highest that was asked for */
  /* How many numbers were accepted and sent so far. Rules of rate control think in these: a number far ahead of the others
   * is one more, whatever its value. */
  uint32_t accepted, sent_n;
  bool dry; /* all that there is has been asked for and sent, and no interest has come since */
  struct dc_source_counters count;

  uint64_t cc[DC_CC_STATE / 8];
  struct source_children children;
  struct source_queue queue;
  struct source_answers answers;
};

size_t dc_source_size(void) { return sizeof(struct dc_source); }

static void retime(dc_source *s)
{
  uint64_t rate = patience_rate(&s->patience, s->now, s->cfg.cc->rate(s->cc), s->cfg.params.packet_bytes);
  if (rate > BUCKET_RATE_MAX)
    rate = BUCKET_RATE_MAX;
  if (s->limit != 0 && rate > s->limit)
    rate = s->limit;
  s->bucket.rate = rate;
  s->tick = s->cfg.cc->next_tick(s->cc);
}

dc_source *dc_source_init(void *memory, dc_time now, const struct dc_source_cfg *cfg)
{
  dc_source *s = memory;
  memset(s, 0, offsetof(struct dc_source, queue)); /* what waits takes memory when it does */
  source_queue_init(&s->queue);
  source_answers_init(&s->answers);
  s->cfg = *cfg;
  s->now = now;
  if (s->cfg.params.packet_bytes == 0)
    s->cfg.params.packet_bytes = 1;
  if (s->cfg.params.interval == 0)
    s->cfg.params.interval = DC_US;
  if (s->cfg.params.rate_max > BUCKET_RATE_MAX)
    s->cfg.params.rate_max = BUCKET_RATE_MAX;
  bucket_init(&s->bucket, s->cfg.params.packet_bytes, s->cfg.burst_packets);
  s->patience = (struct patience){.most = cfg->patience, .since = now};
  cfg->cc->init(s->cc, now, &s->cfg.params);
  retime(s);
  return s;
}

/* ---- time ---- */

static void fill(dc_source *s, dc_time to)
{
  bucket_fill(&s->bucket, to - s->now);
  s->now = to;
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

/* The time that a packet takes of the part of the source's link that this tree has. */
static dc_time packet_time(const dc_source *s)
{
  uint64_t most = s->limit != 0 && s->limit < s->cfg.params.rate_max ? s->limit : s->cfg.params.rate_max;
  return (dc_time)s->cfg.params.packet_bytes * 8 * DC_SEC / (most + 1);
}

/* ---- what there is ---- */

void dc_source_assign(dc_source *s, uint32_t seq, uint32_t count)
{
  if (count > 0 && count <= UINT32_MAX - seq && seq >= dc_runs_end(&s->given)) {
    dc_runs_add(&s->given, seq, seq + count);
    s->early.due = s->early.n > 0;
  }
}

void dc_source_cut(dc_source *s, uint32_t seq) { dc_runs_cut(&s->given, seq); }

/* ---- interests ---- */

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
 * that a damaged interest asked for, far ahead of the others, is one. */
static void find_slowest(const dc_source *s, dc_time now, struct dc_cc_event *e)
{
  uint32_t low = source_children_low(&s->children, now, s->end, &e->depth);
  if (low == s->end)
    return;
  e->lag = dc_runs_above(&s->sent, low - 1);
  for (unsigned i = 0; i < QUEUES; i++) {
    const struct fifo *f = &s->queue.fifo[i];
    uint32_t seq = f->n > 0 ? f->w[f->head].seq : low, below = seq < low ? given(s, seq, low) : 0;
    e->lag += below < f->n ? f->n - below : 0;
  }
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
  struct waiting *w = source_queue_find(&s->queue, seq);
  if (w != NULL ? w->served >> child & 1 : dc_runs_has(&s->sent, seq)) {
    s->count.duplicates++;
    if (s->answers.n == DC_SOURCE_QUEUE_MAX) {
      refuse(s, DC_DROP_QUEUE);
    } else if (!source_answers_wait(&s->answers, seq, child)) {
      source_answers_put(&s->answers, now, (struct answer){seq, (uint16_t)child, (h->flags & DC_FLAG_RETX) != 0});
      s->children.child[child].pending++;
    }
    if (h->flags & DC_FLAG_NOCACHE)
      s->count.refetches++; /* corruption says nothing about congestion */
    else
      tell(s, now, h, seq, true);
  } else if (w != NULL) {
    s->count.merged++;
    if (!(w->children >> child & 1)) {
      w->children |= (uint16_t)(1u << child);
      s->children.child[child].pending++;
    }
    tell(s, now, h, seq, false);
  } else if (!source_queue_add(&s->queue, seq < s->next_seq ? HOLES : AHEAD, seq, child)) {
    refuse(s, DC_DROP_QUEUE);
  } else {
    s->accepted++;
    s->children.child[child].pending++;
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
  int child = source_children_of(&s->children, ret);
  if (child < 0) {
    s->count.interests += count;
    s->count.drop[DC_DROP_CHILDREN] += count;
    return;
  }
  source_child_heard(&s->children.child[child], now, h, depth(s, h));
  if (h->seq + count > s->end)
    s->children.first = dc_batch_first(h->seq, h->seq + count - 1);
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

/* ---- sending ---- */

/* Forget what was cut off after it had been asked for. */
static void drop_gone(dc_source *s, unsigned which)
{
  while (s->queue.fifo[which].n > 0) {
    const struct waiting *w = source_queue_first(&s->queue, which);
    if (dc_runs_has(&s->given, w->seq))
      return;
    for (unsigned c = 0; c < DC_SOURCE_CHILDREN_MAX; c++)
      if (w->children >> c & 1)
        s->children.child[c].pending--;
    refuse(s, DC_DROP_BEYOND);
    source_queue_shift(&s->queue, which);
  }
}

/* Under the paper's rule all is answered at once. */
static unsigned repeat(dc_source *s, struct dc_source_tx *out, unsigned cap)
{
  unsigned n = 0;
  for (; n < cap && s->answers.n > 0; n++) {
    if (s->cfg.cc->spreads_repairs)
      source_answers_lowest_first(&s->answers);
    if (source_answers_due(&s->answers, s->now) > s->now)
      break;
    struct answer a = source_answers_take(&s->answers);
    if (s->cfg.cc->spreads_repairs)
      source_answers_pace(&s->answers, s->now, packet_time(s), a.lost);
    struct source_child *child = &s->children.child[a.child];
    out[n] = (struct dc_source_tx){.seq = a.seq, .flags = DC_FLAG_DUP, .ret = &child->ret};
    child->pending--;
    s->count.dup_packets++;
  }
  return n;
}

static unsigned send_new(dc_source *s, struct dc_source_tx *out, unsigned cap)
{
  for (unsigned n = 0;; n++) {
    drop_gone(s, HOLES);
    drop_gone(s, AHEAD);
    if (s->queue.n == 0 && n > 0 && s->end >= dc_runs_end(&s->given))
      s->dry = true;
    if (n == cap || s->queue.n == 0 || !bucket_has_packet(&s->bucket))
      return n;
    unsigned which = source_queue_next(&s->queue);
    struct waiting *w = source_queue_first(&s->queue, which);
    unsigned c = (unsigned)__builtin_ctz(w->children);
    out[n] = (struct dc_source_tx){.seq = w->seq, .ret = &s->children.child[c].ret};
    if (w->served == 0 && !dc_runs_has(&s->sent, w->seq)) {
      dc_runs_add(&s->sent, w->seq, w->seq + 1);
      s->sent_n++;
    }
    w->children &= (uint16_t)(w->children - 1);
    w->served |= (uint16_t)(1u << c);
    s->children.child[c].pending--;
    s->count.new_packets++;
    bucket_take_packet(&s->bucket);
    if (s->cfg.cc->spreads_repairs)
      source_answers_pace_new(&s->answers, s->now, packet_time(s));
    if (w->seq >= s->next_seq)
      s->next_seq = w->seq + 1;
    if (w->children == 0)
      source_queue_shift(&s->queue, which);
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
  dc_time answer = s->early.due ? s->now : s->answers.n > 0 ? source_answers_due(&s->answers, s->now) : DC_NEVER;
  if (answer <= s->now || s->queue.n == 0)
    return answer; /* tokens and ticks are caught up with when something arrives */
  dc_time wait = bucket_wait(&s->bucket), at = s->tick;
  if (wait != DC_NEVER && (wait == 0 || s->now + wait < at))
    at = s->now + wait;
  return answer < at ? answer : at;
}

void dc_source_counters(const dc_source *s, struct dc_source_counters *out)
{
  *out = s->count;
  out->rate = s->bucket.rate;
  out->queued = s->queue.n;
  out->next_seq = s->next_seq;
  out->numbers = s->sent_n;
}
