#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { READ_BYTES = 256 << 10, NICE = 5 };

struct file *file_new(int fd)
{
  struct file *f = malloc(sizeof *f);
  if (f == NULL) {
    close(fd);
    return NULL;
  }
  *f = (struct file){.fd = fd, .refs = 1};
  return f;
}

struct file *file_ref(struct file *f)
{
  __atomic_add_fetch(&f->refs, 1, __ATOMIC_RELAXED);
  return f;
}

void file_unref(struct file *f)
{
  if (f == NULL || __atomic_sub_fetch(&f->refs, 1, __ATOMIC_ACQ_REL) > 0)
    return;
  close(f->fd);
  free(f);
}

struct job *job_new(enum job_kind kind)
{
  struct job *j = calloc(1, sizeof *j);
  if (j != NULL) {
    j->kind = kind;
    j->dir = -1;
  }
  return j;
}

static void job_free(struct job *j)
{
  file_unref(j->file);
  if (j->dir >= 0)
    close(j->dir);
  free(j);
}

/* ---- in the thread ---- */

static int hash(struct worker *w, struct job *j, EVP_MD_CTX *ctx, uint8_t *buffer)
{
  if (EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1)
    return ENOMEM;
  uint64_t at = j->off, end = j->off + j->len;
  while (at < end) {
    if (__atomic_load_n(&w->stopping, __ATOMIC_RELAXED))
      return EINTR;
    size_t n = end - at < READ_BYTES ? (size_t)(end - at) : READ_BYTES;
    ssize_t got = pread(j->file->fd, buffer, n, (off_t)at);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return errno;
    if (got == 0)
      return -1;
    EVP_DigestUpdate(ctx, buffer, (size_t)got);
    at += (uint64_t)got;
  }
  EVP_DigestFinal_ex(ctx, j->digest, NULL);
  if (j->flush)
    (void)sync_file_range(j->file->fd, (off_t)j->off, (off_t)j->len, SYNC_FILE_RANGE_WRITE); /* a hint; fsync decides */
  return fstat(j->file->fd, &j->stat) < 0 ? errno : 0;
}

static int allocate(struct job *j)
{
  while (fallocate(j->file->fd, 0, (off_t)j->off, (off_t)j->len) < 0) {
    if (errno == EOPNOTSUPP)
      return 0; /* writes will tell */
    if (errno != EINTR)
      return errno;
  }
  return 0;
}

static int finish(struct job *j)
{
  if (ftruncate(j->file->fd, (off_t)j->len) == 0 && (!j->sync || fsync(j->file->fd) == 0) &&
      renameat(j->dir, j->temp, j->dir, j->name) == 0) {
    if (j->sync)
      (void)fsync(j->dir); /* the folder may not support it; the file's bytes are safe */
    return 0;
  }
  int error = errno;
  (void)unlinkat(j->dir, j->temp, 0);
  return error;
}

static void run(struct worker *w, struct job *j, EVP_MD_CTX *ctx, uint8_t *buffer)
{
  switch (j->kind) {
  case JOB_HASH:
    j->error = hash(w, j, ctx, buffer);
    break;
  case JOB_ALLOCATE:
    j->error = allocate(j);
    break;
  case JOB_FINISH:
    j->error = finish(j);
    break;
  case JOB_DROP:
    file_unref(j->file);
    j->file = NULL;
    break;
  }
}

static void *work(void *arg)
{
  struct worker *w = arg;
  (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE); /* packets come first */
  EVP_MD_CTX *ctx = EVP_MD_CTX_new();
  uint8_t *buffer = malloc(READ_BYTES);
  if (ctx == NULL || buffer == NULL)
    abort();
  pthread_mutex_lock(&w->lock);
  for (;;) {
    while (w->todo == NULL && !w->stop)
      pthread_cond_wait(&w->more, &w->lock);
    struct job *j = w->todo;
    if (j == NULL)
      break;
    w->todo = j->next;
    bool skip = w->stop;
    pthread_mutex_unlock(&w->lock);
    if (skip)
      j->error = EINTR;
    else
      run(w, j, ctx, buffer);
    j->next = NULL;
    pthread_mutex_lock(&w->lock);
    bool first = w->finished == NULL;
    *(first ? &w->finished : &w->finished_last->next) = j;
    w->finished_last = j;
    if (first && !w->stop) {
      uint64_t one = 1;
      if (write(w->watch.fd, &one, sizeof one) < 0)
        abort(); /* an eventfd that cannot count to one: our own bug */
    }
  }
  pthread_mutex_unlock(&w->lock);
  free(buffer);
  EVP_MD_CTX_free(ctx);
  return NULL;
}

/* ---- in the loop ---- */

static void disown(struct worker *w, struct job *j)
{
  struct job **at = &w->owned;
  while (*at != j)
    at = &(*at)->next_owned;
  *at = j->next_owned;
}

static void collect(struct watch *watch, uint32_t events)
{
  (void)events;
  struct worker *w = (struct worker *)(void *)((char *)watch - offsetof(struct worker, watch));
  uint64_t n;
  if (read(watch->fd, &n, sizeof n) < 0)
    return;
  pthread_mutex_lock(&w->lock);
  struct job *j = w->finished;
  w->finished = NULL;
  pthread_mutex_unlock(&w->lock);
  while (j != NULL) {
    struct job *next = j->next;
    disown(w, j);
    if (j->owner != NULL && j->done != NULL)
      j->done(j);
    job_free(j);
    j = next;
  }
}

int worker_open(struct worker *w, struct loop *loop)
{
  memset(w, 0, sizeof *w);
  w->loop = loop;
  w->watch = (struct watch){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = collect};
  if (w->watch.fd < 0)
    return -errno;
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->more, NULL);
  int rc = pthread_create(&w->thread, NULL, work, w);
  if (rc != 0)
    return -rc;
  w->running = true;
  return loop_watch(loop, &w->watch, EPOLLIN);
}

void worker_submit(struct worker *w, struct job *j)
{
  j->next = NULL;
  j->next_owned = w->owned;
  w->owned = j;
  pthread_mutex_lock(&w->lock);
  *(w->todo == NULL ? &w->todo : &w->todo_last->next) = j;
  w->todo_last = j;
  pthread_cond_signal(&w->more);
  pthread_mutex_unlock(&w->lock);
}

void worker_forget(struct worker *w, const void *owner)
{
  for (struct job *j = w->owned; j != NULL; j = j->next_owned)
    if (j->owner == owner)
      j->owner = NULL;
}

void worker_close(struct worker *w)
{
  if (w->running) {
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    __atomic_store_n(&w->stopping, 1, __ATOMIC_RELAXED);
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    for (struct job *j = w->finished, *next; j != NULL; j = next) {
      next = j->next;
      job_free(j);
    }
    loop_unwatch(w->loop, &w->watch);
  }
  if (w->watch.fd >= 0)
    close(w->watch.fd);
}
