#include "reading.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "receiver_state.h"
#include "source_file.h"
#include "worker.h"

/* One that waits for the disk. */
struct reading {
  struct signalling *all;
  struct conn *from; /* NULL: it went away */
  json_int_t id;
  struct reading *next;
};

static void refuse(struct conn *to, json_int_t id, const struct fault *why)
{
  json_t *m = json_pack("{s:s,s:I,s:s,s:s}", "type", "error", "id", id, "code", why->code, "error", why->text);
  conn_send(to, m);
  json_decref(m);
}

static void answer(struct conn *to, json_int_t id, const struct stat *st, const uint8_t *p, size_t n)
{
  json_t *m = json_pack("{s:s,s:I,s:I,s:I,s:I,s:I}", "type", "bytes", "id", id, "n", (json_int_t)n, "size",
                        (json_int_t)st->st_size, "mtime_ns",
                        (json_int_t)st->st_mtim.tv_sec * (json_int_t)DC_SEC + (json_int_t)st->st_mtim.tv_nsec, "inode",
                        (json_int_t)(st->st_ino & ((UINT64_C(1) << 53) - 1)));
  conn_send_bytes(to, m, p, n);
  json_decref(m);
}

/* ---- which file, and how much of it ---- */

static struct file *received_file(struct host *h, const char *dest, struct fault *why)
{
  const char *rest;
  const struct root *root = roots_of(&h->dest_roots, dest, &rest, why);
  if (root == NULL)
    return NULL;
  int fd = root_open(root, rest, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
  struct stat st;
  struct file *f = fd < 0 ? NULL : file_new(fd);
  if (f != NULL && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
    return f;
  if (fd < 0)
    source_file_fault(why, -fd, dest);
  else
    fault_set(why, "denied", "%s is no file", dest);
  file_unref(f);
  return NULL;
}

/* Of a group: its verified bytes from `off` on. A file that is whole and has its name already is asked for by that. */
static struct file *group_part(struct groups *all, const char *id, uint64_t off, uint64_t *len, struct fault *why)
{
  const struct group *g = group_find(all, id);
  if (g == NULL || g->receiver == NULL || g->receiver->target.file == NULL) {
    fault_set(why, "no_group", "group %.64s is not being received on this host", id);
    return NULL;
  }
  const struct receiver *r = g->receiver;
  uint64_t block = (uint64_t)g->layout.piece * g->layout.per_block, end = off;
  while (end < g->layout.size && end - off < *len && r->state[end / block] == BLOCK_OK)
    end = (end / block + 1) * block;
  end = end < g->layout.size ? end : g->layout.size;
  *len = end <= off ? 0 : end - off < *len ? end - off : *len;
  return file_ref(r->target.file);
}

/* ---- */

static void forget(struct reading *r)
{
  struct reading **at = &r->all->readings;
  while (*at != r)
    at = &(*at)->next;
  *at = r->next;
  r->all->readings_n--;
  free(r);
}

static void have_read(struct job *j)
{
  struct reading *r = j->owner;
  struct fault why;
  if (r->from != NULL && j->error == 0) {
    answer(r->from, r->id, &j->stat, j->bytes, (size_t)j->len);
  } else if (r->from != NULL) {
    if (j->error < 0)
      fault_set(&why, "changed", "the file is shorter than it was");
    else
      source_file_fault(&why, j->error, "the file");
    refuse(r->from, r->id, &why);
  }
  forget(r);
}

static struct file *file_of(struct signalling *s, const json_t *m, uint64_t off, uint64_t *len, struct fault *why)
{
  const char *path = json_string_value(json_object_get(m, "path"));
  const char *group = json_string_value(json_object_get(m, "group"));
  const char *dest = json_string_value(json_object_get(m, "dest"));
  if ((path != NULL) + (group != NULL) + (dest != NULL) != 1)
    fault_set(why, "bad_request", "read names one of path, group and dest");
  else if (group != NULL)
    return group_part(s->groups, group, off, len, why);
  else
    return path != NULL ? source_plain(s->groups->host, path, why) : received_file(s->groups->host, dest, why);
  return NULL;
}

void reading_begin(struct signalling *s, struct conn *from, const json_t *m)
{
  struct fault why;
  json_int_t id = json_integer_value(json_object_get(m, "id"));
  uint64_t off, len;
  struct file *f = NULL;
  if (s->readings_n >= READINGS_MAX)
    fault_set(&why, "limit", "%d reads are under way", READINGS_MAX);
  else if (get_integer(m, "off", 0, (UINT64_C(1) << 53) - 1, 0, &off, &why) &&
           get_integer(m, "len", 0, READ_MAX, 0, &len, &why))
    f = file_of(s, m, off, &len, &why);
  struct job *j = f == NULL ? NULL : job_new(JOB_READ);
  struct reading *r = j == NULL ? NULL : malloc(sizeof *r);
  if (r == NULL) {
    if (f != NULL)
      fault_set(&why, "io", "out of memory");
    file_unref(f);
    free(j);
    refuse(from, id, &why);
    return;
  }
  *r = (struct reading){.all = s, .from = from, .id = id, .next = s->readings};
  s->readings = r;
  s->readings_n++;
  j->file = f;
  j->off = off;
  j->len = len;
  j->done = have_read;
  j->owner = r;
  worker_submit(s->groups->host->worker, j, NULL);
}

void reading_lost(struct signalling *s, const struct conn *from)
{
  for (struct reading *r = s->readings; r != NULL; r = r->next)
    if (r->from == from)
      r->from = NULL;
}

bool reading_needs(const struct signalling *s, const struct conn *from)
{
  for (const struct reading *r = s->readings; r != NULL; r = r->next)
    if (r->from == from)
      return true;
  return false;
}
