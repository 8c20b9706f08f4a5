#include "telemetry.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <rte_telemetry.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "datapath/lock.h"

/* Every worker has a second to answer worker 0 (workers.c). */
enum { ANSWER_WITHIN_S = 5, KEY_MAX = 64, PARTS_MAX = 2 };

/* DPDK's commands have no argument of ours, and stay until the process ends. */
static struct {
  struct watch watch; /* an eventfd of worker 0's loop */
  struct workers *workers;
  pthread_mutex_t asking; /* one thread at a time; taken before `lock` */
  pthread_mutex_t lock;   /* worker 0's, too */
  sem_t said;
  bool open;
  json_t *request, *answer; /* under lock, as `open` */
} t = {.asking = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t begun = PTHREAD_ONCE_INIT;

static void begin(void)
{
  lock_open(&t.lock);
  sem_init(&t.said, 0, 0);
}

/* ---- from DPDK's threads to worker 0 and back ---- */

static void asked(struct watch *watch, uint32_t events)
{
  uint64_t times;
  bool stop = false; /* no command asks for it */
  (void)events;
  if (read(watch->fd, &times, sizeof times) < 0)
    return;
  pthread_mutex_lock(&t.lock);
  if (t.request != NULL && t.answer == NULL) {
    t.answer = workers_answer(t.workers, t.request, &stop);
    sem_post(&t.said);
  }
  pthread_mutex_unlock(&t.lock);
}

/* Takes the request over. NULL: it was refused, or nobody answers. */
static json_t *ask(json_t *request)
{
  struct timespec until;
  uint64_t one = 1;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += ANSWER_WITHIN_S;
  pthread_mutex_lock(&t.asking);
  while (sem_trywait(&t.said) == 0)
    continue; /* for a request that was not waited for any more */
  pthread_mutex_lock(&t.lock);
  bool rung = t.open;
  if (rung) {
    t.request = request;
    rung = write(t.watch.fd, &one, sizeof one) == sizeof one;
  }
  pthread_mutex_unlock(&t.lock);
  while (rung && sem_clockwait(&t.said, CLOCK_MONOTONIC, &until) < 0 && errno == EINTR)
    continue;
  pthread_mutex_lock(&t.lock);
  json_t *answer = t.answer;
  t.request = t.answer = NULL;
  pthread_mutex_unlock(&t.lock);
  pthread_mutex_unlock(&t.asking);
  json_decref(request);
  if (json_is_true(json_object_get(answer, "ok")))
    return answer;
  json_decref(answer);
  return NULL;
}

/* ---- JSON as DPDK's telemetry has it: flat dictionaries, names of letters, digits and '_' ---- */

static void put(struct rte_tel_data *to, const char *key, const json_t *value)
{
  if (json_is_integer(value))
    (void)rte_tel_data_add_dict_u64(to, key, (uint64_t)json_integer_value(value));
  else if (json_is_boolean(value))
    (void)rte_tel_data_add_dict_int(to, key, json_is_true(value));
  else if (json_is_string(value))
    (void)rte_tel_data_add_dict_string(to, key, json_string_value(value));
}

/* What an object has, and what the objects in it have as "key_inner". It takes no more than a dictionary holds. */
static void put_all(struct rte_tel_data *to, const json_t *from, const char *before)
{
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)from, key, value)
  {
    char name[KEY_MAX];
    snprintf(name, sizeof name, "%s%s", before, key);
    for (char *c = name; *c != '\0'; c++)
      if (!isalnum((unsigned char)*c))
        *c = '_';
    if (json_is_object(value) && before[0] == '\0') {
      strncat(name, "_", sizeof name - strlen(name) - 1);
      put_all(to, value, name);
    } else {
      put(to, name, value);
    }
  }
}

/* ---- commands ---- */

struct words {
  char text[SW_NAME_MAX + KEY_MAX];
  const char *part[PARTS_MAX]; /* a node's name, then a number */
  uint64_t number;             /* the last part, where `numbered` */
};

