/* Fault campaigns: one random network, group and mixture of faults per seed, and checkers beside it after each run.
 * The same seed is the same run, byte for byte; one that fails is run again with its trace. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "datacast/cc.h"
#include "seedfile.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define SEC UINT64_C(1000000000)

#define GRACE (600 * MS) /* three of the longest timeouts: short transfers are all timeouts */

enum { RECEIVERS = 24, VERTICES = 64, TREES = 2, FAULTS = 40, LINKS = 2 * VERTICES };

static uint64_t state;

static uint64_t draw(void)
{
  uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

static uint64_t between(uint64_t low, uint64_t high) { return low + draw() % (high - low + 1); }
static bool once_in(uint64_t n) { return draw() % n == 0; }

enum kind { LOSS, REPEAT, REORDER, CORRUPT, SPIKE, WIPE, RESTART, DOWN, KILL, SLOW, LATE, PAUSE, KINDS };
static const char *const kind_name[KINDS] = {"loss",        "duplication",   "reordering", "corruption",
                                             "delay spike", "cache wiped",   "restart",    "link down",
                                             "kill",        "slow receiver", "late",       "pause"};

struct fault {
  enum kind kind;
  uint64_t at, until;
  int where; /* link, vertex, receiver or tree */
  uint32_t ppb;
};

struct world {
  sim *s;
  int n, parent[VERTICES], link[VERTICES]; /* link: parent -> child */
  bool host[VERTICES];
  int receivers, vertex[RECEIVERS];
  int trees, tree[TREES];
  uint64_t size, rate, delay, ideal, start;
  uint32_t piece, credits;
  bool adaptive;
  const char *cc;
  uint64_t cache;
  struct fault fault[FAULTS];
  int faults;
  uint64_t last_fault;
};

static bool trace;

static void say(const struct world *w, const char *what, const struct fault *f)
{
  if (trace)
    printf("  %10.3f ms  %s %s at %d\n", (double)sim_now(w->s) / 1e6, what, kind_name[f->kind], f->where);
}

static void die(const char *what, const struct world *w)
{
  fprintf(stderr, "campaign: %s: %s\n", what, sim_error(w->s));
  exit(2);
}

/* A random tree of switches and forwarding hosts; both trees of the group may run over it, one the other way round. */
static void build(struct world *w, uint64_t seed)
{
  static const uint64_t rates[] = {100 * 1000 * 1000, 1000 * 1000 * 1000, 10ull * 1000 * 1000 * 1000};
  static const uint64_t delays[] = {1 * US, 5 * US, 50 * US, 500 * US};
  static const uint64_t caches[] = {16 * 1024, 64 * 1024, 128 * 1024, 512 * 1024};
  memset(w, 0, sizeof *w);
  state = seed * UINT64_C(0xd1342543de82ef95) + 1;
  w->s = sim_new(seed, SIM_ETHERNET);
  w->rate = rates[draw() % 3];
  w->delay = delays[draw() % 4];
  w->cache = caches[draw() % 4];
  w->piece = (uint32_t)(once_in(4) ? between(1000, 8900) : 1400);
  w->credits = once_in(3) ? (uint32_t)between(1, 64) : 16;
  w->adaptive = once_in(2);
  unsigned rules = 0;
  while (dc_cc_name(rules) != NULL)
    rules++;
  w->cc = dc_cc_name((unsigned)(draw() % rules));
  /* Mostly a few hundred packets; sometimes nothing, a byte, or a few thousand. */
  w->size = once_in(50)  ? draw() % 2
            : once_in(5) ? between(1, 4000) * w->piece - draw() % w->piece
                         : between(1, 600) * w->piece;

  int receivers = (int)between(1, RECEIVERS), ports[VERTICES] = {0}, open = 0;
  w->n = 2;
  w->host[0] = true;
  sim_vertex(w->s, true);
  sim_vertex(w->s, false);
  w->parent[0] = -1;
  w->parent[1] = 0;
  int at[VERTICES];
  at[open++] = 1;
  while (w->receivers < receivers && w->n < VERTICES) {
    int v = w->n++;
    bool last = w->n >= VERTICES - receivers;
    w->host[v] = last || !once_in(4);
    w->parent[v] = at[draw() % (uint64_t)open];
    sim_vertex(w->s, w->host[v]);
    if (!w->host[v] || (!last && once_in(4))) /* a switch, or a host that forwards */
      at[open++] = v;
    if (w->host[v])
      w->vertex[w->receivers++] = v;
  }
  for (int v = 1; v < w->n; v++) {
    int p = w->parent[v];
    w->link[v] = sim_cable(w->s, p, ports[p]++, v, ports[v]++, w->rate, w->delay, 100);
    if (w->link[v] < 0)
      die("cable", w);
  }

  struct sim_group_cfg g = {
      .source = 0, .size = w->size, .piece = w->piece, .per_block = (uint32_t)between(1, 64), .cache_bytes = w->cache};
  if (sim_group(w->s, &g) < 0)
    die("group", w);
  for (int i = 0; i < w->receivers; i++)
    if (sim_receiver(w->s, 0, w->vertex[i]) < 0)
      die("receiver", w);

  /* Arcs, without branches that lead to no receiver. */
  bool used[VERTICES] = {false};
  int child[VERTICES], parent[VERTICES], arcs = 0;
  for (int i = 0; i < w->receivers; i++)
    for (int v = w->vertex[i]; v != 0 && !used[v]; v = w->parent[v]) {
      used[v] = true;
      child[arcs] = v;
      parent[arcs++] = w->parent[v];
    }
  w->trees = once_in(3) ? 2 : 1; /* two trees over the same links are two groups' worth of company */
  uint64_t pieces = w->size == 0 ? 0 : (w->size - 1) / w->piece + 1, done = 0;
  for (int t = 0; t < w->trees; t++) {
    struct sim_tree_cfg c = {.cc = w->cc,
                             .rate_init = w->rate / between(1, 20),
                             .rate_min = w->rate / 1000,
                             .rate_max = w->rate,
                             .delta = w->rate / 200,
                             .interval = 1 * MS,
                             .burst = 1,
                             .packet_bytes = w->piece + 80,
                             .credits = w->credits,
                             .adaptive = w->adaptive,
                             .rto_min = 5 * MS,
                             .rto_max = 200 * MS,
                             .rto_init = 50 * MS,
                             .reorder = 3};
    w->tree[t] = sim_tree(w->s, 0, 100u + (uint32_t)t, &c);
    if (w->tree[t] < 0 || sim_routes(w->s, w->tree[t], child, parent, arcs) < 0)
      die("tree", w);
    uint64_t share = t + 1 == w->trees ? pieces - done : pieces / 2;
    for (uint64_t left = share; left > 0;) { /* in a few extents, as the master would */
      uint64_t part = left < 4 ? left : between(1, left);
      if (sim_extent(w->s, w->tree[t], done, (uint32_t)part) < 0)
        die("extent", w);
      done += part;
      left -= part;
    }
  }
  w->start = between(0, 10) * MS;
  if (sim_schedule(w->s, 0, w->start, UINT64_MAX) < 0 || sim_prepare(w->s) < 0)
    die("schedule", w);
  uint64_t slow = w->rate;
  w->ideal = pieces * (w->piece + 120) * 8 * SEC / slow * (uint64_t)1 + 4 * MS;
}

static void plan(struct world *w)
{
  uint64_t horizon = 2 * w->ideal + 50 * MS;
  w->faults = (int)between(0, 12);
  for (int i = 0; i < w->faults; i++) {
    struct fault *f = &w->fault[i];
    f->kind = (enum kind)(draw() % KINDS);
    f->at = w->start + draw() % horizon;
    f->until = f->at + between(1, 60) * MS;
    f->ppb = (uint32_t)between(1000000, 200000000); /* 0.1 to 20 % */
    switch (f->kind) {
    case KILL:
    case LATE:
      f->where = (int)(draw() % (uint64_t)w->receivers);
      break;
    case WIPE:
    case RESTART:
      f->where = (int)(draw() % (uint64_t)w->n);
      break;
    case PAUSE:
      f->where = w->tree[draw() % (uint64_t)w->trees];
      break;
    default:
      f->where = w->link[1 + draw() % (uint64_t)(w->n - 1)] + (int)(draw() % 2);
      break;
    }
    if (f->kind == LATE)
      f->at = w->start / 2; /* before it could have started */
    uint64_t until = f->until;
    if (f->kind == SLOW) /* what stands in its queue by then still leaves at the slow rate */
      until += (uint64_t)(w->adaptive ? 101 : w->credits) * (w->piece + 120) * 8 * SEC / (w->rate / (2 + f->ppb % 50));
    if (until > w->last_fault)
      w->last_fault = until;
  }
}

static void apply(struct world *w, const struct fault *f, bool begin)
{
  sim *s = w->s;
  struct sim_faults none = {0};
  say(w, begin ? "begin" : "end", f);
  switch (f->kind) {
  case LOSS:
    none.loss_data = begin ? f->ppb : 0;
    none.loss_interest = begin ? f->ppb / 2 : 0;
    sim_link_faults(s, f->where, &none);
    break;
  case REPEAT:
    none.duplicate = begin ? f->ppb : 0;
    none.reorder_by = w->delay + 20 * US;
    sim_link_faults(s, f->where, &none);
    break;
  case REORDER:
    none.reorder = begin ? f->ppb : 0;
    none.reorder_by = 10 * (w->delay + 20 * US);
    sim_link_faults(s, f->where, &none);
    break;
  case CORRUPT:
    none.corrupt = begin ? f->ppb / 4 : 0;
    sim_link_faults(s, f->where, &none);
    break;
  case SPIKE:
    sim_link_delay(s, f->where, begin ? w->delay + f->ppb / 20 : w->delay); /* up to 10 ms */
    break;
  case WIPE:
    if (begin)
      sim_node_wipe(s, f->where);
    break;
  case RESTART:
    if (begin)
      sim_node_restart(s, f->where);
    break;
  case DOWN:
    sim_link_up(s, f->where, !begin);
    sim_link_up(s, f->where ^ 1, !begin);
    break;
  case KILL:
    if (begin)
      sim_receiver_kill(s, 0, f->where);
    else
      sim_receiver_resume(s, 0, f->where);
    break;
  case SLOW:
    sim_link_rate(s, f->where, begin ? w->rate / (2 + f->ppb % 50) : w->rate);
    break;
  case LATE:
    if (begin)
      sim_receiver_start(s, 0, f->where, f->until);
    break;
  case PAUSE:
    sim_source_pause(s, f->where, begin);
    break;
  default:
    break;
  }
}

/* NULL, or what is wrong. */
static const char *run(struct world *w, uint64_t *finish)
{
  static char text[160];
  bool begun[FAULTS] = {false}, ended[FAULTS] = {false};
  for (;;) { /* the next thing that changes, in the order of time */
    int next = -1;
    bool begin = false;
    uint64_t at = UINT64_MAX;
    for (int i = 0; i < w->faults; i++) {
      uint64_t when = !begun[i] ? w->fault[i].at : !ended[i] ? w->fault[i].until : UINT64_MAX;
      if (when < at) {
        at = when;
        next = i;
        begin = !begun[i];
      }
    }
    if (next < 0)
      break;
    sim_run(w->s, at, false);
    const char *why = sim_check(w->s);
    if (why != NULL)
      return why;
    apply(w, &w->fault[next], begin);
    (begin ? begun : ended)[next] = true;
  }
  /* After the last fault: three times what the whole transfer takes at best, and what a few timeouts take. */
  uint64_t from = w->last_fault > w->start ? w->last_fault : w->start;
  uint64_t rtt = 2 * 10 * w->delay + 2 * MS, window = (uint64_t)w->credits * w->piece * 8;
  uint64_t by_window =
      w->size * 8 / (window == 0 ? 1 : window) * rtt; /* few credits over a long way are slow by themselves */
  uint64_t limit = from + 3 * (w->ideal * (uint64_t)w->trees + by_window) + GRACE;
  *finish = sim_run(w->s, limit, true);
  const char *why = sim_check(w->s);
  if (why != NULL)
    return why;
  for (int i = 0; i < w->receivers; i++) {
    struct sim_receiver_stats r = {0};
    sim_receiver_stats(w->s, 0, i, &r);
    if (!r.alive)
      return "a receiver was not resumed";
    if (!r.whole) {
      snprintf(text, sizeof text, "receiver %d has %llu pieces %.1f ms after the last fault (limit %.1f ms)", i,
               (unsigned long long)r.pieces, (double)(sim_now(w->s) - from) / 1e6, (double)(limit - from) / 1e6);
      return text;
    }
    if (r.bytes != w->size)
      return "a whole file has another size";
  }
  return NULL;
}

static void describe(const struct world *w, uint64_t seed)
{
  printf("seed %llu: cc=%s, %d receivers, %d vertices, %d trees, %llu bytes in pieces of %u, %llu Mb/s, %llu us, C "
         "%llu KB, "
         "w %u%s, %d faults\n",
         (unsigned long long)seed, w->cc, w->receivers, w->n, w->trees, (unsigned long long)w->size, w->piece,
         (unsigned long long)(w->rate / 1000000), (unsigned long long)(w->delay / 1000),
         (unsigned long long)(w->cache / 1024), w->credits, w->adaptive ? " adaptive" : "", w->faults);
}

static bool one(uint64_t seed, uint64_t *hops, uint64_t *digest)
{
  struct world w;
  uint64_t finish = 0;
  build(&w, seed);
  plan(&w);
  if (trace)
    describe(&w, seed);
  const char *why = run(&w, &finish);
  *hops += sim_hops(w.s);
  *digest = sim_digest(w.s);
  if (trace)
    printf("  %10.3f ms  %s; digest %016llx\n", (double)finish / 1e6, why == NULL ? "all is well" : why,
           (unsigned long long)*digest);
  sim_free(w.s);
  return why == NULL;
}

static int replay(const char *path)
{
  uint64_t seed, recorded, digest, hops = 0;
  if (!seedfile_read(path, &seed, &recorded))
    return 2;
  trace = true;
  bool well = one(seed, &hops, &digest);
  if (digest != recorded)
    printf("another run than the one recorded (digest %016llx): the code has changed since\n",
           (unsigned long long)recorded);
  return well ? 0 : 1;
}

int main(int argc, char **argv)
{
  const char *keep = NULL;
  uint64_t seeds = 1000, first = 1, hops = 0, failed = 0;
  bool quiet = false;
  for (int i = 1; i < argc; i++) {
    char *end = NULL;
    if (strcmp(argv[i], "--quiet") == 0)
      quiet = true;
    else if (strcmp(argv[i], "--trace") == 0)
      trace = true;
    else if (i + 1 < argc && strcmp(argv[i], "--seeds") == 0)
      seeds = strtoull(argv[++i], &end, 10);
    else if (i + 1 < argc && strcmp(argv[i], "--first") == 0)
      first = strtoull(argv[++i], &end, 10);
    else if (i + 1 < argc && strcmp(argv[i], "--keep") == 0)
      keep = argv[++i];
    else if (i + 1 < argc && strcmp(argv[i], "--replay") == 0)
      return replay(argv[++i]);
    else
      end = argv[i];
    if (end != NULL && *end != 0) {
      fprintf(stderr,
              "usage: campaign [--seeds N] [--first SEED] [--keep FOLDER] [--trace] [--quiet] | --replay FILE\n");
      return 2;
    }
  }
  for (uint64_t seed = first; seed < first + seeds; seed++) {
    uint64_t digest, again, ignored = 0;
    if (!one(seed, &hops, &digest)) {
      failed++;
      bool was = trace;
      trace = true;
      one(seed, &ignored, &again);
      trace = was;
      if (again != digest)
        printf("  the replay differs: the simulator is not deterministic\n");
      if (keep != NULL)
        seedfile_write(keep, seed, digest);
    }
    if (!quiet && (seed - first + 1) % 1000 == 0)
      fprintf(stderr, "%llu of %llu seeds, %llu failed\n", (unsigned long long)(seed - first + 1),
              (unsigned long long)seeds, (unsigned long long)failed);
  }
  if (!quiet || failed > 0)
    printf("%llu seeds from %llu: %llu failed; %.1f million packet hops\n", (unsigned long long)seeds,
           (unsigned long long)first, (unsigned long long)failed, (double)hops / 1e6);
  return failed > 0 ? 1 : 0;
}
