#include "datapath/backlog.h"

#include <stddef.h>

#include "datacast/wire.h"
#include "datapath/bufpool.h"

enum { REFUSALS_MAX = 400 };

_Static_assert((BACKLOG_FIRST & (BACKLOG_FIRST - 1)) == 0 && (BACKLOG_DATA & (BACKLOG_DATA - 1)) == 0, "masks");

bool goes_first(const uint8_t *p, uint32_t len, const uint8_t *rest, uint32_t rest_len)
{
  if (len < DC_ETHER_LEN)
    return false;
  uint32_t type = (uint32_t)p[12] << 8 | p[13], at = DC_ETHER_LEN;
  if (type == DC_ETHERTYPE_HELLO)
    return true;
  bool bottom = type == DC_ETHERTYPE_DATACAST;
  if (!bottom && type != DC_ETHERTYPE_MPLS)
    return false;
  for (;;) {
    if (at == len) {
      if (rest == NULL || rest_len == 0)
        return false;
      p = rest, len = rest_len, at = 0;
      rest = NULL;
    }
    if (bottom)
      return p[at] == (DC_VERSION << 4 | DC_TYPE_INTEREST);
    if (len - at < DC_LABEL_LEN)
      return false;
    (void)dc_label_read(p + at, &bottom);
    at += DC_LABEL_LEN;
  }
}

bool tx_goes_first(const struct dc_tx *tx)
{
  const uint8_t *rest = tx->buf == NULL ? NULL : tx->buf->data + tx->off;
  return tx->prefix_len > 0 ? goes_first(tx->prefix, tx->prefix_len, rest, tx->len)
                            : rest != NULL && goes_first(rest, tx->len, NULL, 0);
}

int backlog_put(struct backlog *b, bool first)
{
  uint32_t most = first ? (uint32_t)BACKLOG_FIRST : b->most > 0 ? b->most : (uint32_t)BACKLOG_DATA;
  struct backlog_lane *l = first ? &b->first : &b->data;
  if (l->n == most)
    return -1;
  uint32_t place = l->head + l->n++;
  return (int)(first ? place & (BACKLOG_FIRST - 1) : BACKLOG_FIRST + (place & (BACKLOG_DATA - 1)));
}

uint32_t backlog_put_ahead(struct backlog *b, bool *taken)
{
  *taken = b->first.n == BACKLOG_FIRST;
  b->first.n += !*taken;
  return --b->first.head & (BACKLOG_FIRST - 1);
}

unsigned backlog_run(const struct backlog *b, uint32_t from, uint32_t *place)
{
  bool first = from < b->first.n;
  const struct backlog_lane *l = first ? &b->first : &b->data;
  uint32_t size = first ? (uint32_t)BACKLOG_FIRST : (uint32_t)BACKLOG_DATA, past = first ? from : from - b->first.n;
  if (past >= l->n)
    return 0;
  uint32_t at = (l->head + past) & (size - 1), n = l->n - past;
  *place = first ? at : BACKLOG_FIRST + at;
  return n < size - at ? n : size - at;
}

static void gone(struct backlog_lane *l, uint32_t n)
{
  if (n == 0)
    return;
  l->n -= n;
  l->head = l->n == 0 ? 0 : l->head + n; /* one that is empty begins where it began: that memory was used last */
  l->refusals = 0;
}

void backlog_sent(struct backlog *b, uint32_t n)
{
  uint32_t first = n < b->first.n ? n : b->first.n;
  gone(&b->first, first);
  gone(&b->data, n - first);
}

bool backlog_refused(struct backlog *b)
{
  struct backlog_lane *l = b->first.n > 0 ? &b->first : &b->data;
  if (++l->refusals <= REFUSALS_MAX)
    return false;
  l->refusals = 0;
  return true;
}

void backlog_cut(struct backlog *b, uint32_t n)
{
  uint32_t first = n < b->first.n ? n : b->first.n;
  b->first.n = first;
  b->data.n = n - first;
}
