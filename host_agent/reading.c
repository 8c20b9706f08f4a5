#include "reading.h"

#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "receiver_state.h"
#include "sendable.h"
#include "worker.h"

/* One that waits for the disk. */
struct reading {
  struct signalling *all;
  struct conn *from; /* NULL: it went away */
  json_int_t id;
  uint64_t off, len;
  struct reading *next;
};

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

/* ---- which file, and how much of it ---- */

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

static void give_up(struct reading *r, const struct fault *why)
{
  if (r->from != NULL)
    refuse(r->from, r->id, why);
  forget(r);
}

static void have_read(struct job *j)
{
  struct reading *r = j->owner;
  struct fault why;
  if (j->error == 0) {
    if (r->from != NULL)
      answer(r->from, r->id, j);
    forget(r);
    return;
  }
  if (j->error < 0)
    fault_set(&why, "changed", "it is shorter than it was, or has changed");
  else
    sendable_fault(&why, j->error, "the file");
  give_up(r, &why);
}

static void read_now(struct reading *r, struct file *f)
{
  struct job *j = job_new(JOB_READ);
  if (j == NULL) {
    struct fault why;
    fault_set(&why, "io", "out of memory");
    file_unref(f);
    give_up(r, &why);
    return;
  }
  j->file = f;
  j->off = r->off;
  j->len = r->len;
  j->done = have_read;
  j->owner = r;
  worker_submit(r->all->groups->host->worker, j, NULL);
}

static void had_folder(void *arg, struct file *f, const struct fault *why)
{
  if (f != NULL)
    read_now(arg, f);
  else
    give_up(arg, why);
}

static bool is_folder(const struct file *f)
{
  struct stat st;
  return fstat(f->fd, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool begin(struct reading *r, const json_t *m, struct fault *why)
{
  struct signalling *s = r->all;
  struct host *h = s->groups->host;
  const char *path = json_string_value(json_object_get(m, "path"));
  const char *group = json_string_value(json_object_get(m, "group"));
  const char *dest = json_string_value(json_object_get(m, "dest"));
  if ((path != NULL) + (group != NULL) + (dest != NULL) != 1)
    return fault_set(why, "bad_request", "read names one of path, group and dest");
  struct walk_name name = {path != NULL ? path : dest, dest != NULL};
  const struct roots *roots = path != NULL ? &h->source_roots : &h->dest_roots;
  struct file *f =
      group != NULL ? group_part(s->groups, group, r->off, &r->len, why) : walks_kept(&h->walks, name, r->len == 0);
  if (f == NULL && group == NULL)
    f = sendable_look(h, roots, name.path, why);
  if (f == NULL)
    return false;
  if (group == NULL && f->folder == NULL && is_folder(f))
    return walks_ask(&h->walks, name, f, had_folder, r, why);
  read_now(r, f);
  return true;
}

void reading_begin(struct signalling *s, struct conn *from, const json_t *m)
{
  struct fault why;
  json_int_t id = json_integer_value(json_object_get(m, "id"));
  uint64_t off, len;
  struct reading *r = NULL;
  if (s->readings_n >= READINGS_MAX)
    fault_set(&why, "limit", "%d reads are under way", READINGS_MAX);
  else if (get_integer(m, "off", 0, (UINT64_C(1) << 53) - 1, 0, &off, &why) &&
           get_integer(m, "len", 0, READ_MAX, 0, &len, &why) && (r = malloc(sizeof *r)) == NULL)
    fault_set(&why, "io", "out of memory");
  if (r == NULL) {
    refuse(from, id, &why);
    return;
  }
  *r = (struct reading){.all = s, .from = from, .id = id, .off = off, .len = len, .next = s->readings};
  s->readings = r;
  s->readings_n++;
  if (!begin(r, m, &why))
    give_up(r, &why);
}

void reading_lost(struct signalling *s, const struct conn *from)
{
  for (struct reading *r = s->readings; r != NULL; r = r->next)
    if (r->from == from)
      r->from = NULL;
  walks_tidy(&s->groups->host->walks);
}

bool reading_needs(const struct signalling *s, const struct conn *from)
{
  for (const struct reading *r = s->readings; r != NULL; r = r->next)
    if (r->from == from)
      return true;
  return false;
}
