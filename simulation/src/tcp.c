/* TCP for the sake of company (the paper's Figure 13b): NewReno (RFC 6582) and Cubic (RFC 9438), an acknowledgement per
 * segment, RTO of RFC 6298 with a floor of 200 ms. Counted in segments; a segment takes `segment` bytes on the wire. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

enum { AHEAD = 1 << 16, ACK_BYTES = 52 };

struct tcp {
  int *path, *back;
  int links, back_links;
  bool cubic, recovering, partial;
  dc_time start, stop, armed;
  uint32_t segment;
  /* sender */
  uint64_t una, next, recover;
  double cwnd, ssthresh;
  unsigned dup;
  dc_time srtt, rttvar, rto, deadline;
  bool measured;
  double w_max, w_est, k; /* Cubic's */
  dc_time epoch;
  /* receiver */
  uint64_t expected;
  uint8_t got[AHEAD]; /* of what came early, by number modulo AHEAD */
};

int sim_tcp(sim *s, const char *flavour, const int *path, int links, const int *back, int back_links, uint64_t start,
            uint64_t stop, uint32_t segment)
{
  if (strcmp(flavour, "newreno") != 0 && strcmp(flavour, "cubic") != 0)
    return sim_fail(s, "TCP is newreno or cubic");
  if (links < 1 || back_links < 1 || segment < ACK_BYTES)
    return sim_fail(s, "a TCP connection needs a path, a way back and segments of at least 52 bytes");
  s->flows = grow(s->flows, s->n_flows, sizeof *s->flows);
  struct tcp *f = calloc(1, sizeof *f);
  int *p = calloc((size_t)(links + back_links), sizeof *p);
  if (f == NULL || p == NULL)
    abort();
  memcpy(p, path, (size_t)links * sizeof *p);
  memcpy(p + links, back, (size_t)back_links * sizeof *p);
  *f = (struct tcp){.path = p,
                    .back = p + links,
                    .links = links,
                    .back_links = back_links,
                    .cubic = flavour[0] == 'c',
                    .start = start,
                    .stop = stop,
                    .armed = start,
                    .segment = segment,
                    .cwnd = 10,
                    .ssthresh = 1e9,
                    .rto = DC_SEC,
                    .deadline = DC_NEVER};
  s->flows[s->n_flows] = f;
  events_push(&s->events, start, WHO(WHO_TCP, s->n_flows));
  return s->n_flows++;
}

/* In the bytes of a packet. */
struct segment {
  uint64_t number;    /* of the segment, or the next one expected */
  dc_time echo;       /* when the segment was sent */
  uint32_t flow, hop; /* the connection, links passed */
  bool ack, resent;
};

static struct segment *segment_of(struct packet *p) { return (struct segment *)(void *)p->byte; }

static void put(sim *s, uint32_t flow, bool ack, uint64_t number, dc_time echo, bool resent)
{
  struct tcp *f = s->flows[flow];
  struct packet *p = packet_new(&s->pool, sizeof(struct segment));
  p->tcp = true;
  *segment_of(p) = (struct segment){.number = number, .echo = echo, .flow = flow, .ack = ack, .resent = resent};
  p->wire = p->len = ack ? ACK_BYTES : f->segment;
  link_send(s, ack ? f->back[0] : f->path[0], p);
}

static void arm(sim *s, uint32_t flow)
{
  struct tcp *f = s->flows[flow];
  if (f->deadline < f->armed) {
    f->armed = f->deadline;
    events_push(&s->events, f->armed, WHO(WHO_TCP, flow));
  }
}

static void send_more(sim *s, uint32_t flow)
{
  struct tcp *f = s->flows[flow];
  if (s->now >= f->stop)
    return;
  while ((double)(f->next - f->una) < f->cwnd && f->next - f->una < AHEAD - 1)
    put(s, flow, false, f->next++, s->now, false);
  if (f->deadline == DC_NEVER && f->next > f->una)
    f->deadline = s->now + f->rto;
  arm(s, flow);
}

static void measure(struct tcp *f, dc_time rtt)
{
  if (!f->measured) {
    f->srtt = rtt;
    f->rttvar = rtt / 2;
    f->measured = true;
  } else {
    dc_time err = rtt > f->srtt ? rtt - f->srtt : f->srtt - rtt;
    f->rttvar = (3 * f->rttvar + err) / 4;
    f->srtt = (7 * f->srtt + rtt) / 8;
  }
  f->rto = f->srtt + 4 * f->rttvar;
  if (f->rto < 200 * DC_MS)
    f->rto = 200 * DC_MS;
}

