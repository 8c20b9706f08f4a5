/* Threads for files: lanes keep their order, a block is hashed while it is written, and what is never done leaves
 * nothing behind. */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bundle.h"
#include "datapath/tests/check.h"
#include "params.h"

static struct loop loop;
static unsigned came;
static char hex[2 * DIGEST_LEN + 1];
static bool digested;

static void counted(struct job *j)
{
  CHECK(j->error == 0 || j->error == EINTR);
  came++;
  free(j->bytes);
}

static void take_digest(struct job *j)
{
  counted(j);
  digested = j->kind == JOB_HASH || j->digested;
  hex_write(hex, j->digest, DIGEST_LEN);
}

static void wait_for(unsigned n)
{
  while (came < n)
    (void)loop_serve(&loop, loop_clock() + 5 * DC_SEC);
}

static struct job *write_job(int fd, uint64_t off, uint8_t fill, size_t len, bool begins, bool ends)
{
  struct job *j = job_new(JOB_WRITE);
  j->file = file_new(dup(fd));
  j->off = off;
  j->len = len;
  j->begins = begins;
  j->ends = ends;
  j->bytes = malloc(len);
  memset(j->bytes, fill, len);
  j->done = take_digest;
  return j;
}

/* What BLAKE3's authors publish for these bytes: the digest is theirs, whatever the processor can do. */
static void test_a_known_digest(struct worker *w, int fd)
{
  struct job *j = job_new(JOB_HASH);
  j->file = file_new(dup(fd));
  j->done = take_digest;
  j->owner = w;
  came = 0;
  worker_submit(w, j, NULL);
  wait_for(1);
  CHECK(strcmp(hex, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262") == 0); /* of nothing */
}

static void test_a_block_is_hashed_while_it_is_written(struct worker *w, int fd)
{
  struct lane *l = lane_new();
  char passing[sizeof hex];
  came = 0;
  for (unsigned i = 0; i < 64; i++)
    worker_submit(w, write_job(fd, 4096ull * i, (uint8_t)i, 4096, i == 0, i == 63), l);
  wait_for(64);
  CHECK(digested);
  memcpy(passing, hex, sizeof passing);
  struct job *j = job_new(JOB_HASH);
  j->file = file_new(dup(fd));
  j->len = 64 * 4096;
  j->done = take_digest;
  j->owner = w;
  worker_submit(w, j, NULL);
  wait_for(65);
  CHECK(strcmp(hex, passing) == 0);

  came = 0; /* a hole in it, or bytes that were dropped in between: no digest */
  worker_submit(w, write_job(fd, 0, 1, 4096, true, false), l);
  worker_submit(w, write_job(fd, 8192, 1, 4096, false, true), l);
  wait_for(2);
  CHECK(!digested);
  came = 0;
  worker_submit(w, write_job(fd, 0, 1, 4096, true, false), l);
  j = write_job(fd, 4096, 1, 4096, false, true);
  j->generation = 1;
  worker_submit(w, j, l);
  wait_for(2);
  CHECK(!digested);
  lane_unref(l);
}

/* A thread is woken only for what nobody is at: whoever was not woken must not have been needed. */
static void test_lanes_and_single_jobs_beside_each_other_are_all_done(struct worker *w, int fd)
{
  enum { LANES = 4, EACH = 200 };
  struct lane *l[LANES];
  for (unsigned i = 0; i < LANES; i++)
    l[i] = lane_new();
  came = 0;
  for (unsigned i = 0; i < EACH; i++) {
    for (unsigned k = 0; k < LANES; k++)
      worker_submit(w, write_job(fd, 4096ull * i, (uint8_t)i, 4096, i == 0, false), l[k]);
    struct job *j = job_new(JOB_HASH);
    j->file = file_new(dup(fd));
    j->len = 4096;
    j->done = take_digest;
    j->owner = w;
    worker_submit(w, j, NULL);
    if (i % 16 == 0) /* now and then all threads have nothing to do */
      wait_for((i + 1) * (LANES + 1));
  }
  wait_for(EACH * (LANES + 1));
  for (unsigned i = 0; i < LANES; i++)
    lane_unref(l[i]);
}

/* A thread that finds itself told to stop as it begins ends at once: no one submits anything then, but for this test. */
static void stop_once_idle(struct worker *w)
{
  while (!w->stop) {
    pthread_mutex_lock(&w->lock);
    w->stop = w->idle == w->threads;
    pthread_mutex_unlock(&w->lock);
  }
}

static void test_a_finish_that_is_never_run_leaves_no_temporary_file(const char *folder, bool keep)
{
  struct worker w;
  char path[256];
  snprintf(path, sizeof path, "%s/.x", folder);
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  CHECK(worker_open(&w, &loop, 1, 1) == 0);
  stop_once_idle(&w); /* the thread gets nothing to do before it is told to stop, but then it does */
  struct job *j = job_new(JOB_FINISH);
  j->file = file_new(fd);
  j->dir = open(folder, O_RDONLY | O_DIRECTORY);
  j->keep = keep;
  snprintf(j->temp, sizeof j->temp, ".x");
  snprintf(j->name, sizeof j->name, "x");
  worker_submit(&w, j, NULL);
  worker_close(&w);
  CHECK((access(path, F_OK) == 0) == keep);
  snprintf(path, sizeof path, "%s/x", folder);
  CHECK(access(path, F_OK) < 0);
}

/* ---- a directory that is made while too many files are open ---- */

static int finished; /* the job's error; -1: it is under way */

static void note_end(struct job *j) { finished = j->error; }

static bool is_there(const char *folder, const char *name)
{
  char path[256];
  struct stat st;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return lstat(path, &st) == 0;
}

/* The stream of a directory with one file of three bytes, as the temporary file ".x". */
static struct job *bundle_job(const char *folder)
{
  struct bundle t = {0};
  struct fault why;
  struct bundle_entry *e = bundle_add(&t);
  e->name = bundle_text(&t, "f", 1);
  e->target = "";
  e->kind = BUNDLE_FILE;
  e->mode = 0600;
  e->size = 3;
  uint8_t *manifest = bundle_write(&t, &why);
  char path[256];
  snprintf(path, sizeof path, "%s/.x", folder);
  struct job *j = job_new(JOB_FINISH);
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  CHECK(pwrite(fd, manifest, t.manifest, 0) == (ssize_t)t.manifest && pwrite(fd, "abc", 3, (off_t)t.entry[0].at) == 3);
  j->file = file_new(fd);
  j->dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  j->len = t.bytes;
  j->bundle = true;
  j->done = note_end;
  snprintf(j->temp, sizeof j->temp, ".x");
  snprintf(j->name, sizeof j->name, "x");
  free(manifest);
  bundle_free(&t);
  return j;
}

/* Its thread has made the folder, and cannot open it: it waits for that. `meanwhile`, and what came of it. */
static int finish_without_descriptors(struct worker *w, const char *folder, void (*meanwhile)(struct worker *w))
{
  struct rlimit most;
  CHECK(getrlimit(RLIMIT_NOFILE, &most) == 0);
  struct job *j = bundle_job(folder);
  j->owner = w;
  finished = -1;
  CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = 3, .rlim_max = most.rlim_max}) == 0);
  worker_submit(w, j, NULL);
  while (!is_there(folder, ".x+")) {
    (void)loop_serve(&loop, loop_clock());
    CHECK(finished == -1);
  }
  if (meanwhile != NULL)
    meanwhile(w);
  CHECK(setrlimit(RLIMIT_NOFILE, &most) == 0);
  while (finished == -1)
    (void)loop_serve(&loop, loop_clock() + 5 * DC_SEC);
  return finished;
}

