#include "cc_cubic.h"

#include "cc_packets.h"

enum { FAR = 1 << 15 }; /* ms that are looked at along the cubic, in which it grows by 14,000 packets */

void cubic_init(struct cubic *c, uint64_t link)
{
  *c = (struct cubic){.link = link, .most = link, .ceiling = link, .after = link};
}

bool cubic_new(struct cubic *c, uint32_t seq, uint32_t sent)
{
  if (seq < c->sent)
    return false; /* what was sent before the last answer was told then */
  c->sent = sent;
  return true;
}

void cubic_count(struct cubic *c, uint32_t seq)
{
  if (!cubic_bounds(c))
    c->lost = 0;
  if (c->lost == 0 || seq > c->highest) {
    c->highest = seq;
    c->lost++;
  }
}

void cubic_cut(struct cubic *c, dc_time now, uint64_t rate, uint64_t least)
{
  if (!cubic_bounds(c))
    c->since = now;
  uint64_t less = rate / 10 * 7;
  c->cut = now;
  c->ceiling = rate < c->ceiling ? rate / 20 * 17 : rate;
  c->after = c->most = less > least ? less : least;
}

static uint64_t cube_root(uint64_t n)
{
  uint64_t root = 0;
  for (uint64_t bit = FAR / 2; bit > 0; bit /= 2)
    if ((root + bit) * (root + bit) * (root + bit) <= n)
      root += bit;
  return root;
}

/* Reno beside cuts of three tenths: 0.53 packets a round. */
void cubic_grow(struct cubic *c, dc_time now, dc_time took, unsigned times, uint32_t packet_bytes)
{
  if (!cubic_bounds(c))
    return;
  uint64_t n = packets_held(c->ceiling > c->after ? c->ceiling - c->after : 0, took, packet_bytes);
  dc_time since = (now - c->cut) * times;
  uint64_t t = since / DC_MS, k = cube_root((n < FAR ? n : FAR) * 2500000000); /* ms */
  uint64_t d = t > k ? t - k : k - t;
  d = d < FAR ? d : FAR;
  uint64_t off = packets_rate(d * d * d * 2 / 5 / 1000000000, took, packet_bytes);
  uint64_t cubic = t > k ? c->ceiling + off : c->ceiling > off ? c->ceiling - off : 0;
  uint64_t reno = c->after + packets_rate(53, took, packet_bytes) / 100 * (since / took);
  cubic = cubic > reno ? cubic : reno;
  if (cubic > c->most)
    c->most = cubic < c->link ? cubic : c->link;
}
