#include "datapath/forward.h"

#include <stdlib.h>
#include <string.h>

#include "datacast/constants.h"
#include "datapath/steering.h"

/* Endpoint polls of one round; then the ports are looked at again. */
enum { POLLS_PER_ROUND = 64 };

/* Where the Datacast header stands in a frame for the node itself. */
enum { LOCAL_HEADER = DC_ETHER_LEN + DC_LABEL_LEN };

static const uint8_t no_address[6];

/* ---- endpoints ---- */

static struct endpoint **bucket_of(const struct forward *f, uint32_t tree)
{
  uint32_t h = (uint32_t)(tree * UINT64_C(0x9e3779b97f4a7c15) >> 32);
  return (struct endpoint **)(uintptr_t)&f->bucket[h % ENDPOINT_BUCKETS];
}

static struct endpoint *find(const struct forward *f, uint32_t tree)
{
  struct endpoint *e = *bucket_of(f, tree);
  while (e != NULL && e->tree != tree)
    e = e->hash_next;
  return e;
}

static void wake(struct timer *t, dc_time now)
{
  (void)now;
  forward_mark((struct endpoint *)(void *)((char *)t - offsetof(struct endpoint, timer)));
}

bool forward_add(struct forward *f, struct endpoint *e, uint32_t tree, const struct endpoint_ops *ops)
{
  if (find(f, tree) != NULL)
    return false;
  struct endpoint **b = bucket_of(f, tree);
  *e = (struct endpoint){
      .tree = tree, .ops = ops, .forward = f, .timer = {.fire = wake, .at = DC_NEVER}, .hash_next = *b};
  *b = e;
  f->endpoints++;
  return true;
}

void forward_mark(struct endpoint *e)
{
  struct forward *f = e->forward;
  if (e->marked)
    return;
  e->marked = true;
  e->next_marked = NULL;
  *(f->first_marked == NULL ? &f->first_marked : &f->last_marked->next_marked) = e;
  f->last_marked = e;
}

static void unmark(struct endpoint *e)
{
  struct forward *f = e->forward;
  if (!e->marked)
    return;
  struct endpoint *before = NULL, *x = f->first_marked;
  while (x != e) {
    before = x;
    x = x->next_marked;
  }
  *(before == NULL ? &f->first_marked : &before->next_marked) = e->next_marked;
  if (f->last_marked == e)
    f->last_marked = before;
  e->marked = false;
}

void forward_remove(struct endpoint *e)
{
  struct forward *f = e->forward;
  struct endpoint **at = bucket_of(f, e->tree);
  while (*at != e)
    at = &(*at)->hash_next;
  *at = e->hash_next;
  unmark(e);
  loop_timer(f->loop, &e->timer, DC_NEVER);
  f->endpoints--;
}

void forward_wake(struct endpoint *e, dc_time at) { loop_timer(e->forward->loop, &e->timer, at); }

/* A frame from the node for this host: the prefix (a rewritten header) and then the buffer's bytes. */
static void to_endpoint(void *arg, const struct dc_tx *tx, dc_time now)
{
  struct forward *f = arg;
  uint8_t joined[DC_HEADER_LEN + DC_ROUTE_MAX];
  const uint8_t *p = tx->buf == NULL ? tx->prefix : tx->buf->data + tx->off;
  size_t len = tx->len;
  if (tx->prefix_len > 0) {
    len += tx->prefix_len;
    if (len > sizeof joined) {
      f->count.drop[DC_DROP_ROUTE]++;
      return;
    }
    memcpy(joined, tx->prefix, tx->prefix_len);
    if (tx->buf != NULL)
      memcpy(joined + tx->prefix_len, tx->buf->data + tx->off, tx->len);
    p = joined;
  }

  struct dc_header h;
  enum dc_drop why = dc_header_parse(p, len, &h);
  if (why != DC_DROP_NONE) {
    f->count.drop[why]++;
    return;
  }
  struct endpoint *e = find(f, h.tree);
  if (e == NULL || (h.type == DC_TYPE_DATA ? (void *)e->ops->data : (void *)e->ops->interest) == NULL) {
    f->count.drop[DC_DROP_UNKNOWN_TREE]++;
    return;
  }
  if (h.type == DC_TYPE_DATA) {
    if (tx->buf != NULL && tx->buf->whole != NULL)
      p = tx->buf->whole + tx->off;
    if (!e->ops->data(e, now, &h, p + DC_HEADER_LEN, tx->from))
      f->count.drop[DC_DROP_UNWANTED]++;
    return;
  }
  struct dc_segment ret;
  why = dc_interest_at_source(p, len, &h, &ret);
  if (why == DC_DROP_NONE && ret.n > 0 && ret.port[0] >= f->ports)
    why = DC_DROP_PORT;
  if (why == DC_DROP_NONE && ret.n == 0 && !ret.local)
    why = DC_DROP_ROUTE; /* to an endpoint of this same host: the source holds the file already */
  if (why != DC_DROP_NONE) {
    f->count.drop[why]++;
    return;
  }
  f->asked += h.more;
  e->ops->interest(e, now, &h, &ret);
}

