#include "datapath/linkstate.h"

#include <string.h>

static bool failed(const struct linkstate *l)
{
  return l->watched && (l->hello.link == DC_LINK_SILENT || l->hello.link == DC_LINK_UNHEARD ||
                        (l->proven && l->hello.link == DC_LINK_UNKNOWN));
}

/* Who will be back takes its carrier along, and brings it back. */
static bool works(const struct linkstate *l) { return (l->carrier || l->hello.awaited) && !failed(l); }

void linkstate_init(struct linkstate *l, dc_time now, uint32_t instance, bool watched, bool carrier, unsigned mtu)
{
  struct dc_hello_cfg cfg;
  memset(l, 0, sizeof *l);
  dc_hello_cfg_default(&cfg);
  cfg.mtu = mtu;
  dc_hello_init(&l->hello, now, &cfg, instance);
  l->watched = watched;
  l->carrier = l->up = carrier;
}

void linkstate_anew(struct linkstate *l, dc_time now)
{
  const struct dc_hello before = l->hello;
  dc_hello_init(&l->hello, now, &before.cfg, before.instance);
  l->hello.seq = before.seq; /* the neighbour may be the same */
  l->hello.failures = before.failures;
}

bool linkstate_hello(struct linkstate *l, dc_time now, const uint8_t *p, size_t len)
{
  if (!l->watched)
    return false;
  struct dc_header h;
  enum dc_drop why = dc_header_parse(p, len, &h);
  if (why == DC_DROP_NONE)
    why = dc_hello_handle(&l->hello, now, &h, p + DC_HEADER_LEN);
  if (why == DC_DROP_NONE)
    l->received++;
  else
    l->refused++;
  return true;
}

void linkstate_heard(struct linkstate *l, dc_time now) { dc_hello_heard(&l->hello, now); }

void linkstate_proven(struct linkstate *l)
{
  l->proven = true;
  l->hello.cfg.whole = 0;
  l->up = works(l);
}

void linkstate_busy(struct linkstate *l, dc_time now) { dc_hello_busy(&l->hello, now); }

void linkstate_leave(struct linkstate *l, dc_time now, dc_time away) { dc_hello_leave(&l->hello, now, away); }

void linkstate_carrier(struct linkstate *l, dc_time now, bool carrier)
{
  if (carrier && !l->carrier)
    dc_hello_busy(&l->hello, now); /* says hello at once: the neighbour's carrier came back as well */
  l->carrier = carrier;
}

unsigned linkstate_poll(struct linkstate *l, dc_time now, const uint8_t neighbour[6], const uint8_t own[6],
                        uint8_t out[LINK_HELLO_BYTES])
{
  unsigned n = l->watched ? dc_hello_poll(&l->hello, now, out + DC_ETHER_LEN) : 0;
  if (n == 0 || !l->carrier)
    return 0;
  dc_ether_write(out, neighbour, own, DC_ETHERTYPE_HELLO);
  l->sent++;
  return DC_ETHER_LEN + n;
}

dc_time linkstate_next_wake(const struct linkstate *l) { return l->watched ? dc_hello_next_wake(&l->hello) : DC_NEVER; }

bool linkstate_settle(struct linkstate *l)
{
  bool up = works(l);
  bool changed = up != l->up;
  l->up = up;
  return changed;
}

const char *linkstate_reason(const struct linkstate *l)
{
  return !l->carrier ? "carrier" : failed(l) ? dc_link_name(l->hello.link) : NULL;
}
