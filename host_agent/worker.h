/* One thread for what may take long: reading and hashing blocks, preallocating, syncing, freeing files.
 *
 * Jobs run in order. The loop's thread submits and gets them back by an eventfd; the worker touches nothing but the job
 * itself, so nothing else is shared. */
#ifndef AGENT_WORKER_H
#define AGENT_WORKER_H

#include <pthread.h>
#include <sys/stat.h>

#include "datapath/loop.h"

/* An open file with owners in both threads. */
struct file {
  int fd;
  int refs; /* atomic */
};

struct file *file_new(int fd); /* takes over fd, also when it returns NULL */
struct file *file_ref(struct file *f) __attribute__((nonnull));
void file_unref(struct file *f);

enum job_kind {
  JOB_HASH,     /* SHA-256 of [off, off + len); `stat` of the file afterwards; `flush`: start writing it back */
  JOB_ALLOCATE, /* reserve [off, off + len) */
  JOB_FINISH,   /* cut to len bytes, (sync,) rename temp to name; the temporary file is removed on failure */
  JOB_DROP      /* close the file: the last owner frees an unlinked file's blocks, which takes time */
};

struct job {
  enum job_kind kind;
  struct file *file; /* NULL or one reference, given back by the worker's side of the job's end */
  uint64_t off, len;
  bool flush, sync;
  int dir;           /* owned: closed when the job is freed; -1: none */
  char temp[256], name[256];
  /* result */
  int error;         /* errno; -1: the file was shorter than off + len */
  uint8_t digest[32];
  struct stat stat;
  /* the loop's side */
  void (*done)(struct job *j); /* with owner not NULL only; the job is freed afterwards */
  void *owner;                 /* cleared when the owner goes */
  uint64_t tag;
  struct job *next, *next_owned;
};

struct worker {
  struct loop *loop;
  struct watch watch; /* eventfd */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t more;
  struct job *todo, *todo_last, *finished, *finished_last; /* under lock */
  bool stop;                                              /* under lock */
  int stopping;                                           /* atomic: leave long loops */
  struct job *owned; /* every job under way, for worker_forget; the loop's */
  bool running;
};

int worker_open(struct worker *w, struct loop *loop) __attribute__((nonnull)); /* 0 or -errno */
/* Ends the thread; what is still to be done is dropped. */
void worker_close(struct worker *w) __attribute__((nonnull));

struct job *job_new(enum job_kind kind); /* NULL without memory */
void worker_submit(struct worker *w, struct job *j) __attribute__((nonnull));
/* No `done` comes for this owner's jobs any more. */
void worker_forget(struct worker *w, const void *owner) __attribute__((nonnull));

#endif
