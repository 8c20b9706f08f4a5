#include "backlog.h"

#include <datacast/wire.h>

/* Does it go before data? What cannot be told within the first segment goes with data. */
static bool goes_first(const struct rte_mbuf *m)
{
  const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *);
  uint32_t at = DC_ETHER_LEN, len = m->data_len;
  if (len < at)
    return false;
  uint32_t type = (uint32_t)p[12] << 8 | p[13];
  if (type == DC_ETHERTYPE_HELLO)
    return true;
  bool bottom = type == DC_ETHERTYPE_DATACAST;
  if (!bottom && type != DC_ETHERTYPE_MPLS)
    return false;
  for (; !bottom && at + DC_LABEL_LEN <= len; at += DC_LABEL_LEN)
    (void)dc_label_read(p + at, &bottom);
  struct dc_header h;
  return bottom && at < len && dc_header_parse(p + at, len - at, &h) == DC_DROP_NONE && h.type == DC_TYPE_INTEREST;
}

bool backlog_put(struct backlog *b, struct rte_mbuf *m)
{
  if (goes_first(m)) {
    if (b->first_n == BACKLOG_FIRST)
      return false;
    b->first[(b->first_head + b->first_n++) & (BACKLOG_FIRST - 1)] = m;
    return true;
  }
  if (b->data_n == (b->most > 0 ? b->most : (uint32_t)BACKLOG_DATA))
    return false;
  b->data[(b->data_head + b->data_n++) & (BACKLOG_DATA - 1)] = m;
  return true;
}

unsigned backlog_next(const struct backlog *b, struct rte_mbuf **m, unsigned most)
{
  unsigned n = 0;
  for (uint32_t i = 0; i < b->first_n && n < most; i++)
    m[n++] = b->first[(b->first_head + i) & (BACKLOG_FIRST - 1)];
  for (uint32_t i = 0; i < b->data_n && n < most; i++)
    m[n++] = b->data[(b->data_head + i) & (BACKLOG_DATA - 1)];
  return n;
}

void backlog_sent(struct backlog *b, unsigned n)
{
  uint32_t first = n < b->first_n ? n : b->first_n;
  b->first_head += first;
  b->first_n -= first;
  b->data_head += n - first;
  b->data_n -= n - first;
}

void backlog_free(struct backlog *b)
{
  struct rte_mbuf *m;
  while (backlog_next(b, &m, 1) == 1) {
    rte_pktmbuf_free(m);
    backlog_sent(b, 1);
  }
}