/* "NODE" or "NODE,NUMBER" or "NUMBER": as many parts as wanted. */
static bool parse(struct words *w, const char *params, unsigned parts, bool numbered)
{
  char *rest = w->text, *end;
  size_t length = params != NULL ? strlen(params) : 0;
  *w = (struct words){.number = 0};
  if (length == 0 || length >= sizeof w->text)
    return false;
  memcpy(w->text, params, length + 1);
  for (unsigned i = 0; i < parts; i++)
    if ((w->part[i] = strsep(&rest, ",")) == NULL || w->part[i][0] == '\0')
      return false;
  const char *last = w->part[parts - 1];
  w->number = numbered ? strtoull(last, &end, 10) : 0;
  return rest == NULL && (!numbered || (isdigit((unsigned char)last[0]) && *end == '\0'));
}

static json_t *of_node(const char *op, const char *node) { return ask(json_pack("{s:s,s:s}", "op", op, "node", node)); }

static json_t *inside(const json_t *answer, const char *node)
{
  return json_object_get(json_object_get(answer, "nodes"), node);
}

static int nodes(const char *cmd, const char *params, struct rte_tel_data *d)
{
  json_t *answer = ask(json_pack("{s:s}", "op", "totals")), *all = json_object_get(answer, "nodes");
  (void)cmd, (void)params;
  if (answer == NULL)
    return -1;
  rte_tel_data_start_array(d, RTE_TEL_STRING_VAL);
  for (void *at = json_object_iter(all); at != NULL; at = json_object_iter_next(all, at))
    (void)rte_tel_data_add_array_string(d, json_object_iter_key(at));
  json_decref(answer);
  return 0;
}

static int node(const char *cmd, const char *params, struct rte_tel_data *d)
{
  struct words w;
  json_t *answer = parse(&w, params, 1, false) ? of_node("totals", w.part[0]) : NULL;
  (void)cmd;
  if (answer == NULL)
    return -1;
  rte_tel_data_start_dict(d);
  put_all(d, inside(answer, w.part[0]), "");
  json_decref(answer);
  return 0;
}

static int ports(const char *cmd, const char *params, struct rte_tel_data *d)
{
  struct words w;
  json_t *answer = parse(&w, params, 1, false) ? of_node("ports", w.part[0]) : NULL;
  json_t *all = inside(answer, w.part[0]);
  (void)cmd;
  if (answer == NULL)
    return -1;
  rte_tel_data_start_array(d, RTE_TEL_INT_VAL);
  for (void *at = json_object_iter(all); at != NULL; at = json_object_iter_next(all, at))
    (void)rte_tel_data_add_array_int(d, atoi(json_object_iter_key(at)));
  json_decref(answer);
  return 0;
}

/* What `ports` and `counters` of the control socket say of it. */
static int port(const char *cmd, const char *params, struct rte_tel_data *d)
{
  struct words w;
  if (!parse(&w, params, 2, true))
    return -1;
  (void)cmd;
  json_t *facts = of_node("ports", w.part[0]), *counted = of_node("counters", w.part[0]);
  json_t *one = json_object_get(inside(facts, w.part[0]), w.part[1]);
  json_t *more = json_object_get(json_object_get(inside(counted, w.part[0]), "ports"), w.part[1]);
  if (one != NULL && more != NULL) {
    json_object_update(one, more);
    rte_tel_data_start_dict(d);
    put_all(d, one, "");
  }
  int rc = one != NULL && more != NULL ? 0 : -1;
  json_decref(facts);
  json_decref(counted);
  return rc;
}

static int workers(const char *cmd, const char *params, struct rte_tel_data *d)
{
  (void)cmd, (void)params;
  pthread_mutex_lock(&t.lock);
  unsigned n = t.open ? t.workers->n : 0;
  pthread_mutex_unlock(&t.lock);
  rte_tel_data_start_array(d, RTE_TEL_INT_VAL);
  for (unsigned i = 0; i < n; i++)
    (void)rte_tel_data_add_array_int(d, (int)i);
  return n > 0 ? 0 : -1;
}

