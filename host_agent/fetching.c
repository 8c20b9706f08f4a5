#include "fetching.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fetch.h"
#include "receiver_state.h"
#include "wants.h"

enum state { IDLE, WANTED, UNDER_WAY };

struct fetching {
  struct objects *objects;
  struct file *file;
  uint32_t wanted, cursor, under_way; /* blocks to be fetched; where the next one is looked for */
  uint8_t *state;                     /* per block: enum state */
  uint64_t speed;                     /* of all requests together, bytes a second; 0: not known */
  uint64_t wait; /* least nanoseconds until a first byte: a round trip, and what the origin needs */
};

static void told(struct group *g, const uint32_t *blocks, unsigned n)
{
  json_t *list = json_array();
  for (unsigned i = 0; i < n; i++) {
    char hex[65];
    hex_write(hex, g->receiver->digest[blocks[i]], DIGEST_LEN);
    json_array_append_new(list, json_pack("[i,s]", (int)blocks[i], hex));
  }
  group_event(g, "digests", json_pack("{s:o}", "blocks", list));
}

/* What is not wanted here is passed like what is held, and is a hole. */
static bool wanted(const struct group *g, uint32_t block)
{
  return g->receiver->skip == NULL || !g->receiver->skip[block];
}

static bool held(const struct group *g, uint32_t block)
{
  return g->receiver->state[block] == BLOCK_OK && wanted(g, block);
}

static void pump(struct group *g);

static void fetched(struct job *j)
{
  struct group *g = j->owner;
  struct fetching *f = g->fetching;
  struct fault why = j->fetch->why;
  uint32_t first = (uint32_t)j->tag, n = (uint32_t)((j->len - 1) / j->fetch->block + 1), got = 0,
           some[FETCH_BLOCKS_MAX];
  uint64_t with = f->under_way--; /* all had a part of the line */
  for (uint32_t b = first; b < first + n; b++)
    f->state[b] = IDLE;
  if (g->state != GROUP_RUNNING)
    return;
  if (j->error == 0 && j->fetch->wait_ns > 0)
    f->wait = f->wait == 0 || j->fetch->wait_ns < f->wait ? j->fetch->wait_ns : f->wait;
  if (j->error == 0 && j->fetch->took_ns > 0)
    f->speed = (f->speed + with * j->len * 1000000 / (j->fetch->took_ns / 1000 + 1)) / (f->speed == 0 ? 1 : 2);
  for (; j->error == 0 && got < n; got++) {
    if (!blocks_fetched(g, first + got, j->fetch->digest[got], &why))
      j->error = -1;
    else
      some[got] = first + got;
  }
  if (got > 0)
    told(g, some, j->error == 0 ? got : got - 1);
  if (j->error != 0 && (strcmp(why.code, "disk_full") == 0 || strcmp(why.code, "io") == 0)) {
    group_fail(g, &why);
    return;
  }
  if (j->error == EAGAIN) { /* once the one that waits goes on */
    for (uint32_t b = first; b < first + n; b++)
      f->state[b] = WANTED;
    f->wanted += n;
  } else if (j->error != 0 && j->error != EINTR) {
    log_warn("group %s: blocks %u to %u: %s", g->id, first, first + n - 1, why.text);
    group_event(g, "not_fetched",
                json_pack("{s:I,s:s,s:s}", "block", (json_int_t)first, "code", why.code, "error", why.text));
    for (uint32_t b = 0; b < g->receiver->blocks; b++) /* others are ordered what it was */
      f->state[b] = f->state[b] == WANTED ? IDLE : f->state[b];
    f->wanted = 0;
  }
  for (uint32_t b = first; j->error != 0 && b < first + n; b++)
    blocks_doubt(g, b);
  pump(g);
  blocks_go(g);
}

bool fetching_waits(const struct group *g, struct fault *why)
{
  return g->fetching != NULL && g->state == GROUP_RUNNING && objects_wait(g->fetching->objects, why);
}

struct file *fetching_file(const struct group *g) { return g->fetching->file; }

bool fetching_over(struct group *g)
{
  struct fetching *f = g->fetching;
  if (f == NULL || f->under_way == 0)
    return true;
  objects_end(f->objects);
  return false;
}

/* What is under way is nobody else's any more, and lost where this host dies: it should take about a quarter of a second. Of an
 * origin that is far away it takes six times as long as the way there: else it would be the way that takes the time, and
 * less each time, for what is measured is what was asked for.
 * Requests are few rather than short, since each has a head; two at least, so that the line is busy while one is asked for. */
enum { UNDER_WAY_PER_S = 4, WAITS = 6, WORTH_A_HEAD = 128 << 10 };

static uint64_t within(uint64_t n, uint64_t least, uint64_t most) { return n < least ? least : n > most ? most : n; }

