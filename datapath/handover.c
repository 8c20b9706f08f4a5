#include "datapath/handover.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void give_back(struct dc_buf *b)
{
  __atomic_store_n(&((struct handed *)(void *)b)->full, false, __ATOMIC_RELEASE);
}

bool handover_give(struct handover *h, uint16_t port, const struct dc_frame *frame)
{
  struct handed *s = &h->slot[h->given.at % HANDOVER_FRAMES];
  if (frame->len > h->longest || __atomic_load_n(&s->full, __ATOMIC_ACQUIRE))
    return false;
  frame_copy(s->buf.data, frame);
  s->len = frame->len;
  s->port = port;
  h->given.at++;
  h->given.silent = true;
  __atomic_store_n(&s->full, true, __ATOMIC_RELEASE);
  return true;
}

void handover_ring(struct handover *h)
{
  uint64_t one = 1;
  if (!h->given.silent)
    return;
  h->given.silent = false;
  if (__atomic_exchange_n(&h->rung, true, __ATOMIC_ACQ_REL)) /* the taker sees these frames, or the bell of before */
    return;
  if (write(h->bell.fd, &one, sizeof one) < 0)
    abort(); /* an eventfd that cannot count to one: our own bug */
}

unsigned handover_take(struct handover *h, struct dc_frame *frame, unsigned most)
{
  unsigned n = 0;
  while (n < most) {
    struct handed *s = &h->slot[h->taken.at % HANDOVER_FRAMES];
    if (s->buf.refs > 0 || !__atomic_load_n(&s->full, __ATOMIC_ACQUIRE)) /* once round, and this one is lent still */
      break;
    s->buf.refs = 1;
    frame[n++] = (struct dc_frame){.buf = &s->buf, .data = s->buf.data, .len = s->len, .port = s->port};
    h->taken.at++;
  }
  return n;
}

/* The round that follows takes the frames. */
static void heard(struct watch *w, uint32_t events)
{
  struct handover *h = (struct handover *)(void *)w;
  uint64_t times;
  (void)events;
  if (read(w->fd, &times, sizeof times) == sizeof times)
    (void)__atomic_exchange_n(&h->rung, false, __ATOMIC_ACQ_REL);
}

int handover_open(struct handover *h, struct loop *taker, uint32_t longest)
{
  memset(h, 0, sizeof *h);
  h->longest = longest;
  uint32_t each = (longest + 63) / 64 * 64;
  h->bytes = malloc((size_t)HANDOVER_FRAMES * each); /* the system gives what is used */
  h->bell = (struct watch){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = heard};
  int rc = h->bytes == NULL ? -ENOMEM : h->bell.fd < 0 ? -errno : loop_watch_packets(taker, &h->bell, EPOLLIN);
  if (rc == 0)
    h->loop = taker;
  for (uint32_t i = 0; rc == 0 && i < HANDOVER_FRAMES; i++)
    h->slot[i].buf = (struct dc_buf){.data = h->bytes + (size_t)i * each, .cap = each, .give_back = give_back};
  if (rc < 0)
    handover_close(h);
  return rc;
}

void handover_close(struct handover *h)
{
  if (h->loop != NULL)
    loop_unwatch(h->loop, &h->bell);
  if (h->bell.fd >= 0)
    close(h->bell.fd);
  free(h->bytes);
  h->bytes = NULL;
  h->loop = NULL;
  h->bell.fd = -1;
}
