/* BBR, version 1 (draft-cardwell-iccrg-bbr-congestion-control-00; Cardwell and others, ACM Queue 14(5), 2016), which is
 * what Linux calls bbr: it sends at the highest rate at which segments came in ten rounds, and keeps at most twice of
 * what that and the shortest round trip of ten seconds hold on the way. A loss does not slow it down. Not here: its
 * search for policers, and what it adds for acknowledgements that come in bunches (here each segment has its own). */
#include <math.h>

#include "tcp.h"

#define HIGH_GAIN (2 / log(2)) /* doubles what is sent with each round */
#define MIN_RTT_FOR (10 * DC_SEC)
#define DIP (200 * DC_MS)

enum { PHASES = 8, LEAST_CWND = 4, FIRST_CWND = 10, PLATEAU = 3, MOST_BURST = 65535 };

static const double phase_gain[PHASES] = {1.25, 0.75, 1, 1, 1, 1, 1, 1};

static double pace_gain(const struct tcp_bbr *b)
{
  switch (b->mode) {
  case BBR_STARTUP:
    return HIGH_GAIN;
  case BBR_DRAIN:
    return 1 / HIGH_GAIN;
  case BBR_PROBE_BW:
    return phase_gain[b->phase];
  default:
    return 1;
  }
}

static double cwnd_gain(const struct tcp_bbr *b)
{
  return b->mode == BBR_PROBE_RTT ? 1 : b->mode == BBR_PROBE_BW ? 2 : HIGH_GAIN;
}

static double most(const struct tcp_bbr *b)
{
  double m = 0;
  for (int i = 0; i <= BBR_WINDOW; i++)
    m = b->bw[i] > m ? b->bw[i] : m;
  return m;
}

/* A millisecond's worth leaves at once, as kernels hand large segments to their cards. */
static uint64_t burst(const struct tcp *f)
{
  double bits = 8 * f->pace * f->segment;
  uint64_t n = (uint64_t)(f->pace / 1000), least = bits < 1.2e6 ? 1 : 2, limit = MOST_BURST / f->segment;
  n = n < limit ? n : limit;
  return n > least ? n : least;
}

/* So many times what the path holds, and what hosts hold at both ends. */
static double inflight(const struct tcp *f, double gain)
{
  const struct tcp_bbr *b = &f->bbr;
  double n = b->min_rtt == DC_NEVER ? FIRST_CWND : ceil(gain * most(b) * (double)b->min_rtt / 1e9);
  n += 3 * (double)f->burst;
  return 2 * ceil(n / 2) + (b->mode == BBR_PROBE_BW && b->phase == 0 ? 2 : 0);
}

static void set_pace(struct tcp *f, double rate)
{
  f->pace = 0.99 * rate;
  f->burst = burst(f);
}

static void start(struct tcp *f)
{
  f->bbr = (struct tcp_bbr){.min_rtt = DC_NEVER, .min_at = f->start};
  f->cwnd = FIRST_CWND;
  set_pace(f, HIGH_GAIN * FIRST_CWND * 1000); /* as if a round trip took a millisecond */
}

/* None begins by trying more or by giving way. (Linux's begin anywhere after that, by chance, which moved nothing here.) */
static void probe_bw(struct tcp *f, dc_time now)
{
  f->bbr.mode = BBR_PROBE_BW;
  f->bbr.phase = 2;
  f->bbr.phase_at = now;
}

static void take_rate(struct tcp *f, const struct tcp_news *n)
{
  struct tcp_bbr *b = &f->bbr;
  double rate = tcp_rate_of(f, &n->sample);
  b->turned = false;
  if (rate == 0)
    return;
  if (n->sample.before >= b->round) {
    b->round = f->rate.delivered;
    b->rounds++;
    b->turned = true;
    b->conserve = false;
  }
  if (n->sample.limited && rate < most(b))
    return; /* and nothing gets old by it */
  for (int i = 0; i <= BBR_WINDOW && b->newest < b->rounds; i++)
    b->bw[++b->newest % (BBR_WINDOW + 1)] = 0;
  b->newest = b->rounds;
  double *best = &b->bw[b->rounds % (BBR_WINDOW + 1)];
  *best = rate > *best ? rate : *best;
}

static void turn_phase(struct tcp *f, dc_time now, const struct tcp_news *n)
{
  struct tcp_bbr *b = &f->bbr;
  double gain = pace_gain(b), pipe = (double)n->pipe;
  if (b->mode != BBR_PROBE_BW)
    return;
  bool enough = now - b->phase_at > b->min_rtt;
  if (gain > 1)
    enough = enough && (n->lost > 0 || pipe >= inflight(f, gain));
  else if (gain < 1)
    enough = enough || pipe <= inflight(f, 1);
  if (!enough)
    return;
  b->phase = (b->phase + 1) % PHASES;
  b->phase_at = now;
}

