#include "datacast/hello.h"

#include <string.h>

#include "datacast/bytes.h"

enum state { DOWN = 1, INIT = 2, UP = 3 }; /* RFC 5880, section 4.1 */

enum {
  LONGEST = 65000, /* what a header can say */
  TRIES = 4,       /* long hellos that may be lost one after another before that means something */
  FORGIVE = 64,    /* intervals a link stays up before its earlier failures are forgotten */
  BEHIND = 64 /* one so few numbers behind the last one is out of date; farther behind, it was not the neighbour's */
};

void dc_hello_cfg_default(struct dc_hello_cfg *cfg)
{
  *cfg = (struct dc_hello_cfg){.fast = 25 * DC_MS,
                               .slow = 250 * DC_MS,
                               .timeout_min = 135 * DC_MS,
                               .timeout_intervals = 4,
                               .busy = 2 * DC_SEC,
                               .hold_min = 50 * DC_MS,
                               .hold_max = 5 * DC_SEC,
                               .whole = 2 * DC_SEC};
}

const char *dc_link_name(enum dc_link link)
{
  static const char *const name[] = {"unknown", "up", "silent", "unheard"};
  return (unsigned)link < sizeof name / sizeof name[0] ? name[link] : "?";
}

void dc_hello_init(struct dc_hello *h, dc_time now, const struct dc_hello_cfg *cfg, uint32_t instance)
{
  memset(h, 0, sizeof *h);
  h->cfg = *cfg;
  if (h->cfg.fast < DC_MS)
    h->cfg.fast = DC_MS;
  if (h->cfg.slow < h->cfg.fast)
    h->cfg.slow = h->cfg.fast;
  if (h->cfg.timeout_intervals < 3)
    h->cfg.timeout_intervals = 3;
  h->instance = instance;
  h->state = DOWN;
  h->link = DC_LINK_UNKNOWN;
  h->heard = h->hello = h->next = now;
  h->polled = DC_NEVER;
  h->carried = -1;
  h->hold = cfg->hold_min;
}

static dc_time interval(const struct dc_hello *h, dc_time now)
{
  return now < h->busy_until ? h->cfg.fast : h->cfg.slow;
}

static dc_time timeout(const struct dc_hello *h)
{
  dc_time t = 3 * h->peer_interval + 4 * h->deviation, most = h->cfg.timeout_intervals * h->peer_interval;
  if (t > most)
    t = most;
  return t < h->cfg.timeout_min ? h->cfg.timeout_min : t;
}

/* The neighbour has said that it is away. */
static bool awaits(const struct dc_hello *h, dc_time now) { return h->state == UP && now < h->away_until; }

/* When the neighbour's silence becomes a failure. */
static dc_time silent_at(const struct dc_hello *h)
{
  dc_time at = h->heard + timeout(h);
  return h->state == UP && h->away_until > at ? h->away_until : at;
}

static void fail(struct dc_hello *h, dc_time now, enum dc_link why)
{
  if (h->link == DC_LINK_UP && now - h->up_since > FORGIVE * h->cfg.slow)
    h->hold = h->cfg.hold_min;
  h->held_until = now + h->hold;
  h->hold = 2 * h->hold < h->cfg.hold_max ? 2 * h->hold : h->cfg.hold_max;
  h->failures++;
  h->state = DOWN;
  h->link = why;
  h->met = false;
  h->away_until = 0;
  h->awaited = false;
  h->next = now; /* tell the other side at once */
}

static void rise(struct dc_hello *h, dc_time now)
{
  h->state = UP;
  h->link = DC_LINK_UP;
  h->up_since = now;
  h->next = h->whole_next = now;
}

/* The neighbour's timing: how far its hellos stray from the interval it announced. */
static void observe(struct dc_hello *h, dc_time now, dc_time announced)
{
  if (h->met && h->peer_interval == announced) {
    dc_time gap = now - h->hello, err = gap > announced ? gap - announced : announced - gap;
    h->deviation = (3 * h->deviation + err) / 4;
  } else {
    h->deviation = 0;
  }
  h->peer_interval = announced;
  h->hello = now;
  h->met = true;
}

