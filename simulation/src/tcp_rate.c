/* How fast segments come (draft-cheng-iccrg-delivery-rate-estimation-00): what came between a segment's sending and its
 * coming, over the longer one of the time in which it came and the time in which it was sent. */
#include "tcp.h"

void tcp_rate_sent(struct tcp *f, dc_time now, struct tcp_out *o)
{
  struct tcp_rate *r = &f->rate;
  if (tcp_pipe(f) == 0)
    r->first = r->delivered_at = now;
  o->delivered = r->delivered;
  o->delivered_at = r->delivered_at;
  o->first = r->first;
  o->limited = r->limited != 0;
}

void tcp_rate_came(struct tcp *f, dc_time now, const struct tcp_out *o, struct tcp_sample *s)
{
  struct tcp_rate *r = &f->rate;
  r->delivered++;
  r->delivered_at = now;
  if (r->delivered > r->limited)
    r->limited = 0;
  if (s->any && o->at < r->first)
    return; /* another one of these was sent later */
  *s = (struct tcp_sample){.any = true,
                           .limited = o->limited,
                           .before = o->delivered,
                           .before_at = o->delivered_at,
                           .sending = o->at - o->first};
  r->first = o->at;
}

double tcp_rate_of(const struct tcp *f, const struct tcp_sample *s)
{
  dc_time coming = f->rate.delivered_at - s->before_at, took = coming > s->sending ? coming : s->sending;
  return s->any && took > 0 ? (double)(f->rate.delivered - s->before) * 1e9 / (double)took : 0;
}
