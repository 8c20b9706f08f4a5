#include "datacast/receiver.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* Every interest that is out has a slot. Slots are found by sequence number through a hash whose heads lie side by side
 * for neighbouring numbers, and stand in one of three lists, each in the order of sending:
 *   FRESH    sent once: later data that arrives counts against the first ones (loss by gap)
 *   RETRIED  sent again: only the timer counts from now on
 *   LOST     to be sent again at the next poll */
enum list { FRESH, RETRIED, LOST, LISTS };
enum { SLOTS = DC_CREDITS_MAX, HEADS = 2 * SLOTS, RANGES = 64, NONE = 0xffff };
/* After so many packets without a gap, a timeout or a pause one more number is asked for at once. */
enum { CALM = 256 };

struct slot {
  dc_time sent;
  uint64_t order; /* of the first sending */
  uint32_t seq;
  uint32_t later;  /* packets that arrived though they were asked for later */
  uint32_t before; /* microseconds from the first sending to the last one */
  uint16_t chain;  /* next in the hash, or next free slot */
  uint16_t prev, next;
  uint8_t list;
  bool retried, nocache;
};

struct chain_list {
  uint16_t head, tail;
  uint32_t n;
};

struct range {
  uint32_t seq, end;
};

struct dc_receiver { /* what each packet touches stands in front */
  dc_pieces *pieces;
  dc_time now;
  uint64_t order;
  uint32_t next; /* next number to ask for */
  uint32_t low;  /* no number below it is out, refetches aside */
  uint32_t ranges;
  uint16_t free, touched; /* slots given back; slots that were ever in use */
  struct chain_list list[LISTS];
  bool left;
  bool measured; /* srtt is valid */
  /* Of a number asked for again at a timeout: no question is open; no data has come since; none but of what was asked for
   * again. */
  enum { SETTLED, PROBED, ANSWERED } probe;
  dc_time srtt, rttvar, rto;
  dc_time late;     /* from the first question to the answer, of what was answered last */
  dc_time doubled;  /* the RTO, last */
  dc_time expired;  /* a number that was asked for once, last */
  dc_time answered; /* since when `probe` is ANSWERED */
  dc_time came;     /* what was asked for, last */
  uint32_t calm;    /* packets that came since the last gap, timeout or pause */
  uint32_t w, got;  /* credits in force, data that came while they were too many */
  struct dc_receiver_cfg cfg;
  struct dc_receiver_counters count;

  struct dc_extents extents;
  struct range refetch[RANGES];
  uint16_t head[HEADS];
  struct slot slot[SLOTS];
};

void dc_receiver_cfg_default(struct dc_receiver_cfg *cfg)
{
  *cfg = (struct dc_receiver_cfg){
      .credits = 16, .batch = 1, .rto_min = 10 * DC_MS, .rto_max = 500 * DC_MS, .rto_init = 100 * DC_MS, .reorder = 3};
}

size_t dc_receiver_size(void) { return sizeof(struct dc_receiver); }

dc_receiver *dc_receiver_init(void *memory, dc_time now, const struct dc_receiver_cfg *cfg, dc_pieces *pieces)
{
  dc_receiver *r = memory;
  memset(r, 0, offsetof(struct dc_receiver, slot)); /* slots are touched when they are needed first */
  r->cfg = *cfg;
  if (r->cfg.credits == 0)
    r->cfg.credits = 1;
  if (r->cfg.credits > DC_CREDITS_MAX)
    r->cfg.credits = DC_CREDITS_MAX;
  if (r->cfg.batch > DC_BATCH_MAX)
    r->cfg.batch = DC_BATCH_MAX;
  if (r->cfg.batch > r->cfg.credits / 2)
    r->cfg.batch = r->cfg.credits / 2;
  if (r->cfg.batch == 0)
    r->cfg.batch = 1;
  if (r->cfg.reorder == 0)
    r->cfg.reorder = 1;
  r->pieces = pieces;
  r->now = now;
  r->rto = cfg->rto_init;
  r->w = r->cfg.credits;
  for (unsigned i = 0; i < LISTS; i++)
    r->list[i] = (struct chain_list){NONE, NONE, 0};
  memset(r->head, 0xff, sizeof r->head);
  r->free = NONE;
  return r;
}

/* ---- slots ---- */

static uint32_t out(const dc_receiver *r) { return r->list[FRESH].n + r->list[RETRIED].n + r->list[LOST].n; }