static uint64_t under_way(const struct fetching *f)
{
  uint64_t last = within(WAITS * f->wait, DC_SEC / UNDER_WAY_PER_S, 2 * DC_SEC);
  return f->speed / 1000 * (last / 1000000);
}

/* How many blocks the next request asks for. */
static uint32_t at_once(const struct fetching *f, uint64_t block)
{
  uint64_t bytes = under_way(f), least = bytes / 2 < WORTH_A_HEAD ? bytes / 2 : WORTH_A_HEAD;
  return (uint32_t)within(within(bytes / FETCH_AT_ONCE, least, FETCH_BYTES_MAX) / block, 1, FETCH_BLOCKS_MAX);
}

/* How many requests there may be: one of an origin that has no time. */
static uint32_t beside(const struct fetching *f, uint64_t block)
{
  if (objects_busy(f->objects))
    return 1;
  return f->speed == 0 ? FETCH_AT_ONCE : (uint32_t)within(under_way(f) / (at_once(f, block) * block), 2, FETCH_AT_ONCE);
}

/* Nothing before all that is held from before was hashed again: it may be what is wanted. */
static void pump(struct group *g)
{
  struct fetching *f = g->fetching;
  struct receiver *r = g->receiver;
  if (r->resuming > 0)
    return;
  uint64_t bytes = (uint64_t)g->layout.piece * g->layout.per_block;
  while (f->wanted > 0 && f->under_way < beside(f, bytes) && g->state == GROUP_RUNNING) {
    while (f->state[f->cursor] != WANTED)
      f->cursor = f->cursor + 1 < r->blocks ? f->cursor + 1 : 0;
    uint32_t first = f->cursor, n = 0, most = at_once(f, bytes);
    if (held(g, first)) { /* came over a tree meanwhile */
      f->state[first] = IDLE;
      f->wanted--;
      told(g, &first, 1);
      continue;
    }
    while (n < most && first + n < r->blocks && f->state[first + n] == WANTED && !held(g, first + n))
      n++;
    uint64_t off = first * bytes, len = g->layout.size - off < n * bytes ? g->layout.size - off : n * bytes;
    struct job *j = fetch_bytes(f->objects, f->file, off, len, bytes);
    if (j == NULL)
      return; /* the next one that ends comes here again */
    for (uint32_t b = first; b < first + n; b++)
      f->state[b] = UNDER_WAY;
    f->wanted -= n;
    f->under_way++;
    j->tag = first;
    j->done = fetched;
    j->owner = g;
    worker_submit(host_of(g)->fetch, j, NULL);
  }
}

bool fetching_open(struct group *g, const json_t *origin, struct fault *why)
{
  if (g->fetching != NULL)
    return true;
  struct file *file = g->receiver->target.file;
  if (file == NULL)
    return true; /* it is whole: there is nothing to fetch */
  struct objects *o =
      objects_open(origin, g->layout.size, g->lease_ms * DC_MS, host_of(g)->origins, &host_of(g)->security, why);
  if (o == NULL)
    return false;
  struct fetching *f = calloc(1, sizeof *f);
  uint8_t *state = calloc(g->receiver->blocks + 1, 1);
  if (f == NULL || state == NULL) {
    free(f);
    free(state);
    objects_unref(o);
    return fault_set(why, "io", "out of memory");
  }
  *f = (struct fetching){.objects = o, .file = file_ref(file), .state = state};
  g->fetching = f;
  return true;
}

/* Row i of a list of [first, count] of the file's blocks. */
static bool row_of(const struct group *g, const json_t *list, size_t i, uint32_t *first, uint32_t *end,
                   struct fault *why)
{
  uint32_t count;
  if (!wants_row(json_array_get(list, i), 0, g->receiver->blocks, first, &count))
    return fault_set(why, "bad_request", "blocks[%zu] is not [first, count] of the file's %u blocks", i,
                     g->receiver->blocks);
  *end = *first + count;
  return true;
}

/* Blocks that are wanted and not asked for are somebody else's. Those that are not given back are there or on their way. */
static bool leave(struct group *g, const json_t *list, json_t *result, struct fault *why)
{
  struct fetching *f = g->fetching;
  json_t *left = json_array();
  uint32_t first, end;
  for (size_t i = 0; i < json_array_size(list); i++) {
    if (!row_of(g, list, i, &first, &end, why)) {
      json_decref(left);
      return false;
    }
    for (uint32_t b = first; b < end; b++) {
      if (f->state[b] != WANTED || held(g, b) || g->receiver->claimed[b])
        continue;
      f->state[b] = IDLE;
      f->wanted--;
      json_array_append_new(left, json_integer(b));
    }
  }
  json_object_set_new(result, "left", left);
  return true;
}

