#include "datapath/engine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "datacast/bytes.h"
#include "datapath/netif.h"

#define BUSY_EVERY (20 * DC_MS)

/* ---- nodes ---- */

bool engine_node_open(struct engine_node *n, const struct dc_node_cfg *cfg, const struct dc_buf_ops *buf,
                      struct fault *why)
{
  const char *what;
  if (dc_node_cfg_check(cfg, &what) != 0)
    return fault_set(why, "bad_request", "the node's %s is out of range", what);
  n->memory_size = dc_node_size(cfg);
  n->memory = mmap(NULL, n->memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (n->memory == MAP_FAILED) {
    n->memory = NULL;
    return fault_set(why, "io", "no memory for the tables of %u trees (%zu MB)", cfg->trees, n->memory_size >> 20);
  }
  (void)madvise(n->memory, dc_node_dense(cfg), MADV_HUGEPAGE); /* many trees are in no cache, nor are their pages */
  n->core = dc_node_init(n->memory, cfg, buf);
  return true;
}

void engine_node_close(struct engine_node *n)
{
  if (n->core != NULL)
    dc_node_clear(n->core);
  if (n->memory != NULL)
    munmap(n->memory, n->memory_size);
  n->core = NULL;
  n->memory = NULL;
}

/* ---- the path of a frame ---- */

/* Frames for one port, or for this host. */
static void hand_on(struct engine *e, struct engine_node *n, const struct dc_tx *tx, unsigned frames, dc_time now)
{
  struct port *to = tx->port < DC_NODE_PORTS_MAX ? n->port[tx->port] : NULL;
  if (to != NULL) {
    to->ops->push(to, tx, frames, now);
    return;
  }
  for (unsigned i = 0; i < frames; i++) {
    if (tx->port == DC_PORT_HOST && e->hooks.to_host != NULL)
      e->hooks.to_host(e->arg, &tx[i], now);
    else
      n->no_device++;
    if (tx[i].buf != NULL)
      e->buf->unref(tx[i].buf);
  }
}

static void through(struct engine *e, struct engine_node *n, const struct dc_frame *frame, unsigned frames, dc_time now)
{
  for (unsigned done = 0; done < frames;) {
    unsigned sent;
    done += dc_node_handle_burst(n->core, now, frame + done, frames - done, e->out, ENGINE_OUT, &sent);
    for (unsigned i = 0, end; i < sent; i = end) {
      for (end = i + 1; end < sent && e->out[end].port == e->out[i].port;)
        end++;
      hand_on(e, n, &e->out[i], end - i, now);
    }
  }
}

static unsigned type_of(const struct dc_frame *f) { return f->len < DC_ETHER_LEN ? 0 : dc_frame_ethertype(f); }

/* Hellos are taken out. Returns how many frames are left. */
static unsigned take_hellos(struct engine *e, struct port *p, struct dc_frame *frame, unsigned n, dc_time now)
{
  unsigned kept = 0;
  bool traffic = false;
  for (unsigned i = 0; i < n; i++) {
    unsigned type = type_of(&frame[i]);
    traffic |= type == DC_ETHERTYPE_DATACAST || type == DC_ETHERTYPE_MPLS;
    if (type == DC_ETHERTYPE_HELLO &&
        linkstate_hello(&p->link, now, frame[i].data + DC_ETHER_LEN, frame[i].len - DC_ETHER_LEN)) {
      e->hello_at = 0; /* it may want an answer */
      e->buf->unref(frame[i].buf);
      continue;
    }
    if (kept < i)
      frame[kept] = frame[i];
    kept++;
  }
  if (kept > 0)
    linkstate_heard(&p->link, now);
  e->traffic |= traffic;
  return kept;
}

void engine_frames(struct engine *e, struct port *p, struct dc_frame *frame, unsigned n, dc_time now)
{
  if (e->hooks.steer != NULL)
    n = e->hooks.steer(e->arg, p, frame, n, now);
  if (!e->no_links)
    n = take_hellos(e, p, frame, n, now);
  if (e->hooks.admit != NULL)
    n = e->hooks.admit(e->arg, p, frame, n, now);
  through(e, p->node, frame, n, now);
}

void engine_heard(struct engine *e, struct port *p, dc_time last)
{
  dc_hello_heard(&p->link.hello, last);
  e->traffic = true;
}

void engine_from_host(struct engine *e, struct engine_node *n, const struct dc_frame *frame, dc_time now)
{
  through(e, n, frame, 1, now);
}

unsigned engine_receive(struct engine *e, struct port *p, dc_time now, bool *more)
{
  return p->ops->rx(p, e, now, more);
}

void engine_flush(struct engine *e, dc_time now)
{
  for (unsigned i = 0; i < e->ports; i++)
    e->port[i]->ops->flush(e->port[i], now);
}

/* ---- links ---- */

static void settle(struct engine *e, struct port *p)
{
  if (!linkstate_settle(&p->link))
    return;
  if (p->link.up)
    log_info("node %s port %u (%s) is up", p->node->name, p->number, p->name);
  else
    log_warn("node %s port %u (%s) is down: %s", p->node->name, p->number, p->name, linkstate_reason(&p->link));
  if (e->link_changed != NULL)
    e->link_changed(e->link_arg, p);
}

/* Look at all links in the next engine_hello, and wake up for it. */
static void hello_soon(struct engine *e)
{
  e->hello_at = 0;
  loop_timer(e->loop, &e->hello, e->loop->now);
}

void engine_leave(struct engine *e, dc_time away)
{
  for (unsigned i = 0; i < e->ports; i++)
    linkstate_leave(&e->port[i]->link, e->loop->now, away);
  hello_soon(e);
}

void engine_set_carrier(struct engine *e, struct port *p, bool carrier)
{
  if (p->link.carrier == carrier)
    return;
  if (carrier && p->ops->carrier != NULL)
    p->ops->carrier(p);
  linkstate_carrier(&p->link, e->loop->now, carrier);
  hello_soon(e);
  settle(e, p);
}

/* An interface whose driver was loaded again, or that was made again, is another one to the kernel. */
static bool look_again(struct port *p)
{
  struct netif *n = p->ops->way == NULL ? NULL : p->ops->way(p);
  if (n == NULL || n->ops->again == NULL || !n->ops->again(n, p->mtu))
    return false;
  p->gone = false;
  p->ifindex = n->ifindex;
  memcpy(p->mac, n->mac, sizeof p->mac);
  if (p->node->core != NULL)
    dc_node_set_port(p->node->core, p->number, p->mac, p->neighbour);
  log_info("interface %s is there again", p->name);
  return true;
}

void engine_carrier(void *arg, int ifindex, bool carrier, bool gone)
{
  struct engine *e = arg;
  for (unsigned i = 0; i < e->ports; i++) {
    struct port *p = e->port[i];
    if (p->gone && (gone || !look_again(p)))
      continue;
    if (p->ifindex == 0 || p->ifindex != ifindex)
      continue;
    if (gone)
      log_warn("interface %s is gone", p->name);
    p->gone = gone;
    engine_set_carrier(e, p, carrier);
  }
}

static void say_hello(struct engine *e, struct port *p, dc_time now)
{
  struct dc_tx tx = {.buf = NULL, .port = p->number, .prefix_len = LINK_HELLO_BYTES};
  unsigned bytes = linkstate_poll(&p->link, now, p->neighbour, p->mac, tx.prefix);
  if (bytes > 0) {
    p->ops->hello(p, &tx, bytes - LINK_HELLO_BYTES, now);
    p->ops->flush(p, now);
  }
  settle(e, p);
}

void engine_hello(struct engine *e, dc_time now)
{
  if (e->traffic && now >= e->busy_at) {
    for (unsigned i = 0; i < e->ports; i++) {
      linkstate_busy(&e->port[i]->link, now);
      if (linkstate_next_wake(&e->port[i]->link) <= now)
        e->hello_at = 0;
    }
    e->traffic = false;
    e->busy_at = now + BUSY_EVERY;
  }
  if (now < e->hello_at)
    return;
  e->hello_at = DC_NEVER;
  for (unsigned i = 0; i < e->ports; i++) {
    say_hello(e, e->port[i], now);
    dc_time at = linkstate_next_wake(&e->port[i]->link);
    if (at < e->hello_at)
      e->hello_at = at;
  }
  loop_timer(e->loop, &e->hello, e->hello_at);
}

/* ---- set-up ---- */

static void hello_due(struct timer *t, dc_time now)
{
  (void)t; /* the round that follows sees what arrived first */
  (void)now;
}

bool engine_open(struct engine *e, struct loop *loop, const struct dc_buf_ops *buf, unsigned ports,
                 const struct engine_hooks *hooks, void *arg, struct fault *why)
{
  memset(e, 0, offsetof(struct engine, out));
  e->loop = loop;
  e->buf = buf;
  e->hooks = *hooks;
  e->arg = arg;
  e->hello = (struct timer){.fire = hello_due, .at = DC_NEVER};
  e->room = ports;
  e->port = calloc(ports > 0 ? ports : 1, sizeof(struct port *));
  return e->port != NULL || fault_set(why, "io", "out of memory");
}

void engine_attach(struct engine *e, struct engine_node *n, struct port *p, bool hellos, bool carrier)
{
  uint32_t instance = 0;
  if (getrandom(&instance, sizeof instance, 0) != sizeof instance)
    instance = (uint32_t)loop_realtime_ns();
  p->node = n;
  linkstate_init(&p->link, e->loop->now, instance, hellos, carrier, p->mtu);
  n->port[p->number] = p;
  if (e->ports < e->room)
    e->port[e->ports++] = p;
  if (n->core != NULL)
    dc_node_set_port(n->core, p->number, p->mac, p->neighbour);
  hello_soon(e);
}

bool engine_watch_carrier(struct engine *e, struct fault *why)
{
  return carrier_open(&e->carrier, e->loop, engine_carrier, e, why);
}

void engine_close(struct engine *e)
{
  if (e->loop == NULL)
    return;
  if (e->carrier.loop != NULL)
    carrier_close(&e->carrier);
  loop_timer(e->loop, &e->hello, DC_NEVER);
  free(e->port);
  e->port = NULL;
  e->ports = 0;
}
