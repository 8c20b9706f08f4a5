#include "receiving.h"

#include "receiver_state.h"
#include "shard.h"

#define CROWDED_WAIT (500 * DC_US)
/* The disk is behind: what it wrote meanwhile makes room. */
#define DISK_WAIT (1 * DC_MS)
enum { BATCH = 32, BATCHES_PER_POLL = 4 };

/* ---- writing ---- */

static void wrote(struct job *j)
{
  stages_give(j->stages, j->bytes);
  struct group *g = j->owner;
  if (g != NULL)
    blocks_wrote(g, j);
}

void receiving_hand_on(struct receiver_tree *t)
{
  struct group *g = t->group;
  struct job *j = t->file == NULL ? NULL : stage_job(&t->stage, t->file, &g->layout);
  if (j == NULL)
    return;
  j->flush = host_of(g)->sync;
  j->done = wrote;
  j->owner = g;
  j->generation = g->receiver->fails[j->tag];
  __atomic_add_fetch(&g->receiver->unwritten, j->len, __ATOMIC_RELAXED);
  worker_submit(host_of(g)->worker, j, t->stage.lane);
}

static void keep(struct receiver_tree *t, uint64_t at, uint32_t block, const uint8_t *p, size_t n)
{
  size_t took = stage_add(&t->stage, at, block, p, n);
  if (took == n)
    return;
  receiving_hand_on(t);
  (void)stage_add(&t->stage, at + took, block, p + took, n - took);
}

void receiving_complete(void *group, uint64_t block, void *shard)
{
  const struct group *g = group;
  for (struct receiver_tree *t = g->receiver->here[((struct shard *)shard)->index]; t != NULL; t = t->next)
    if (t->stage.n > 0 && t->stage.block == block)
      receiving_hand_on(t);
}

/* ---- the transport ---- */

static bool on_data(struct endpoint *e, dc_time now, const struct dc_header *h, const uint8_t *payload, uint16_t from)
{
  struct receiver_tree *t = (struct receiver_tree *)(void *)e;
  /* Answers come the way the interests went: from that port, or through this host's own node. */
  if (t->path == NULL || from != (t->path->first.n > 0 ? t->path->first.port[0] : DC_PORT_HOST))
    return false;
  struct group *g = t->group;
  const struct receiver *r = g->receiver;
  uint64_t piece;
  forward_mark(e);
  if (t->file == NULL || !stage_ready(&t->stage))
    return true; /* as if lost: the timer asks again */
  enum dc_rx_result got = dc_receiver_handle(t->core, now, h, &piece);
  if (got != DC_RX_NEW) {
    t->again += got == DC_RX_DUPLICATE && dc_pieces_sealed(r->pieces, piece, 1);
    return got != DC_RX_UNASKED;
  }
  uint64_t t_ns = t->began && !t->rerouted ? 0 : loop_realtime_ns();
  t->began = t->began || shard_tell(t->shard, receiver_hears_first, t, t_ns, NULL);
  t->rerouted = t->rerouted && !shard_tell(t->shard, receiver_hears_resumed, t, t_ns, NULL);
  uint32_t block = (uint32_t)(piece / g->layout.per_block);
  keep(t, piece * g->layout.piece, block, payload, h->length);
  t->bytes += h->length;
  if (dc_pieces_block_whole(r->pieces, block))
    receiving_complete(g, block, t->shard);
  return true;
}

static bool poll(struct endpoint *e, dc_time now)
{
  struct receiver_tree *t = (struct receiver_tree *)(void *)e;
  struct dc_interest out[BATCH];
  if (t->path == NULL || t->file == NULL || !t->asks)
    return false;
  if (stages_short(t->stage.all)) {
    forward_wake(e, now + DISK_WAIT);
    return false;
  }
  unsigned n = BATCH;
  for (unsigned i = 0; i < BATCHES_PER_POLL && n == BATCH; i++) {
    if (forward_crowded(e->forward, &t->path->first)) {
      forward_wake(e, now + CROWDED_WAIT);
      return false;
    }
    n = dc_receiver_poll(t->core, now, out, BATCH);
    for (unsigned k = 0; k < n; k++) {
      struct dc_header h = {
          .flags = out[k].flags, .tree = t->params.id, .seq = out[k].seq, .cache = t->cache_code, .more = out[k].more};
      if (!forward_interest(e->forward, now, t->path, &h))
        t->unroutable++; /* as if lost: the timer asks again */
    }
  }
  if (n == BATCH)
    return true;
  dc_time at = dc_receiver_next_wake(t->core);
  forward_wake(e, at == DC_NEVER || at > now ? at : now + 100 * DC_US);
  return false;
}

static const struct endpoint_ops receiver_ops = {.data = on_data, .interest = NULL, .poll = poll};

bool receiving_attach(struct receiver_tree *t)
{
  struct receiver_tree **here = &t->group->receiver->here[t->shard->index];
  if (!forward_add(&t->shard->forward, &t->endpoint, t->params.id, &receiver_ops))
    return false;
  t->next = *here;
  *here = t;
  return true;
}

void receiving_detach(struct receiver_tree *t)
{
  struct receiver_tree **at = &t->group->receiver->here[t->shard->index];
  forward_remove(&t->endpoint);
  while (*at != t)
    at = &(*at)->next;
  *at = t->next;
}