static void look_if_filled(struct tcp *f, dc_time now, const struct tcp_news *n)
{
  struct tcp_bbr *b = &f->bbr;
  if (!b->filled && b->turned && !n->sample.limited) {
    b->plateau++;
    if (most(b) >= 1.25 * b->full) {
      b->full = most(b);
      b->plateau = 0;
    }
    b->filled = b->plateau >= PLATEAU;
  }
  if (b->mode == BBR_STARTUP && b->filled)
    b->mode = BBR_DRAIN;
  if (b->mode == BBR_DRAIN && (double)tcp_pipe(f) <= inflight(f, 1))
    probe_bw(f, now);
}

/* Down to four segments for 200 ms and a round, so that queues empty and the path shows its length. */
static void dip(struct tcp *f, dc_time now)
{
  struct tcp_bbr *b = &f->bbr;
  uint64_t pipe = tcp_pipe(f);
  f->rate.limited = f->rate.delivered + pipe > 0 ? f->rate.delivered + pipe : 1;
  if (b->dip_end == 0) {
    if (pipe > LEAST_CWND)
      return;
    b->dip_end = now + DIP;
    b->dip_round = false;
    b->round = f->rate.delivered;
    return;
  }
  b->dip_round |= b->turned;
  if (!b->dip_round || now <= b->dip_end)
    return;
  b->min_at = now;
  f->cwnd = f->cwnd > b->prior ? f->cwnd : b->prior;
  if (b->filled)
    probe_bw(f, now);
  else
    b->mode = BBR_STARTUP;
}

static void take_rtt(struct tcp *f, dc_time now)
{
  struct tcp_bbr *b = &f->bbr;
  bool old = now > b->min_at + MIN_RTT_FOR;
  if (f->sample != 0 && (f->sample <= b->min_rtt || old)) {
    b->min_rtt = f->sample;
    b->min_at = now;
  }
  if (old && b->mode != BBR_PROBE_RTT) {
    b->prior = f->cwnd;
    b->mode = BBR_PROBE_RTT;
    b->dip_end = 0;
  }
  if (b->mode == BBR_PROBE_RTT)
    dip(f, now);
}

static void set_cwnd(struct tcp *f, const struct tcp_news *n)
{
  struct tcp_bbr *b = &f->bbr;
  double in = (double)n->delivered, pipe = (double)tcp_pipe(f), target = inflight(f, cwnd_gain(b));
  f->cwnd = f->cwnd > (double)n->lost + 1 ? f->cwnd - (double)n->lost : 1;
  if (b->conserve) {
    f->cwnd = f->cwnd > pipe + in ? f->cwnd : pipe + in;
  } else {
    if (b->filled)
      f->cwnd = f->cwnd + in < target ? f->cwnd + in : target;
    else if (f->cwnd < target || f->rate.delivered < FIRST_CWND)
      f->cwnd += in;
    f->cwnd = f->cwnd > LEAST_CWND ? f->cwnd : LEAST_CWND;
  }
  if (b->mode == BBR_PROBE_RTT && f->cwnd > LEAST_CWND)
    f->cwnd = LEAST_CWND;
}

static void hear(struct tcp *f, dc_time now, const struct tcp_news *n)
{
  struct tcp_bbr *b = &f->bbr;
  if (n->delivered == 0)
    return;
  take_rate(f, n);
  turn_phase(f, now, n);
  look_if_filled(f, now, n);
  take_rtt(f, now);
  if (!b->timed && f->srtt != 0) {
    b->timed = true;
    set_pace(f, HIGH_GAIN * f->cwnd * 1e9 / (double)f->srtt);
  }
  double rate = pace_gain(b) * most(b);
  if (b->filled || 0.99 * rate > f->pace)
    set_pace(f, rate);
  set_cwnd(f, n);
}

/* In the first round of a recovery as much goes out as has come. */
static void cut(struct tcp *f, bool again)
{
  if (again || f->state != TCP_RECOVERY)
    return;
  f->bbr.conserve = true;
  f->bbr.round = f->rate.delivered;
  f->cwnd = 1;
}

static void healed(struct tcp *f) { f->bbr.conserve = false; }

const struct tcp_control tcp_bbr = {"bbr", start, hear, cut, healed};
