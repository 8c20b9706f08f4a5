#include "datacast/node.h"

#include <string.h>

#include "datacast/bytes.h"
#include "far.h"
#include "node_state.h"
#include "segment.h"

/* A child not heard of for so long gives its place to a new one when the table is full. */
#define CHILD_STALE DC_SEC
/* An interest without RETX that repeats a waiting one is sent on again after so many times a RETX's patience. */
#define REPEAT_PATIENCE 8
/* A waiting interest gives its place to another one after REPEAT_PATIENCE, and at least this. */
#define WAITING_LIFE_MIN (100 * DC_MS)

/* The frame at hand, what it has caused so far, and whether the caller's reference has gone into it. */
struct work {
  struct dc_node *node;
  dc_time now;
  const struct dc_frame *frame;
  struct dc_tx *out;
  unsigned n;
  bool handed_on;
};

static void drop(struct work *w, enum dc_drop why) { w->node->count.drop[why]++; }

/* One more frame to send of this buffer; the first one of the frame at hand takes over the caller's reference. */
static struct dc_tx *add_tx(struct work *w, dc_buf *buf, uint32_t off, uint32_t len, uint16_t port)
{
  if (buf == w->frame->buf && !w->handed_on)
    w->handed_on = true;
  else
    w->node->ops.ref(buf);

  struct dc_tx *tx = &w->out[w->n++];
  tx->buf = buf;
  tx->off = off;
  tx->len = len;
  tx->port = port;
  tx->from = DC_PORT_HOST;
  tx->prefix_len = 0;
  return tx;
}

static void count_tx(struct dc_node *node, const struct dc_tx *tx, bool data, uint32_t payload)
{
  if (tx->port == DC_PORT_HOST) {
    node->count.to_endpoint++;
    return;
  }
  struct dc_port_counters *c = &node->port[tx->port].count;
  c->tx_frames++;
  c->tx_bytes += (uint64_t)tx->prefix_len + tx->len;
  if (data) {
    c->tx_data++;
    c->tx_data_payload += payload;
  }
}

/* ---- segments from here on ---- */

/* The first port of a segment: this node's own, or at an appliance the switch's; this host itself when there is none. */
static uint16_t first_port(const struct dc_segment *seg) { return seg->n == 0 ? DC_PORT_HOST : seg->port[0]; }
static uint16_t first_seen(const struct dc_segment_view *v) { return v->n == 0 ? DC_PORT_HOST : dc_get16(v->ports); }

/* May a frame leave over a segment with this first port (of no port: DC_PORT_HOST)? Returns DC_DROP_NONE and the port here, or
 * the reason. */
static enum dc_drop way_out(const struct dc_node *node, uint16_t first, bool local, uint16_t *port)
{
  if (first == DC_PORT_HOST) {
    if (local)
      return DC_DROP_ROUTE; /* to this very node */
    *port = DC_PORT_HOST;
    return node->cfg.endpoint ? DC_DROP_NONE : DC_DROP_NO_ENDPOINT;
  }
  *port = node->cfg.lone_port ? 0 : first;
  return *port < node->cfg.ports ? DC_DROP_NONE : DC_DROP_PORT;
}

/* Ethernet and stack of a frame that leaves by `port` over `seg`; nothing towards this host's endpoints. */
static uint16_t write_front(const struct dc_node *node, uint8_t *p, uint16_t port, const struct dc_segment *seg)
{
  if (port == DC_PORT_HOST)
    return 0;
  const struct dc_port *out = &node->port[port];
  return (uint16_t)dc_segment_write_from(p, seg, node->cfg.lone_port ? 0 : 1, out->addresses, out->addresses + 6);
}

/* A bitmap of one port: no copies. */
#define ALONE 1u

/* The front of a child's data, built when it is first needed. */
static uint16_t child_front(const struct dc_node *node, uint8_t *p, uint16_t port, struct dc_child *child)
{
  if (child->front_len > 0) {
    memcpy(p, child->front, sizeof child->front); /* all of it: a copy of a fixed size */
    return child->front_len;
  }
  uint16_t len = write_front(node, p, port, &child->ret);
  if (len <= sizeof child->front) {
    memcpy(child->front, p, len);
    child->front_len = (uint8_t)len;
  }
  return len;
}

/* The data packet at `off` of a buffer, to one child, or from an appliance to all behind these ports of its switch, of
 * which one wants LOCAL on it. */