static uint16_t find(const dc_receiver *r, uint32_t seq)
{
  uint16_t i = r->head[seq % HEADS];
  while (i != NONE && r->slot[i].seq != seq)
    i = r->slot[i].chain;
  return i;
}

static void leave(dc_receiver *r, uint16_t i)
{
  struct slot *s = &r->slot[i];
  struct chain_list *l = &r->list[s->list];
  *(s->prev == NONE ? &l->head : &r->slot[s->prev].next) = s->next;
  *(s->next == NONE ? &l->tail : &r->slot[s->next].prev) = s->prev;
  l->n--;
}

static void join(dc_receiver *r, uint16_t i, enum list to)
{
  struct slot *s = &r->slot[i];
  struct chain_list *l = &r->list[to];
  s->list = (uint8_t)to;
  s->prev = l->tail;
  s->next = NONE;
  *(l->tail == NONE ? &l->head : &r->slot[l->tail].next) = i;
  l->tail = i;
  l->n++;
}

static void move(dc_receiver *r, uint16_t i, enum list to)
{
  leave(r, i);
  join(r, i, to);
}

/* The caller has made sure that a slot is free: fewer than `credits` are out. */
static uint16_t take(dc_receiver *r, uint32_t seq)
{
  uint16_t i = r->free;
  if (i == NONE)
    i = r->touched++;
  else
    r->free = r->slot[i].chain;
  r->slot[i] = (struct slot){.sent = r->now, .order = r->order++, .seq = seq, .chain = r->head[seq % HEADS]};
  r->head[seq % HEADS] = i;
  join(r, i, FRESH);
  return i;
}

static void release(dc_receiver *r, uint16_t i)
{
  leave(r, i);
  uint16_t *at = &r->head[r->slot[i].seq % HEADS];
  while (*at != i)
    at = &r->slot[*at].chain;
  *at = r->slot[i].chain;
  r->slot[i].chain = r->free;
  r->free = i;
}

void dc_receiver_prefetch(const dc_receiver *r, uint32_t seq, unsigned step)
{
  if (step == 0) {
    for (size_t at = 0; at < offsetof(struct dc_receiver, extents.e) + sizeof r->extents.e[0]; at += 64)
      __builtin_prefetch((const char *)r + at, 1);
    return;
  }
  __builtin_prefetch(&r->head[seq % HEADS], 1);
  uint64_t piece;
  if (dc_extents_piece(&r->extents, seq, &piece))
    dc_pieces_prefetch(r->pieces, piece);
  if (r->free != NONE)
    __builtin_prefetch(&r->slot[r->free], 1);
  if (r->list[FRESH].head != NONE)
    __builtin_prefetch(&r->slot[r->list[FRESH].head], 1);
  if (r->list[FRESH].tail != NONE)
    __builtin_prefetch(&r->slot[r->list[FRESH].tail], 1);
}

/* ---- assignments ---- */

int dc_receiver_assign(dc_receiver *r, const struct dc_extent *e)
{
  if (r->left)
    return 0;
  if (r->extents.n == DC_EXTENTS_MAX)
    dc_extents_forget(&r->extents, r->low < r->next ? r->low : r->next, r->pieces);
  bool first = r->extents.n == 0;
  int rc = dc_extents_append(&r->extents, e);
  if (rc == 0 && first && out(r) == 0)
    r->next = r->low = e->seq;
  return rc;
}

void dc_receiver_cut(dc_receiver *r, uint32_t seq)
{
  dc_extents_cut(&r->extents, seq);
  for (unsigned l = 0; l < LISTS; l++)
    for (uint16_t i = r->list[l].head, next; i != NONE; i = next) {
      next = r->slot[i].next;
      if (r->slot[i].seq >= seq)
        release(r, i);
    }
  if (r->next > seq)
    r->next = seq;
  if (r->low > seq)
    r->low = seq;
  for (uint32_t k = 0; k < r->ranges;) {
    if (r->refetch[k].end > seq)
      r->refetch[k].end = seq;
    if (r->refetch[k].seq >= r->refetch[k].end)
      r->refetch[k] = r->refetch[--r->ranges];
    else
      k++;
  }
}

void dc_receiver_leave(dc_receiver *r)
{
  dc_receiver_cut(r, r->next);
  r->left = true;
}

void dc_receiver_restart(dc_receiver *r, dc_time now)
{
  r->now = now;
  for (unsigned l = FRESH; l <= RETRIED; l++)
    while (r->list[l].head != NONE)
      move(r, r->list[l].head, LOST);
  r->measured = false; /* the path may be another one */
  r->late = 0;
  r->probe = SETTLED;
  r->rto = r->cfg.rto_init;
}

