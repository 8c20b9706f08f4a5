#include "datapath/netport.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "datapath/engine.h"
#include "datapath/tunnel.h"

/* When the queueing discipline is full: about a 9,000-byte frame at 100 Mbit/s. */
#define RETRY_AFTER (500 * DC_US)

static struct netport *of(struct port *p) { return (struct netport *)(void *)p; }

/* The frames that leave next and stand side by side, from number `from` of all on; *n of them. */
static struct dc_tx *next(struct netport *p, uint32_t from, uint32_t *n)
{
  uint32_t place = 0;
  *n = backlog_run(&p->backlog, from, &place);
  return &p->queue[place];
}

/* ---- in ---- */

/* Frames that wait are found by the packet hook of the round. */
static void ready(struct watch *w, uint32_t events)
{
  struct netport *p = (struct netport *)(void *)((char *)w - offsetof(struct netport, watch));
  if (p->nif->ops->ready != NULL)
    p->nif->ops->ready(p->nif);
  if (events & EPOLLERR)
    netif_failed(p->nif);
}

struct arrival {
  struct engine *engine;
  struct port *port;
  dc_time now;
};

static void on_frames(void *arg, struct dc_frame *frame, unsigned n)
{
  struct arrival *a = arg;
  for (unsigned i = 0; i < n; i++)
    frame[i].port = a->port->number;
  engine_frames(a->engine, a->port, frame, n, a->now);
}

static unsigned rx(struct port *port, struct engine *e, dc_time now, bool *more)
{
  struct netif *n = of(port)->nif;
  struct arrival a = {.engine = e, .port = port, .now = now};
  unsigned got = n->ops->rx(n, on_frames, &a, RX_BUDGET);
  *more |= got >= RX_BUDGET;
  if (n->tells_carrier)
    engine_set_carrier(e, port, n->up);
  return got;
}

/* ---- out ---- */

/* All but the first n frames go. */
static void drop_after(struct netport *p, uint32_t n)
{
  uint32_t run;
  for (uint32_t i = n; i < backlog_n(&p->backlog); i += run) {
    const struct dc_tx *tx = next(p, i, &run);
    for (uint32_t k = 0; k < run; k++)
      buf_unref(tx[k].buf);
  }
  backlog_cut(&p->backlog, n);
}

static void drop_first(struct netport *p, uint32_t n)
{
  uint32_t run;
  const struct dc_tx *tx = next(p, 0, &run);
  for (uint32_t i = 0; i < n; i++)
    buf_unref(tx[i].buf);
  backlog_sent(&p->backlog, n);
}

/* What stays longer than this round must not hold the receive ring's slots. False: there is no room to keep it in. */
static bool keep_one(struct netport *p, struct dc_tx *tx)
{
  if (tx->buf == NULL || tx->buf->pool != NULL || tx->buf->stays)
    return true;
  struct dc_buf *copy = bufpool_get(p->pool, tx->len);
  if (copy == NULL)
    return false;
  memcpy(copy->data, tx->buf->data + tx->off, tx->len);
  buf_unref(tx->buf);
  tx->buf = copy;
  tx->off = 0;
  return true;
}

static void keep(struct netport *p)
{
  uint32_t all = backlog_n(&p->backlog), run;
  for (uint32_t i = 0; i < all; i += run) {
    struct dc_tx *tx = next(p, i, &run);
    for (uint32_t k = 0; k < run; k++)
      if (!keep_one(p,
                    &tx[k])) { /* the pool is at its bound: an empty entry cannot stay in a queue, so the rest goes */
        p->extra.no_buffer += all - i - k;
        drop_after(p, i + k);
        return;
      }
  }
}

static void flush(struct port *port, dc_time now)
{
  struct netport *p = of(port);
  while (!backlog_empty(&p->backlog) && !p->blocked) {
    uint32_t run;
    const struct dc_tx *tx = next(p, 0, &run);
    p->extra.calls++;
    int sent = p->nif->ops->send(p->nif, tx, run);
    if (sent == -ENOBUFS && p->backlog.first.n == 0) { /* a full queue is a loss for all who send there alike */
      p->extra.queue_full++;
      drop_first(p, 1);
    } else if (sent == -EAGAIN || sent == -ENOBUFS || sent == -ENOMEM) {
      p->extra.retries++;
      if (sent == -ENOBUFS && backlog_refused(&p->backlog)) {
        p->extra.errors++;
        drop_first(p, 1);
        continue;
      }
      p->blocked = true;
      loop_timer(p->loop, &p->retry, now + RETRY_AFTER);
    } else if (sent == -EINTR) {
      continue;
    } else if (sent < 0) {
      p->extra.errors++;
      drop_first(p, 1);
    } else {
      drop_first(p, (uint32_t)sent);
    }
  }
  keep(p);
}

