#include "datapath/memif_ring.h"

#include <string.h>

#include "datacast/constants.h"
#include "datapath/bufpool.h"
#include "datapath/copy_away.h"

enum {
  PUBLISH = 8, /* frames between two moves of the index: the other end copies while this one does */
  RING_ROOM = (int)sizeof(struct memif_ring) + MEMIF_SLOTS * (int)sizeof(struct memif_desc),
};

/* ---- a client's memory: ring out, ring in, buffers out, buffers in ---- */

static uint32_t buffer_at(const struct memif_rings *r, bool in, uint16_t index)
{
  return 2u * RING_ROOM + ((in ? (uint32_t)MEMIF_SLOTS : 0u) + (index & (MEMIF_SLOTS - 1u))) * r->slot;
}

size_t memif_rings_bytes(uint32_t slot)
{
  return ((size_t)2 * RING_ROOM + (size_t)2 * MEMIF_SLOTS * slot + 4095) / 4096 * 4096;
}

uint32_t memif_ring_offset(bool to_server) { return to_server ? 0 : RING_ROOM; }

static struct memif_end make(const struct memif_rings *r, bool in)
{
  struct memif_ring *ring = (struct memif_ring *)(void *)(r->region[0].map + memif_ring_offset(!in));
  ring->cookie = MEMIF_COOKIE;
  for (unsigned i = 0; i < MEMIF_SLOTS; i++)
    ring->desc[i] = (struct memif_desc){.length = r->slot, .offset = buffer_at(r, in, (uint16_t)i)};
  return (struct memif_end){.ring = ring, .mask = MEMIF_SLOTS - 1};
}

void memif_rings_make(struct memif_rings *r, uint32_t slot)
{
  r->slot = slot;
  r->out = make(r, false);
  r->in = make(r, true);
}

void memif_rings_begin(struct memif_rings *r) { __atomic_store_n(&r->in.ring->head, MEMIF_SLOTS, __ATOMIC_RELEASE); }

/* ---- a server's client ---- */

bool memif_rings_find(struct memif_rings *r, bool to_server, uint16_t region, uint32_t offset, uint8_t log2)
{
  if (region >= r->regions || log2 > MEMIF_LOG2_MAX || offset % 64 != 0)
    return false;
  size_t bytes = sizeof(struct memif_ring) + (sizeof(struct memif_desc) << log2), len = r->region[region].len;
  if (bytes > len || offset > len - bytes)
    return false;
  struct memif_ring *ring = (struct memif_ring *)(void *)(r->region[region].map + offset);
  if (ring->cookie != MEMIF_COOKIE)
    return false;
  *(to_server ? &r->in : &r->out) = (struct memif_end){.ring = ring, .mask = (uint16_t)((1u << log2) - 1)};
  return true;
}

/* Where a buffer is, or NULL: not within the memory. */
static uint8_t *buffer(const struct memif_rings *r, uint16_t region, uint32_t offset, uint32_t bytes)
{
  if (region >= r->regions)
    return NULL;
  size_t len = r->region[region].len;
  return bytes <= len && offset <= len - bytes ? r->region[region].map + offset : NULL;
}

/* ---- frames ---- */

static uint16_t *published(const struct memif_end *e, bool head) { return head ? &e->ring->head : &e->ring->tail; }

/* The buffer for a frame of so many bytes; NULL: the other end offers none. */
static uint8_t *place(struct memif_rings *r, uint16_t at, uint32_t len)
{
  struct memif_desc *d = &r->out.ring->desc[at & r->out.mask];
  if (!r->server) {
    uint32_t offset = buffer_at(r, false, at);
    *d = (struct memif_desc){.length = len, .offset = offset};
    return len <= r->slot ? r->region[0].map + offset : NULL;
  }
  const volatile struct memif_desc *theirs = d;
  uint16_t region = theirs->region;
  uint32_t offset = theirs->offset;
  uint8_t *to = theirs->length >= len ? buffer(r, region, offset, len) : NULL;
  d->length = len;
  d->flags = 0;
  return to;
}

