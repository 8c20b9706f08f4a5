#include "datapath/post.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static bool put(struct post *p, const struct post_message *m, uint32_t spare)
{
  uint32_t at = __atomic_load_n(&p->written.at, __ATOMIC_RELAXED);
  if (at - __atomic_load_n(&p->read.at, __ATOMIC_ACQUIRE) + spare >= POST_MESSAGES)
    return false;
  p->ring[at % POST_MESSAGES] = *m;
  __atomic_store_n(&p->written.at, at + 1, __ATOMIC_RELEASE);
  return true;
}

static void ring(const struct watch *bell)
{
  uint64_t one = 1;
  if (write(bell->fd, &one, sizeof one) < 0)
    abort(); /* an eventfd that cannot count to one: our own bug */
}

bool post_send(struct post *p, const struct post_message *m, uint32_t spare)
{
  if (!put(p, m, spare))
    return false;
  if (__atomic_exchange_n(&p->rung, 1, __ATOMIC_ACQ_REL) == 0) /* the reader sees this message, or another bell */
    ring(&p->bell);
  return true;
}

bool post_send_urgent(struct post *p, const struct post_message *m)
{
  if (!put(p, m, 0))
    return false;
  ring(&p->urgent);
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

static void heard(struct watch *w, uint32_t events)
{
  struct post *p = (struct post *)(void *)((char *)w - offsetof(struct post, bell));
  uint64_t times;
  (void)events;
  if (read(w->fd, &times, sizeof times) < 0)
    return;
  (void)__atomic_exchange_n(&p->rung, 0, __ATOMIC_ACQ_REL);
  post_read(p);
}

static void heard_urgent(struct watch *w, uint32_t events)
{
  uint64_t times;
  (void)events;
  if (read(w->fd, &times, sizeof times) == sizeof times)
    post_read((struct post *)(void *)((char *)w - offsetof(struct post, urgent)));
}

int post_open(struct post *p, struct loop *reader)
{
  p->loop = reader;
  p->rung = 0;
  p->written.at = p->read.at = 0;
  p->bell = (struct watch){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = heard};
  p->urgent = (struct watch){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = heard_urgent};
  if (p->bell.fd < 0 || p->urgent.fd < 0)
    return -errno;
  int rc = loop_watch_packets(reader, &p->bell, EPOLLIN);
  return rc < 0 ? rc : loop_watch(reader, &p->urgent, EPOLLIN);
}

void post_close(struct post *p)
{
  if (p->loop == NULL)
    return;
  loop_unwatch(p->loop, &p->bell);
  loop_unwatch(p->loop, &p->urgent);
  if (p->bell.fd >= 0)
    close(p->bell.fd);
  if (p->urgent.fd >= 0)
    close(p->urgent.fd);
  p->loop = NULL;
}