static void send_data(struct work *w, struct dc_child *child, uint32_t ports, bool local, dc_buf *buf, uint32_t off,
                      uint32_t payload)
{
  const struct dc_node *node = w->node;
  const struct dc_segment *ret = &child->ret;
  uint16_t port;
  if (way_out(node, first_port(ret), ret->local, &port) != DC_DROP_NONE)
    return; /* was checked when the child came */
  struct dc_tx *tx = add_tx(w, buf, off, DC_HEADER_LEN + payload, port);
  if (local == ret->local) {
    tx->prefix_len = child_front(node, tx->prefix, port, child);
  } else { /* then it ends at the next node */
    struct dc_segment next;
    next.n = 1;
    next.local = local;
    next.port[0] = ret->port[0];
    tx->prefix_len = write_front(node, tx->prefix, port, &next);
  }
  if ((ports & (ports - 1)) != 0)
    dc_label_write(tx->prefix + DC_ETHER_LEN, DC_LABEL_REPLICATE | ports, ret->n == 1 && !local);
  count_tx(w->node, tx, true, payload);
}

/* Is one frame good for both, behind the first port? What ends at the next node does with LOCAL on it: a host that is no
 * waypoint of the tree gives it to its endpoints all the same. */
static bool same_frame(const struct dc_segment *a, const struct dc_segment *b)
{
  if (a->n != b->n)
    return false;
  return a->n == 1 || (a->local == b->local && memcmp(a->port + 1, b->port + 1, (a->n - 1u) * sizeof a->port[0]) == 0);
}

/* The ports of the children waiting in `e` that get the frame that goes to `ret`, as a bitmap; they wait no more. The switch
 * copies (REPLICATE). *local: one of them wants LOCAL on it. */
static uint32_t take_together(const struct dc_node *node, const struct dc_children *children,
                              struct dc_waiting_entry *e, const struct dc_segment *ret, bool *local)
{
  if (ret->n == 0 || ret->port[0] >= node->copies)
    return ALONE;
  uint32_t ports = UINT32_C(1) << ret->port[0];
  for (unsigned word = 0; word < DC_WAITING_WORDS; word++)
    for (uint64_t left = e->child[word]; left != 0; left &= left - 1) {
      unsigned bit = (unsigned)__builtin_ctzll(left);
      const struct dc_segment *other = &dc_child_at(children, word * 64 + bit)->ret;
      if (!same_frame(ret, other) || other->port[0] >= node->copies || other->port[0] == e->up)
        continue;
      ports |= UINT32_C(1) << other->port[0];
      *local |= other->local;
      e->child[word] &= ~(UINT64_C(1) << bit);
    }
  return ports;
}

/* ---- interests ---- */

/* An interest at hand, its route taken apart. */
struct asking {
  const struct dc_header *h;
  struct dc_stop_view own;
  uint32_t rest_off; /* the stops after this node's own */
  uint16_t rest_len;
  uint16_t way, up; /* where it is sent on; `way` is made when it is needed: not for what is answered here */
  bool way_made;
  uint16_t from; /* where its answer is to come from: the port that `up` names at whoever counts the ports */
  unsigned child;
  dc_time patience;
};

static uint16_t way_on(const struct work *w, struct asking *a)
{
  if (!a->way_made) {
    uint32_t ports = 2u * a->own.fwd.n;
    a->way = dc_way_sum(w->frame->data + a->rest_off - ports, a->rest_len + ports) & 0x1fffu;
    a->way_made = true;
  }
  return a->way;
}

static bool send_again(const struct work *w, const struct dc_tree *tree, const struct dc_waiting_entry *e,
                       struct asking *a, uint32_t seq)
{
  const struct dc_header *h = a->h;
  dc_time patience = a->patience, least = w->node->cfg.retx_min;
  if ((h->flags & DC_FLAG_NOCACHE) != 0 && !e->nocache)
    return true; /* what was sent on may be answered from a cache, this one must not be */
  dc_time age = w->now - e->sent;
  if ((h->flags & DC_FLAG_RETX) == 0)
    return age >= REPEAT_PATIENCE * patience;
  if (way_on(w, a) != e->way)
    return true;                                /* what was sent on may have ended at a link that failed */
  if (seq < tree->newest && tree->shortest > 0) /* sent already: the answer waits for no tokens at the source */
    patience = 2 * tree->shortest > least ? 2 * tree->shortest : least;
  /* The way to the source is a FIFO: once data asked for later is here, this one was lost. */
  return age >= patience || (int32_t)(tree->answered - e->order) > 0;
}