static void open_window(sim *s, struct tcp *f)
{
  if (f->cwnd < f->ssthresh) {
    f->cwnd += 1;
    return;
  }
  if (!f->cubic) {
    f->cwnd += 1 / f->cwnd;
    return;
  }
  if (f->epoch == 0) {
    f->epoch = s->now;
    if (f->w_max < f->cwnd)
      f->w_max = f->cwnd;
    f->k = cbrt((f->w_max - f->cwnd) / 0.4);
    f->w_est = f->cwnd;
  }
  double t = (double)(s->now - f->epoch + f->srtt) / 1e9;
  double target = 0.4 * (t - f->k) * (t - f->k) * (t - f->k) + f->w_max;
  f->w_est += 3 * 0.3 / 1.7 / f->cwnd; /* as fast as Reno would */
  if (target < f->w_est)
    target = f->w_est;
  if (target > 1.5 * f->cwnd)
    target = 1.5 * f->cwnd;
  f->cwnd += target > f->cwnd ? (target - f->cwnd) / f->cwnd : 0.01 / f->cwnd;
}

static void loss(struct tcp *f)
{
  double flight = (double)(f->next - f->una);
  double keep = f->cubic ? 0.7 : 0.5;
  f->w_max = f->cwnd < f->w_max ? f->cwnd * 0.85 : f->cwnd;
  f->ssthresh = flight * keep > 2 ? flight * keep : 2;
  f->epoch = 0;
}

static void acknowledged(sim *s, uint32_t flow, const struct segment *p)
{
  struct tcp *f = s->flows[flow];
  if (p->number > f->una) {
    uint64_t n = p->number - f->una;
    f->una = p->number;
    if (f->next < f->una)
      f->next = f->una;
    if (!p->resent)
      measure(f, s->now - p->echo);
    f->dup = 0;
    if (f->recovering && f->una < f->recover) { /* a partial one: the next hole */
      put(s, flow, false, f->una, s->now, true);
      f->cwnd = f->cwnd > (double)n ? f->cwnd - (double)n + 1 : 1;
      if (f->partial) { /* RFC 6582's impatient variant: many holes are the RTO's work, not one per round trip */
        send_more(s, flow);
        return;
      }
      f->partial = true;
    } else if (f->recovering) {
      f->recovering = false;
      f->cwnd = f->ssthresh;
    } else {
      for (uint64_t i = 0; i < n; i++)
        open_window(s, f);
    }
    f->deadline = f->next > f->una ? s->now + f->rto : DC_NEVER;
  } else if (f->next > f->una) {
    if (f->recovering) {
      f->cwnd += 1;
    } else if (++f->dup == 3 && f->una >= f->recover) { /* not for what was sent again: RFC 6582, 3.2 */
      loss(f);
      f->recover = f->next;
      f->recovering = true;
      f->partial = false;
      f->cwnd = f->ssthresh + 3;
      put(s, flow, false, f->una, s->now, true);
    }
  }
  send_more(s, flow);
}

static void received(sim *s, uint32_t flow, const struct segment *p)
{
  struct tcp *f = s->flows[flow];
  if (p->number >= f->expected && p->number - f->expected < AHEAD)
    f->got[p->number % AHEAD] = 1;
  while (f->got[f->expected % AHEAD]) {
    f->got[f->expected % AHEAD] = 0;
    f->expected++;
  }
  put(s, flow, true, f->expected, p->echo, p->resent);
}

void tcp_arrive(sim *s, struct packet *p)
{
  struct segment *x = segment_of(p);
  struct tcp *f = s->flows[x->flow];
  int links = x->ack ? f->back_links : f->links;
  if (++x->hop < (uint32_t)links) {
    link_send(s, (x->ack ? f->back : f->path)[x->hop], p);
    return;
  }
  if (x->ack)
    acknowledged(s, x->flow, x);
  else
    received(s, x->flow, x);
  packet_give(&s->pool, p);
}

void tcp_event(sim *s, int flow)
{
  struct tcp *f = s->flows[flow];
  dc_time at = s->now;
  if (f->armed != at)
    return;
  f->armed = DC_NEVER;
  if (f->deadline <= s->now && f->next > f->una && s->now < f->stop) {
    loss(f);
    f->cwnd = 1;
    f->recovering = true; /* what is out is sent again as it is asked for */
    f->recover = f->next;
    f->dup = 0;
    f->rto = 2 * f->rto < 60 * DC_SEC ? 2 * f->rto : 60 * DC_SEC;
    f->deadline = s->now + f->rto;
    put(s, (uint32_t)flow, false, f->una, s->now, true);
    f->next = f->una + 1; /* go back */
    f->recovering = false;
  }
  send_more(s, (uint32_t)flow);
}

uint64_t sim_tcp_bytes(const sim *s, int flow)
{
  return flow < 0 || flow >= s->n_flows ? 0 : s->flows[flow]->una * s->flows[flow]->segment;
}

void tcp_free(sim *s)
{
  for (int i = 0; i < s->n_flows; i++) {
    free(s->flows[i]->path);
    free(s->flows[i]);
  }
  free(s->flows);
}