/* ---- the node ---- */

static bool labelled(const struct dc_frame *f)
{
  return f->len >= DC_ETHER_LEN && dc_frame_ethertype(f) == DC_ETHERTYPE_MPLS;
}

/* Is the frame for this node itself? Then its Datacast header stands behind the label. */
static bool is_local(const struct dc_frame *f)
{
  bool bottom;
  return labelled(f) && f->len >= LOCAL_HEADER + DC_HEADER_LEN &&
         dc_label_read(f->data + DC_ETHER_LEN, &bottom) == DC_LABEL_LOCAL;
}

/* Data for the node itself may end in its content store, which must not hold the receive ring. */
static bool may_be_kept(const struct dc_frame *f)
{
  return is_local(f) && (f->data[LOCAL_HEADER] & 0x0f) == DC_TYPE_DATA;
}

/* A host that does not forward is still the waypoint of what it sends itself, where no switch below it can be, and takes data
 * that a switch copied for waypoints too. */
static bool is_for_endpoint(const struct forward *f, const struct dc_frame *frame)
{
  struct dc_header h;
  if (!is_local(frame) || dc_header_parse(frame->data + LOCAL_HEADER, frame->len - LOCAL_HEADER, &h) != DC_DROP_NONE)
    return false;
  const struct endpoint *e = find(f, h.tree);
  return e != NULL && (h.type == DC_TYPE_INTEREST ? (void *)e->ops->interest : (void *)e->ops->data) != NULL;
}

static bool admit_one(struct forward *f, struct port *port, struct dc_frame *frame)
{
  struct dc_buf *buf = frame->buf;
  if (f->no_forward && labelled(frame) && !is_for_endpoint(f, frame)) {
    f->count.not_forwarded++;
    buf_unref(buf);
    return false;
  }
  if (!may_be_kept(frame))
    return true;
  frame->buf = bufpool_copy(&f->pool, buf, frame->len);
  buf_unref(buf);
  if (frame->buf == NULL) {
    ((struct netport *)(void *)port)->extra.no_buffer++;
    return false;
  }
  frame->data = frame->buf->data;
  return true;
}

static unsigned admit(void *arg, struct port *port, struct dc_frame *frame, unsigned n, dc_time now)
{
  unsigned kept = 0;
  (void)now;
  for (unsigned i = 0; i < n; i++) {
    if (kept < i)
      frame[kept] = frame[i];
    kept += admit_one(arg, port, &frame[kept]);
  }
  return kept;
}

/* What `from` hands over to another. */
static struct handover *way(const struct forward *from, unsigned to)
{
  return &from->all[to]->from[from->index - (from->index > to)];
}

/* A frame of another's tree goes over to it; of the ways in some know no trees (netif.h). Where another has the links, it is to
 * know that the neighbour is there. */
