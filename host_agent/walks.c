#include "walks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

/* Kept for so long after it was asked for; and who waits for a walk hears that it goes on. */
static const dc_time KEPT_FOR = 10 * DC_SEC, PATIENCE = 500 * DC_MS;
/* Entries that are looked at before one that was kept is given away. */
enum { LOOK_AT = 64 };

struct asker {
  void (*had)(void *arg, struct file *f, const struct fault *why);
  void *arg;
  struct asker *next;
};

struct walk {
  struct walks *all;
  char *path;
  bool dest, had; /* had: somebody has been given it */
  struct file *file;
  struct job *job; /* NULL: it was walked */
  struct asker *askers;
  struct timer patience;
  uint32_t at; /* folder_same */
  dc_time used;
  struct walk *next;
};

bool walks_open(struct walks *w, struct host *host)
{
  *w = (struct walks){.host = host, .lane = lane_new()};
  return w->lane != NULL;
}

static void drop(struct walk *k)
{
  struct walks *w = k->all;
  struct walk **at = &w->first;
  while (*at != k)
    at = &(*at)->next;
  *at = k->next;
  loop_timer(w->host->loop, &k->patience, DC_NEVER);
  file_unref(k->file);
  free(k->path);
  loop_bury(w->host->loop, k);
}

void walks_close(struct walks *w)
{
  while (w->first != NULL) {
    struct walk *k = w->first;
    for (struct asker *a = k->askers, *next; a != NULL; a = next) {
      next = a->next;
      free(a);
    }
    if (k->job != NULL)
      k->job->owner = NULL;
    drop(k);
  }
  lane_unref(w->lane);
  w->lane = NULL;
}

void walks_tidy(struct walks *w)
{
  for (struct walk *k = w->first, *next; k != NULL; k = next) {
    next = k->next;
    if (k->job == NULL && w->host->loop->now - k->used > KEPT_FOR)
      drop(k);
  }
}

static struct walk *find(const struct walks *w, struct walk_name name)
{
  struct walk *k = w->first;
  while (k != NULL && (k->dest != name.dest || strcmp(k->path, name.path) != 0))
    k = k->next;
  return k;
}

struct file *walks_kept(struct walks *w, struct walk_name name, bool anew)
{
  walks_tidy(w);
  struct walk *k = find(w, name);
  if (k == NULL || k->job != NULL)
    return NULL;
  if ((anew && k->had) || !folder_same(k->file->folder, &k->at, LOOK_AT)) {
    drop(k);
    return NULL;
  }
  k->had = true;
  k->used = w->host->loop->now;
  return file_ref(k->file);
}

/* Everybody who waits hears it. */
static void answer(struct walk *k, const struct fault *why)
{
  struct asker *all = k->askers;
  k->askers = NULL;
  loop_timer(k->all->host->loop, &k->patience, DC_NEVER);
  for (struct asker *a = all, *next; a != NULL; a = next) {
    next = a->next;
    k->had |= why == NULL;
    a->had(a->arg, why == NULL ? file_ref(k->file) : NULL, why);
    free(a);
  }
}

static void goes_on(struct timer *t, dc_time now)
{
  (void)now;
  struct walk *k = (struct walk *)(void *)((char *)t - offsetof(struct walk, patience));
  struct fault why;
  fault_set(&why, "walking", "%s: the directory is being looked through, %u entries until now", k->path,
            __atomic_load_n(&k->job->walking->how.entries, __ATOMIC_RELAXED));
  answer(k, &why);
}

static void walked(struct job *j)
{
  struct walk *k = j->owner;
  struct fault why;
  k->job = NULL;
  k->used = k->all->host->loop->now;
  if (j->walking->folder != NULL) {
    k->file->folder = j->walking->folder;
    j->walking->folder = NULL;
    answer(k, NULL);
    return;
  }
  if (j->error == EINTR)
    fault_set(&why, "io", "the agent ends");
  else
    fault_set(&why, j->walking->why.code, "%s: %s", k->path, j->walking->why.text);
  answer(k, &why);
  drop(k);
}

/* Room for one more; false: all are being walked. */
static bool make_room(struct walks *w)
{
  unsigned n = 0;
  struct walk *oldest = NULL;
  for (struct walk *k = w->first; k != NULL; k = k->next, n++)
    if (k->job == NULL && (oldest == NULL || k->used < oldest->used))
      oldest = k;
  if (n >= FOLDERS_KEPT && oldest != NULL)
    drop(oldest);
  return n < FOLDERS_KEPT || oldest != NULL;
}

static struct walk *begin(struct walks *w, struct walk_name name, struct file *f, struct fault *why)
{
  struct host *h = w->host;
  if (!make_room(w)) {
    fault_set(why, "limit", "%s: %d directories are being looked through already", name.path, FOLDERS_KEPT);
    return NULL;
  }
  struct walk *k = calloc(1, sizeof *k);
  struct job *j = job_new(JOB_WALK);
  struct walking *walking = calloc(1, sizeof *walking);
  char *path = strdup(name.path);
  if (k == NULL || j == NULL || walking == NULL || path == NULL) {
    free(k);
    free(j);
    free(walking);
    free(path);
    fault_set(why, "io", "out of memory");
    return NULL;
  }
  walking->how.owners = h->owners;
  walking->how.xattrs = h->xattrs;
  secrets_look(&walking->how.secrets, h->key_file, h->origins);
  walking->how.stopping = &h->disk->stopping;
  j->walking = walking;
  j->file = file_ref(f);
  j->owner = k;
  j->done = walked;
  *k = (struct walk){.all = w,
                     .path = path,
                     .dest = name.dest,
                     .file = file_ref(f),
                     .job = j,
                     .patience = {.fire = goes_on, .at = DC_NEVER},
                     .next = w->first};
  w->first = k;
  worker_submit(h->disk, j, w->lane);
  return k;
}

bool walks_ask(struct walks *w, struct walk_name name, struct file *f,
               void (*had)(void *arg, struct file *f, const struct fault *why), void *arg, struct fault *why)
{
  struct walk *k = find(w, name);
  if (k != NULL && k->job == NULL) {
    drop(k);
    k = NULL;
  }
  struct asker *a = had == NULL ? NULL : malloc(sizeof *a);
  if (had != NULL && a == NULL) {
    file_unref(f);
    return fault_set(why, "io", "out of memory");
  }
  if (k == NULL)
    k = begin(w, name, f, why);
  file_unref(f);
  if (k == NULL || a == NULL) {
    free(a);
    return k != NULL;
  }
  *a = (struct asker){.had = had, .arg = arg, .next = k->askers};
  k->askers = a;
  if (k->patience.pos == 0)
    loop_timer(w->host->loop, &k->patience, w->host->loop->now + PATIENCE);
  return true;
}
