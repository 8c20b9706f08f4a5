/* libFuzzer: two ends of one link that say hello, over a link that loses, delays, repeats and damages. Steps:
 *
 *   0x00..0x3f  end (low bit) polls;  0x40..0x7f  the oldest hello on its way to that end arrives
 *   0x80..0x8f  it is lost;  0x90..0x9f  it comes twice;  0xa0..0xbf  time goes on
 *   0xc0..0xcf  another frame arrives;  0xd0..0xd7  traffic begins;  0xd8..0xdf  that end starts again
 *   0xe0..0xff  some bytes arrive as a hello
 */
#include <string.h>

#include "datacast/hello.h"
#include "script.h"

enum { ON_THE_WAY = 16, MTU = 64 };

struct end {
  struct dc_hello h;
  uint8_t frame[ON_THE_WAY][MTU]; /* on their way to this end */
  unsigned n;
};

static struct end end[2];
static dc_time now;
static uint32_t instances;

static void check(const struct dc_hello *h)
{
  MUST(h->state >= 1 && h->state <= 3);
  MUST(h->link <= DC_LINK_UNHEARD && (h->link == DC_LINK_UP) == (h->state == 3));
  MUST(h->hold >= h->cfg.hold_min && h->hold <= h->cfg.hold_max);
  MUST(h->held_until <= now + h->cfg.hold_max);
  MUST(h->carried >= -1 && h->carried <= MTU);
}

static void poll(unsigned e)
{
  uint8_t out[DC_HELLO_LEN];
  unsigned n = dc_hello_poll(&end[e].h, now, out);
  MUST(n == 0 || (n >= DC_HELLO_LEN && n <= MTU));
  /* One call says all that is to be said now. A verdict of silence asks for another at once. */
  if (n == 0)
    MUST(dc_hello_next_wake(&end[e].h) > now);
  else
    MUST(dc_hello_poll(&end[e].h, now, out + 0) == 0 && dc_hello_next_wake(&end[e].h) > now);
  struct end *to = &end[1 - e];
  if (n > 0 && to->n < ON_THE_WAY)
    memcpy(memset(to->frame[to->n++], 0, MTU), out, DC_HELLO_LEN);
  check(&end[e].h);
}

static void arrive(unsigned e, const uint8_t *p, size_t len)
{
  struct dc_header header;
  if (dc_header_parse(p, len, &header) == DC_DROP_NONE)
    (void)dc_hello_handle(&end[e].h, now, &header, p + DC_HEADER_LEN);
  check(&end[e].h);
}

static void lose(unsigned e)
{
  if (end[e].n > 0)
    memmove(end[e].frame[0], end[e].frame[1], --end[e].n * sizeof end[e].frame[0]);
}

static void deliver(unsigned e)
{
  if (end[e].n == 0)
    return;
  arrive(e, end[e].frame[0], MTU);
  lose(e);
}

static void start(unsigned e, uint8_t how)
{
  struct dc_hello_cfg cfg;
  dc_hello_cfg_default(&cfg);
  if (how & 1)
    cfg.slow = cfg.fast;
  if (how & 2)
    cfg.timeout_min = cfg.hold_min = cfg.hold_max = DC_MS;
  cfg.mtu = how & 16 ? 0 : MTU;
  if (how & 32)
    cfg.whole = 0;
  dc_hello_init(&end[e].h, now, &cfg, ++instances * 2654435761u);
}

/* A link without faults is up at both ends before long, whatever was before. */
static void settle(void)
{
  dc_time up = DC_NEVER;
  for (dc_time until = now + 30 * DC_SEC; now < until;) {
    for (unsigned e = 0; e < 2; e++)
      poll(e);
    for (unsigned e = 0; e < 2; e++)
      while (end[e].n > 0)
        deliver(e);
    if (end[0].h.link != DC_LINK_UP || end[1].h.link != DC_LINK_UP)
      up = DC_NEVER;
    else if (up == DC_NEVER)
      up = now;
    else if (now > up + DC_SEC) /* and stays so */
      return;
    dc_time a = dc_hello_next_wake(&end[0].h), b = dc_hello_next_wake(&end[1].h), at = a < b ? a : b;
    now = at > now ? at : now + DC_US;
  }
  MUST(!"a link without faults stays down");
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t len)
{
  struct script s = {p, p + len};
  memset(end, 0, sizeof end);
  now = DC_SEC;
  instances = 0;
  uint8_t how = next(&s);
  start(0, how);
  start(1, how >> 2);
  while (s.p < s.end) {
    uint8_t op = next(&s);
    unsigned e = op & 1;
    if (op < 0x40) {
      poll(e);
    } else if (op < 0x80) {
      deliver(e);
    } else if (op < 0x90) {
      lose(e);
    } else if (op < 0xa0) {
      if (end[e].n > 0)
        arrive(e, end[e].frame[0], MTU);
      deliver(e);
    } else if (op < 0xc0) {
      now += span(&s);
    } else if (op < 0xd0) {
      dc_hello_heard(&end[e].h, now);
    } else if (op < 0xd4) {
      dc_hello_busy(&end[e].h, now);
    } else if (op < 0xd8) {
      dc_hello_leave(&end[e].h, now, span(&s));
    } else if (op < 0xe0) {
      start(e, op >> 1);
    } else {
      uint8_t bytes[DC_HELLO_LEN];
      struct dc_header h = {.type = DC_TYPE_HELLO, .length = DC_HELLO_LEN - DC_HEADER_LEN, .seq = next(&s)};
      h.tree = op & 2 ? end[1 - e].h.instance : op & 4 ? end[e].h.instance : next(&s);
      dc_header_write(bytes, &h);
      for (size_t i = DC_HEADER_LEN; i < sizeof bytes; i++)
        bytes[i] = next(&s);
      arrive(e, bytes, sizeof bytes - (op & 8 ? 1 : 0));
    }
  }
  for (unsigned e = 0; e < 2; e++)
    end[e].n = 0;
  settle();
  return 0;
}