enum dc_drop dc_hello_handle(struct dc_hello *h, dc_time now, const struct dc_header *header, const uint8_t *rest)
{
  if (header->type != DC_TYPE_HELLO)
    return DC_DROP_TYPE;
  if (header->length < DC_HELLO_SHORTEST - DC_HEADER_LEN)
    return DC_DROP_TRUNCATED;
  uint8_t theirs = rest[0];
  dc_time announced = dc_get16(rest + 2) * DC_MS;
  if (theirs < DOWN || theirs > UP || rest[1] != 0 || announced == 0)
    return DC_DROP_RESERVED;
  if (header->tree == h->instance)
    return DC_DROP_UNWANTED; /* our own, come back: a loop in the cabling is no neighbour */
  if (h->met && header->tree == h->peer_instance && h->peer_seq - header->seq < BEHIND)
    return DC_DROP_UNWANTED;                      /* out of date */
  bool hears = dc_get32(rest + 4) == h->instance; /* else it speaks to what was here before */
  if (!hears && theirs == UP)
    theirs = INIT;
  bool restarted = h->met && header->tree != h->peer_instance;
  bool waited = awaits(h, now);
  h->peer_instance = header->tree;
  h->peer_seq = header->seq;
  observe(h, now, announced);
  h->heard = now;
  unsigned length = DC_HEADER_LEN + header->length;
  h->peer_mtu = length < DC_HELLO_LEN ? 0 : dc_get16(rest + 8);
  if (length > DC_HELLO_LEN) {
    h->whole = length;
    h->whole_heard = now;
  }
  if (h->state == UP && !waited && (theirs == DOWN || restarted)) {
    fail(h, now, DC_LINK_UNHEARD);
    h->met = true;
  }
  if (waited && restarted)
    h->next = now; /* it is back: hears at once that it is heard */
  if (h->state != UP && now >= h->held_until) {
    enum state was = h->state;
    /* One that has failed here may have said UP before it heard of that: as in BFD it has to hear of this end again. Who has just
     * come back is what the other side waits for. */
    bool stale = h->state == DOWN && h->link != DC_LINK_UNKNOWN && theirs == UP;
    if (hears && theirs >= INIT && !stale)
      rise(h, now);
    else
      h->state = INIT;
    if (h->state != was)
      h->next = now;
  }
  if (h->state == UP && hears && theirs == UP) { /* here, or about to go, be it that this end has just come back */
    dc_time away = length < DC_HELLO_LEN ? 0 : dc_get16(rest + 10) * DC_MS;
    h->away_until = now + (away < DC_HELLO_AWAY_MAX ? away : DC_HELLO_AWAY_MAX);
    h->awaited = away > 0;
  }
  return DC_DROP_NONE;
}

void dc_hello_heard(struct dc_hello *h, dc_time now) { h->heard = now; }

void dc_hello_busy(struct dc_hello *h, dc_time now)
{
  if (now >= h->busy_until && h->cfg.fast < h->cfg.slow)
    h->next = now; /* announce the shorter interval at once */
  h->busy_until = now + h->cfg.busy;
}

static int carried(const struct dc_hello *h, dc_time now)
{
  dc_time patience = TRIES * (h->cfg.whole > 0 ? h->cfg.whole : h->cfg.slow);
  if (h->whole > 0 && now - h->whole_heard <= patience)
    return (int)h->whole;
  return h->link == DC_LINK_UP && h->peer_mtu > DC_HELLO_LEN && h->cfg.mtu > DC_HELLO_LEN &&
                 now - h->up_since > patience
             ? 0
             : -1;
}

void dc_hello_leave(struct dc_hello *h, dc_time now, dc_time away)
{
  h->away = away < DC_HELLO_AWAY_MAX ? away : DC_HELLO_AWAY_MAX;
  h->next = now;
}

/* The length of the hello that goes now. */
static unsigned length_now(struct dc_hello *h, dc_time now)
{
  unsigned all = h->cfg.mtu;
  if (h->cfg.whole > 0) {
    if (h->state != UP || h->peer_mtu == 0 || now < h->whole_next)
      return DC_HELLO_LEN;
    h->whole_next = now + h->cfg.whole;
    if (h->peer_mtu < all)
      all = h->peer_mtu;
  }
  if (all > LONGEST)
    all = LONGEST;
  return all > DC_HELLO_LEN ? all : DC_HELLO_LEN;
}

unsigned dc_hello_poll(struct dc_hello *h, dc_time now, uint8_t out[DC_HELLO_LEN])
{
  /* This process slept past its time: whatever could not be heard meanwhile proves nothing. */
  if (h->polled != DC_NEVER && now > h->polled + h->cfg.fast / 2)
    h->heard += now - h->polled;
  if (h->heard > now)
    h->heard = now;
  if (h->met && now >= silent_at(h)) {
    if (h->state == UP)
      fail(h, now, DC_LINK_SILENT);
    h->state = DOWN;
    h->met = false;
  }
  h->awaited = awaits(h, now);
  h->carried = carried(h, now);
  unsigned n = 0;
  if (now >= h->next) {
    dc_time every = interval(h, now);
    n = length_now(h, now);
    struct dc_header header = {
        .type = DC_TYPE_HELLO, .length = (uint16_t)(n - DC_HEADER_LEN), .tree = h->instance, .seq = ++h->seq};
    dc_header_write(out, &header);
    uint8_t *rest = out + DC_HEADER_LEN;
    rest[0] = h->state;
    rest[1] = 0;
    uint64_t ms = every / DC_MS;
    dc_put16(rest + 2, (uint16_t)(ms > 65535 ? 65535 : ms));
    dc_put32(rest + 4, h->met ? h->peer_instance : 0);
    dc_put16(rest + 8, (uint16_t)(h->cfg.mtu > 65535 ? 65535 : h->cfg.mtu));
    dc_put16(rest + 10, (uint16_t)(h->away / DC_MS));
    h->next = now + every;
  }
  h->polled = dc_hello_next_wake(h);
  return n;
}

dc_time dc_hello_next_wake(const struct dc_hello *h)
{
  dc_time silent = h->met ? silent_at(h) : DC_NEVER;
  return silent < h->next ? silent : h->next;
}
