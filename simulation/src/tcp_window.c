/* How much a connection of TCP may have on its way: Cubic (RFC 9438) or Reno (RFC 5681), slow start with HyStart++
 * (RFC 9406). */
#include <math.h>

#include "tcp.h"

enum { SAMPLES = 8, SLOWER = 4, SLOW_ROUNDS = 5 }; /* RFC 9406's N_RTT_SAMPLE, CSS_GROWTH_DIVISOR, CSS_ROUNDS */

void tcp_window_start(struct tcp_window *w, bool cubic)
{
  *w = (struct tcp_window){.cubic = cubic, .cwnd = 10, .ssthresh = 1e9, .least = DC_NEVER, .before = DC_NEVER};
}

static void slow_start(struct tcp *f, uint64_t delivered)
{
  struct tcp_window *w = &f->w;
  if (f->una > w->round) {
    w->before = w->least;
    w->least = DC_NEVER;
    w->samples = 0;
    w->round = f->next;
    if (w->slow != 0 && ++w->rounds >= SLOW_ROUNDS)
      w->ssthresh = w->cwnd;
  }
  if (f->sample != 0) {
    w->least = f->sample < w->least ? f->sample : w->least;
    w->samples++;
  }
  if (w->samples >= SAMPLES && w->before != DC_NEVER) {
    dc_time more = w->before / 8;
    more = more < 4 * DC_MS ? 4 * DC_MS : more > 16 * DC_MS ? 16 * DC_MS : more;
    if (w->slow == 0 && w->least >= w->before + more) {
      w->slow = w->least;
      w->rounds = 0;
    } else if (w->slow != 0 && w->least < w->slow) {
      w->slow = 0;
    }
  }
  w->cwnd += (double)delivered / (w->slow != 0 ? SLOWER : 1);
}

void tcp_window_open(struct tcp *f, dc_time now, uint64_t delivered)
{
  struct tcp_window *w = &f->w;
  double n = (double)delivered;
  if (w->cwnd < w->ssthresh) {
    slow_start(f, delivered);
    return;
  }
  if (!w->cubic) {
    w->cwnd += n / w->cwnd;
    return;
  }
  if (w->epoch == 0) {
    w->epoch = now;
    if (w->w_max < w->cwnd)
      w->w_max = w->cwnd;
    w->k = cbrt((w->w_max - w->cwnd) / 0.4);
    w->w_est = w->cwnd;
  }
  double t = (double)(now - w->epoch + f->srtt) / 1e9 - w->k;
  double target = 0.4 * t * t * t + w->w_max;
  w->w_est += 3 * 0.3 / 1.7 * n / w->cwnd; /* as fast as Reno would */
  if (target < w->w_est)
    target = w->w_est;
  if (target > 1.5 * w->cwnd)
    target = 1.5 * w->cwnd;
  w->cwnd += n * (target > w->cwnd ? (target - w->cwnd) / w->cwnd : 0.01 / w->cwnd);
}

void tcp_window_cut(struct tcp_window *w)
{
  double keep = w->cwnd * (w->cubic ? 0.7 : 0.5);
  w->w_max = w->cwnd < w->w_max ? w->cwnd * 0.85 : w->cwnd;
  w->ssthresh = keep > 2 ? keep : 2;
  w->epoch = 0;
  w->slow = 0;
}