uint32_t dc_receiver_refetch(dc_receiver *r, uint64_t first_piece, uint32_t count)
{
  uint32_t asked = 0;
  uint64_t end_piece = first_piece + count;
  for (uint32_t k = 0; k < r->extents.n; k++) {
    const struct dc_extent *e = &r->extents.e[k];
    uint64_t a = first_piece > e->first ? first_piece : e->first;
    uint64_t b = end_piece < e->first + e->count ? end_piece : e->first + e->count;
    if (a >= b)
      continue;
    struct range g = {e->seq + (uint32_t)(a - e->first), e->seq + (uint32_t)(b - e->first)};
    if (g.end > r->next) /* what was not asked for yet is asked for in its turn */
      g.end = r->next;
    uint32_t missing = 0;
    for (uint32_t seq = g.seq; seq < g.end; seq++)
      missing += !dc_pieces_has(r->pieces, e->first + (seq - e->seq));
    if (missing == 0)
      continue;
    if (r->ranges < RANGES) {
      r->refetch[r->ranges++] = g;
    } else { /* too many: one grows to hold this one too; what lies between is out, held, or to be fetched as well */
      struct range *last = &r->refetch[RANGES - 1];
      last->seq = g.seq < last->seq ? g.seq : last->seq;
      last->end = g.end > last->end ? g.end : last->end;
    }
    asked += missing;
  }
  return asked;
}

bool dc_receiver_carries(const dc_receiver *r, uint64_t piece)
{
  for (uint32_t k = 0; k < r->extents.n; k++)
    if (piece >= r->extents.e[k].first && piece - r->extents.e[k].first < r->extents.e[k].count)
      return true;
  return false;
}

/* ---- time: RFC 6298 ---- */

/* A path may take longer for what is asked for than rto_max: a timer that ended before would ask for every packet twice, and
 * by Karn's rule never learn better. So an answer to what was asked for again tells how long a timer may have to be, though
 * not how long the path is. */
static dc_time longest(const dc_receiver *r)
{
  dc_time seen = r->measured && r->srtt > r->late ? r->srtt : r->late;
  return 2 * seen > r->cfg.rto_max ? 2 * seen : r->cfg.rto_max;
}

static void sample(dc_receiver *r, dc_time rtt)
{
  if (!r->measured) {
    r->srtt = rtt;
    r->rttvar = rtt / 2;
    r->measured = true;
  } else {
    dc_time err = rtt > r->srtt ? rtt - r->srtt : r->srtt - rtt;
    /* Every packet is a sample, many per round trip: the variance falls slower for it (RFC 7323, appendix G). */
    r->rttvar = err > r->rttvar ? (3 * r->rttvar + err) / 4 : (63 * r->rttvar + err) / 64;
    r->srtt = (7 * r->srtt + rtt) / 8;
  }
  /* Over a path that is nearly idle the variance goes to nothing, and then anything would be late. */
  dc_time rto = r->srtt + (4 * r->rttvar > r->srtt / 2 ? 4 * r->rttvar : r->srtt / 2);
  dc_time most = longest(r);
  r->rto = rto < r->cfg.rto_min ? r->cfg.rto_min : rto > most ? most : rto;
}

/* What gaps do not show is lost at the end of all that is out, or with all of it; or it is late, for a source that many wait for
 * may from now on have a tenth of its rate. So a timeout asks for one number again that was asked for once. When that one comes
 * and of the others none for a while, they are lost (F-RTO, RFC 5682, decides so, too). */
static bool all_lost(const dc_receiver *r)
{
  return r->probe == ANSWERED && r->slot[r->list[FRESH].head].sent < r->expired;
}

static dc_time deadline(const dc_receiver *r, enum list l)
{
  if (r->list[l].head == NONE)
    return DC_NEVER;
  if (l == FRESH && all_lost(r))
    return r->answered + (r->measured ? r->srtt : r->rto / 2);
  dc_time at = r->slot[r->list[l].head].sent;
  return (l == FRESH && at < r->expired && !r->left ? r->expired : at) + r->rto;
}

static dc_time next_timeout(const dc_receiver *r)
{
  dc_time a = deadline(r, FRESH), b = deadline(r, RETRIED);
  return a < b ? a : b;
}

