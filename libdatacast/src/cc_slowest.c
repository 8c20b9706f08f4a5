#include "cc_slowest.h"

enum {
  STALE = 8,  /* levels of a tree, each of which tells of the packet before */
  BEYOND = 64 /* credits beyond the path that are room, and an eighth of a longer one (seed 1665) */
};

void slowest_init(struct slowest *q, dc_time now, uint32_t packet_bytes, uint32_t credits)
{
  *q = (struct slowest){.packet_bytes = packet_bytes, .depth = 1, .rounds.begun = now};
  steps_init(&q->credits, credits);
}

uint64_t slowest_path(const struct slowest *q)
{
  uint64_t n = packets_held(q->rate, q->trips.least != 0 ? q->trips.least : q->rounds.least, q->packet_bytes),
           w = steps_out(&q->credits, q->low);
  return n < w ? n : w;
}

int64_t slowest_excess(const struct slowest *q)
{
  return (int64_t)q->sent - slowest_had(q) - (int64_t)slowest_path(q) - q->stale;
}

static uint32_t distance(const struct slowest *q) { return first_had(q) - slowest_had(q); }

uint32_t slowest_lag(const struct slowest *q) { return distance(q) > q->stale ? distance(q) - q->stale : 0; }

uint64_t slowest_room(const struct slowest *q)
{
  uint64_t n = slowest_path(q), w = steps_out(&q->credits, q->low), beyond = w > n ? w - n : 0;
  uint64_t most = n / 8 > BEYOND ? n / 8 : BEYOND;
  most = most > q->credits.plan ? most : q->credits.plan;
  return q->depth + (beyond < most ? beyond : most);
}

uint64_t slowest_target(const struct slowest *q)
{
  uint64_t late = slowest_room(q) / 4 * 3;
  return late < q->credits.plan ? late : q->credits.plan;
}

void slowest_measure_from(struct slowest *q, dc_time now)
{
  q->since.at = now;
  q->since.had = slowest_had(q);
  q->since.sent = q->sent;
  q->since.edge = false;
}

bool slowest_in_step(struct slowest *q)
{
  uint32_t moved = slowest_moved(q), sent = q->sent - q->since.sent, d = distance(q);
  if (sent > moved + 1 || sent + 1 < moved)
    return false;
  /* More may be a host's that was held up (duplicates after pauses), but of few credits it would leave nothing (seed 43958). */
  if (d > ALONE && (d > STALE || 2 * d < slowest_target(q)))
    return false;
  q->stale = d;
  return true;
}

void slowest_heard(struct slowest *q, dc_time now, const struct dc_cc_event *e)
{
  q->depth = e->depth;
  if (e->seq >= q->front)
    q->front = e->seq + 1;
  uint32_t low = q->front > e->lag ? q->front - e->lag : 0, back = low < q->low ? q->low - low : 0;
  bool another = back > 1 + e->lag / 16; /* less is in how it is told */
  if (another || low > q->low) {
    q->low = low;
    q->moved = now;
  }
  if (another)
    slowest_measure_from(q, now);
  if (q->stale > distance(q)) /* seed 11046 */
    q->stale = distance(q);
}
