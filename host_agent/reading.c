#include "reading.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folder.h"
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

/* A directory between two reads: to walk it for each of them would cost more than the read. */
struct kept {
  char *name;
  bool dest; /* else a path at the source */
  struct file *file;
  uint32_t at; /* folder_same */
  dc_time used;
  struct kept *next;
};

static const dc_time KEPT_FOR = 10 * DC_SEC;

static void refuse(struct conn *to, json_int_t id, const struct fault *why)
{
  json_t *m = json_pack("{s:s,s:I,s:s,s:s}", "type", "error", "id", id, "code", why->code, "error", why->text);
  conn_send(to, m);
  json_decref(m);
}

static void answer(struct conn *to, json_int_t id, const struct job *j)
{
  const struct stat *st = &j->stat;
  const struct folder *folder = j->file->folder;
  uint64_t size = folder != NULL ? folder_bytes(folder) : (uint64_t)st->st_size;
  uint64_t mark =
      folder != NULL ? folder_mark(folder) : (uint64_t)st->st_mtim.tv_sec * DC_SEC + (uint64_t)st->st_mtim.tv_nsec;
  json_t *m = json_pack("{s:s,s:I,s:I,s:I,s:I,s:I}", "type", "bytes", "id", id, "n", (json_int_t)j->len, "size",
                        (json_int_t)size, "mtime_ns", (json_int_t)mark, "inode",
                        (json_int_t)(st->st_ino & ((UINT64_C(1) << 53) - 1)));
  if (folder != NULL)
    json_object_set_new(m, "bundle", json_integer(folder_entries(folder)));
  conn_send_bytes(to, m, j->bytes, (size_t)j->len);
  json_decref(m);
}

/* ---- directories ---- */

static void drop(struct kept **at)
{
  struct kept *k = *at;
  *at = k->next;
  file_unref(k->file);
  free(k->name);
  free(k);
}

void reading_tidy(struct signalling *s, bool all)
{
  for (struct kept **at = &s->kept; *at != NULL;)
    if (all || s->loop->now - (*at)->used > KEPT_FOR)
      drop(at);
    else
      at = &(*at)->next;
}

/* A reference, if it is still what it was. `anew`: it shall be walked again. */
static struct file *kept_file(struct signalling *s, const char *name, bool dest, bool anew)
{
  for (struct kept **at = &s->kept; *at != NULL; at = &(*at)->next) {
    struct kept *k = *at;
    if (k->dest != dest || strcmp(k->name, name) != 0)
      continue;
    if (!anew && folder_same(k->file->folder, &k->at)) {
      k->used = s->loop->now;
      return file_ref(k->file);
    }
    drop(at);
    return NULL;
  }
  return NULL;
}

static void keep(struct signalling *s, const char *name, bool dest, struct file *f)
{
  unsigned n = 0;
  struct kept **oldest = &s->kept;
  for (struct kept **at = &s->kept; *at != NULL; at = &(*at)->next, n++)
    if ((*at)->used < (*oldest)->used)
      oldest = at;
  if (n >= READ_FOLDERS_MAX)
    drop(oldest);
  struct kept *k = malloc(sizeof *k);
  char *copy = strdup(name);
  if (k == NULL || copy == NULL) { /* it is walked again */
    free(k);
    free(copy);
    return;
  }
  *k = (struct kept){.name = copy, .dest = dest, .file = file_ref(f), .used = s->loop->now, .next = s->kept};
  s->kept = k;
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
  bool known = f != NULL && fstat(fd, &st) == 0;
  if (known && (S_ISREG(st.st_mode) || (S_ISDIR(st.st_mode) && source_walk(h, f, dest, why))))
    return f;
  if (fd < 0)
    source_file_fault(why, -fd, dest);
  else if (!known || !S_ISDIR(st.st_mode))
    fault_set(why, "denied", "%s is neither a file nor a directory", dest);
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
  while (end < g->layout.size && end - off < *len && r->state[end / block] == BLOCK_OK &&
         (r->skip == NULL || !r->skip[end / block])) /* what is not wanted here is a hole */
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
    answer(r->from, r->id, j);
  } else if (r->from != NULL) {
    if (j->error < 0)
      fault_set(&why, "changed", "it is shorter than it was, or has changed");
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
  if ((path != NULL) + (group != NULL) + (dest != NULL) != 1) {
    fault_set(why, "bad_request", "read names one of path, group and dest");
    return NULL;
  }
  if (group != NULL)
    return group_part(s->groups, group, off, len, why);
  const char *name = path != NULL ? path : dest;
  struct file *f = kept_file(s, name, dest != NULL, *len == 0);
  if (f != NULL)
    return f;
  f = path != NULL ? source_look(s->groups->host, path, why) : received_file(s->groups->host, dest, why);
  if (f != NULL && f->folder != NULL)
    keep(s, name, dest != NULL, f);
  return f;
}

void reading_begin(struct signalling *s, struct conn *from, const json_t *m)
{
  struct fault why;
  json_int_t id = json_integer_value(json_object_get(m, "id"));
  uint64_t off, len;
  struct file *f = NULL;
  reading_tidy(s, false);
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
  reading_tidy(s, false);
}

bool reading_needs(const struct signalling *s, const struct conn *from)
{
  for (const struct reading *r = s->readings; r != NULL; r = r->next)
    if (r->from == from)
      return true;
  return false;
}
