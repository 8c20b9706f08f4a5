/* Fault campaigns: one random network, group and mixture of faults per seed, and checkers beside it after each run.
 * The same seed is the same run, byte for byte; one that fails is run again with its trace.
 *
 * What must hold: nobody ever has a wrong piece or a wrong count, and as soon as no fault is active the receiver that is
 * furthest behind gets what it still lacks in a time bound by just that: so many times what it takes at best, and a few
 * of the longest timeouts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datacast/node.h"
#include "faults.h"
#include "seedfile.h"

#define WORK 2  /* times the best time of what the last receiver lacks */
#define WAITS 3 /* and so many of the longest timeouts */

enum { STEPS = 128 };

static bool trace, table;

/* What came of a seed. */
struct outcome {
  const char *why; /* NULL: all is well */
  uint64_t hops, digest, finish;
  uint64_t best, took, allowed; /* after the last fault: for what was left at best, really, and at most */
  uint64_t left;                /* pieces that the last receiver lacked then */
  int together;
  bool opposed;
};

/* Pieces of the receiver furthest behind. `asking`: of those only that live and have begun. */
static uint64_t furthest_behind(const struct world *w, const struct faults *f, bool asking)
{
  uint64_t least = w->pieces;
  for (int i = 0; i < w->receivers; i++) {
    struct sim_receiver_stats r = {0};
    sim_receiver_stats(w->s, 0, i, &r);
    bool counts = !asking || r.alive;
    for (int k = 0; asking && k < f->n; k++)
      counts &= !(f->fault[k].kind == LATE && !f->fault[k].ended && f->fault[k].where == i);
    if (counts && r.pieces < least)
      least = r.pieces;
  }
  return least;
}

/* Few credits over a long way are slow by themselves. */
static uint64_t by_window(const struct world *w, uint64_t pieces)
{
  uint64_t hops = 0;
  for (int t = 0; t < w->trees; t++)
    for (int i = 0; i < w->receivers; i++) {
      uint64_t deep = 0;
      for (int v = w->vertex[i]; v != 0; v = w->from[w->up[t][v]])
        deep++;
      hops = deep > hops ? deep : hops;
    }
  return (pieces / w->credits + 1) * 2 * hops * (w->delay + w->packet);
}

/* What a link has taken in stands in its queue at the rate it had then. */
static uint64_t drained(const struct world *w)
{
  uint64_t last = sim_now(w->s);
  for (int l = 0; l < w->links; l++) {
    uint64_t at = sim_link_free(w->s, l);
    last = at > last ? at : last;
  }
  return last;
}

static const char *slow(const struct world *w, uint64_t from, uint64_t limit, const char *when)
{
  static char text[200];
  snprintf(text, sizeof text, "the last receiver has %llu of %llu pieces %.3f ms %s (limit %.3f ms)",
           (unsigned long long)furthest_behind(w, NULL, false), (unsigned long long)w->pieces,
           (double)(sim_now(w->s) - from) / 1e6, when, (double)(limit - from) / 1e6);
  return text;
}

/* A timer follows a path that has become slow; and a node sends what is asked for again on once per so long, whatever the timers. */
static uint64_t longest_timeout(const struct world *w)
{
  struct dc_node_cfg node;
  dc_node_cfg_default(&node);
  uint64_t longest = w->rto_max > node.retx_min ? w->rto_max : node.retx_min;
  for (int t = 0; t < w->trees; t++)
    for (int i = 0; i < w->receivers; i++) {
      struct sim_asker_stats a = {0};
      if (sim_asker_stats(w->s, t, i, &a) == 0 && a.rto > longest)
        longest = a.rto;
    }
  return longest;
}

static uint64_t allowed(const struct world *w, uint64_t left, uint64_t *best)
{
  uint64_t window = by_window(w, left);
  *best = left * w->packet > window ? left * w->packet : window;
  return WORK * *best + WAITS * longest_timeout(w);
}

static const char *run(struct world *w, struct faults *f, struct outcome *o)
{
  uint64_t step = w->pieces * w->packet / STEPS + 10 * w->packet, from = w->start, limit = UINT64_MAX;
  while (!faults_over(f)) {
    uint64_t next = sim_now(w->s) + step, end = faults_next_end(f);
    sim_run(w->s, next < end ? next : end, false);
    const char *why = sim_check(w->s);
    if (why != NULL)
      return why;
    if (limit < sim_now(w->s))
      return slow(w, from, limit, "after faults that are over");
    faults_end(w, f, trace);
    faults_begin(w, f, furthest_behind(w, f, true), trace);
    if (f->active > 0)
      limit = UINT64_MAX;
    else if (limit == UINT64_MAX) {
      from = drained(w);
      limit = from + allowed(w, w->pieces - furthest_behind(w, f, false), &o->best);
    }
  }
  o->left = w->pieces - furthest_behind(w, f, false);
  from = drained(w);
  from = from > w->start ? from : w->start;
  o->allowed = allowed(w, o->left, &o->best);
  limit = from + o->allowed;
  o->finish = sim_run(w->s, limit, true);
  o->took = o->finish > from ? o->finish - from : 0;
  const char *why = sim_check(w->s);
  if (why != NULL)
    return why;
  for (int i = 0; i < w->receivers; i++) {
    struct sim_receiver_stats r = {0};
    sim_receiver_stats(w->s, 0, i, &r);
    if (!r.alive)
      return "a receiver was not resumed";
    if (!r.whole)
      return slow(w, from, limit, "after the last fault");
    if (r.bytes != w->size)
      return "a whole file has another size";
  }
  return NULL;
}

