#include "datacast/receiver.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "receiver_out.h"
#include "receiver_timer.h"

enum { RANGES = 64 };
/* After so many packets without a gap, a timeout or a pause one more number is asked for at once. */
enum { CALM = 256 };

struct range {
  uint32_t seq, end;
};

struct dc_receiver { /* what each packet touches stands in front */
  dc_pieces *pieces;
  dc_time now;
  uint32_t next; /* next number to ask for */
  uint32_t low;  /* no number below it is out, refetches aside */
  uint32_t ranges;
  bool left;
  /* Of a number asked for again at a timeout: no question is open; no data has come since; none but of what was asked for
   * again. */
  enum { SETTLED, PROBED, ANSWERED } probe;
  struct receiver_timer timer;
  struct receiver_timer repair; /* of what the source sends a second time */
  dc_time doubled;              /* the timer, last */
  dc_time expired;              /* a number that was asked for once, last */
  dc_time answered;             /* since when `probe` is ANSWERED */
  dc_time came;                 /* what was asked for, last */
  uint32_t calm;                /* packets that came since the last gap, timeout or pause */
  uint32_t w, got;              /* credits in force, data that came while they were too many */
  struct dc_receiver_cfg cfg;
  struct dc_receiver_counters count;

  struct dc_extents extents;
  struct range refetch[RANGES];
  struct receiver_out out;
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
  memset(r, 0, offsetof(struct dc_receiver, out));
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
  timer_restart(&r->timer, &r->cfg);
  timer_restart(&r->repair, &r->cfg);
  r->w = r->cfg.credits;
  out_init(&r->out);
  return r;
}

void dc_receiver_prefetch(const dc_receiver *r, uint32_t seq, unsigned step)
{
  out_prefetch(&r->out, seq, step);
  if (step == 0) {
    for (size_t at = 0; at < offsetof(struct dc_receiver, extents.e) + sizeof r->extents.e[0]; at += 64)
      __builtin_prefetch((const char *)r + at, 1);
    return;
  }
  uint64_t piece;
  if (dc_extents_piece(&r->extents, seq, &piece))
    dc_pieces_prefetch(r->pieces, piece);
}

/* ---- assignments ---- */

int dc_receiver_assign(dc_receiver *r, const struct dc_extent *e)
{
  if (r->left)
    return 0;
  bool first = r->extents.n == 0;
  int rc = dc_extents_append(&r->extents, e);
  if (rc == -ENOSPC) { /* not for one that is said again */
    dc_extents_forget(&r->extents, r->low < r->next ? r->low : r->next, r->pieces);
    rc = dc_extents_append(&r->extents, e);
  }
  if (rc == 0 && first && out_count(&r->out) == 0)
    r->next = r->low = e->seq;
  return rc;
}

