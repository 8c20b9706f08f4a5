#include "datapath/post.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

bool post_send(struct post *p, const struct post_message *m, uint32_t spare)
{
  uint32_t at = __atomic_load_n(&p->written.at, __ATOMIC_RELAXED);
  if (at - __atomic_load_n(&p->read.at, __ATOMIC_ACQUIRE) + spare >= POST_MESSAGES)
    return false;
  p->ring[at % POST_MESSAGES] = *m;
  __atomic_store_n(&p->written.at, at + 1, __ATOMIC_RELEASE);
  if (__atomic_exchange_n(&p->rung, 1, __ATOMIC_ACQ_REL) == 0) { /* the reader sees this message, or another bell */
    uint64_t one = 1;
    if (write(p->bell.fd, &one, sizeof one) < 0)
      abort(); /* an eventfd that cannot count to one: our own bug */
  }
  return true;
}

void post_read(struct post *p)
{
  uint32_t end =
      __atomic_load_n(&p->written.at, __ATOMIC_ACQUIRE); /* what its messages bring about is for the next time */
  while (p->read.at != end) {
    struct post_message m = p->ring[p->read.at % POST_MESSAGES];
    __atomic_store_n(&p->read.at, p->read.at + 1, __ATOMIC_RELEASE);
    m.run(m.to, m.n, m.with);
  }
}

static void ring(struct watch *w, uint32_t events)
{
  struct post *p = (struct post *)w;
  uint64_t times;
  (void)events;
  if (read(w->fd, &times, sizeof times) < 0)
    return;
  (void)__atomic_exchange_n(&p->rung, 0, __ATOMIC_ACQ_REL);
  post_read(p);
}

int post_open(struct post *p, struct loop *reader)
{
  p->loop = reader;
  p->rung = 0;
  p->written.at = p->read.at = 0;
  p->bell = (struct watch){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = ring};
  return p->bell.fd < 0 ? -errno : loop_watch(reader, &p->bell, EPOLLIN);
}

void post_close(struct post *p)
{
  if (p->loop == NULL)
    return;
  loop_unwatch(p->loop, &p->bell);
  close(p->bell.fd);
  p->loop = NULL;
}
