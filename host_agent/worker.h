/* Threads for what may take long: writing and hashing blocks, preallocating, syncing, freeing files.
 *
 * The home loop and the shard submit jobs, and the home loop gets them back by an eventfd; a thread touches nothing but the job itself and what
 * the job's lane guards, so nothing else is shared. Jobs of one lane run one after another, in the order in which they
 * were submitted; lanes, and jobs without one, run beside each other. A file that is synced for seconds holds up its own
 * lane and nobody else, as long as a thread is left: so syncing has threads of its own (main.c). */
#ifndef AGENT_WORKER_H
#define AGENT_WORKER_H

#include <pthread.h>
#include <semaphore.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "agent_limits.h"
#include "datapath/loop.h"
#include "digest.h"
#include "folder.h"
#include "sha256.h"

/* An open file with owners in several threads, or a directory that is read like one. */
struct file {
  int fd;
  int refs;              /* atomic */
  struct folder *folder; /* NULL: a file */
  int *gone;             /* NULL, or set when the last owner is; atomic */
};

struct file *file_new(int fd); /* takes over fd, also when it returns NULL */
/* Does an attribute of the file say that it is what `mark` names, as it was then? */
bool file_marked(int fd, const char *mark) __attribute__((nonnull));
struct file *file_ref(struct file *f) __attribute__((nonnull));
void file_unref(struct file *f);
/* As pread; ESTALE: something in the directory has changed. */
ssize_t file_read(const struct file *f, uint8_t *to, size_t n, uint64_t at) __attribute__((nonnull));

/* One run of jobs in order, and the hash of the block that they write. */
struct lane {
  int refs;                 /* atomic: the owner's and one of each job */
  struct job *first, *last; /* under the worker's lock */
  bool waits;               /* among the worker's ready lanes, or a thread is at it */
  struct lane *next;
  blake3_hasher hash; /* of a block's bytes up to `to`, where `hashing`; the thread's that runs the lane */
  uint64_t to;
  uint8_t generation;
  bool hashing;
};

struct lane *lane_new(void); /* NULL without memory */
void lane_unref(struct lane *l);

struct stages;
struct ahead_block;
struct fetch;

enum job_kind {
  JOB_HASH, /* digest of [off, off + len), left in `block` if there is one; `stat` of the file afterwards; `flush`: start
                 * writing it back */
  JOB_WRITE,    /* write `bytes`; `begins`, `ends` a block: its digest, if this lane wrote all of it in order */
  JOB_NOTE,     /* write `digest` at `off`: which block was verified */
  JOB_ALLOCATE, /* reserve [off, off + len) */
  JOB_FINISH,   /* cut to len bytes, (sync,) rename temp to name; the temporary file is removed on failure */
  JOB_READ,     /* `bytes` (owned) get [off, off + len); `stat` of the file afterwards */
  JOB_WALK,     /* of the directory `file`, as `walking` says */
  JOB_LOOK,     /* is the directory `file` what it was: `len` entries from `looked` on; ESTALE: it is not */
  JOB_FETCH,    /* ask an origin: `fetch` says what (fetch.h) */
  JOB_CALL,     /* `call`, which sets `error`; `bytes` are the job's */
  JOB_DROP      /* close the file: the last owner frees an unlinked file's blocks, which takes time; with `dir`, what an
                 * agent that was killed had unpacked of it goes first */
};

/* What becomes of the temporary file. */
enum { STOP_DROP = 1, STOP_KEEP };

/* A directory that is walked. */
struct walking {
  struct folder_walk how;
  struct folder *folder; /* NULL with why */
  struct fault why;
};

struct job {
  enum job_kind kind;
  struct file *file; /* NULL or one reference, given back by the worker's side of the job's end */
  uint64_t off, len;
  bool flush, sync;
  bool lasts; /* it is done also where the agent ends */
  bool begins, ends;
  uint8_t generation; /* of the block's bytes: what was dropped is not hashed together with what came instead */
  bool
      expects; /* JOB_FINISH: only a file with this `sha256` gets its name, else EBADMSG and what it is instead; of a */
  uint8_t sha256[SHA256_LEN]; /* `bundle` its manifest, else EBADE */
  bool owners;                /* and its files get the owners that they have at the source */
  bool xattrs;                /* and extended attributes */
  bool bundle;                /* JOB_FINISH: the file is a directory's stream, and becomes the directory */
  bool keep;                  /* JOB_FINISH that the agent's end breaks off: leave the temporary file */
  int stopping;               /* JOB_FINISH: STOP_DROP or STOP_KEEP when it is broken off; atomic */
  uint8_t *bytes;             /* JOB_WRITE: of `stages`, which `done` gives them back to; JOB_READ, JOB_CALL: its own */
  struct stages *stages;
  struct ahead_block *block;             /* JOB_HASH: of the loop, which `done` gives it back to */
  struct fetch *fetch;                   /* JOB_FETCH: owned */
  struct walking *walking;               /* JOB_WALK: owned */
  uint32_t looked;                       /* JOB_LOOK */
  int dir;                               /* owned: closed when the job is freed; -1: none */
  unsigned above;                        /* JOB_FINISH: folders above `dir` that may be new, too */
  char temp[256], name[256], wrong[256]; /* wrong: unpack.h */
  char mark[MARK_LEN];                   /* JOB_FINISH: what the file is marked with; "": with nothing */
  void (*call)(struct job *j);           /* JOB_CALL */
  /* result */
  int error;     /* errno; -1: the file was shorter than off + len */
  bool digested; /* JOB_WRITE: `digest` is the block's */
  uint8_t digest[DIGEST_LEN];
  struct stat stat;
  /* the loop's side */
  void (*done)(struct job *j); /* the job is freed afterwards */
  void *owner;                 /* cleared when the owner goes; `done` comes all the same for JOB_WRITE and `block` */
  uint64_t tag;
  struct lane *lane; /* NULL or one reference */
  struct job *next, *next_owned;
};

struct worker {
  struct loop *loop;
  struct watch watch; /* eventfd */
  pthread_t thread[WORKER_THREADS_MAX];
  unsigned threads, most; /* that there are, under the lock; that there may be */
  pthread_mutex_t lock;
  sem_t more;                   /* one for each thread that is to look for work */
  struct job *todo, *todo_last; /* without a lane; this and the following under lock */
  struct lane *ready, *ready_last;
  struct job *finished, *finished_last;
  bool turn, stop;
  unsigned idle;      /* threads that wait for work and were not called yet */
  int stopping;       /* atomic: leave long loops */
  struct job *owned;  /* every job under way, for worker_forget; under lock */
  struct job *ending; /* the home loop's: finished, and their `done` is still to come */
};

/* `threads` at once, and up to `most` where there is work that nobody is free for. 0 or -errno. */
int worker_open(struct worker *w, struct loop *loop, unsigned threads, unsigned most) __attribute__((nonnull));
/* Ends the threads; what is still to be done is dropped, and with a file that was to be finished its temporary name. */
void worker_close(struct worker *w) __attribute__((nonnull));

struct job *job_new(enum job_kind kind); /* NULL without memory */
/* `l`, which may be NULL, keeps its reference. */
void worker_submit(struct worker *w, struct job *j, struct lane *l) __attribute__((nonnull(1, 2)));
/* Break off this owner's JOB_FINISH, if it has one: it ends with EINTR, unless its file has its name by then. */
void worker_break_off(struct worker *w, const void *owner, bool keep) __attribute__((nonnull));
/* This owner's jobs have no owner any more. */
void worker_forget(struct worker *w, const void *owner) __attribute__((nonnull));

#endif
