#include "cc_spacing.h"

#include "cc_packets.h"

enum { TRAIN = 7 }; /* packets at most that are timed together (of eight: seed 133008) */

void spacing_init(struct spacing *s, uint32_t packet_bytes, uint32_t credits, uint64_t rate)
{
  uint32_t train = credits / 2 < TRAIN ? credits / 2 : TRAIN;
  *s = (struct spacing){.packet_bytes = packet_bytes, .train = train, .sent = rate, .next = rate};
}

bool spacing_seen(struct spacing *s, dc_time now, uint32_t had)
{
  if (had < s->had || had == 0 || (s->at != 0 && had - s->had < s->train))
    return false; /* less than before: credits have changed, and so what they say */
  uint64_t rate = s->at != 0 ? packets_rate(had - s->had, now - s->at, s->packet_bytes) : 0;
  bool first = !s->known && s->at != 0;
  s->known |= first;
  s->rate = rate > s->rate ? rate : s->rate;
  s->at = now;
  s->had = had;
  return first;
}

uint64_t spacing_most(const struct spacing *s)
{
  uint64_t came = s->rate > s->before ? s->rate : s->before;
  if (!s->known)
    return 0;
  return came == 0 || came >= s->sent / 8 * 7 ? UINT64_MAX : came;
}

void spacing_round(struct spacing *s, uint64_t rate, bool told)
{
  s->before = told ? s->rate : 0;
  s->rate = 0;
  s->sent = s->next;
  s->next = rate;
}