/* The numbers [seq, seq + more] of it go on. */
static void send_interest_on(struct work *w, struct dc_tree *tree, const struct asking *a, uint32_t seq, uint32_t more)
{
  struct dc_header on = *a->h;
  on.seq = seq;
  on.more = (uint8_t)more;
  on.stops--;
  on.length = a->rest_len;
  if ((on.flags & DC_FLAG_LAST) != 0 && dc_children_asking(tree->children))
    on.flags &= (uint8_t)~DC_FLAG_LAST;
  on.lag = dc_tree_lag(tree, w->now, dc_child_at(tree->children, a->child), seq, seq + more);
  uint64_t room = dc_node_room(w->node, tree);
  if (on.cache != 0 && room < dc_cache_bytes(on.cache)) /* a source that believed in more would brake too late */
    on.cache = dc_cache_code(room);

  struct dc_tx *tx = add_tx(w, w->frame->buf, a->rest_off, a->rest_len, a->up);
  struct dc_segment fwd;
  dc_segment_read(&a->own.fwd, &fwd);
  uint16_t front = write_front(w->node, tx->prefix, a->up, &fwd);
  dc_header_write(tx->prefix + front, &on);
  tx->prefix_len = (uint16_t)(front + DC_HEADER_LEN);
  count_tx(w->node, tx, false, 0);
}

static enum dc_drop child_of(struct work *w, struct dc_tree *tree, const struct dc_header *h,
                             const struct dc_segment_view *ret, unsigned *child)
{
  bool replaced;
  int i = dc_children_add(tree->children, DC_CHILDREN_MAX, w->now, CHILD_STALE, ret, &replaced);
  if (i < 0)
    return DC_DROP_CHILDREN;
  if (replaced)
    dc_waiting_forget_child(&tree->waiting, (unsigned)i);

  struct dc_child *c = dc_child_at(tree->children, (uint32_t)i);
  bool far = !c->done && !c->far && dc_far(c->seq, h->seq);
  dc_child_heard(c, w->now);
  c->far = far;
  c->done = (h->flags & DC_FLAG_LAST) != 0;
  if (h->seq == 0)
    c->begins = 1;
  if (c->done)
    c->gap = 0; /* that it is silent from now on tells nothing */
  if (!far && dc_child_tells(c, h->seq + h->more, h->lag) && tree->children->slowest == i)
    tree->children->slowest_due = 0; /* perhaps it is not any more */
  *child = (unsigned)i;
  return DC_DROP_NONE;
}

static uint32_t capacity_asked(const struct dc_node *node, const struct dc_header *h)
{
  uint64_t c = h->cache == 0 ? node->cfg.cache_bytes : dc_cache_bytes(h->cache);
  return c < node->cfg.cache_bytes_max ? (uint32_t)c : node->cfg.cache_bytes_max;
}

/* One of the numbers that an interest asks for: answered, or remembered. True: it is to be sent on. */
static bool look_for(struct work *w, struct dc_tree *tree, struct asking *a, uint32_t seq)
{
  struct dc_node *node = w->node;
  const struct dc_header *h = a->h;
  if ((h->flags & DC_FLAG_NOCACHE) != 0) {
    dc_node_unstore(node, tree, seq); /* it took part in a block that failed its checksum */
  } else {
    const struct dc_store_slot *hit = dc_store_find(&tree->store, seq);
    if (hit != NULL) {
      node->count.hits++;
      tree->count.hits++;
      send_data(w, dc_child_at(tree->children, a->child), ALONE, a->own.ret.local, hit->buf, hit->off, hit->len);
      return false;
    }
  }

  struct dc_waiting_entry *e = dc_waiting_find(&tree->waiting, seq);
  if (e != NULL) {
    dc_waiting_mark(e, a->child);
    e->store |= a->own.store;
    if (!send_again(w, tree, e, a, seq)) {
      tree->count.aggregated++;
      return false;
    }
    e->again = true;
    tree->count.retx_forwarded++;
  } else {
    dc_time life = REPEAT_PATIENCE * a->patience;
    if (dc_waiting_crowded(&tree->waiting))
      dc_node_widen(node, tree);
    e = dc_waiting_add(&tree->waiting, seq, w->now, life < WAITING_LIFE_MIN ? WAITING_LIFE_MIN : life);
    if (e == NULL) {
      drop(w, DC_DROP_WAITING);
      return false;
    }
    dc_waiting_mark(e, a->child);
    e->store = a->own.store;
    tree->count.misses++;
  }
  e->sent = w->now;
  e->order = ++tree->order;
  e->way = way_on(w, a) & 0x1fffu;
  e->up = a->from;
  e->nocache = (h->flags & DC_FLAG_NOCACHE) != 0;
  return true;
}