static bool give_up(dc_receiver *r, enum list l)
{
  struct slot *s = &r->slot[r->list[l].head];
  r->count.by_timeout++;
  move(r, r->list[l].head, LOST);
  return s->sent >= r->doubled; /* what was sent before the last doubling says nothing new */
}

static void expire(dc_receiver *r)
{
  if (next_timeout(r) > r->now)
    return;
  bool again = r->probe == PROBED;
  while (deadline(r, RETRIED) <= r->now)
    again |= give_up(r, RETRIED);
  if (deadline(r, FRESH) <= r->now) {
    bool lost = all_lost(r);
    do
      again |= give_up(r, FRESH);
    while ((lost || r->left) && deadline(r, FRESH) <= r->now); /* who has left asks for nothing, and waits no longer */
    r->expired = r->now;
    r->calm = 0;
    r->probe = lost ? SETTLED : PROBED;
  }
  if (!again)
    return;
  r->doubled = r->now;
  dc_time most = longest(r);
  r->rto = 2 * r->rto < most ? 2 * r->rto : most; /* until the next clean sample */
}

/* ---- data ---- */

/* Beyond those of the plan credits follow what the source says that its path holds: at once, for all receivers have to grow
 * together; and they are given up with every fourth packet. */
static void follow_path(dc_receiver *r, uint8_t flags)
{
  uint32_t goal = r->cfg.credits + dc_path_packets(flags);
  if (goal > DC_CREDITS_MAX)
    goal = DC_CREDITS_MAX;
  if (r->w <= goal) {
    r->w = goal;
    r->got = 0;
  } else if (++r->got % 4 == 0) {
    r->w--;
  }
}

/* Something asked for at `order` has arrived: those asked for before it have been overtaken once more. */
static void overtake(dc_receiver *r, uint64_t order)
{
  for (uint16_t i = r->list[FRESH].head, next; i != NONE && r->slot[i].order < order; i = next) {
    next = r->slot[i].next;
    if (++r->slot[i].later >= r->cfg.reorder) {
      r->count.by_gap++;
      r->calm = 0;
      move(r, i, LOST);
    }
  }
}

enum dc_rx_result dc_receiver_handle(dc_receiver *r, dc_time now, const struct dc_header *h, uint64_t *piece)
{
  r->now = now;
  if (!dc_extents_piece(&r->extents, h->seq, piece)) {
    r->count.unknown++;
    return DC_RX_UNKNOWN;
  }
  uint16_t i = find(r, h->seq);
  if (i == NONE && !dc_pieces_has(r->pieces, *piece)) {
    r->count.unasked++;
    return DC_RX_UNASKED;
  }
  if (h->length != dc_layout_piece_len(dc_pieces_layout(r->pieces), *piece)) {
    /* Damaged on the way, and a cache may hold it so: the next interest for it goes past the caches. */
    r->count.bad_length++;
    if (i != NONE) {
      r->slot[i].nocache = true;
      move(r, i, LOST);
    }
    return DC_RX_LENGTH;
  }
  r->count.data++;
  if (i != NONE) {
    if (!r->slot[i].retried)
      r->probe = SETTLED;
    else if (r->probe == PROBED) {
      r->probe = ANSWERED;
      r->answered = now;
    }
    r->late = now - r->slot[i].sent + r->slot[i].before * DC_US;
    if (!r->slot[i].retried) /* Karn: only what was asked for once */
      sample(r, r->late);
    r->calm = now - r->came > r->srtt ? 0 : r->calm + 1;
    r->came = now;
    follow_path(r, h->flags);
    overtake(r, r->slot[i].order);
    release(r, i);
  }
  if (dc_pieces_add(r->pieces, *piece))
    return DC_RX_NEW;
  r->count.duplicates++;
  return DC_RX_DUPLICATE;
}

/* ---- interests ---- */

static bool held(const dc_receiver *r, uint32_t seq)
{
  uint64_t piece;
  return !dc_extents_piece(&r->extents, seq, &piece) || dc_pieces_has(r->pieces, piece);
}

/* May a number be asked for that was not asked for yet? Moves `next` to it. */
static bool ready(dc_receiver *r)
{
  uint32_t end = dc_extents_end(&r->extents);
  while (r->next < end && held(r, r->next))
    r->next = dc_extents_next(&r->extents, r->next + 1);
  if (out(r) == 0)
    r->low = r->next;
  while (r->low < r->next && find(r, r->low) == NONE)
    r->low = dc_extents_next(&r->extents, r->low + 1);
  if (r->low > r->next)
    r->low = r->next;
  return r->next < end && r->next - r->low < DC_RECEIVER_REACH;
}

