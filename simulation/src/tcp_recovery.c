/* How a connection of TCP finds its losses: selective acknowledgements (RFC 2018) and what is still on its way by them
 * (RFC 6675), RACK (RFC 8985) for what is lost, what was sent again too. */
#include "tcp.h"

enum { DUPLICATES = 3 }; /* so many later ones have come: no reordering is waited for */

static struct tcp_out *out_of(struct tcp *f, uint64_t number) { return &f->out[number % TCP_AHEAD]; }

uint64_t tcp_pipe(const struct tcp *f) { return f->next - f->una - f->sacked - f->lost; }

void tcp_note(struct tcp *f, dc_time now, uint64_t number)
{
  struct tcp_out *o = out_of(f, number);
  bool again = number < f->next;
  *o = (struct tcp_out){.at = now, .mark = TCP_SENT, .again = again};
  tcp_rate_sent(f, now, o);
  if (again)
    f->lost--;
  else
    f->next++;
  if (f->sent_end - f->sent_first == 2 * TCP_AHEAD)
    f->sent_first++; /* the timeout is for that one */
  f->sent[f->sent_end++ % (2 * TCP_AHEAD)] = (struct tcp_sent){now, number};
}

uint64_t tcp_pick(struct tcp *f)
{
  if (f->lost == 0)
    return f->next;
  while (out_of(f, f->hole)->mark != TCP_LOST)
    f->hole++;
  return f->hole;
}

static bool later(dc_time at, uint64_t number, dc_time than, uint64_t than_number)
{
  return at > than || (at == than && number > than_number);
}

static void came(struct tcp *f, dc_time now, uint64_t number, struct tcp_news *n)
{
  struct tcp_out *o = out_of(f, number);
  dc_time rtt = now - o->at;
  n->delivered++;
  tcp_rate_came(f, now, o, &n->sample);
  if (o->mark == TCP_LOST)
    f->lost--;
  if (o->again && (f->rtt_min == 0 || rtt < f->rtt_min))
    return; /* it is the first sending that came */
  if (!o->again) {
    f->sample = rtt;
    f->rtt_min = f->rtt_min == 0 || rtt < f->rtt_min ? rtt : f->rtt_min;
  }
  if (later(o->at, number, f->newest_at, f->newest)) {
    f->newest = number;
    f->newest_at = o->at;
    f->newest_rtt = rtt;
  }
}

void tcp_take(struct tcp *f, dc_time now, const struct tcp_segment *ack, struct tcp_news *n)
{
  f->sample = 0;
  for (; f->una < ack->number; f->una++) {
    if (out_of(f, f->una)->mark == TCP_SACKED) {
      f->sacked--;
      continue;
    }
    came(f, now, f->una, n);
  }
  for (uint64_t i = ack->block > f->una ? ack->block : f->una; i < ack->after; i++) {
    if (out_of(f, i)->mark == TCP_SACKED)
      continue;
    came(f, now, i, n);
    out_of(f, i)->mark = TCP_SACKED;
    f->sacked++;
  }
  if (f->hole < f->una)
    f->hole = f->una;
}

uint64_t tcp_find_lost(struct tcp *f, dc_time now)
{
  uint64_t found = 0;
  dc_time patience = f->state != TCP_OPEN || f->sacked >= DUPLICATES ? 0 : f->rtt_min / 4;
  f->reorder = DC_NEVER;
  for (; f->sent_first < f->sent_end; f->sent_first++) {
    struct tcp_sent e = f->sent[f->sent_first % (2 * TCP_AHEAD)];
    struct tcp_out *o = out_of(f, e.number);
    if (e.number < f->una || o->mark != TCP_SENT || o->at != e.at)
      continue; /* it came, or was sent again */
    if (!later(f->newest_at, f->newest, e.at, e.number))
      break;
    dc_time due = e.at + f->newest_rtt + patience;
    if (due > now) {
      f->reorder = due + TCP_TICK;
      break;
    }
    o->mark = TCP_LOST;
    f->lost++;
    found++;
    if (e.number < f->hole)
      f->hole = e.number;
  }
  if (found > 0 && f->state == TCP_OPEN) {
    f->state = TCP_RECOVERY;
    f->recover = f->next;
    f->control->cut(f, false);
  }
  return found;
}

void tcp_time_out(struct tcp *f)
{
  for (uint64_t i = f->una; i < f->next; i++)
    if (out_of(f, i)->mark == TCP_SENT) {
      out_of(f, i)->mark = TCP_LOST;
      f->lost++;
    }
  f->hole = f->una;
  f->sent_first = f->sent_end;
  bool again = f->state != TCP_OPEN;
  f->state = TCP_TIMEOUT;
  f->control->cut(f, again);
  f->cwnd = 1;
  f->recover = f->next;
}