static enum dc_drop on_interest(struct work *w, uint32_t at, const struct dc_header *h)
{
  struct dc_node *node = w->node;

  /* The first stop is this node's own; the source's at least must follow. */
  struct asking a;
  a.h = h;
  if (h->length > DC_ROUTE_MAX || h->stops < 2 || h->stops > DC_STOPS_MAX)
    return DC_DROP_ROUTE;
  size_t taken = dc_stop_look(w->frame->data + at + DC_HEADER_LEN, h->length, &a.own);
  if (taken == 0 || h->length - taken < (size_t)DC_STOP_LEN * (h->stops - 1u) || a.own.fwd.local != (h->stops > 2))
    return DC_DROP_ROUTE;
  a.rest_off = at + DC_HEADER_LEN + (uint32_t)taken;
  a.rest_len = (uint16_t)(h->length - taken);

  uint16_t down, back = first_seen(&a.own.ret);
  a.from = first_seen(&a.own.fwd);
  enum dc_drop why = way_out(node, a.from, a.own.fwd.local, &a.up);
  if (why == DC_DROP_NONE)
    why = way_out(node, back, a.own.ret.local, &down);
  if (why != DC_DROP_NONE)
    return why;
  bool came_by = !node->cfg.lone_port && w->frame->port == a.from; /* an appliance is not told */
  if (a.from != DC_PORT_HOST && (came_by || a.from == back))
    return DC_DROP_UTURN; /* the way to the source never leads back over the link to the child */

  struct dc_tree *tree = dc_node_tree(node, w->now, h->tree, w->frame->port);
  if (tree == NULL)
    return DC_DROP_TREES;
  why = child_of(w, tree, h, &a.own.ret, &a.child);
  if (why != DC_DROP_NONE)
    return why;
  uint32_t capacity = capacity_asked(node, h);
  if (capacity != tree->store.capacity)
    dc_node_resize(node, tree, capacity);

  node->count.interests += h->more + 1u;
  tree->count.interests += h->more + 1u;
  a.patience = tree->response + tree->response / 2;
  if (a.patience < node->cfg.retx_min)
    a.patience = node->cfg.retx_min;
  a.way_made = false;

  uint32_t run = 0; /* numbers in a row that go on: one interest */
  for (uint32_t i = 0; i <= h->more; i++) {
    if (look_for(w, tree, &a, h->seq + i)) {
      run++;
    } else if (run > 0) {
      send_interest_on(w, tree, &a, h->seq + i - run, run - 1);
      run = 0;
    }
  }
  if (run > 0)
    send_interest_on(w, tree, &a, h->seq + h->more + 1u - run, run - 1);
  return DC_DROP_NONE;
}

/* ---- data ---- */

/* Nobody asked through this node. A host's own endpoints may have, past it: a switch that copied for several children put
 * LOCAL on it for the sake of the others. They take what they asked for only, with or without it. */
static enum dc_drop past_the_node(struct work *w, uint32_t at, const struct dc_header *h, enum dc_drop why)
{
  if (!w->node->cfg.endpoint || w->frame->port == DC_PORT_HOST)
    return why;
  struct dc_tx *tx = add_tx(w, w->frame->buf, at, DC_HEADER_LEN + h->length, DC_PORT_HOST);
  tx->from = w->frame->port;
  count_tx(w->node, tx, false, 0);
  return DC_DROP_NONE;
}

static enum dc_drop on_data(struct work *w, uint32_t at, const struct dc_header *h)
{
  struct dc_node *node = w->node;
  struct dc_tree *tree = dc_tree_find(&node->trees, h->tree);
  if (tree == NULL)
    return past_the_node(w, at, h, DC_DROP_UNKNOWN_TREE);
  /* What nobody asked for is not even stored: nothing can be planted in a cache. */
  struct dc_waiting_entry *e = dc_waiting_find(&tree->waiting, h->seq);
  if (e == NULL)
    return past_the_node(w, at, h, DC_DROP_UNWANTED);
  /* Nor is anything taken from a port that was not asked: whoever sees the interests of others cannot answer them. */
  if (!node->cfg.lone_port && w->frame->port != e->up)
    return DC_DROP_UNWANTED;

