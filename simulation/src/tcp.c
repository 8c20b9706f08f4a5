/* A connection of TCP: its segments and acknowledgements (one per segment), and its timers, the timeout of RFC 6298 with
 * Linux's floor, RFC 8985's probe of a tail, and pacing. */
#include <stdlib.h>
#include <string.h>

#include "tcp.h"

enum { ACK_BYTES = 52, SEGMENT_MAX = 65535 };

static const struct tcp_control *const controls[] = {&tcp_newreno, &tcp_cubic, &tcp_bbr};

static bool leads(const sim *s, const int *path, int links)
{
  for (int i = 0; i < links; i++)
    if (path[i] < 0 || path[i] >= s->n_links || (i > 0 && s->links[path[i - 1]].to != s->links[path[i]].from))
      return false;
  return true;
}

int sim_tcp(sim *s, const char *flavour, const int *path, int links, const int *back, int back_links, uint64_t start,
            uint64_t stop, uint32_t segment)
{
  const struct tcp_control *control = NULL;
  for (size_t i = 0; i < sizeof controls / sizeof *controls; i++)
    if (strcmp(flavour, controls[i]->name) == 0)
      control = controls[i];
  if (control == NULL)
    return sim_fail(s, "TCP is newreno, cubic or bbr");
  if (links < 1 || back_links < 1 || segment < ACK_BYTES || segment > SEGMENT_MAX)
    return sim_fail(s, "a TCP connection needs a path, a way back and segments of 52 to 65,535 bytes");
  if (!leads(s, path, links) || !leads(s, back, back_links) || s->links[path[links - 1]].to != s->links[back[0]].from)
    return sim_fail(s, "a TCP connection's links lead from one to the next, and back");
  if (start < s->now)
    return sim_fail(s, "a TCP connection cannot begin in the past");
  s->flows = grow(s->flows, s->n_flows, sizeof *s->flows);
  struct tcp *f = calloc(1, sizeof *f);
  int *p = calloc((size_t)(links + back_links), sizeof *p);
  if (f == NULL || p == NULL)
    abort();
  memcpy(p, path, (size_t)links * sizeof *p);
  memcpy(p + links, back, (size_t)back_links * sizeof *p);
  f->path = p;
  f->back = p + links;
  f->links = links;
  f->back_links = back_links;
  f->segment = segment;
  f->start = f->armed = start;
  f->stop = stop;
  f->reorder = DC_NEVER;
  f->control = control;
  control->start(f);
  s->flows[s->n_flows] = f;
  events_push(&s->events, start, WHO(WHO_TCP, s->n_flows));
  return s->n_flows++;
}

static struct tcp_segment *segment_of(struct packet *p) { return (struct tcp_segment *)(void *)p->byte; }

static void put(sim *s, const struct tcp_segment *segment)
{
  struct tcp *f = s->flows[segment->flow];
  struct packet *p = packet_new(&s->pool, sizeof *segment);
  p->tcp = true;
  *segment_of(p) = *segment;
  p->wire = p->len = segment->ack ? ACK_BYTES : f->segment;
  link_send(s, segment->ack ? f->back[0] : f->path[0], p);
}

static void send_one(sim *s, uint32_t flow)
{
  struct tcp *f = s->flows[flow];
  uint64_t number = tcp_pick(f);
  if (f->next == f->una)
    f->since = s->now;
  tcp_note(f, s->now, number);
  put(s, &(struct tcp_segment){.number = number, .flow = flow});
}

static bool room(const struct tcp *f) { return f->lost > 0 || f->next - f->una < TCP_AHEAD - 1; }

static dc_time timeout_at(const struct tcp *f)
{
  dc_time wait = DC_SEC;
  if (f->srtt != 0)
    wait = f->srtt + (4 * f->rttvar > 200 * DC_MS ? 4 * f->rttvar : 200 * DC_MS);
  return f->since + (wait << f->backoff);
}

/* There is always more to send, so that what probes a tail is a new segment. */
static dc_time probe_at(const struct tcp *f)
{
  if (f->state != TCP_OPEN || f->sacked > 0 || f->una < f->probe_end || f->srtt == 0)
    return DC_NEVER;
  return f->since + (2 * f->srtt > TCP_TICK ? 2 * f->srtt : TCP_TICK);
}

static bool may_send(const struct tcp *f) { return (double)tcp_pipe(f) + 1 <= f->cwnd && room(f); }