/* Its loop, and the caches that are its own, all nodes together. */
static int worker(const char *cmd, const char *params, struct rte_tel_data *d)
{
  static const char *const summed[] = {"trees", "bytes", "hits", "interests", "data"};
  struct words w;
  if (!parse(&w, params, 1, true))
    return -1;
  (void)cmd;
  json_t *answer = ask(json_pack("{s:s,s:I}", "op", "counters", "worker", (json_int_t)w.number));
  json_t *all = json_object_get(answer, "nodes");
  if (answer == NULL)
    return -1;
  rte_tel_data_start_dict(d);
  put_all(d, json_object_get(answer, "loop"), "");
  for (unsigned i = 0; i < sizeof summed / sizeof *summed; i++) {
    uint64_t sum = 0;
    for (void *at = json_object_iter(all); at != NULL; at = json_object_iter_next(all, at))
      sum += (uint64_t)json_integer_value(json_object_get(json_object_iter_value(at), summed[i]));
    (void)rte_tel_data_add_dict_u64(d, summed[i], sum);
  }
  put_all(d, json_object_get(answer, "packets"), "");
  json_decref(answer);
  return 0;
}

static int trees(const char *cmd, const char *params, struct rte_tel_data *d)
{
  struct words w;
  json_t *answer = parse(&w, params, 1, false) ? of_node("trees", w.part[0]) : NULL;
  const json_t *list = inside(answer, w.part[0]);
  (void)cmd;
  if (answer == NULL)
    return -1;
  rte_tel_data_start_array(d, RTE_TEL_U64_VAL); /* the first RTE_TEL_MAX_ARRAY_ENTRIES of them */
  for (size_t i = 0; i < json_array_size(list); i++)
    (void)rte_tel_data_add_array_u64(d, (uint64_t)json_integer_value(json_object_get(json_array_get(list, i), "tree")));
  json_decref(answer);
  return 0;
}

static int tree(const char *cmd, const char *params, struct rte_tel_data *d)
{
  struct words w;
  json_t *answer = parse(&w, params, 2, true) ? of_node("trees", w.part[0]) : NULL;
  const json_t *list = inside(answer, w.part[0]);
  int rc = -1;
  (void)cmd;
  for (size_t i = 0; rc < 0 && i < json_array_size(list); i++) {
    const json_t *one = json_array_get(list, i);
    if ((uint64_t)json_integer_value(json_object_get(one, "tree")) != w.number)
      continue;
    rte_tel_data_start_dict(d);
    put_all(d, one, "");
    rc = 0;
  }
  json_decref(answer);
  return rc;
}

/* ---- beginning and end ---- */

int telemetry_open(struct workers *w, struct fault *f)
{
  static const struct {
    const char *name;
    telemetry_cb run;
    const char *help;
  } commands[] = {
      {"/datacast/nodes", nodes, "Names of the nodes of this switch."},
      {"/datacast/node", node, "Counters of a node. Parameters: its name"},
      {"/datacast/ports", ports, "Numbers of a node's ports. Parameters: its name"},
      {"/datacast/port", port, "State and counters of a port. Parameters: node,port"},
      {"/datacast/workers", workers, "Numbers of the workers."},
      {"/datacast/worker", worker, "A worker's loop, packets and caches. Parameters: its number"},
      {"/datacast/trees", trees, "Ids of the trees that a node knows. Parameters: its name"},
      {"/datacast/tree", tree, "Counters of a tree. Parameters: node,tree"},
  };
  pthread_once(&begun, begin);
  t.watch = (struct watch){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = asked};
  if (t.watch.fd < 0 || loop_watch(&w->worker[0].loop, &t.watch, EPOLLIN) < 0) {
    if (t.watch.fd >= 0)
      close(t.watch.fd);
    return fail(f, "telemetry: no eventfd");
  }
  t.workers = w;
  t.open = true;
  for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++) {
    int rc = rte_telemetry_register_cmd(commands[i].name, commands[i].run, commands[i].help);
    if (rc < 0) {
      telemetry_close();
      return fail(f, "telemetry: %s is refused: %s", commands[i].name, strerror(-rc));
    }
  }
  return 0;
}

void telemetry_close(void)
{
  pthread_once(&begun, begin);
  pthread_mutex_lock(&t.lock);
  if (t.open) {
    t.open = false;
    loop_unwatch(&t.workers->worker[0].loop, &t.watch);
    close(t.watch.fd);
    sem_post(&t.said);
  }
  pthread_mutex_unlock(&t.lock);
}