bool fetching_order(struct group *g, const json_t *part, json_t *result, struct fault *why)
{
  struct fetching *f = g->fetching;
  const json_t *list = json_object_get(part, "blocks"), *less = json_object_get(part, "leave");
  if (f == NULL)
    return g->state != GROUP_RUNNING || g->receiver == NULL || g->receiver->target.file != NULL
               ? fault_set(why, "bad_request", "this host does not fetch for the group")
               : (fetching_repeat(g), true);
  if (json_is_array(less))
    return leave(g, less, result, why);
  if (!json_is_array(list))
    return fault_set(why, "bad_request", "blocks must be an array");
  uint32_t first, end;
  for (size_t i = 0; i < json_array_size(list); i++) {
    if (!row_of(g, list, i, &first, &end, why))
      return false;
    for (uint32_t b = first; b < end; b++) {
      if (!wanted(g, b))
        return fault_set(why, "bad_request", "block %u is not in the ranges of this host", b);
      f->wanted += f->state[b] == IDLE;
      f->state[b] = f->state[b] == IDLE ? WANTED : f->state[b];
    }
  }
  pump(g);
  return true;
}

void fetching_go_on(struct group *g)
{
  fetching_repeat(g); /* nobody has told of what is held from before */
  pump(g);
}

void fetching_repeat(struct group *g)
{
  uint32_t some[DIGESTS_PER_EVENT];
  unsigned n = 0;
  for (uint32_t b = 0; b < g->receiver->blocks; b++) {
    if (held(g, b))
      some[n++] = b;
    if (n == DIGESTS_PER_EVENT || (n > 0 && b + 1 == g->receiver->blocks)) {
      told(g, some, n);
      n = 0;
    }
  }
}

void fetching_stop(struct group *g)
{
  objects_end(g->fetching->objects); /* what is under way would try on for a minute, and hold the file */
  file_unref(g->fetching->file);
  g->fetching->file = NULL;
}

void fetching_close(struct group *g)
{
  struct fetching *f = g->fetching;
  worker_forget(host_of(g)->fetch, g);
  fetching_stop(g);
  objects_unref(f->objects);
  free(f->state);
  free(f);
  g->fetching = NULL;
}

/* ---- stat ---- */

struct asked {
  void (*answer)(void *arg, json_t *result);
  void *arg;
  json_t *objects;
  unsigned left; /* that have not answered */
};

static json_t *not_had(const struct fault *why, uint64_t later_s)
{
  return json_pack("{s:s,s:s,s:I}", "code", why->code, "error", why->text, "later_s", (json_int_t)later_s);
}

static void probed(struct job *j)
{
  struct asked *a = j->owner;
  const struct fetch *f = j->fetch;
  json_array_set_new(a->objects, j->tag,
                     j->error != 0 ? not_had(&f->why, f->later_s) : json_pack("[I,s]", (json_int_t)f->size, f->etag));
  if (--a->left > 0)
    return;
  a->answer(a->arg, json_pack("{s:b,s:o}", "ok", 1, "objects", a->objects));
  free(a);
}

/* A job that asks for it; NULL with *why. */
static struct job *probe_of(const json_t *url, const json_t *allowed, const struct security *security,
                            struct fault *why)
{
  if (!json_is_string(url)) {
    fault_set(why, "bad_request", "urls must be a list of texts");
    return NULL;
  }
  struct origin *o = origin_open(json_string_value(url), allowed, security, why);
  struct job *j = o == NULL ? NULL : fetch_probe(o);
  if (o != NULL && j == NULL)
    fault_set(why, "io", "out of memory");
  origin_unref(o);
  return j;
}

bool fetching_stat(struct host *h, const json_t *urls, void (*answer)(void *arg, json_t *result), void *arg,
                   struct fault *why)
{
  size_t n = json_array_size(urls);
  if (n == 0 || n > FETCH_STAT_MAX)
    return fault_set(why, "bad_request", "urls must be a list of 1 to %d", FETCH_STAT_MAX);
  json_t *allowed = origin_allowed(h->origins, why);
  struct asked *a = allowed == NULL ? NULL : malloc(sizeof *a);
  if (a == NULL) {
    json_decref(allowed);
    return allowed == NULL ? false : fault_set(why, "io", "out of memory");
  }
  *a = (struct asked){.answer = answer, .arg = arg, .objects = json_array()};
  struct fault first = {.code = ""};
  for (size_t i = 0; i < n; i++) {
    struct job *j = probe_of(json_array_get(urls, i), allowed, &h->security, why);
    json_array_append_new(a->objects, j == NULL ? not_had(why, 0) : json_null());
    if (j == NULL) {
      first = first.code[0] == '\0' ? *why : first;
      continue;
    }
    j->done = probed;
    j->owner = a;
    j->tag = i;
    a->left++;
    worker_submit(h->probe, j, NULL); /* its answer comes in a later turn of the loop */
  }
  json_decref(allowed);
  if (a->left > 0)
    return true;
  *why = first;
  json_decref(a->objects);
  free(a);
  return false;
}