static unsigned steer(void *arg, struct port *port, struct dc_frame *frame, unsigned n, dc_time now)
{
  struct forward *f = arg;
  struct netport *p = (struct netport *)(void *)port;
  unsigned kept = 0;
  if (f->index > 0 && n > 0)
    __atomic_store_n(&p->heard, now, __ATOMIC_RELAXED);
  for (unsigned i = 0; i < n; i++) {
    int to = steering_of(&frame[i], true, f->of);
    if (to == STEERING_ANY || to == (int)f->index) {
      if (kept < i)
        frame[kept] = frame[i];
      kept++;
      continue;
    }
    if (handover_give(way(f, (unsigned)to), port->number, &frame[i]))
      f->handed |= 1u << to;
    else
      p->extra.no_buffer++;
    buf_unref(frame[i].buf);
  }
  return kept;
}

static void ring_bells(struct forward *f)
{
  for (unsigned i = 0; f->handed != 0; i++, f->handed >>= 1)
    if (f->handed & 1)
      handover_ring(way(f, i));
}

/* What others handed over, in bursts of one port's. */
static unsigned take_handed(struct forward *f, struct handover *h, dc_time now)
{
  struct dc_frame frame[ENGINE_BURST];
  unsigned n = handover_take(h, frame, ENGINE_BURST);
  for (unsigned i = 0, end; i < n; i = end) {
    for (end = i + 1; end < n && frame[end].port == frame[i].port;)
      end++;
    engine_frames(&f->engine, &f->port[frame[i].port]->base, frame + i, end - i, now);
  }
  return n;
}

static unsigned take_all_handed(struct forward *f, dc_time now, bool *more)
{
  unsigned got = 0;
  for (unsigned k = 0; k < f->ways; k++) {
    unsigned before = got, n = ENGINE_BURST;
    while (n == ENGINE_BURST && got - before < RX_BUDGET)
      got += n = take_handed(f, &f->from[k], now);
    *more |= n == ENGINE_BURST;
  }
  return got;
}

static void hear_of_others(struct forward *f)
{
  for (unsigned k = 1; k < f->of; k++)
    for (uint16_t i = 0; i < f->ports; i++) {
      struct netport *p = f->all[k]->port[i];
      dc_time heard = __atomic_load_n(&p->heard, __ATOMIC_RELAXED);
      if (heard == p->heard_told)
        continue;
      p->heard_told = heard;
      engine_heard(&f->engine, &f->port[i]->base, heard);
    }
}

static void from_host(struct forward *f, dc_time now, struct dc_buf *buf, uint32_t len)
{
  struct dc_frame frame = {.buf = buf, .data = buf->data, .len = len, .port = DC_PORT_HOST};
  engine_from_host(&f->engine, &f->node, &frame, now);
}

/* ---- what endpoints send ---- */

static void count_own(struct netport *p, const struct dc_tx *tx, bool data, uint32_t payload)
{
  p->own.tx_frames++;
  p->own.tx_bytes += (uint64_t)tx->prefix_len + tx->len;
  p->own.tx_data += data;
  p->own.tx_data_payload += payload;
}

bool forward_crowded(const struct forward *f, const struct dc_segment *seg)
{
  return seg->n > 0 && seg->port[0] < f->ports && netport_crowded(f->port[seg->port[0]]);
}

bool forward_data(struct forward *f, dc_time now, const struct dc_segment *ret, const struct dc_header *h,
                  struct dc_buf *buf, uint32_t off)
{
  if (ret->n == 0) {
    buf->data += off - DC_HEADER_LEN;
    size_t front = dc_data_write(buf->data, DC_HEADER_LEN, ret, h, no_address, no_address);
    from_host(f, now, buf, (uint32_t)front + h->length);
    return front > 0;
  }
  if (ret->port[0] >= f->ports) {
    buf_unref(buf);
    return false;
  }
  struct netport *p = f->port[ret->port[0]];
  struct dc_tx tx = {.buf = buf, .off = off, .len = h->length, .port = p->base.number};
  tx.prefix_len = (uint16_t)dc_data_write(tx.prefix, sizeof tx.prefix, ret, h, p->base.neighbour, p->base.mac);
  count_own(p, &tx, true, h->length);
  p->base.ops->push(&p->base, &tx, 1, now);
  return true;
}