/* May all of the batch that `next` begins be asked for, or its rest? Batches begin at the same numbers for everybody, so that
 * receivers in step stay so. Where a host stands still, or packets are lost, each number is asked for alone: what a source
 * hears of the slowest is as fine as that. */
static bool whole(const dc_receiver *r)
{
  uint32_t n = 1 + r->calm / CALM;
  n = n < r->cfg.batch ? n : r->cfg.batch;
  uint32_t rest = n - r->next % n, left = dc_extents_end(&r->extents) - r->next;
  return out(r) + (rest < left ? rest : left) <= r->w;
}

/* The next number to fetch again past the caches, or false. */
static bool again(dc_receiver *r, uint32_t *seq)
{
  while (r->ranges > 0) {
    struct range *g = &r->refetch[r->ranges - 1];
    for (; g->seq < g->end; g->seq++)
      if (!held(r, g->seq) && find(r, g->seq) == NONE) {
        *seq = g->seq++;
        return true;
      }
    r->ranges--;
  }
  return false;
}

/* One more number to ask for: in the last interest, when it follows there, else in one of its own. Returns their
 * number. */
static unsigned put(struct dc_interest *to, unsigned n, uint32_t seq, bool retx, bool nocache)
{
  uint8_t flags = (uint8_t)((retx ? DC_FLAG_RETX : 0) | (nocache ? DC_FLAG_NOCACHE : 0));
  struct dc_interest *last = n > 0 ? &to[n - 1] : NULL;
  if (last != NULL && last->flags == flags && last->more < DC_RANGE_MORE_MAX && last->seq + last->more + 1u == seq) {
    last->more++;
    return n;
  }
  to[n] = (struct dc_interest){.seq = seq, .flags = flags};
  return n + 1;
}

unsigned dc_receiver_poll(dc_receiver *r, dc_time now, struct dc_interest *to, unsigned cap)
{
  unsigned n = 0;
  r->now = now;
  expire(r);
  while (n < cap && r->list[LOST].head != NONE) {
    uint16_t i = r->list[LOST].head;
    struct slot *s = &r->slot[i];
    if (held(r, s->seq) || (r->left && !s->nocache)) { /* came over another tree meanwhile, or will */
      release(r, i);
      continue;
    }
    uint64_t before = s->before + (now - s->sent) / DC_US;
    s->before = before < UINT32_MAX ? (uint32_t)before : UINT32_MAX;
    s->sent = now;
    s->retried = true;
    move(r, i, RETRIED);
    r->count.retransmitted++;
    r->count.interests++;
    n = put(to, n, s->seq, true, s->nocache);
  }
  uint32_t seq;
  while (n < cap && out(r) < r->w && again(r, &seq)) {
    r->slot[take(r, seq)].nocache = true;
    r->count.interests++;
    n = put(to, n, seq, false, true);
  }
  while (n < cap && ready(r) && whole(r)) {
    take(r, r->next);
    r->count.interests++;
    n = put(to, n, r->next++, false, false);
  }
  if (n > 0 && r->ranges == 0 && !ready(r) && r->next >= dc_extents_end(&r->extents))
    to[n - 1].flags |= DC_FLAG_LAST;
  return n;
}

dc_time dc_receiver_next_wake(const dc_receiver *r)
{
  bool more = r->next < dc_extents_end(&r->extents) && r->next - r->low < DC_RECEIVER_REACH && whole(r);
  if (r->list[LOST].n > 0 || more || (out(r) < r->w && r->ranges > 0))
    return r->now;
  return next_timeout(r);
}

bool dc_receiver_idle(const dc_receiver *r)
{
  if (out(r) > 0 || r->ranges > 0)
    return false;
  uint32_t end = dc_extents_end(&r->extents);
  for (uint32_t seq = r->next; seq < end; seq = dc_extents_next(&r->extents, seq + 1))
    if (!held(r, seq))
      return false;
  return true;
}

void dc_receiver_counters(const dc_receiver *r, struct dc_receiver_counters *to)
{
  *to = r->count;
  to->outstanding = out(r);
  to->credits = r->w > out(r) ? r->w : out(r); /* after a cut more may be out for a while */
  to->srtt = r->srtt;
  to->rto = r->rto;
  to->next_seq = r->next;
  to->low_seq = r->low < r->next ? r->low : r->next;
}
