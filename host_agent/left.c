#include "left.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "group.h"
#include "receiver.h"
#include "target.h"
#include "worker.h"

struct left_part {
  struct left_part *next;
  uint64_t lease_ms;
  char group[NAME_MAX_LEN + 1];
  char dest[];
};

enum { NOTE_NAME = NAME_MAX_LEN + 32 };

/* Agents of several hosts may share a folder. */
static void note_name(const struct left *l, char to[NOTE_NAME], const char *more)
{
  snprintf(to, NOTE_NAME, ".%s.datacast-left%s", l->groups->host->name, more);
}

static void add_row(json_t *rows, const char *group, const char *dest, uint64_t lease_ms)
{
  json_array_append_new(rows, json_pack("[s,s,I]", group, dest, (json_int_t)lease_ms));
}

static json_t *rows_of(const struct left *l)
{
  json_t *rows = json_array();
  for (const struct left_part *p = l->first; p != NULL; p = p->next)
    add_row(rows, p->group, p->dest, p->lease_ms);
  for (const struct group *g = l->groups->first; g != NULL; g = g->next)
    if (g->receiver != NULL && g->state == GROUP_RUNNING)
      add_row(rows, g->id, receiver_dest(g), g->lease_ms);
  return rows;
}

/* ---- in a thread ---- */

static bool put(int fd, const uint8_t *p, uint64_t n)
{
  while (n > 0) {
    ssize_t some = write(fd, p, (size_t)n);
    if (some < 0 && errno == EINTR)
      continue;
    if (some <= 0)
      return false;
    p += some;
    n -= (uint64_t)some;
  }
  return true;
}

/* The job's bytes under its name. Somebody else's file of the temporary one is not written to. */
static bool replace(const struct job *j)
{
  (void)unlinkat(j->dir, j->temp, 0);
  int fd = openat(j->dir, j->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  bool ok = fd >= 0 && put(fd, j->bytes, j->len) && (!j->sync || fsync(fd) == 0);
  int error = errno;
  if (fd >= 0)
    close(fd);
  if (ok && renameat(j->dir, j->temp, j->dir, j->name) == 0)
    return true;
  error = ok ? errno : error;
  (void)unlinkat(j->dir, j->temp, 0);
  errno = error;
  return false;
}

/* The note is there as it was, or as it is to be, also where the power goes: one of before could name what was to be kept. */
static void write_note(struct job *j)
{
  bool done = j->len > 0 ? replace(j) : unlinkat(j->dir, j->name, 0) == 0;
  j->error = done || (j->len == 0 && errno == ENOENT) ? 0 : errno;
  int dir = done && j->sync ? openat(j->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (dir < 0)
    return;
  (void)fsync(dir);
  close(dir);
}

/* ---- */

static void saved(struct job *j)
{
  struct left *l = j->owner;
  if (j->error != 0)
    log_warn("%s/%s cannot be written (%s): files that nobody goes on with stay",
             l->groups->host->dest_roots.root->path, j->name, strerror(j->error));
  l->saving = false;
  if (l->again)
    left_save(l);
}

static void save(struct left *l)
{
  const struct host *h = l->groups->host;
  json_t *rows = rows_of(l);
  l->lane = l->lane == NULL ? lane_new() : l->lane;
  char *text = json_array_size(rows) == 0 ? NULL : json_dumps(rows, JSON_COMPACT);
  struct job *j = json_array_size(rows) > 0 && text == NULL ? NULL : job_new(JOB_CALL);
  json_decref(rows);
  if (j == NULL) { /* the next one says all */
    free(text);
    return;
  }
  j->bytes = (uint8_t *)text;
  j->len = text == NULL ? 0 : strlen(text);
  j->dir = fcntl(h->dest_roots.root->fd, F_DUPFD_CLOEXEC, 3);
  j->sync = h->sync;
  j->lasts = true;
  note_name(l, j->name, "");
  note_name(l, j->temp, ".new");
  j->call = write_note;
  j->done = saved;
  j->owner = l;
  l->saving = true;
  l->again = false;
  worker_submit(h->disk, j, l->lane);
}

void left_save(struct left *l)
{
  if (l->groups == NULL || l->groups->host->dest_roots.n == 0)
    return;
  if (l->saving)
    l->again = true;
  else
    save(l);
}

static json_t *read_note(const struct left *l)
{
  const struct roots *roots = &l->groups->host->dest_roots;
  char name[NOTE_NAME];
  struct stat st;
  json_t *rows = NULL;
  if (roots->n == 0)
    return NULL;
  note_name(l, name, "");
  int fd = openat(roots->root[0].fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    return NULL;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_size <= LEFT_NOTE_MAX)
    rows = json_loadfd(fd, 0, NULL);
  close(fd);
  return rows;
}

/* Takes the part out. */
static void drop(struct left *l, struct left_part **at, bool keep)
{
  struct left_part *p = *at;
  const struct host *h = l->groups->host;
  *at = p->next;
  if (!keep && target_drop_left(&h->dest_roots, p->dest, p->group, h->disk))
    log_info("group %s: nobody goes on with what this agent had of %s when it ended: that is removed", p->group,
             p->dest);
  free(p);
}

static void expire(struct timer *t, dc_time now)
{
  struct left *l = (struct left *)(void *)((char *)t - offsetof(struct left, over));
  (void)now;
  while (l->first != NULL)
    drop(l, &l->first, false);
  left_save(l);
}

void left_init(struct left *l, struct groups *groups)
{
  *l = (struct left){.groups = groups, .over = {.fire = expire, .at = DC_NEVER}};
}

static void add(struct left *l, const char *group, const char *dest, uint64_t lease_ms)
{
  size_t n = strlen(dest) + 1;
  struct left_part *p = malloc(sizeof *p + n);
  if (p == NULL)
    return;
  *p = (struct left_part){.next = l->first, .lease_ms = lease_ms};
  snprintf(p->group, sizeof p->group, "%s", group);
  memcpy(p->dest, dest, n);
  l->first = p;
}

void left_open(struct left *l)
{
  uint64_t longest = 0;
  size_t i;
  json_t *row, *rows = read_note(l);
  json_array_foreach(rows, i, row)
  {
    const char *group, *dest;
    json_int_t lease_ms;
    if (json_unpack(row, "[s,s,I]", &group, &dest, &lease_ms) < 0 || !name_ok(group) || lease_ms < 0 ||
        lease_ms > LEASE_MAX_MS)
      continue;
    add(l, group, dest, (uint64_t)lease_ms);
    longest = (uint64_t)lease_ms > longest ? (uint64_t)lease_ms : longest;
  }
  json_decref(rows);
  if (l->first != NULL)
    loop_timer(l->groups->host->loop, &l->over, loop_clock() + LEASES_KEPT * longest * DC_MS);
  else
    left_save(l);
}

void left_settle(struct left *l, const char *group, bool keep)
{
  struct left_part **at = &l->first;
  while (*at != NULL && strcmp((*at)->group, group) != 0)
    at = &(*at)->next;
  if (*at != NULL)
    drop(l, at, keep);
  left_save(l);
}

void left_close(struct left *l)
{
  loop_timer(l->groups->host->loop, &l->over, DC_NEVER);
  if (l->groups->host->dest_roots.n > 0)
    save(l); /* behind one that is under way */
  worker_forget(l->groups->host->disk, l);
  while (l->first != NULL)
    drop(l, &l->first, true);
  lane_unref(l->lane);
  l->lane = NULL;
  l->groups = NULL;
}
