#include "ahead.h"
#include "datapath/lock.h"
#include "fetch.h"
#include "unpack.h"
#include "xattrs.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { READ_BYTES = 256 << 10, NICE = 5, BELOW_FRAMES = 2 };

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

static const char attribute[] = "user." XATTRS_MARK;

/* The mark, and when the file was written last. */
static bool marked_now(int fd, const char *mark, char value[MARK_LEN + 64])
{
  struct stat st;
  if (fstat(fd, &st) < 0)
    return false;
  snprintf(value, MARK_LEN + 64, "%s %lld.%09ld", mark, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
  return true;
}

/* Say so, of the file as it is now. */
static void file_mark(int fd, const char *mark)
{
  char value[MARK_LEN + 64];
  if (marked_now(fd, mark, value))
    (void)fsetxattr(fd, attribute, value, strlen(value), 0); /* without it the file would come once more, no worse */
}

bool file_marked(int fd, const char *mark)
{
  char value[MARK_LEN + 64], is[MARK_LEN + 64];
  ssize_t n = fgetxattr(fd, attribute, is, sizeof is);
  return n > 0 && marked_now(fd, mark, value) && strlen(value) == (size_t)n && memcmp(is, value, (size_t)n) == 0;
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
  int *gone = f->gone;
  close(f->fd);
  folder_free(f->folder);
  free(f);
  if (gone != NULL)
    __atomic_store_n(gone, 1, __ATOMIC_RELEASE);
}

ssize_t file_read(const struct file *f, uint8_t *to, size_t n, uint64_t at)
{
  return f->folder == NULL ? pread(f->fd, to, n, (off_t)at) : folder_read(f->folder, to, n, at);
}

struct lane *lane_new(void)
{
  struct lane *l = calloc(1, sizeof *l);
  if (l != NULL)
    l->refs = 1;
  return l;
}

void lane_unref(struct lane *l)
{
  if (l != NULL && __atomic_sub_fetch(&l->refs, 1, __ATOMIC_ACQ_REL) == 0)
    free(l);
}

struct job *job_new(enum job_kind kind)
{
  struct job *j = calloc(1, sizeof *j);
  if (j != NULL) {
    j->kind = kind;
    j->lasts = kind == JOB_NOTE;
    j->dir = -1;
  }
  return j;
}

static void job_free(struct job *j)
{
  file_unref(j->file);
  lane_unref(j->lane);
  fetch_free(j->fetch);
  if (j->walking != NULL)
    folder_free(j->walking->folder);
  free(j->walking);
  if (j->kind == JOB_READ || j->kind == JOB_CALL)
    free(j->bytes);
  if (j->dir >= 0)
    close(j->dir);
  free(j);
}

/* ---- in a thread ---- */

static void flush(const struct job *j)
{
  if (j->flush) /* a hint; fsync decides */
    (void)sync_file_range(j->file->fd, (off_t)j->off, (off_t)j->len, SYNC_FILE_RANGE_WRITE);
}

static int hash(struct worker *w, struct job *j, uint8_t *buffer)
{
  blake3_hasher h;
  blake3_hasher_init(&h);
  uint64_t at = j->off, end = j->off + j->len;
  while (at < end) {
    if (__atomic_load_n(&w->stopping, __ATOMIC_RELAXED))
      return EINTR;
    size_t n = end - at < READ_BYTES ? (size_t)(end - at) : READ_BYTES;
    uint8_t *to = j->block == NULL ? buffer : j->block->bytes + (at - j->off);
    ssize_t got = file_read(j->file, to, n, at);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return errno == ESTALE ? -1 : errno;
    if (got == 0)
      return -1;
    blake3_hasher_update(&h, to, (size_t)got);
    at += (uint64_t)got;
  }
  blake3_hasher_finalize(&h, j->digest, DIGEST_LEN);
  flush(j);
  return fstat(j->file->fd, &j->stat) < 0 ? errno : 0;
}

/* The hash goes on while the bytes are still in the processor's cache. */
static void hash_on(struct job *j)
{
  struct lane *l = j->lane;
  if (j->begins) {
    blake3_hasher_init(&l->hash);
    l->hashing = true;
    l->to = j->off;
    l->generation = j->generation;
  }
  l->hashing &= l->to == j->off && l->generation == j->generation;
  if (!l->hashing)
    return;
  blake3_hasher_update(&l->hash, j->bytes, (size_t)j->len);
  l->to += j->len;
  if (!j->ends)
    return;
  blake3_hasher_finalize(&l->hash, j->digest, DIGEST_LEN);
  j->digested = true;
  l->hashing = false;
}

static int write_out(struct job *j)
{
  uint64_t done = 0;
  while (done < j->len) {
    ssize_t n = pwrite(j->file->fd, j->bytes + done, (size_t)(j->len - done), (off_t)(j->off + done));
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return n < 0 ? errno : ENOSPC;
    done += (uint64_t)n;
  }
  hash_on(j);
  flush(j);
  return 0;
}

static int read_in(struct job *j)
{
  j->bytes = malloc((size_t)j->len + 1);
  if (j->bytes == NULL)
    return ENOMEM;
  for (uint64_t done = 0; done < j->len;) {
    ssize_t n = file_read(j->file, j->bytes + done, (size_t)(j->len - done), j->off + done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return n < 0 && errno != ESTALE ? errno : -1;
    done += (uint64_t)n;
  }
  return fstat(j->file->fd, &j->stat) < 0 ? errno : 0;
}

/* A note that is lost costs a block that is fetched once more after a crash. */
static int note(struct job *j)
{
  return pwrite(j->file->fd, j->digest, DIGEST_LEN, (off_t)j->off) == DIGEST_LEN ? 0 : EIO;
}

static int allocate(struct job *j)
{
  while (fallocate(j->file->fd, 0, (off_t)j->off, (off_t)j->len) < 0)
    if (errno != EINTR)
      return errno == EOPNOTSUPP ? 0 : errno; /* writes will tell */
  return 0;
}

/* A JOB_FINISH is broken off, or ends so. */
static void stop(struct job *j, bool keep)
{
  __atomic_store_n(&j->stopping, keep ? STOP_KEEP : STOP_DROP, __ATOMIC_RELEASE);
}

static bool stopped(const struct job *j) { return __atomic_load_n(&j->stopping, __ATOMIC_ACQUIRE) != 0; }

/* What was broken off and is to be kept can be resumed; all else leaves nothing. */
static void tidy(const struct job *j, int error)
{
  if (error != EINTR || __atomic_load_n(&j->stopping, __ATOMIC_ACQUIRE) != STOP_KEEP)
    (void)unlinkat(j->dir, j->temp, 0);
}

static int as_expected(struct job *j)
{
  uint8_t is[SHA256_LEN];
  int error = stopped(j) ? EINTR : j->expects ? sha256_of(&j->stopping, j->file->fd, 0, j->len, is) : 0;
  if (!j->expects || error != 0 || memcmp(is, j->sha256, sizeof is) == 0)
    return error;
  memcpy(j->sha256, is, sizeof is);
  return EBADMSG;
}

static int finish_bundle(struct job *j)
{
  char folder[256];
  unpack_folder(folder, j->temp);
  struct unpacking u = {.stopping = &j->stopping,
                        .from = j->file->fd,
                        .readers = &j->file->refs,
                        .bytes = j->len,
                        .expects = j->expects ? j->sha256 : NULL,
                        .dir = j->dir,
                        .temp = folder,
                        .name = j->name,
                        .sync = j->sync,
                        .owners = j->owners,
                        .xattrs = j->xattrs};
  int error = unpack(&u);
  memcpy(j->wrong, u.wrong, sizeof j->wrong);
  tidy(j, error);
  return error;
}

/* The folder, and those above it: whoever made them, their names last from then on. Where one cannot be read or takes no
 * fsync there is no more to be done: the file's bytes are safe. */
static void sync_folders(int dir, unsigned above)
{
  int at = dir;
  for (;;) {
    (void)fsync(at);
    int up = above == 0 ? -1 : openat(at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (at != dir)
      close(at);
    if (up < 0)
      return;
    at = up;
    above--;
  }
}

/* What bears the temporary name now is another host's, where several share the folder: it is not whole. */
static bool is_another(const struct job *j)
{
  struct stat now, own; /* of one folder, and so of one device */
  bool known = fstatat(j->dir, j->temp, &now, AT_SYMLINK_NOFOLLOW) == 0 && fstat(j->file->fd, &own) == 0;
  return known && now.st_ino != own.st_ino;
}

static int finish(struct job *j)
{
  if (j->bundle)
    return finish_bundle(j);
  int wrong = as_expected(j);
  if (is_another(j))
    return ETXTBSY;
  errno = wrong;
  bool cut = wrong == 0 && ftruncate(j->file->fd, (off_t)j->len) == 0;
  if (cut && j->mark[0] != '\0')
    file_mark(j->file->fd, j->mark);
  if (cut && (!j->sync || fsync(j->file->fd) == 0) && renameat(j->dir, j->temp, j->dir, j->name) == 0) {
    if (j->sync)
      sync_folders(j->dir, j->above);
    return 0;
  }
  int error = errno;
  tidy(j, wrong == 0 ? 0 : error);
  return error;
}

static void run(struct worker *w, struct job *j, uint8_t *buffer)
{
  switch (j->kind) {
  case JOB_HASH:
    j->error = hash(w, j, buffer);
    break;
  case JOB_WRITE:
    j->error = write_out(j);
    break;
  case JOB_NOTE:
    j->error = note(j);
    break;
  case JOB_ALLOCATE:
    j->error = allocate(j);
    break;
  case JOB_FINISH:
    j->error = finish(j);
    break;
  case JOB_READ:
    j->error = read_in(j);
    break;
  case JOB_FETCH:
    j->error = fetch_run(&w->stopping, j);
    break;
  case JOB_WALK:
    j->walking->folder = folder_open(fcntl(j->file->fd, F_DUPFD_CLOEXEC, 3), &j->walking->how, &j->walking->why);
    break;
  case JOB_LOOK:
    j->error = folder_same(j->file->folder, &j->looked, (uint32_t)j->len) ? 0 : ESTALE;
    break;
  case JOB_CALL:
    j->call(j);
    break;
  case JOB_DROP:
    if (j->dir >= 0)
      unpack_drop(j->dir, j->temp);
    file_unref(j->file);
    j->file = NULL;
    break;
  }
}

/* A job that will not be done: nothing of it may stay behind. */
static void skip(struct job *j)
{
  j->error = EINTR;
  if (j->kind != JOB_FINISH)
    return;
  if (!stopped(j))
    stop(j, j->keep);
  tidy(j, j->error);
}

/* Under the lock: the next job, and the lane that it holds up; lanes and single jobs take turns. */
static struct job *next_job(struct worker *w)
{
  struct lane *l = w->ready;
  struct job *j = w->todo;
  w->turn = !w->turn;
  if (l != NULL && (j == NULL || w->turn)) {
    w->ready = l->next;
    j = l->first;
    l->first = j->next;
  } else if (j != NULL) {
    w->todo = j->next;
  }
  return j;
}

/* Under the lock. A thread more is woken only for work that nobody is at: a wake-up costs as much as writing a run, and the jobs
 * that follow in a lane are for the thread that has it. */
static void call_one(struct worker *w)
{
  if (w->idle > 0 && (w->todo != NULL || w->ready != NULL)) {
    w->idle--;
    sem_post(&w->more);
  }
}

static void make_ready(struct worker *w, struct lane *l)
{
  l->next = NULL;
  l->waits = true;
  *(w->ready == NULL ? &w->ready : &w->ready_last->next) = l;
  w->ready_last = l;
}

static void hand_back(struct worker *w, struct job *j)
{
  if (j->lane != NULL) {
    j->lane->waits = false;
    if (j->lane->first != NULL)
      make_ready(w, j->lane);
  }
  j->next = NULL;
  bool first = w->finished == NULL;
  *(first ? &w->finished : &w->finished_last->next) = j;
  w->finished_last = j;
  if (first && !w->stop) {
    uint64_t one = 1;
    if (write(w->watch.fd, &one, sizeof one) < 0)
      abort(); /* an eventfd that cannot count to one: our own bug */
  }
}

/* Packets come first. But a source's trees wait for what is read here, and receivers ask for no more than is written: where
 * the agent is real-time, what computes for as long as there is something to do must not starve that (docs/priorities.md). */
static void stand_below_frames(void)
{
  int policy = sched_getscheduler(0);
  struct sched_param p = {0};
  if ((policy == SCHED_RR || policy == SCHED_FIFO) && sched_getparam(0, &p) == 0 && p.sched_priority > BELOW_FRAMES) {
    p.sched_priority -= BELOW_FRAMES;
    if (sched_setscheduler(0, SCHED_RR, &p) == 0)
      return;
  }
  (void)sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){0});
  (void)setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
}

static void *work(void *arg)
{
  struct worker *w = arg;
  (void)pthread_setname_np(pthread_self(), "files");
  stand_below_frames();
  uint8_t *buffer = malloc(READ_BYTES);
  if (buffer == NULL)
    abort();
  pthread_mutex_lock(&w->lock);
  for (;;) {
    struct job *j;
    while ((j = next_job(w)) == NULL && !w->stop) {
      w->idle++;
      pthread_mutex_unlock(&w->lock);
      while (sem_wait(&w->more) < 0)
        continue; /* a signal */
      pthread_mutex_lock(&w->lock);
    }
    if (j == NULL)
      break;
    call_one(w); /* for what this thread leaves */
    bool stop = w->stop;
    pthread_mutex_unlock(&w->lock);
    if (stop && !j->lasts)
      skip(j);
    else
      run(w, j, buffer);
    pthread_mutex_lock(&w->lock);
    hand_back(w, j);
  }
  pthread_mutex_unlock(&w->lock);
  free(buffer);
  fetch_thread_ends();
  return NULL;
}

/* ---- in the home loop; worker_submit also in the shard ---- */

/* Under the lock. */
static void disown(struct worker *w, struct job *j)
{
  struct job **at = &w->owned;
  while (*at != j)
    at = &(*at)->next_owned;
  *at = j->next_owned;
}

static void end(struct job *j)
{
  if (j->done != NULL && (j->owner != NULL || j->kind == JOB_WRITE || j->block != NULL))
    j->done(j);
  job_free(j);
}

static void collect(struct watch *watch, uint32_t events)
{
  (void)events;
  struct worker *w = (struct worker *)(void *)((char *)watch - offsetof(struct worker, watch));
  uint64_t n;
  if (read(watch->fd, &n, sizeof n) < 0)
    return;
  pthread_mutex_lock(&w->lock);
  w->ending = w->finished;
  w->finished = NULL;
  for (struct job *j = w->ending; j != NULL; j = j->next)
    disown(w, j);
  pthread_mutex_unlock(&w->lock);
  while (w->ending != NULL) {
    struct job *j = w->ending;
    w->ending = j->next;
    w->loop->packets += j->kind == JOB_WRITE;
    end(j);
  }
}

int worker_open(struct worker *w, struct loop *loop, unsigned threads, unsigned most)
{
  memset(w, 0, sizeof *w);
  w->loop = loop;
  w->most = most < WORKER_THREADS_MAX ? most : WORKER_THREADS_MAX;
  w->watch = (struct watch){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = collect};
  if (w->watch.fd < 0)
    return -errno;
  lock_open(&w->lock);
  sem_init(&w->more, 0, 0);
  for (; w->threads < threads && w->threads < w->most; w->threads++) {
    int rc = pthread_create(&w->thread[w->threads], NULL, work, w);
    if (rc != 0)
      return -rc;
  }
  return loop_watch_packets(loop, &w->watch, EPOLLIN); /* what is done ends no pause: results gather too */
}

void worker_submit(struct worker *w, struct job *j, struct lane *l)
{
  j->next = NULL;
  j->lane = l;
  if (l != NULL)
    __atomic_add_fetch(&l->refs, 1, __ATOMIC_RELAXED);
  pthread_mutex_lock(&w->lock);
  j->next_owned = w->owned;
  w->owned = j;
  if (l == NULL) {
    *(w->todo == NULL ? &w->todo : &w->todo_last->next) = j;
    w->todo_last = j;
  } else {
    *(l->first == NULL ? &l->first : &l->last->next) = j;
    l->last = j;
    if (!l->waits)
      make_ready(w, l);
  }
  if (w->idle == 0 && w->threads < w->most && pthread_create(&w->thread[w->threads], NULL, work, w) == 0)
    w->threads++;
  call_one(w);
  pthread_mutex_unlock(&w->lock);
}

void worker_break_off(struct worker *w, const void *owner, bool keep)
{
  pthread_mutex_lock(&w->lock);
  for (struct job *j = w->owned; j != NULL; j = j->next_owned)
    if (j->owner == owner && j->kind == JOB_FINISH)
      stop(j, keep);
  pthread_mutex_unlock(&w->lock);
}

void worker_forget(struct worker *w, const void *owner)
{
  pthread_mutex_lock(&w->lock);
  for (struct job *j = w->owned; j != NULL; j = j->next_owned)
    if (j->owner == owner)
      j->owner = NULL;
  pthread_mutex_unlock(&w->lock);
  for (struct job *j = w->ending; j != NULL; j = j->next)
    if (j->owner == owner)
      j->owner = NULL;
}

void worker_close(struct worker *w)
{
  if (w->threads > 0) {
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    __atomic_store_n(&w->stopping, 1, __ATOMIC_RELAXED);
    for (struct job *j = w->owned; j != NULL; j = j->next_owned)
      if (j->kind == JOB_FINISH && !stopped(j))
        stop(j, j->keep);
    for (; w->idle > 0; w->idle--)
      sem_post(&w->more);
    pthread_mutex_unlock(&w->lock);
    for (unsigned i = 0; i < w->threads; i++)
      pthread_join(w->thread[i], NULL);
    for (struct job *j = w->finished, *next; j != NULL; j = next) {
      next = j->next;
      j->owner = NULL;
      end(j);
    }
    w->finished = w->owned = NULL;
    w->threads = 0;
    loop_unwatch(w->loop, &w->watch);
  }
  if (w->watch.fd > 0)
    close(w->watch.fd);
  w->watch.fd = -1;
}
