#include "datacast/pieces.h"

#include <errno.h>
#include <string.h>

uint64_t dc_layout_pieces(const struct dc_layout *l)
{
  return l->size == 0 || l->piece == 0 ? 0 : (l->size - 1) / l->piece + 1;
}

uint32_t dc_layout_blocks(const struct dc_layout *l)
{
  uint64_t n = dc_layout_pieces(l);
  if (n == 0 || l->per_block == 0)
    return 0;
  n = (n - 1) / l->per_block + 1;
  return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

uint32_t dc_layout_piece_len(const struct dc_layout *l, uint64_t i)
{
  uint64_t at;
  if (l->piece == 0 || __builtin_mul_overflow(i, (uint64_t)l->piece, &at) || at >= l->size)
    return 0;
  return l->size - at < l->piece ? (uint32_t)(l->size - at) : l->piece;
}

/* One bit per piece; one bit (sealed) and one count per block. Threads may share it, so what changes is atomic: a piece is new
 * for one of them, and who finds a block whole finds it so after all that was added. */
struct dc_pieces {
  struct dc_layout layout;
  uint64_t n, held;
  uint32_t blocks;
  uint64_t *sealed;   /* behind the words */
  uint32_t *in_block; /* pieces held, per block; behind that */
  uint64_t word[];
};

static size_t words(uint64_t n) { return (size_t)((n + 63) / 64); }

size_t dc_pieces_size(const struct dc_layout *l)
{
  return sizeof(struct dc_pieces) + (words(dc_layout_pieces(l)) + words(dc_layout_blocks(l))) * sizeof(uint64_t) +
         (size_t)dc_layout_blocks(l) * sizeof(uint32_t);
}

dc_pieces *dc_pieces_init(void *memory, const struct dc_layout *l)
{
  dc_pieces *p = memory;
  p->layout = *l;
  p->n = dc_layout_pieces(l);
  p->held = 0;
  p->blocks = dc_layout_blocks(l);
  p->sealed = p->word + words(p->n);
  p->in_block = (uint32_t *)(p->sealed + words(p->blocks));
  return p;
}

void dc_pieces_prefetch(const dc_pieces *p, uint64_t piece)
{
  __builtin_prefetch(p, 1);
  __builtin_prefetch(&p->word[piece / 64], 1);
}

bool dc_pieces_has(const dc_pieces *p, uint64_t piece)
{
  return piece < p->n && (__atomic_load_n(&p->word[piece / 64], __ATOMIC_RELAXED) >> (piece % 64) & 1);
}

bool dc_pieces_add(dc_pieces *p, uint64_t piece)
{
  if (piece >= p->n || dc_pieces_has(p, piece))
    return false;
  uint64_t bit = UINT64_C(1) << (piece % 64);
  if (__atomic_fetch_or(&p->word[piece / 64], bit, __ATOMIC_ACQ_REL) & bit)
    return false;
  __atomic_fetch_add(&p->in_block[piece / p->layout.per_block], 1, __ATOMIC_ACQ_REL);
  __atomic_fetch_add(&p->held, 1, __ATOMIC_RELAXED);
  return true;
}

/* First piece of a block, and one past its last. */
static void span(const dc_pieces *p, uint32_t block, uint64_t *first, uint64_t *end)
{
  *first = (uint64_t)block * p->layout.per_block;
  *end = *first + p->layout.per_block;
  if (*end > p->n)
    *end = p->n;
}

static bool sealed(const dc_pieces *p, uint32_t block)
{
  return __atomic_load_n(&p->sealed[block / 64], __ATOMIC_ACQUIRE) >> (block % 64) & 1;
}

uint32_t dc_pieces_drop_block(dc_pieces *p, uint32_t block)
{
  if (block >= p->blocks || sealed(p, block))
    return 0;
  uint64_t i, end;
  uint32_t held = 0;
  span(p, block, &i, &end);
  for (; i < end; i++) {
    uint64_t bit = UINT64_C(1) << (i % 64);
    held += (__atomic_fetch_and(&p->word[i / 64], ~bit, __ATOMIC_ACQ_REL) & bit) != 0;
  }
  __atomic_fetch_sub(&p->in_block[block], held, __ATOMIC_ACQ_REL);
  __atomic_fetch_sub(&p->held, held, __ATOMIC_RELAXED);
  return held;
}

bool dc_pieces_block_whole(const dc_pieces *p, uint32_t block)
{
  if (block >= p->blocks)
    return false;
  uint64_t first, end;
  span(p, block, &first, &end);
  return __atomic_load_n(&p->in_block[block], __ATOMIC_ACQUIRE) == end - first;
}

void dc_pieces_seal_block(dc_pieces *p, uint32_t block)
{
  if (block < p->blocks)
    __atomic_fetch_or(&p->sealed[block / 64], UINT64_C(1) << (block % 64), __ATOMIC_RELEASE);
}

bool dc_pieces_sealed(const dc_pieces *p, uint64_t first, uint64_t count)
{
  if (count == 0 || first >= p->n || count > p->n - first)
    return false;
  for (uint64_t b = first / p->layout.per_block; b <= (first + count - 1) / p->layout.per_block; b++)
    if (!sealed(p, (uint32_t)b))
      return false;
  return true;
}

uint64_t dc_pieces_held(const dc_pieces *p) { return __atomic_load_n(&p->held, __ATOMIC_RELAXED); }
bool dc_pieces_whole(const dc_pieces *p) { return dc_pieces_held(p) == p->n; }
const struct dc_layout *dc_pieces_layout(const dc_pieces *p) { return &p->layout; }

/* ---- extents ---- */

int dc_extents_append(struct dc_extents *x, const struct dc_extent *e)
{
  /* The end must fit as well: sequence numbers do not wrap. */
  if (e->count == 0 || e->count > UINT32_MAX - e->seq || e->first > UINT64_MAX - e->count)
    return -EINVAL;
  if (x->n > 0) {
    const struct dc_extent *last = &x->e[x->n - 1];
    if (e->seq == last->seq && e->count == last->count && e->first == last->first)
      return 0;
    if (e->seq < last->seq + last->count)
      return -EINVAL;
  }
  if (x->n == DC_EXTENTS_MAX)
    return -ENOSPC;
  x->e[x->n++] = *e;
  return 0;
}

/* Extents that begin at or before seq. */
static uint32_t upto(const struct dc_extents *x, uint32_t seq)
{
  if (x->n == 0 || seq < x->e[0].seq)
    return 0;
  uint32_t lo = 0, hi = x->n;
  while (hi - lo > 1) {
    uint32_t mid = (lo + hi) / 2;
    if (x->e[mid].seq <= seq)
      lo = mid;
    else
      hi = mid;
  }
  return lo + 1;
}

bool dc_extents_piece(const struct dc_extents *x, uint32_t seq, uint64_t *piece)
{
  uint32_t k = upto(x, seq);
  const struct dc_extent *e = &x->e[k > 0 ? k - 1 : 0];
  if (k == 0 || seq - e->seq >= e->count)
    return false;
  *piece = e->first + (seq - e->seq);
  return true;
}

uint32_t dc_extents_next(const struct dc_extents *x, uint32_t seq)
{
  uint32_t k = upto(x, seq);
  if (k > 0 && seq - x->e[k - 1].seq < x->e[k - 1].count)
    return seq;
  return k < x->n ? x->e[k].seq : dc_extents_end(x);
}

uint32_t dc_extents_end(const struct dc_extents *x)
{
  return x->n == 0 ? 0 : x->e[x->n - 1].seq + x->e[x->n - 1].count;
}

void dc_extents_forget(struct dc_extents *x, uint32_t seq, const dc_pieces *p)
{
  uint32_t n = 0, before = 0; /* the last one stays: the next must stand above it */
  while (before + 1 < x->n && x->e[before].seq + x->e[before].count <= seq)
    before++;
  for (uint32_t k = 0; k < x->n; k++)
    if (k >= before || !dc_pieces_sealed(p, x->e[k].first, x->e[k].count))
      x->e[n++] = x->e[k];
  if (n == x->n && before > 0)
    memmove(x->e, x->e + 1, --n * sizeof x->e[0]);
  x->n = n;
}

void dc_extents_cut(struct dc_extents *x, uint32_t seq)
{
  while (x->n > 0 && x->e[x->n - 1].seq >= seq)
    x->n--;
  if (x->n > 0 && x->e[x->n - 1].count > seq - x->e[x->n - 1].seq)
    x->e[x->n - 1].count = seq - x->e[x->n - 1].seq;
}