static void drop(struct worker *w) { worker_break_off(w, w, false); }
static void keep(struct worker *w) { worker_break_off(w, w, true); }

static void test_a_directory_is_made_when_its_files_can_be_opened(struct worker *w, const char *folder)
{
  CHECK(finish_without_descriptors(w, folder, NULL) == 0);
  CHECK(is_there(folder, "x/f") && !is_there(folder, ".x") && !is_there(folder, ".x+"));
  char path[256];
  snprintf(path, sizeof path, "%s/x/f", folder);
  unlink(path);
  snprintf(path, sizeof path, "%s/x", folder);
  CHECK(rmdir(path) == 0);
}

/* A group that is cancelled while its directory is made has none: a later one of the name would be refused. */
static void test_a_directory_that_is_being_made_is_broken_off(struct worker *w, const char *folder)
{
  CHECK(finish_without_descriptors(w, folder, keep) == EINTR);
  CHECK(is_there(folder, ".x") && !is_there(folder, "x"));
  CHECK(finish_without_descriptors(w, folder, drop) == EINTR);
  CHECK(!is_there(folder, ".x") && !is_there(folder, "x"));
  CHECK(!is_there(folder, ".x+"));
}

/* ---- three threads on one processor: an ordinary one has the lock, a real-time one takes the processor, frames submit ---- */