void dc_receiver_cut(dc_receiver *r, uint32_t seq)
{
  dc_extents_cut(&r->extents, seq);
  for (unsigned l = 0; l < LISTS; l++)
    for (uint16_t i = r->out.list[l].head, next; i != NONE; i = next) {
      next = r->out.slot[i].next;
      if (r->out.slot[i].seq >= seq)
        out_release(&r->out, i);
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
    while (r->out.list[l].head != NONE)
      out_move(&r->out, r->out.list[l].head, LOST);
  timer_restart(&r->timer, &r->cfg);
  timer_restart(&r->repair, &r->cfg);
  r->probe = SETTLED;
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

/* ---- time ---- */

/* What gaps do not show is lost at the end of all that is out, or with all of it; or it is late, for a source that many wait for
 * may from now on have a tenth of its rate. So a timeout asks for one number again that was asked for once. When that one comes
 * and of the others none for a while, they are lost (F-RTO, RFC 5682, decides so, too). */
static bool all_lost(const dc_receiver *r)
{
  return r->probe == ANSWERED && r->out.slot[r->out.list[FRESH].head].sent < r->expired;
}

/* What is asked for the first time waits at a source whose front waits for this receiver, the longer the more credits there are. Were
 * that the timer of what is asked again, too, each would wait for the other. Else the two differ by less than SOONER. */
enum { SOONER = 8 };
static bool repairs_are_sooner(const dc_receiver *r)
{
  return r->repair.measured && r->repair.rto < r->timer.rto / SOONER;
}

static dc_time deadline(const dc_receiver *r, enum out_list l)
{
  if (r->out.list[l].head == NONE)
    return DC_NEVER;
  if (l == FRESH && all_lost(r))
    return r->answered + (r->timer.measured ? r->timer.srtt : r->timer.rto / 2);
  dc_time at = r->out.slot[r->out.list[l].head].sent;
  if (l == RETRIED)
    return at + (repairs_are_sooner(r) ? r->repair.rto : r->timer.rto);
  return (at < r->expired && !r->left ? r->expired : at) + r->timer.rto;
}

static dc_time next_timeout(const dc_receiver *r)
{
  dc_time a = deadline(r, FRESH), b = deadline(r, RETRIED);
  return a < b ? a : b;
}

static bool give_up(dc_receiver *r, enum out_list l)
{
  struct out_slot *s = &r->out.slot[r->out.list[l].head];
  r->count.by_timeout++;
  out_move(&r->out, r->out.list[l].head, LOST);
  return s->sent >= r->doubled; /* what was sent before the last doubling says nothing new */
}

static void expire(dc_receiver *r)
{
  if (next_timeout(r) > r->now)
    return;
  struct receiver_timer *second = repairs_are_sooner(r) ? &r->repair : &r->timer;
  bool again = r->probe == PROBED, repair = false;
  while (deadline(r, RETRIED) <= r->now)
    repair |= give_up(r, RETRIED);
  if (deadline(r, FRESH) <= r->now) {
    bool lost = all_lost(r);
    do
      again |= give_up(r, FRESH);
    while ((lost || r->left) && deadline(r, FRESH) <= r->now); /* who has left asks for nothing, and waits no longer */
    r->expired = r->now;
    r->calm = 0;
    r->probe = lost ? SETTLED : PROBED;
  }
  if (!again && !repair)
    return;
  r->doubled = r->now;
  if (again || second == &r->timer)
    timer_back_off(&r->timer, &r->cfg);
  if (repair && second != &r->timer)
    timer_back_off(second, &r->cfg);
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
  for (uint16_t i = r->out.list[FRESH].head, next; i != NONE && r->out.slot[i].order < order; i = next) {
    next = r->out.slot[i].next;
    if (++r->out.slot[i].later >= r->cfg.reorder) {
      r->count.by_gap++;
      r->calm = 0;
      out_move(&r->out, i, LOST);
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
  uint16_t i = out_find(&r->out, h->seq);
  if (i == NONE && !dc_pieces_has(r->pieces, *piece)) {
    r->count.unasked++;
    return DC_RX_UNASKED;
  }
  if (h->length != dc_layout_piece_len(dc_pieces_layout(r->pieces), *piece)) {
    /* Damaged on the way, and a cache may hold it so: the next interest for it goes past the caches. */
    r->count.bad_length++;
    if (i != NONE) {
      r->out.slot[i].nocache = true;
      out_move(&r->out, i, LOST);
    }
    return DC_RX_LENGTH;
  }
  r->count.data++;
  if (i != NONE) {
    const struct out_slot *s = &r->out.slot[i];
    if (!s->retried)
      r->probe = SETTLED;
    else if (r->probe == PROBED) {
      r->probe = ANSWERED;
      r->answered = now;
    }
    timer_answered(&r->timer, &r->cfg, now - s->sent + s->before * DC_US, !s->retried);
    if (s->retried && (h->flags & DC_FLAG_DUP))
      timer_answered(&r->repair, &r->cfg, now - s->sent, true);
    r->calm = now - r->came > r->timer.srtt ? 0 : r->calm + 1;
    r->came = now;
    follow_path(r, h->flags);
    overtake(r, s->order);
    out_release(&r->out, i);
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
  if (out_count(&r->out) == 0)
    r->low = r->next;
  while (r->low < r->next && out_find(&r->out, r->low) == NONE)
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
  return out_count(&r->out) + (rest < left ? rest : left) <= r->w;
}

/* The next number to fetch again past the caches, or false. */
static bool again(dc_receiver *r, uint32_t *seq)
{
  while (r->ranges > 0) {
    struct range *g = &r->refetch[r->ranges - 1];
    for (; g->seq < g->end; g->seq++)
      if (!held(r, g->seq) && out_find(&r->out, g->seq) == NONE) {
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
  while (n < cap && r->out.list[LOST].head != NONE) {
    uint16_t i = r->out.list[LOST].head;
    struct out_slot *s = &r->out.slot[i];
    if (held(r, s->seq) || (r->left && !s->nocache)) { /* came over another tree meanwhile, or will */
      out_release(&r->out, i);
      continue;
    }
    uint64_t before = s->before + (now - s->sent) / DC_US;
    s->before = before < UINT32_MAX ? (uint32_t)before : UINT32_MAX;
    s->sent = now;
    s->retried = true;
    out_move(&r->out, i, RETRIED);
    r->count.retransmitted++;
    r->count.interests++;
    n = put(to, n, s->seq, true, s->nocache);
  }
  uint32_t seq;
  while (n < cap && out_count(&r->out) < r->w && again(r, &seq)) {
    r->out.slot[out_take(&r->out, now, seq)].nocache = true;
    r->count.interests++;
    n = put(to, n, seq, false, true);
  }
  while (n < cap && ready(r) && whole(r)) {
    out_take(&r->out, now, r->next);
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
  if (r->out.list[LOST].n > 0 || more || (out_count(&r->out) < r->w && r->ranges > 0))
    return r->now;
  return next_timeout(r);
}

bool dc_receiver_idle(const dc_receiver *r)
{
  if (out_count(&r->out) > 0 || r->ranges > 0)
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
  to->outstanding = out_count(&r->out);
  to->credits = r->w > out_count(&r->out) ? r->w : out_count(&r->out); /* after a cut more may be out for a while */
  to->srtt = r->timer.srtt;
  to->rto = r->timer.rto;
  to->next_seq = r->next;
  to->low_seq = r->low < r->next ? r->low : r->next;
}