  dc_tree_touch(&node->trees, tree, w->now);
  dc_tree_prove(&node->trees, tree);
  node->count.data++;
  tree->count.data++;
  bool dup = (h->flags & DC_FLAG_DUP) != 0;
  if (dup) {
    tree->count.dup_data++; /* answered out of turn: says nothing of time or order */
  } else {
    if (!e->again)
      dc_tree_sample(tree, w->now - e->sent);
    if ((int32_t)(e->order - tree->answered) > 0)
      tree->answered = e->order;
  }

  for (unsigned word = 0; word < DC_WAITING_WORDS; word++)
    while (e->child[word] != 0) {
      unsigned child = word * 64 + (unsigned)__builtin_ctzll(e->child[word]);
      e->child[word] &= e->child[word] - 1;
      struct dc_child *to = dc_child_at(tree->children, child);
      const struct dc_segment *ret = &to->ret;
      if (e->up != DC_PORT_HOST && first_port(ret) == e->up) { /* asked before the way to the source was this one */
        drop(w, DC_DROP_UTURN);
        continue;
      }
      bool local = ret->local;
      uint32_t ports = take_together(node, tree->children, e, ret, &local);
      send_data(w, to, ports, local, w->frame->buf, at, h->length);
      do
        tree->count.replicated++;
      while ((ports &= ports - 1) != 0);
    }
  bool store = e->store && !dup;
  dc_waiting_remove(&tree->waiting, e);
  if (store)
    dc_node_store(node, tree, w->now, h->seq, w->frame->buf, at, h->length);
  return DC_DROP_NONE;
}

/* ---- frames ---- */

/* The frame is for this node's own processing; its Datacast header stands at `at`. */
static enum dc_drop on_waypoint(struct work *w, uint32_t at)
{
  struct dc_header h;
  enum dc_drop why = dc_header_parse(w->frame->data + at, w->frame->len - at, &h);
  if (why != DC_DROP_NONE)
    return why;
  switch (h.type) {
  case DC_TYPE_INTEREST:
    return on_interest(w, at, &h);
  case DC_TYPE_DATA:
    return on_data(w, at, &h);
  default:
    return DC_DROP_TYPE; /* a hello is between neighbours, never for a waypoint */
  }
}

static enum dc_drop on_endpoint(struct work *w, uint32_t at)
{
  if (!w->node->cfg.endpoint)
    return DC_DROP_NO_ENDPOINT;
  struct dc_header h;
  enum dc_drop why = dc_header_parse(w->frame->data + at, w->frame->len - at, &h);
  if (why != DC_DROP_NONE)
    return why;
  if (h.type == DC_TYPE_HELLO)
    return DC_DROP_TYPE; /* one that was routed here: a hello never leaves its link */
  struct dc_tx *tx = add_tx(w, w->frame->buf, at, DC_HEADER_LEN + h.length, DC_PORT_HOST);
  tx->from = w->frame->port;
  count_tx(w->node, tx, false, 0);
  return DC_DROP_NONE;
}

/* Pop and send on. The frame is not this node's: what lies under the stack is looked at for the counters only. */
static inline enum dc_drop send_on(dc_node *node, const struct dc_frame *f, uint16_t port, bool bottom,
                                   struct dc_tx *tx)
{
  static const uint8_t type[][2] = {{DC_ETHERTYPE_MPLS >> 8, DC_ETHERTYPE_MPLS & 0xff},
                                    {DC_ETHERTYPE_DATACAST >> 8, DC_ETHERTYPE_DATACAST & 0xff}};
  uint32_t rest = DC_ETHER_LEN + DC_LABEL_LEN, under = rest;
  if (port >= node->cfg.ports)
    return DC_DROP_PORT;
  if (!bottom && !dc_stack_end(f->data, f->len, &under))
    return DC_DROP_STACK;
  if (!bottom && !dc_is_segment_label(f->data + rest))
    return DC_DROP_LABEL; /* what the next node would take for something between neighbours is not passed on */
  if (f->port == port && !node->cfg.lone_port)
    return DC_DROP_UTURN; /* a stack cannot make a frame bounce over one link */

