/* Frames in and out of shared memory (memif.c). */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "datapath/memif_lanes.h"
#include "datapath/steering.h"

void memif_give_back(struct dc_buf *b)
{
  struct memif *m = ((struct memif_lent *)(void *)b)->owner;
  b->next = m->free;
  m->free = b;
}

/* A copy of a frame; the payload of a packet that ends at this host stays where it is: who writes it to a file copies it anyway. */
static void copy_in(struct dc_buf *b, const struct memif_taken *t)
{
  uint32_t head = t->len < BUF_HEAD ? t->len : BUF_HEAD, payload;
  memcpy(b->data, t->data, head);
  const struct dc_frame f = {.data = b->data};
  bool ends = t->len > BUF_HEAD && dc_frame_ethertype(&f) == DC_ETHERTYPE_DATACAST &&
              dc_is_data(b->data + DC_ETHER_LEN, t->len - DC_ETHER_LEN, &payload);
  b->whole = ends ? t->data : NULL;
  if (!ends)
    memcpy(b->data + head, t->data + head, t->len - head);
}

/* A burst, copied unless it is lent as it stands. Returns the buffers that were looked at. */
static unsigned take(struct memif_lane *l, netif_rx_fn *fn, void *arg)
{
  struct memif *m = l->owner;
  struct memif_taken taken[NETIF_BURST];
  struct dc_frame frame[NETIF_BURST];
  unsigned buffers;
  int n = memif_look(&l->rings, taken, NETIF_BURST, &buffers, &m->base.rx_truncated);
  if (n < 0) {
    memif_again_later(l, "what stands in its ring makes no sense");
    return 0;
  }
  unsigned kept = 0;
  for (int i = 0; i < n; i++) {
    struct dc_buf *b = taken[i].len <= m->slot ? m->free : NULL;
    if (b == NULL) { /* too long; or all are lent, which a round's budget does not allow */
      m->base.rx_truncated++;
      continue;
    }
    m->free = b->next;
    b->refs = 1;
    if (m->cfg.raw)
      b->data = (uint8_t *)(uintptr_t)taken[i].data;
    else
      copy_in(b, &taken[i]);
    frame[kept++] = (struct dc_frame){.buf = b, .data = b->data, .len = taken[i].len};
  }
  l->lends = true;
  if (kept > 0)
    fn(arg, frame, kept);
  l->lends = false;
  if (l->state == JOINED)
    memif_let_go(&l->rings, buffers);
  else /* what was sent meanwhile has ended it */
    memif_unmap(l);
  return buffers;
}

/* The lanes in turns, a burst each. */
unsigned memif_rx(struct netif *n, netif_rx_fn *fn, void *arg, unsigned budget)
{
  struct memif *m = memif_of(n);
  unsigned got = 0;
  for (unsigned idle = 0; got < budget && idle < m->of; m->turn++) {
    struct memif_lane *l = m->joined[m->turn % m->of];
    unsigned seen = l == NULL ? 0 : take(l, fn, arg);
    got += seen;
    idle = seen > 0 ? 0 : idle + 1;
  }
  return got;
}

bool memif_awake(struct netif *n, bool is)
{
  struct memif *m = memif_of(n);
  for (unsigned i = 0; i < m->of; i++) {
    struct memif_lane *l = m->joined[i];
    if (l == NULL)
      continue;
    if (!is &&
        memif_waits(&l->rings)) /* mostly, where frames come quickly: the other side's line need not be written to */
      return true;
    memif_wake_me(&l->rings, !is);
    if (!is && memif_waits(&l->rings))
      return true;
  }
  return false;
}

/* Whose the frame is. */
static struct memif_lane *lane_of(const struct memif *m, const struct dc_tx *tx)
{
  uint8_t head[STEERING_BYTES];
  uint32_t len = tx->prefix_len < sizeof head ? tx->prefix_len : (uint32_t)sizeof head, more = sizeof head - len;
  if (m->of <= 1)
    return m->joined[0];
  memcpy(head, tx->prefix, len);
  if (tx->buf != NULL) {
    more = tx->len < more ? tx->len : more;
    memcpy(head + len, tx->buf->data + tx->off, more);
    len += more;
  }
  return m->joined[steering_spread(&(struct dc_frame){.data = head, .len = len}, m->of)];
}

struct batch { /* of one lane */
  int room;    /* -1: not known yet */
  unsigned n;
  const struct dc_tx *tx[NETIF_BURST];
};

/* False: it makes no sense, and is over. */
static bool put(struct memif_lane *l, struct batch *b)
{
  uint64_t one = 1;
  if (memif_put(&l->rings, b->tx, b->n) != (int)b->n) {
    memif_again_later(l, "its buffers are too short, or its ring makes no sense");
    return false;
  }
  if (memif_wakes(&l->rings) && write(l->wake_out, &one, sizeof one) < 0)
    return true; /* it is full of wake-ups: awake it will be */
  return true;
}

/* As far as there is room for them in order. */
int memif_send(struct netif *n, const struct dc_tx *tx, unsigned count)
{
  struct memif *m = memif_of(n);
  struct batch batch[MEMIF_LANES];
  unsigned taken = 0;
  int error = -EAGAIN;
  for (unsigned i = 0; i < m->of; i++)
    batch[i].room = -1, batch[i].n = 0;
  for (; taken < count && taken < NETIF_BURST; taken++) {
    struct memif_lane *l = lane_of(m, &tx[taken]);
    struct batch *b = l == NULL ? NULL : &batch[l->index];
    if (b != NULL && b->room < 0 && (b->room = memif_room(&l->rings)) < 0) {
      memif_again_later(l, "its ring makes no sense");
      b = NULL;
    }
    if (b == NULL || b->room == (int)b->n) {
      error = b == NULL ? -ENETDOWN : -EAGAIN;
      break;
    }
    b->tx[b->n++] = &tx[taken];
  }
  bool ok = true;
  for (unsigned i = 0; i < m->of; i++)
    if (batch[i].n > 0 && m->joined[i] != NULL)
      ok = put(m->joined[i], &batch[i]) && ok;
  return taken == 0 ? error : ok && m->of > 0 ? (int)taken : -ENETDOWN;
}
