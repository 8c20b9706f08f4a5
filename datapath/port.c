#include "datapath/port.h"
#include "datapath/tunnel.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* When the queueing discipline is full: about a 9,000-byte frame at 100 Mbit/s. */
#define RETRY_AFTER (500 * DC_US)

_Static_assert((PORT_QUEUE & (PORT_QUEUE - 1)) == 0, "the queue's length is a mask");

static struct dc_tx *at(struct port *p, uint32_t i) { return &p->queue[(p->head + i) & (PORT_QUEUE - 1)]; }

static void retry(struct timer *t, dc_time now)
{
  struct port *p = (struct port *)(void *)((char *)t - offsetof(struct port, retry));
  p->blocked = false;
  port_flush(p, now);
}

/* Frames that wait are found by the packet hook of the round; only errors are for here. */
static void ready(struct watch *w, uint32_t events)
{
  struct port *p = (struct port *)(void *)((char *)w - offsetof(struct port, watch));
  if ((events & EPOLLERR) == 0)
    return;
  int error = 0;
  socklen_t len = sizeof error;
  (void)getsockopt(p->nif->fd, SOL_SOCKET, SO_ERROR, &error, &len); /* reading it clears it */
  log_debug("port %u (%s): %s", p->number, p->nif->name, strerror(error));
}

void port_init(struct port *p, uint16_t number, struct netif *nif, struct loop *loop, struct bufpool *pool)
{
  memset(p, 0, offsetof(struct port, queue));
  p->nif = nif;
  p->number = number;
  p->loop = loop;
  p->pool = pool;
  p->watch = (struct watch){.fd = nif->fd, .ready = ready};
  p->retry = (struct timer){.fire = retry, .at = DC_NEVER};
  memset(p->neighbour, 0xff, sizeof p->neighbour);
}

static void drop_first(struct port *p)
{
  buf_unref(at(p, 0)->buf);
  p->head = (p->head + 1) & (PORT_QUEUE - 1);
  p->n--;
}

void port_close(struct port *p)
{
  loop_timer(p->loop, &p->retry, DC_NEVER);
  while (p->n > 0)
    drop_first(p);
  loop_unwatch(p->loop, &p->watch);
  struct netif *slot = tunnel_slot(p->nif);
  p->nif->ops->close(p->nif);
  if (slot != NULL)
    slot->ops->close(slot);
}

void port_replace(struct port *p, struct netif *nif)
{
  loop_timer(p->loop, &p->retry, DC_NEVER);
  p->blocked = false;
  while (p->n > 0)
    drop_first(p);
  loop_unwatch(p->loop, &p->watch);
  if (tunnel_slot(nif) != p->nif)
    p->nif->ops->close(p->nif);
  p->nif = nif;
  p->watch = (struct watch){.fd = nif->fd, .ready = ready};
}

void port_push(struct port *p, const struct dc_tx *tx)
{
  if ((uint64_t)tx->prefix_len + tx->len > (uint64_t)p->nif->mtu + DC_ETHER_LEN) {
    p->extra.oversized++;
    buf_unref(tx->buf);
    return;
  }
  if (p->n == PORT_QUEUE && !p->blocked)
    port_flush(p, p->loop->now);
  if (p->n == PORT_QUEUE) {
    p->extra.queue_full++;
    buf_unref(tx->buf);
    return;
  }
  struct dc_tx *to = at(p, p->n++);
  memcpy(to, tx, offsetof(struct dc_tx, prefix) + tx->prefix_len);
}

/* What stays longer than this round must not hold the receive ring's slots. */
static void keep(struct port *p)
{
  for (uint32_t i = 0; i < p->n; i++) {
    struct dc_tx *tx = at(p, i);
    if (tx->buf == NULL || tx->buf->pool != NULL)
      continue;
    struct dc_buf *copy = bufpool_get(p->pool, tx->len);
    if (copy == NULL) { /* the pool is at its bound: an empty entry cannot stay in a queue, so the rest goes */
      p->extra.no_buffer += p->n - i;
      while (p->n > i) {
        buf_unref(at(p, p->n - 1)->buf);
        p->n--;
      }
      return;
    }
    memcpy(copy->data, tx->buf->data + tx->off, tx->len);
    buf_unref(tx->buf);
    tx->buf = copy;
    tx->off = 0;
  }
}

void port_flush(struct port *p, dc_time now)
{
  while (p->n > 0 && !p->blocked) {
    uint32_t run = PORT_QUEUE - p->head < p->n ? PORT_QUEUE - p->head : p->n;
    p->extra.calls++;
    int sent = p->nif->ops->send(p->nif, &p->queue[p->head], run);
    if (sent == -EAGAIN || sent == -ENOBUFS || sent == -ENOMEM) {
      p->extra.retries++;
      p->blocked = true;
      loop_timer(p->loop, &p->retry, now + RETRY_AFTER);
    } else if (sent == -EINTR) {
      continue;
    } else if (sent < 0) {
      p->extra.errors++;
      drop_first(p);
    } else {
      for (int i = 0; i < sent; i++)
        drop_first(p);
    }
  }
  keep(p);
}
