#include "left.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"
#include "params.h"
#include "target.h"

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
  snprintf(to, NOTE_NAME, ".%s.datacast-left%s", l->host->name, more);
}

static void save(const struct left *l)
{
  const struct roots *roots = &l->host->dest_roots;
  char name[NOTE_NAME], fresh[NOTE_NAME];
  if (roots->n == 0)
    return;
  note_name(l, name, "");
  note_name(l, fresh, ".new");
  if (l->first == NULL) {
    (void)unlinkat(roots->root[0].fd, name, 0);
    return;
  }
  json_t *rows = json_array();
  for (const struct left_part *p = l->first; p != NULL; p = p->next)
    json_array_append_new(rows, json_pack("[s,s,I]", p->group, p->dest, (json_int_t)p->lease_ms));
  int fd = openat(roots->root[0].fd, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
  bool ok = fd >= 0 && json_dumpfd(rows, fd, JSON_COMPACT) == 0;
  if (fd >= 0)
    close(fd);
  if (!ok || renameat(roots->root[0].fd, fresh, roots->root[0].fd, name) < 0)
    log_warn("%s/%s cannot be written (%s): files that nobody goes on with stay", roots->root[0].path, name,
             strerror(errno));
  json_decref(rows);
}

static json_t *read_note(const struct left *l)
{
  const struct roots *roots = &l->host->dest_roots;
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
  *at = p->next;
  if (!keep) {
    log_info("group %s: nobody goes on with what this agent had of %s when it was stopped: that is removed", p->group,
             p->dest);
    target_drop_left(&l->host->dest_roots, p->dest, p->group, l->host->disk);
  }
  free(p);
}

static void expire(struct timer *t, dc_time now)
{
  struct left *l = (struct left *)(void *)((char *)t - offsetof(struct left, over));
  (void)now;
  while (l->first != NULL)
    drop(l, &l->first, false);
  save(l);
}

void left_init(struct left *l, struct host *host)
{
  *l = (struct left){.host = host, .over = {.fire = expire, .at = DC_NEVER}};
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
    left_add(l, group, dest, (uint64_t)lease_ms);
    longest = (uint64_t)lease_ms > longest ? (uint64_t)lease_ms : longest;
  }
  json_decref(rows);
  if (l->first != NULL)
    loop_timer(l->host->loop, &l->over, loop_clock() + LEASES_KEPT * longest * DC_MS);
  else
    save(l);
}

void left_add(struct left *l, const char *group, const char *dest, uint64_t lease_ms)
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

void left_settle(struct left *l, const char *group, bool keep)
{
  struct left_part **at = &l->first;
  while (*at != NULL && strcmp((*at)->group, group) != 0)
    at = &(*at)->next;
  if (*at == NULL)
    return;
  drop(l, at, keep);
  save(l);
}

void left_close(struct left *l)
{
  loop_timer(l->host->loop, &l->over, DC_NEVER);
  save(l);
  while (l->first != NULL)
    drop(l, &l->first, true);
}