  uint32_t payload = 0;
  bool data = dc_is_data(f->data + under, f->len - under, &payload);
  tx->buf = f->buf;
  tx->off = rest;
  tx->len = f->len - rest;
  tx->port = port;
  tx->from = DC_PORT_HOST;
  tx->prefix_len = DC_ETHER_LEN;
  memcpy(tx->prefix, node->port[port].addresses, sizeof node->port[port].addresses);
  memcpy(tx->prefix + DC_ETHER_LEN - 2, type[bottom], sizeof type[0]); /* in one piece, as it is read soon */
  count_tx(node, tx, data, payload);
  node->count.forwarded++;
  return DC_DROP_NONE;
}

/* What is to be done with a frame: refused, handled here with its Datacast header at `at`, or sent on by `port`. */
struct task {
  enum { REFUSED, AT_WAYPOINT, AT_ENDPOINT, ON } what;
  enum dc_drop why;
  uint32_t at;
  uint16_t port;
  bool bottom;
};

static struct task refused(enum dc_drop why) { return (struct task){.what = REFUSED, .why = why}; }

static struct task task_of(dc_node *node, const struct dc_frame *f)
{
  if (f->port == DC_PORT_HOST)
    return (struct task){.what = AT_WAYPOINT};
  if (f->port >= node->cfg.ports)
    return refused(DC_DROP_PORT);
  struct dc_port_counters *c = &node->port[f->port].count;
  c->rx_frames++;
  c->rx_bytes += f->len;

  if (f->len < DC_ETHER_LEN)
    return refused(DC_DROP_TRUNCATED);
  uint16_t ethertype = dc_frame_ethertype(f);
  if (ethertype == DC_ETHERTYPE_DATACAST) /* an appliance's switch took LOCAL off already */
    return (struct task){.what = node->cfg.lone_port ? AT_WAYPOINT : AT_ENDPOINT, .at = DC_ETHER_LEN};
  if (ethertype != DC_ETHERTYPE_MPLS)
    return refused(DC_DROP_ETHERTYPE);
  if (f->len < DC_ETHER_LEN + DC_LABEL_LEN)
    return refused(DC_DROP_TRUNCATED);

  bool bottom;
  uint32_t label = dc_label_read(f->data + DC_ETHER_LEN, &bottom);
  if (label == DC_LABEL_LOCAL)
    return bottom ? (struct task){.what = AT_WAYPOINT, .at = DC_ETHER_LEN + DC_LABEL_LEN} : refused(DC_DROP_STACK);
  if (label < DC_LABEL_ADJ || label > DC_LABEL_ADJ + DC_PORT_MAX)
    return refused(DC_DROP_LABEL);
  return (struct task){.what = ON, .port = (uint16_t)(label - DC_LABEL_ADJ), .bottom = bottom};
}

/* Apart from what only passes, which does without all of this. */
static __attribute__((noinline)) unsigned handle_here(dc_node *node, dc_time now, const struct dc_frame *frame,
                                                      struct dc_tx *out, struct task t)
{
  struct work w = {.node = node, .now = now, .frame = frame, .out = out};
  if (t.what == AT_WAYPOINT)
    t.why = on_waypoint(&w, t.at);
  else if (t.what == AT_ENDPOINT)
    t.why = on_endpoint(&w, t.at);
  if (t.why != DC_DROP_NONE)
    drop(&w, t.why);
  if (!w.handed_on)
    node->ops.unref(frame->buf);
  return w.n;
}

/* There is room for DC_NODE_TX_MAX frames. */
static inline unsigned handle(dc_node *node, dc_time now, const struct dc_frame *frame, struct dc_tx *out)
{
  struct task t = task_of(node, frame);
  if (t.what == ON && (t.why = send_on(node, frame, t.port, t.bottom, out)) == DC_DROP_NONE)
    return 1;
  return handle_here(node, now, frame, out, t);
}

unsigned dc_node_handle_each(dc_node *node, dc_time now, const struct dc_frame *frame, unsigned n, struct dc_tx *out,
                             unsigned cap, unsigned *sent)
{
  unsigned done = 0, to = 0;
  for (; done < n && cap - to >= DC_NODE_TX_MAX; done++)
    to += handle(node, now, &frame[done], out + to);
  *sent = to;
  return done;
}

unsigned dc_node_handle(dc_node *node, dc_time now, const struct dc_frame *frame, struct dc_tx *out, unsigned cap)
{
  unsigned sent;
  if (dc_node_handle_each(node, now, frame, 1, out, cap, &sent) == 0) {
    node->count.drop[DC_DROP_QUEUE]++;
    node->ops.unref(frame->buf);
  }
  return sent;
}
