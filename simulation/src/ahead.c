/* In a large network hardly anything that an event touches is in the processor's cache. But the next events are known
 * (events.c): what they will touch is fetched meanwhile, each step from addresses that the one before brought in. */
#include "engine.h"

#include "datacast/bytes.h"

enum { STEPS = 6, APART = 4 /* events between two steps */, LINE = 64 };

static void fetch(const void *p, unsigned lines)
{
  for (unsigned i = 0; i < lines; i++)
    __builtin_prefetch((const char *)p + (size_t)LINE * i, 1);
}

/* Header of a frame for the endpoints at this vertex, or NULL. */
static const uint8_t *for_endpoint(const struct packet *p)
{
  return p->data && p->head == DC_ETHER_LEN ? p->byte + p->start + p->head : NULL;
}

static struct asker *asker_at(const sim *s, const struct vertex *v, const uint8_t *header)
{
  uint32_t id = dc_get32(header + DC_AT_TREE);
  for (int i = 0; i < v->n_askers; i++)
    if (v->askers[i].id == id)
      return &s->askers[v->askers[i].index];
  return NULL;
}

/* The port that a frame is likely to leave by: its next label's, or where an interest's first stop leads. */
static int way_on(const struct packet *p)
{
  const uint8_t *f = p->byte + p->start;
  bool bottom;
  uint32_t label = p->head > DC_ETHER_LEN ? dc_label_read(f + DC_ETHER_LEN, &bottom) : 0;
  if (label >= DC_LABEL_ADJ)
    return (int)(label - DC_LABEL_ADJ);
  if (p->data || p->real < p->head + DC_HEADER_LEN + DC_STOP_LEN)
    return -1;
  const uint8_t *stop = f + p->head + DC_HEADER_LEN;
  return stop[2] == 0 ? -1 : stop[DC_STOP_LEN + 2 * stop[1]] << 8 | stop[DC_STOP_LEN + 2 * stop[1] + 1];
}

static void step(const sim *s, int link, unsigned i)
{
  const struct link *l = &s->links[link];
  if (i == 0) {
    fetch(l, 1);
    return;
  }
  const struct packet *p = l->head;
  const struct vertex *v = &s->vertices[l->to];
  if (i == 1) {
    fetch(p, 3);
    fetch(v, 1);
    if (l->node != NULL)
      dc_node_prefetch(l->node, &(struct dc_frame){.port = l->to_port}, 0);
    return;
  }
  if (p->tcp || l->node == NULL)
    return;
  if (i == 2) {
    if (p->next != NULL)
      fetch(p->next, 1); /* its time is looked at */
    for (uint32_t at = 2 * LINE; at < (uint32_t)p->start + p->real; at += LINE)
      fetch(p->byte + at, 1);
  }
  const uint8_t *header = for_endpoint(p);
  struct asker *a = header != NULL && i > 2 ? asker_at(s, v, header) : NULL;
  struct dc_frame f = {.data = p->byte + p->start, .len = p->len, .port = l->to_port};
  if (i <= DC_NODE_PREFETCH_STEPS)
    dc_node_prefetch(l->node, &f, i - 1);
  switch (i) {
  case 2:
    if (header != NULL) {
      fetch(v->askers, 1);
    } else {
      int port = way_on(p);
      if (port >= 0 && port < v->ports)
        fetch(&v->out[port], 1);
    }
    break;
  case 3:
    if (header != NULL) {
      if (a != NULL)
        fetch(a, 1);
    } else {
      int port = way_on(p);
      if (port >= 0 && port < v->ports && v->out[port] >= 0)
        fetch(&s->links[v->out[port]], 3);
    }
    fetch(p->body, 1);
    break;
  case 4:
    if (a != NULL) {
      dc_receiver_prefetch(a->r, 0, 0);
      fetch(&s->members[a->member], 2);
      if (a->route != NULL) {
        fetch(a->route, 1);
        for (unsigned at = 0; at < (unsigned)a->front + DC_HEADER_LEN + a->rest; at += LINE)
          fetch(a->interest + at, 1);
      }
    }
    break;
  default:
    if (a != NULL) {
      dc_receiver_prefetch(a->r, dc_get32(header + DC_AT_SEQ), 1);
      if (a->out >= 0)
        fetch(&s->links[a->out], 3);
    }
  }
}

void look_ahead(const sim *s)
{
  const struct events *e = &s->events;
  bool fresh = e->at == 1; /* the first of a bucket was just taken: the others have made no step yet */
  for (unsigned i = 0; i < STEPS; i++) {
    size_t last = e->at + (size_t)APART * (STEPS - i);
    for (size_t at = fresh ? e->at : last; at <= last && at < e->n_now; at++)
      if (WHO_KIND(e->now[at].who) == WHO_LINK)
        step(s, (int)WHO_INDEX(e->now[at].who), i);
  }
}