static struct outcome one(uint64_t seed)
{
  struct world w;
  struct faults f;
  struct outcome o = {0};
  world_build(&w, seed);
  faults_plan(&w, &f);
  if (trace)
    world_describe(&w, seed);
  o.why = run(&w, &f, &o);
  o.hops = sim_hops(w.s);
  o.digest = sim_digest(w.s);
  o.together = f.together;
  o.opposed = w.opposed;
  if (trace)
    printf("  %10.3f ms  %s; digest %016llx\n", (double)o.finish / 1e6, o.why == NULL ? "all is well" : o.why,
           (unsigned long long)o.digest);
  if (table)
    printf("%llu %s %d %llu %llu %llu %llu %llu\n", (unsigned long long)seed, w.cc, f.n, (unsigned long long)o.left,
           (unsigned long long)(o.best / w.packet), (unsigned long long)(o.took / w.packet),
           (unsigned long long)(o.allowed / w.packet), (unsigned long long)(w.rto_max / w.packet));
  sim_free(w.s);
  return o;
}

static int replay(const char *path)
{
  uint64_t seed, recorded;
  if (!seedfile_read(path, &seed, &recorded))
    return 2;
  trace = true;
  struct outcome o = one(seed);
  if (o.digest != recorded)
    printf("another run than the one recorded (digest %016llx): the code has changed since\n",
           (unsigned long long)recorded);
  return o.why == NULL ? 0 : 1;
}

/* What a campaign was worth: transfers with something left to break at the end of their faults, with faults that lay over
 * each other, with trees that used a cable in both directions. */
struct worth {
  uint64_t seeds, failed, hops, left, together, opposed;
};

static void tell(const struct worth *all, uint64_t first)
{
  double n = all->seeds > 0 ? (double)all->seeds / 100 : 1;
  printf("%llu seeds from %llu: %llu failed; %.1f million packet hops; unfinished after the last fault %.0f %%, faults "
         "together %.0f %%, trees opposed %.0f %%\n",
         (unsigned long long)all->seeds, (unsigned long long)first, (unsigned long long)all->failed,
         (double)all->hops / 1e6, (double)all->left / n, (double)all->together / n, (double)all->opposed / n);
}

int main(int argc, char **argv)
{
  const char *keep = NULL;
  uint64_t seeds = 1000, first = 1;
  bool quiet = false;
  struct worth all = {0};
  for (int i = 1; i < argc; i++) {
    char *end = NULL;
    if (strcmp(argv[i], "--quiet") == 0)
      quiet = true;
    else if (strcmp(argv[i], "--trace") == 0)
      trace = true;
    else if (strcmp(argv[i], "--table") == 0)
      table = true;
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
      fprintf(stderr, "usage: campaign [--seeds N] [--first SEED] [--keep FOLDER] [--trace] [--table] [--quiet] | "
                      "--replay FILE\n");
      return 2;
    }
  }
  for (uint64_t seed = first; seed < first + seeds; seed++) {
    struct outcome o = one(seed);
    all.seeds++;
    all.hops += o.hops;
    all.left += o.left > 0;
    all.together += o.together > 1;
    all.opposed += o.opposed;
    if (o.why != NULL) {
      all.failed++;
      bool was = trace;
      trace = true;
      uint64_t again = one(seed).digest;
      trace = was;
      if (again != o.digest)
        printf("  the replay differs: the simulator is not deterministic\n");
      if (keep != NULL)
        seedfile_write(keep, seed, o.digest);
    }
    if (!quiet && all.seeds % 1000 == 0)
      fprintf(stderr, "%llu of %llu seeds, %llu failed\n", (unsigned long long)all.seeds, (unsigned long long)seeds,
              (unsigned long long)all.failed);
  }
  if (!quiet || all.failed > 0)
    tell(&all, first);
  /* A campaign whose faults come when all is over shows nothing. */
  if (seeds >= 50 && (all.left * 4 < seeds * 3 || all.together * 2 < seeds || all.opposed * 4 < seeds)) {
    fprintf(stderr, "campaign: it does not bite\n");
    tell(&all, first);
    return 1;
  }
  return all.failed > 0 ? 1 : 0;
}