bool forward_interest(struct forward *f, dc_time now, const struct dc_path *path, const struct dc_header *h)
{
  if (path->first.n > 0 && path->first.port[0] >= f->ports)
    return false;
  struct netport *p = path->first.n > 0 ? f->port[path->first.port[0]] : NULL;
  const uint8_t *dst = p == NULL ? no_address : p->base.neighbour, *src = p == NULL ? no_address : p->base.mac;

  struct dc_tx tx = {.buf = NULL};
  if (p != NULL) { /* mostly it fits the prefix, and no buffer is needed */
    tx.port = p->base.number;
    tx.prefix_len = (uint16_t)dc_interest_write(tx.prefix, sizeof tx.prefix, path, h, dst, src);
  }
  if (tx.prefix_len == 0) {
    tx.buf = bufpool_get(&f->pool, DC_PREFIX_MAX + path->rest_len);
    if (tx.buf == NULL)
      return false;
    tx.len = (uint32_t)dc_interest_write(tx.buf->data, tx.buf->cap, path, h, dst, src);
  }
  if (p == NULL) {
    from_host(f, now, tx.buf, tx.len);
    return true;
  }
  count_own(p, &tx, false, 0);
  p->base.ops->push(&p->base, &tx, 1, now);
  return true;
}

/* So many packets as half of the buffers hold, however short they are. None is longer than its port takes; a slot takes none. */
static uint32_t packets_kept(const struct forward *f)
{
  uint32_t longest = 0;
  for (uint16_t i = 0; i < f->ports; i++) {
    const struct netif *n = f->port[i]->nif;
    if (!n->slot && n->mtu > longest)
      longest = n->mtu;
  }
  return (uint32_t)(f->pool.limit / 2 / bufpool_size(&f->pool, longest + DC_ETHER_LEN + DC_PREFIX_MAX));
}

void forward_replace(struct forward *f, uint16_t port, struct netif *nif)
{
  struct netport *p = f->port[port];
  if (!netport_replace(p, nif))
    log_error("port %u: epoll: it is looked at only when others wake this process", port);
  dc_node_set_packets(f->node.core, packets_kept(f));
  linkstate_anew(&p->base.link, f->loop->now);
  engine_set_carrier(&f->engine, &p->base, nif->up);
}

/* ---- rounds ---- */

static void poll_endpoints(struct forward *f, dc_time now)
{
  for (unsigned i = 0; i < POLLS_PER_ROUND && f->first_marked != NULL; i++) {
    struct endpoint *e = f->first_marked;
    f->first_marked = e->next_marked;
    e->marked = false;
    if (e->ops->poll(e, now))
      forward_mark(e);
  }
}

bool forward_sleeps(void *arg, bool sleeps)
{
  struct forward *f = arg;
  bool waits = false;
  for (uint16_t i = 0; i < f->ports && !waits; i++) {
    struct netif *n = f->port[i]->nif;
    waits = n->ops->awake != NULL && n->ops->awake(n, !sleeps);
  }
  return waits;
}

void forward_round(void *arg, dc_time now)
{
  struct forward *f = arg;
  unsigned got = 0;
  bool more = false;
  for (uint16_t i = 0; i < f->ports; i++)
    got += engine_receive(&f->engine, &f->port[i]->base, now, &more);
  ring_bells(f);
  got += take_all_handed(f, now, &more);
  if (!f->engine.no_links) {
    hear_of_others(f);
    engine_hello(&f->engine, now);
  }
  poll_endpoints(f, now);
  f->loop->busy |= more || f->first_marked != NULL;
  f->loop->packets += got + f->asked; /* a range is as many packets as it asks for: so quickly they will follow */
  f->asked = 0;
  engine_flush(&f->engine, now);
}

/* ---- set-up ---- */