int memif_room(const struct memif_rings *r)
{
  const struct memif_end *e = &r->out;
  /* A client's frames go as far as it has slots, a server's as far as the client has put out buffers. */
  uint16_t other = __atomic_load_n(published(e, r->server), __ATOMIC_ACQUIRE);
  uint16_t ahead = r->server ? (uint16_t)(other - e->at) : (uint16_t)(e->at - other);
  unsigned size = e->mask + 1u;
  if (ahead > size)
    return -1;
  return (int)(r->server ? ahead : size - ahead);
}

int memif_put(struct memif_rings *r, const struct dc_tx *const *frame, unsigned count)
{
  struct memif_end *e = &r->out;
  int room = memif_room(r);
  if (room < 0)
    return -1;
  if (count > (unsigned)room)
    count = (unsigned)room;
  for (unsigned i = 0; i < count; i++) {
    const struct dc_tx *tx = frame[i];
    uint8_t *to = place(r, e->at, tx->prefix_len + tx->len);
    if (to == NULL)
      return -1;
    memcpy(to, tx->prefix, tx->prefix_len);
    if (tx->buf != NULL)
      copy_away(to + tx->prefix_len, tx->buf->data + tx->off, tx->len);
    e->at++;
    if (i % PUBLISH != PUBLISH - 1 && i + 1 < count)
      continue;
    copied_away();
    __atomic_store_n(published(e, !r->server), e->at, __ATOMIC_RELEASE);
  }
  return (int)count;
}

bool memif_waits(const struct memif_rings *r)
{
  return __atomic_load_n(published(&r->in, r->server), __ATOMIC_ACQUIRE) != r->in.at;
}

void memif_wake_me(struct memif_rings *r, bool wake)
{
  __atomic_store_n(&r->in.ring->flags, wake ? 0 : MEMIF_MASK_INT, __ATOMIC_RELAXED);
  __atomic_thread_fence(
      __ATOMIC_SEQ_CST); /* what comes from now on wakes; who asked looks once more for what came before */
}

bool memif_wakes(const struct memif_rings *r)
{
  __atomic_thread_fence(__ATOMIC_SEQ_CST); /* the frames stand before it is looked whether anybody sleeps */
  return (__atomic_load_n(&r->out.ring->flags, __ATOMIC_RELAXED) & MEMIF_MASK_INT) == 0;
}

int memif_look(struct memif_rings *r, struct memif_taken *frame, unsigned most, unsigned *buffers, uint64_t *bad)
{
  struct memif_end *e = &r->in;
  uint16_t waiting = (uint16_t)(__atomic_load_n(published(e, r->server), __ATOMIC_ACQUIRE) - e->at);
  unsigned frames = 0, seen = 0;
  if (waiting > e->mask + 1u)
    return -1;
  for (; seen < waiting && frames < most; seen++) {
    const volatile struct memif_desc *d = &e->ring->desc[(e->at + seen) & e->mask];
    uint32_t len = d->length, offset = d->offset;
    uint16_t region = d->region;
    bool more = (d->flags & MEMIF_DESC_NEXT) != 0, part = more || e->in_parts; /* what fits the MTU comes in one */
    e->in_parts = more;
    const uint8_t *data = part || len < DC_ETHER_LEN ? NULL : buffer(r, region, offset, len);
    if (data != NULL) {
      __builtin_prefetch(data);
      frame[frames++] = (struct memif_taken){.data = data, .len = len};
    } else if (!more) {
      ++*bad;
    }
  }
  *buffers = seen;
  return (int)frames;
}

void memif_let_go(struct memif_rings *r, unsigned buffers)
{
  struct memif_end *e = &r->in;
  for (unsigned i = 0; !r->server && i < buffers; i++)
    e->ring->desc[(e->at + i) & e->mask] =
        (struct memif_desc){.length = r->slot, .offset = buffer_at(r, true, (uint16_t)(e->at + i))};
  e->at = (uint16_t)(e->at + buffers);
  /* A server says what it has read, a client which buffers are free. */
  __atomic_store_n(published(e, !r->server), r->server ? e->at : (uint16_t)(e->at + MEMIF_SLOTS), __ATOMIC_RELEASE);
}
