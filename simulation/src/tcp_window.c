/* How much a connection of TCP may have on its way: Cubic (RFC 9438) or Reno (RFC 5681), slow start with HyStart++
 * (RFC 9406), and proportional rate reduction (RFC 6937, 9937) while losses are made good. */
#include <math.h>

#include "tcp.h"

enum { SAMPLES = 8, SLOWER = 4, SLOW_ROUNDS = 5 }; /* RFC 9406's N_RTT_SAMPLE, CSS_GROWTH_DIVISOR, CSS_ROUNDS */

static void start(struct tcp *f)
{
  f->cwnd = 10;
  f->w = (struct tcp_window){.cubic = f->control == &tcp_cubic, .ssthresh = 1e9, .least = DC_NEVER, .before = DC_NEVER};
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
      w->ssthresh = f->cwnd;
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
  f->cwnd += (double)delivered / (w->slow != 0 ? SLOWER : 1);
}

static void open_window(struct tcp *f, dc_time now, uint64_t delivered)
{
  struct tcp_window *w = &f->w;
  double n = (double)delivered;
  if (f->cwnd < w->ssthresh) {
    slow_start(f, delivered);
    return;
  }
  if (!w->cubic) {
    f->cwnd += n / f->cwnd;
    return;
  }
  if (w->epoch == 0) {
    w->epoch = now;
    if (w->w_max < f->cwnd)
      w->w_max = f->cwnd;
    w->k = cbrt((w->w_max - f->cwnd) / 0.4);
    w->w_est = f->cwnd;
  }
  double t = (double)(now - w->epoch + f->srtt) / 1e9 - w->k;
  double target = 0.4 * t * t * t + w->w_max;
  w->w_est += 3 * 0.3 / 1.7 * n / f->cwnd; /* as fast as Reno would */
  if (target < w->w_est)
    target = w->w_est;
  if (target > 1.5 * f->cwnd)
    target = 1.5 * f->cwnd;
  f->cwnd += n * (target > f->cwnd ? (target - f->cwnd) / f->cwnd : 0.01 / f->cwnd);
}

static void cut(struct tcp *f, bool again)
{
  struct tcp_window *w = &f->w;
  double keep = f->cwnd * (w->cubic ? 0.7 : 0.5);
  if (!again) {
    w->w_max = f->cwnd < w->w_max ? f->cwnd * 0.85 : f->cwnd;
    w->ssthresh = keep > 2 ? keep : 2;
  }
  if (f->state == TCP_TIMEOUT)
    w->w_max = 0; /* RFC 9438, 4.8: what it opens to after that is its plateau */
  w->epoch = 0;
  w->slow = 0;
  w->prr_from = f->next - f->una;
  w->prr_delivered = 0;
  w->prr_sent = f->sent_end;
}

static void reduce(struct tcp *f, uint64_t delivered, bool safe)
{
  struct tcp_window *w = &f->w;
  double pipe = (double)tcp_pipe(f), in = (double)(w->prr_delivered += delivered), more;
  double out = (double)(f->sent_end - w->prr_sent);
  if (pipe > w->ssthresh) {
    more = ceil(in * w->ssthresh / (double)w->prr_from) - out;
  } else {
    more = (in - out > (double)delivered ? in - out : (double)delivered) + (safe ? 1 : 0);
    if (more > w->ssthresh - pipe)
      more = w->ssthresh - pipe;
  }
  double least = out == 0 ? 1 : 0; /* the fast retransmission */
  f->cwnd = pipe + (more > least ? more : least);
}

static void hear(struct tcp *f, dc_time now, const struct tcp_news *n)
{
  if (f->state == TCP_RECOVERY)
    reduce(f, n->delivered, n->moved && n->lost == 0);
  else if (n->moved)
    open_window(f, now, n->delivered);
}

static void healed(struct tcp *f)
{
  if (f->state == TCP_RECOVERY)
    f->cwnd = f->w.ssthresh;
}

const struct tcp_control tcp_newreno = {"newreno", start, hear, cut, healed};
const struct tcp_control tcp_cubic = {"cubic", start, hear, cut, healed};
