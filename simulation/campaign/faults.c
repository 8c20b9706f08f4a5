#include "faults.h"

#include <stdio.h>
#include <string.h>

static const char *const kind_name[KINDS] = {"loss",        "duplication", "reordering", "corruption",
                                             "delay spike", "link down",   "slow link",  "cache wiped",
                                             "restart",     "kill",        "pause",      "late"};

static void say(const struct world *w, const char *what, const struct fault *f)
{
  printf("  %10.3f ms  %s %s at %d\n", (double)sim_now(w->s) / 1e6, what, kind_name[f->kind], f->where);
}

static bool on_a_link(enum kind k) { return k <= SLOW; }

void faults_plan(struct world *w, struct faults *f)
{
  memset(f, 0, sizeof *f);
  f->n = once_in(20) ? 0 : (int)between(1, FAULTS);
  for (int i = 0; i < f->n; i++) {
    struct fault *one = &f->fault[i];
    one->kind = (enum kind)(draw() % KINDS);
    one->point = draw() % (w->pieces * 9 / 10 + 1);
    one->lasts = between(20, 400) * w->packet;
    one->ppb = (uint32_t)between(1000000, 200000000); /* 0.1 to 20 % */
    one->beside = i > 0 && on_a_link(one->kind) && on_a_link(one[-1].kind) && once_in(2);
    if (one->beside)
      one->point = one[-1].point;
    if (one->kind == LATE) { /* before it could have started */
      one->begun = true;
      f->active++;
      one->where = (int)(draw() % (uint64_t)w->receivers);
      one->until = w->start + 2 * one->lasts;
      if (sim_receiver_start(w->s, 0, one->where, one->until) < 0)
        one->until = 0;
    }
  }
}

/* A receiver that lacks something; the last one looked at when none does. */
static int lacking(const struct world *w)
{
  int first = (int)(draw() % (uint64_t)w->receivers), r = first;
  for (int i = 0; i < w->receivers; i++) {
    struct sim_receiver_stats stats = {0};
    r = (first + i) % w->receivers;
    sim_receiver_stats(w->s, 0, r, &stats);
    if (!stats.whole)
      break;
  }
  return r;
}

/* Somewhere on the way of a receiver that lacks something: there is something to break. */
static int place(const struct world *w, const struct faults *f, const struct fault *one)
{
  int r = lacking(w), t = (int)(draw() % (uint64_t)w->trees), way[VERTICES], links = 0;
  for (int v = w->vertex[r]; v != 0; v = w->from[w->up[t][v]])
    way[links++] = w->up[t][v];
  int link = way[draw() % (uint64_t)links];
  switch (one->kind) {
  case KILL:
    return r;
  case WIPE:
  case RESTART:
    return w->from[link];
  case PAUSE:
    return w->tree[t];
  default:
    if (one->beside && f->last >= 0 && on_a_link(f->fault[f->last].kind))
      return f->fault[f->last].where;
    return link ^ (int)(draw() % 2); /* data, or interests */
  }
}

/* A link as all that lies on it now makes it. */
static void set_link(struct world *w, const struct faults *f, int link)
{
  struct sim_faults sum = {0};
  uint64_t delay = w->delay, rate = w->rate;
  bool up = true;
  for (int i = 0; i < f->n; i++) {
    const struct fault *one = &f->fault[i];
    if (!one->begun || one->ended || !on_a_link(one->kind))
      continue;
    up = up && !(one->kind == DOWN && (one->where | 1) == (link | 1));
    if (one->where != link)
      continue;
    uint64_t by = one->kind == REORDER ? 10 * (w->delay + 2 * w->packet) : w->delay + 2 * w->packet;
    switch (one->kind) {
    case LOSS:
      sum.loss_data += one->ppb;
      sum.loss_interest += one->ppb / 2;
      break;
    case REPEAT:
      sum.duplicate += one->ppb;
      break;
    case REORDER:
      sum.reorder += one->ppb;
      break;
    case CORRUPT:
      sum.corrupt += one->ppb / 4;
      break;
    case SPIKE:
      delay += (uint64_t)one->ppb % 100 * w->packet;
      break;
    case SLOW:
      rate = w->rate / (2 + one->ppb % 10) < rate ? w->rate / (2 + one->ppb % 10) : rate;
      break;
    default:
      break;
    }
    if (one->kind == REPEAT || one->kind == REORDER)
      sum.reorder_by = by > sum.reorder_by ? by : sum.reorder_by;
  }
  const uint32_t most = 500000000; /* half of what is sent still comes through */
  sum.loss_data = sum.loss_data < most ? sum.loss_data : most;
  sum.loss_interest = sum.loss_interest < most ? sum.loss_interest : most;
  sim_link_faults(w->s, link, &sum);
  sim_link_delay(w->s, link, delay);
  sim_link_rate(w->s, link, rate);
  sim_link_up(w->s, link, up);
}

static bool another(const struct faults *f, const struct fault *one)
{
  for (int i = 0; i < f->n; i++) {
    const struct fault *other = &f->fault[i];
    if (other != one && other->kind == one->kind && other->where == one->where && other->begun && !other->ended)
      return true;
  }
  return false;
}

static void apply(struct world *w, struct faults *f, struct fault *one, bool begin)
{
  switch (one->kind) {
  case WIPE:
    if (begin)
      sim_node_wipe(w->s, one->where);
    break;
  case RESTART:
    if (begin)
      sim_node_restart(w->s, one->where);
    break;
  case KILL:
    if (begin)
      sim_receiver_kill(w->s, 0, one->where);
    else if (!another(f, one))
      sim_receiver_resume(w->s, 0, one->where);
    break;
  case PAUSE:
    if (begin || !another(f, one))
      sim_source_pause(w->s, one->where, begin);
    break;
  case LATE:
    break;
  default:
    set_link(w, f, one->where);
    set_link(w, f, one->where ^ 1);
  }
}

void faults_begin(struct world *w, struct faults *f, uint64_t behind, bool trace)
{
  for (int i = 0; i < f->n; i++) {
    struct fault *one = &f->fault[i];
    if (one->begun || one->point > behind)
      continue;
    one->where = place(w, f, one);
    one->begun = true;
    one->until = sim_now(w->s) + one->lasts;
    f->last = i;
    f->active++;
    f->together = f->active > f->together ? f->active : f->together;
    if (trace)
      say(w, "begin", one);
    apply(w, f, one, true);
  }
}

uint64_t faults_next_end(const struct faults *f)
{
  uint64_t first = UINT64_MAX;
  for (int i = 0; i < f->n; i++)
    if (f->fault[i].begun && !f->fault[i].ended && f->fault[i].until < first)
      first = f->fault[i].until;
  return first;
}

void faults_end(struct world *w, struct faults *f, bool trace)
{
  for (int i = 0; i < f->n; i++) {
    struct fault *one = &f->fault[i];
    if (!one->begun || one->ended || one->until > sim_now(w->s))
      continue;
    one->ended = true;
    f->active--;
    if (trace)
      say(w, "end", one);
    apply(w, f, one, false);
  }
}

bool faults_over(const struct faults *f)
{
  for (int i = 0; i < f->n; i++)
    if (!f->fault[i].ended)
      return false;
  return true;
}