static void arm(sim *s, uint32_t flow)
{
  struct tcp *f = s->flows[flow];
  dc_time at = timeout_at(f), probe = probe_at(f);
  at = probe < at ? probe : at;
  at = f->reorder < at ? f->reorder : at;
  if (f->due < at && may_send(f))
    at = f->due;
  if (at < f->armed) {
    f->armed = at;
    events_push(&s->events, at, WHO(WHO_TCP, flow));
  }
}

static void send_more(sim *s, uint32_t flow)
{
  struct tcp *f = s->flows[flow];
  while (may_send(f) && f->due <= s->now) {
    uint64_t n = 0;
    do
      send_one(s, flow);
    while (++n < f->burst && may_send(f));
    if (f->pace > 0)
      f->due = s->now + (dc_time)((double)n * 1e9 / f->pace);
  }
  arm(s, flow);
}

static void measure(struct tcp *f)
{
  if (f->srtt == 0) {
    f->srtt = f->sample;
    f->rttvar = f->sample / 2;
    return;
  }
  dc_time off = f->sample > f->srtt ? f->sample - f->srtt : f->srtt - f->sample;
  f->rttvar = (3 * f->rttvar + off) / 4;
  f->srtt = (7 * f->srtt + f->sample) / 8;
}

static void acknowledged(sim *s, uint32_t flow, const struct tcp_segment *ack)
{
  struct tcp *f = s->flows[flow];
  struct tcp_news news = {.pipe = tcp_pipe(f)};
  uint64_t before = f->una;
  tcp_take(f, s->now, ack, &news);
  if (s->now >= f->stop)
    return;
  if (f->sample != 0)
    measure(f);
  if (f->una > before) {
    f->since = s->now;
    f->backoff = 0;
  }
  if (f->state != TCP_OPEN && f->una >= f->recover) {
    f->control->healed(f);
    f->state = TCP_OPEN;
  }
  news.moved = f->una > before;
  news.lost = tcp_find_lost(f, s->now);
  f->control->hear(f, s->now, &news);
  send_more(s, flow);
}

/* Tells the block that a number stands in; what came in order is none. */
static void take_in(struct tcp *f, uint64_t number, struct tcp_segment *ack)
{
  if (number < f->expected || f->run[number % TCP_AHEAD] != 0)
    return;
  uint32_t left = number > f->expected ? f->run[(number - 1) % TCP_AHEAD] : 0;
  uint32_t right = f->run[(number + 1) % TCP_AHEAD], all = left + 1 + right;
  ack->block = number - left;
  ack->after = ack->block + all;
  f->run[number % TCP_AHEAD] = f->run[ack->block % TCP_AHEAD] = f->run[(ack->after - 1) % TCP_AHEAD] = all;
  if (number == f->expected)
    for (; f->expected < ack->after; f->expected++)
      f->run[f->expected % TCP_AHEAD] = 0;
}

void tcp_arrive(sim *s, struct packet *p)
{
  struct tcp_segment *x = segment_of(p);
  struct tcp *f = s->flows[x->flow];
  int links = x->ack ? f->back_links : f->links;
  if (++x->hop < (uint32_t)links) {
    link_send(s, (x->ack ? f->back : f->path)[x->hop], p);
    return;
  }
  if (x->ack) {
    acknowledged(s, x->flow, x);
  } else {
    struct tcp_segment ack = {.flow = x->flow, .ack = true};
    take_in(f, x->number, &ack);
    ack.number = f->expected;
    put(s, &ack);
  }
  packet_give(&s->pool, p);
}

void tcp_event(sim *s, int flow)
{
  struct tcp *f = s->flows[flow];
  if (f->armed != s->now)
    return;
  f->armed = DC_NEVER;
  if (s->now >= f->stop)
    return;
  if (f->reorder <= s->now) {
    struct tcp_news news = {.pipe = tcp_pipe(f)};
    news.lost = tcp_find_lost(f, s->now);
    if (news.lost > 0)
      f->control->hear(f, s->now, &news);
  }
  if (timeout_at(f) <= s->now && f->next > f->una) {
    tcp_time_out(f);
    f->since = s->now;
    f->backoff += f->backoff < 8;
  } else if (probe_at(f) <= s->now && f->next > f->una && room(f)) {
    f->probe_end = f->next + 1;
    send_one(s, (uint32_t)flow);
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