static void retry(struct timer *t, dc_time now)
{
  struct netport *p = (struct netport *)(void *)((char *)t - offsetof(struct netport, retry));
  p->blocked = false;
  flush(&p->base, now);
}

static bool fits(struct netport *p, const struct dc_tx *tx)
{
  if ((uint64_t)tx->prefix_len + tx->len <= (uint64_t)p->nif->mtu + DC_ETHER_LEN)
    return true;
  p->extra.oversized++;
  buf_unref(tx->buf);
  return false;
}

static void put(struct dc_tx *to, const struct dc_tx *tx)
{
  memcpy(to, tx, offsetof(struct dc_tx, prefix) + tx->prefix_len);
}

static void push_one(struct netport *p, const struct dc_tx *tx, dc_time now)
{
  if (!fits(p, tx))
    return;
  bool first = tx_goes_first(tx);
  int place = backlog_put(&p->backlog, first);
  if (place < 0 && !p->blocked) {
    flush(&p->base, now);
    place = backlog_put(&p->backlog, first);
  }
  if (place < 0) {
    p->extra.queue_full++;
    buf_unref(tx->buf);
    return;
  }
  put(&p->queue[place], tx);
}

static void push(struct port *port, const struct dc_tx *tx, unsigned n, dc_time now)
{
  for (unsigned i = 0; i < n; i++)
    push_one(of(port), &tx[i], now);
}

/* Before all that waits: a link that is full is not down. */
static void hello(struct port *port, struct dc_tx *tx, unsigned zeros, dc_time now)
{
  struct netport *p = of(port);
  (void)now;
  if (zeros > 0) {
    if ((tx->buf = bufpool_get(p->pool, zeros)) == NULL) {
      p->extra.no_buffer++;
      return;
    }
    memset(tx->buf->data, 0, zeros);
    tx->len = zeros;
  }
  if (!fits(p, tx))
    return;
  bool taken;
  struct dc_tx *place = &p->queue[backlog_put_ahead(&p->backlog, &taken)];
  if (taken) {
    buf_unref(place->buf);
    p->extra.queue_full++;
  }
  put(place, tx);
}

static struct netif *way(struct port *p) { return of(p)->nif; }

static const struct port_ops netport_ops = {.rx = rx, .push = push, .flush = flush, .hello = hello, .way = way};

/* ---- open, close ---- */

static bool lead_by(struct netport *p, struct netif *nif)
{
  p->nif = nif;
  p->base.name = nif->name;
  p->base.mtu = p->base.link.hello.cfg.mtu = nif->mtu;
  p->base.ifindex = nif->ifindex;
  memcpy(p->base.mac, nif->mac, sizeof nif->mac);
  p->watch = (struct watch){.fd = nif->fd, .ready = ready};
  return nif->fd < 0 || loop_watch_packets(p->loop, &p->watch, EPOLLIN) == 0;
}

bool netport_open(struct netport *p, uint16_t number, struct netif *nif, struct loop *loop, struct bufpool *pool,
                  const uint8_t neighbour[6])
{
  memset(p, 0, offsetof(struct netport, queue));
  p->base.ops = &netport_ops;
  p->base.number = number;
  memcpy(p->base.neighbour, neighbour, 6);
  p->loop = loop;
  p->pool = pool;
  p->backlog.most = PORT_QUEUE;
  p->retry = (struct timer){.fire = retry, .at = DC_NEVER};
  return lead_by(p, nif);
}

static void stop(struct netport *p)
{
  loop_timer(p->loop, &p->retry, DC_NEVER);
  p->blocked = false;
  drop_after(p, 0);
  loop_unwatch(p->loop, &p->watch);
}

void netport_close(struct netport *p)
{
  stop(p);
  struct netif *slot = tunnel_slot(p->nif);
  p->nif->ops->close(p->nif);
  if (slot != NULL)
    slot->ops->close(slot);
}

bool netport_replace(struct netport *p, struct netif *nif)
{
  stop(p);
  if (tunnel_slot(nif) != p->nif)
    p->nif->ops->close(p->nif);
  return lead_by(p, nif);
}
