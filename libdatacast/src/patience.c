#include "patience.h"

#define WINDOW (40 * DC_MS)
/* A host that stood still for a moment is waited for; so long it takes to tell it from one that has become slow. */
#define GRACE (40 * DC_MS)
enum {
  FEW = 8,    /* packets in a window, or it says nothing */
  RESTS = 10, /* times as long as it bears */
  FREE = 4,   /* duplicates that are borne with, */
  PART = 4    /* and of what the tree carries meanwhile one in so many */
};

/* Packets in `dt` at so many bit/s; for the fractions of a second that are asked about here. */
static uint64_t packets(uint64_t rate, dc_time dt, uint32_t bytes) { return rate / 8 / bytes * (dt / DC_US) / 1000000; }

static void end_window(struct patience *p, dc_time now, uint32_t bytes)
{
  uint64_t rate = p->sent < FEW ? 0 : (uint64_t)p->sent * bytes * 8 * 1000000 / ((now - p->since) / DC_US);
  p->window[p->windows % PATIENCE_WINDOWS] = rate;
  p->windows++;
  p->usual = p->windows < PATIENCE_WINDOWS ? 0 : rate;
  for (unsigned i = 0; i < PATIENCE_WINDOWS; i++)
    if (p->window[i] < p->usual)
      p->usual = p->window[i];
  p->since = now;
  p->sent = 0;
}

void patience_sent(struct patience *p, dc_time now, uint32_t fresh, uint32_t again, uint32_t bytes)
{
  if (p->most == 0)
    return;
  p->spent += again;
  if (now < p->until)
    return;                                  /* what it carries by patience is not what it can carry */
  if (p->low != 0 && now - p->low < GRACE) { /* nor while it waits for somebody */
    p->since = now;
    p->sent = 0;
    return;
  }
  p->sent += fresh;
  if (now - p->since >= WINDOW)
    end_window(p, now, bytes);
}

uint64_t patience_rate(struct patience *p, dc_time now, uint64_t rate, uint32_t bytes)
{
  if (rate >= p->usual / 2 && now >= p->until) {
    p->low = 0;
    return rate;
  }
  if (p->low == 0)
    p->low = now;
  if (now >= p->until) {
    if (p->usual == 0 || now < p->rest || now - p->low < GRACE)
      return rate;
    p->from = now;
    p->until = now + p->most;
    p->rest = now + RESTS * p->most;
    p->spent = 0;
    p->times++;
  }
  if (p->spent > FREE + packets(p->usual, now - p->from, bytes) / PART) {
    p->until = now;
    return rate;
  }
  return rate > p->usual ? rate : p->usual;
}
