/* Links: a rate, a delay, a queue that drops its tail. A link is a FIFO, so only its first packet has an event. */
#include <string.h>

#include "engine.h"

static dc_time wire_time(struct link *l, uint32_t bytes)
{
  if (bytes != l->memo_len) {
    uint64_t bits = (uint64_t)bytes * 8 * DC_SEC;
    l->memo_len = bytes;
    l->memo_ns = bits / l->rate;
    l->memo_rest = bits % l->rate;
  }
  l->rest += l->memo_rest;
  if (l->rest < l->rate)
    return l->memo_ns;
  l->rest -= l->rate;
  return l->memo_ns + 1;
}

static void lose(sim *s, struct link *l, struct packet *p)
{
  l->count.lost++;
  packet_give(&s->pool, p);
}

/* A frame that comes out of order, or a second time, has an event of its own. */
static void stray(sim *s, int link, struct packet *p, dc_time at)
{
  for (unsigned tries = 0; tries < 64; tries++) {
    uint32_t i = (uint32_t)(sim_random(s) % (sizeof s->strays / sizeof s->strays[0]));
    if (s->strays[i].p == NULL) {
      s->strays[i] = (struct stray){p, link};
      events_push(&s->events, at, WHO(WHO_STRAY, i));
      return;
    }
  }
  lose(s, &s->links[link], p);
}

static struct packet *copy(sim *s, const struct packet *p)
{
  struct packet *c = packet_new(&s->pool, (size_t)p->start + p->real);
  uint8_t size = c->size;
  *c = *p;
  c->size = size;
  c->next = NULL;
  memcpy(c->byte + c->start, p->byte + p->start, p->real);
  if (c->body != NULL)
    c->body->refs++;
  return c;
}

/* A copy with another bit, in its body too. */
static struct packet *damaged(sim *s, const struct packet *p, uint64_t bit)
{
  struct packet *c = copy(s, p);
  c->byte[c->start + bit / 8] ^= (uint8_t)(1u << bit % 8);
  body_give(c->body);
  c->body = body_new(&s->pool, (size_t)p->real - p->head);
  c->body->payload = p->payload;
  memcpy(c->body->byte, c->byte + c->start + p->head, c->body->n);
  return c;
}

static bool lost(sim *s, const struct link *l, const struct packet *p)
{
  return sim_chance(s, p->data ? l->faults.loss_data : l->faults.loss_interest);
}

/* Returns the packet that goes on in order, or NULL. */
static struct packet *spoil(sim *s, int link, struct packet *p, dc_time arrives)
{
  struct link *l = &s->links[link];
  if (!l->faults.early && lost(s, l, p)) {
    lose(s, l, p);
    return NULL;
  }
  if (p->tcp)
    return p;
  if (sim_chance(s, l->faults.corrupt)) {
    struct packet *c =
        damaged(s, p, sim_random(s) % (8 * (uint64_t)p->real)); /* the sender's cache keeps the right one */
    packet_give(&s->pool, p);
    p = c;
  }
  if (sim_chance(s, l->faults.duplicate))
    stray(s, link, copy(s, p), arrives + sim_random(s) % (l->faults.reorder_by + 1));
  if (sim_chance(s, l->faults.reorder)) {
    stray(s, link, p, arrives + sim_random(s) % (l->faults.reorder_by + 1));
    return NULL;
  }
  return p;
}

void link_send(sim *s, int link, struct packet *p)
{
  struct link *l = &s->links[link];
  if (l->busy <= s->now) { /* all have left; saves looking at them */
    l->leaving = NULL;
    l->waiting = 0;
  }
  while (l->leaving != NULL && l->leaving->departs <= s->now) {
    l->leaving = l->leaving->next;
    l->waiting--;
  }
  if (!l->up || (l->faults.early && lost(s, l, p))) {
    lose(s, l, p);
    return;
  }
  if (l->waiting > l->queue) { /* one on the wire, `queue` behind it */
    l->count.dropped++;
    packet_give(&s->pool, p);
    return;
  }
  if (l->busy < s->now) {
    l->busy = s->now;
    l->rest = 0;
  }
  l->busy += wire_time(l, p->wire);
  l->count.frames++;
  l->count.bytes += p->wire;
  if (p->data) {
    l->count.data++;
    l->count.data_bytes += p->wire;
    l->count.payload += p->payload;
  }
  if (l->faulty) {
    p = spoil(s, link, p, l->busy + l->delay);
    if (p == NULL)
      return;
  }
  p->departs = l->busy;
  p->arrives = l->busy + l->delay;
  if (l->faults.jitter > 0)
    p->arrives += sim_random(s) % (l->faults.jitter + 1);
  if (p->arrives < l->last) /* the delay became shorter: the wire stays a FIFO */
    p->arrives = l->last;
  l->last = p->arrives;
  p->next = NULL;
  if (l->head == NULL) {
    l->head = p;
    events_push(&s->events, p->arrives, WHO(WHO_LINK, link));
  } else {
    l->tail->next = p;
  }
  l->tail = p;
  if (l->leaving == NULL)
    l->leaving = p;
  if (++l->waiting > l->count.queue_max)
    l->count.queue_max = l->waiting;
}

static void arrive(sim *s, const struct link *l, struct packet *p)
{
  s->hops++;
  if (p->tcp)
    tcp_arrive(s, p);
  else
    vertex_frame(s, l->to, l->node, l->to_port, p);
}

void link_event(sim *s, int link)
{
  struct link *l = &s->links[link];
  struct packet *p = l->head;
  l->head = p->next;
  if (l->leaving == p) {
    l->leaving = p->next;
    l->waiting--;
  }
  if (l->head != NULL)
    events_push(&s->events, l->head->arrives, WHO(WHO_LINK, link));
  else
    l->tail = NULL;
  if (!l->up) {
    lose(s, l, p);
    return;
  }
  arrive(s, l, p);
}

void stray_event(sim *s, uint32_t i)
{
  struct stray x = s->strays[i];
  struct link *l = &s->links[x.link];
  s->strays[i].p = NULL;
  if (l->up)
    arrive(s, l, x.p);
  else
    lose(s, l, x.p);
}