static bool make_node(struct forward *f, const struct forward_cfg *cfg, uint32_t largest, struct fault *why)
{
  struct dc_node_cfg n;
  if (cfg->cache_bytes < largest)
    return fault_set(why, "bad_request",
                     "a cache of %u bytes (--cache) holds no packet of this host's ports, which have up to %u",
                     cfg->cache_bytes, largest);
  f->node.name = cfg->name;
  dc_node_cfg_default(&n);
  n.ports = f->ports;
  n.endpoint = true;
  n.cache_bytes = cfg->cache_bytes;
  uint32_t part = cfg->cache_memory / cfg->of;
  n.cache_bytes_max = part > cfg->cache_bytes ? part : cfg->cache_bytes;
  n.memory_bytes = part;
  n.memory_packets = packets_kept(f);
  n.trees = (cfg->cache_trees + cfg->of - 1) / cfg->of;
  return engine_node_open(&f->node, &n, &bufpool_ops, why);
}

bool forward_share(struct forward **all, unsigned n, struct fault *why)
{
  for (unsigned i = 0; i < n; i++) {
    struct forward *f = all[i];
    f->all = all;
    f->of = n;
    f->from = aligned_alloc(_Alignof(struct handover), (n - 1) * sizeof *f->from);
    if (f->from == NULL)
      return fault_set(why, "io", "out of memory");
    for (; f->ways < n - 1; f->ways++)
      if (handover_open(&f->from[f->ways], f->loop, f->pool.size[BUF_SIZES - 1]) < 0)
        return fault_set(why, "io", "no memory for frames that are handed over, or too many files are open");
  }
  return true;
}

bool forward_open(struct forward *f, struct loop *loop, const struct forward_cfg *cfg, struct netif **nif,
                  const uint8_t (*neighbour)[6], uint16_t ports, struct fault *why)
{
  memset(f, 0, sizeof *f);
  f->loop = loop;
  f->no_forward = cfg->no_forward;
  f->index = cfg->index;
  const struct engine_hooks hooks = {.steer = cfg->of > 1 ? steer : NULL, .admit = admit, .to_host = to_endpoint};
  f->port = calloc(ports, sizeof(struct netport *));
  bool ok = engine_open(&f->engine, loop, &bufpool_ops, ports, &hooks, f, why) &&
            (f->port != NULL || fault_set(why, "io", "out of memory"));
  uint32_t largest = 0;
  for (uint16_t i = 0; i < ports; i++) {
    struct netport *p = ok ? calloc(1, sizeof *p) : NULL;
    if (p == NULL) {
      nif[i]->ops->close(nif[i]);
      ok = ok && fault_set(why, "io", "out of memory");
      continue;
    }
    f->port[f->ports++] = p;
    if (nif[i]->mtu > largest)
      largest = nif[i]->mtu;
    ok = netport_open(p, i, nif[i], loop, &f->pool, neighbour[i]) || fault_set(why, "io", "epoll");
  }
  f->engine.no_links = cfg->index > 0;
  largest += DC_ETHER_LEN + DC_PREFIX_MAX;
  bufpool_init(&f->pool, largest, 2 * (size_t)cfg->cache_memory / cfg->of + (8u << 20));
  if (!ok || !make_node(f, cfg, largest, why)) {
    forward_close(f);
    return false;
  }
  for (uint16_t i = 0; i < ports; i++) {
    struct port *p = &f->port[i]->base;
    engine_attach(&f->engine, &f->node, p, !cfg->no_hello && cfg->index == 0, nif[i]->up);
    if (nif[i]->full_hello)
      linkstate_proven(&p->link);
  }
  loop->round = forward_round;
  loop->sleeps = forward_sleeps;
  loop->arg = f;
  return true;
}

void forward_close(struct forward *f)
{
  f->loop->round = NULL;
  f->loop->sleeps = NULL;
  engine_close(&f->engine);
  if (f->node.core != NULL)
    dc_node_clear(f->node.core); /* its buffers go back to the ports and the pool */
  for (uint16_t i = 0; i < f->ports; i++) {
    netport_close(f->port[i]);
    free(f->port[i]);
  }
  free(f->port);
  while (f->ways > 0)
    handover_close(&f->from[--f->ways]);
  free(f->from);
  engine_node_close(&f->node);
  bufpool_close(&f->pool);
}