static struct {
  struct worker *w;
  struct job *job;
  sem_t locked, go;
  int taken, submitted; /* atomic */
  bool waited;
} busy;

static void *has_the_lock(void *arg)
{
  pthread_mutex_lock(&busy.w->lock);
  sem_post(&busy.locked);
  while (!__atomic_load_n(&busy.taken, __ATOMIC_ACQUIRE))
    continue;
  pthread_mutex_unlock(&busy.w->lock);
  return arg;
}

static void *takes_the_processor(void *arg)
{
  __atomic_store_n(&busy.taken, 1, __ATOMIC_RELEASE);
  sem_post(&busy.go);
  dc_time end = loop_clock() + 400 * DC_MS; /* less than after which the kernel gives others a turn */
  while (!__atomic_load_n(&busy.submitted, __ATOMIC_ACQUIRE) && loop_clock() < end)
    continue;
  busy.waited = !__atomic_load_n(&busy.submitted, __ATOMIC_ACQUIRE);
  return arg;
}

static void *submits(void *arg)
{
  while (sem_wait(&busy.go) < 0)
    continue;
  worker_submit(busy.w, busy.job, NULL);
  __atomic_store_n(&busy.submitted, 1, __ATOMIC_RELEASE);
  return arg;
}

static int begin(pthread_t *thread, void *(*what)(void *), int priority, const cpu_set_t *processor)
{
  pthread_attr_t how;
  pthread_attr_init(&how);
  pthread_attr_setaffinity_np(&how, sizeof *processor, processor);
  if (priority > 0) {
    pthread_attr_setinheritsched(&how, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&how, SCHED_RR);
    pthread_attr_setschedparam(&how, &(struct sched_param){.sched_priority = priority});
  }
  int rc = pthread_create(thread, &how, what, NULL);
  pthread_attr_destroy(&how);
  return rc;
}

static void test_frames_do_not_wait_for_an_ordinary_thread_that_gets_no_processor(struct worker *w, int fd)
{
  cpu_set_t may, one;
  CHECK(sched_getaffinity(0, sizeof may, &may) == 0);
  unsigned first = 0;
  while (!CPU_ISSET(first, &may))
    first++;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  came = 0;
  busy.w = w;
  busy.job = job_new(JOB_HASH);
  busy.job->file = file_new(dup(fd));
  busy.job->done = take_digest;
  busy.job->owner = w;
  sem_init(&busy.locked, 0, 0);
  sem_init(&busy.go, 0, 0);
  pthread_t frames, low, middle;
  if (begin(&frames, submits, 3, &one) != 0) { /* without the right to real-time priority there is nothing to see */
    worker_submit(w, busy.job, NULL);
    wait_for(1);
    return;
  }
  CHECK(begin(&low, has_the_lock, 0, &one) == 0);
  while (sem_wait(&busy.locked) < 0)
    continue;
  CHECK(begin(&middle, takes_the_processor, 2, &one) == 0);
  pthread_join(middle, NULL);
  pthread_join(low, NULL);
  pthread_join(frames, NULL);
  CHECK(!busy.waited);
  wait_for(1);
}

int main(void)
{
  char folder[] = "/tmp/test-worker-XXXXXX", path[256];
  struct worker w;
  CHECK(mkdtemp(folder) != NULL && loop_open(&loop) == 0 && worker_open(&w, &loop, 2, 2) == 0);
  snprintf(path, sizeof path, "%s/file", folder);
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  test_a_known_digest(&w, fd);
  test_a_block_is_hashed_while_it_is_written(&w, fd);
  test_lanes_and_single_jobs_beside_each_other_are_all_done(&w, fd);
  test_frames_do_not_wait_for_an_ordinary_thread_that_gets_no_processor(&w, fd);
  test_a_directory_is_made_when_its_files_can_be_opened(&w, folder);
  test_a_directory_that_is_being_made_is_broken_off(&w, folder);
  worker_close(&w);
  test_a_finish_that_is_never_run_leaves_no_temporary_file(folder, true);
  test_a_finish_that_is_never_run_leaves_no_temporary_file(folder, false);
  close(fd);
  unlink(path);
  rmdir(folder);
  loop_close(&loop);
  return 0;
}
