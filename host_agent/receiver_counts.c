#include "receiver_counts.h"

#include <stdio.h>

#include "receiver.h"
#include "shard.h"

enum { MAP_CELLS = 64 };

static void count(struct shard *shard, void *arg)
{
  struct receiver_counts *c = arg;
  for (unsigned i = 0; i < c->receiver->trees; i++) {
    const struct receiver_tree *t = c->receiver->tree[i];
    if (t->shard != shard)
      continue;
    dc_receiver_counters(t->core, &c->core[i]);
    c->bytes[i] = t->bytes;
    c->again[i] = t->again;
  }
}

void receiver_count(const struct group *g, struct receiver_counts *c)
{
  c->receiver = g->receiver;
  shards_call(host_of(g)->shards, count, c);
}

/* Which parts of the file are there: up to MAP_CELLS equal runs of blocks, of each the whole ones in fifteenths as a
 * hexadecimal digit. */
static void blocks_map(const struct receiver *r, char text[MAP_CELLS + 1])
{
  uint32_t cells = r->blocks < MAP_CELLS ? r->blocks : MAP_CELLS;
  for (uint32_t cell = 0; cell < cells; cell++) {
    uint32_t first = (uint32_t)((uint64_t)cell * r->blocks / cells);
    uint32_t end = (uint32_t)((uint64_t)(cell + 1) * r->blocks / cells), whole = 0;
    for (uint32_t block = first; block < end; block++)
      whole += r->state[block] != BLOCK_OPEN && (r->skip == NULL || !r->skip[block]);
    text[cell] = "0123456789abcdef"[(uint64_t)whole * 15 / (end - first)]; /* NOLINT: no more cells than blocks */
  }
  text[cells] = '\0';
}

uint64_t receiver_again(struct group *g)
{
  struct receiver_counts all = {0};
  uint64_t again = g->receiver->again;
  receiver_count(g, &all);
  for (unsigned i = 0; i < g->receiver->trees; i++)
    again += all.again[i];
  return again;
}

json_t *receiver_status(struct group *g)
{
  struct receiver *r = g->receiver;
  json_t *trees = json_object();
  uint64_t bytes = r->bytes;
  struct receiver_counts all = {0};
  receiver_count(g, &all);
  for (unsigned i = 0; i < r->trees; i++) {
    const struct dc_receiver_counters c = all.core[i];
    bytes += all.bytes[i];
    char id[16];
    snprintf(id, sizeof id, "%u", r->tree[i]->params.id);
    json_object_set_new(trees, id,
                        json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "data", (json_int_t)c.data,
                                  "duplicates", (json_int_t)c.duplicates, "interests", (json_int_t)c.interests,
                                  "retransmitted", (json_int_t)c.retransmitted, "by_gap", (json_int_t)c.by_gap,
                                  "by_timeout", (json_int_t)c.by_timeout, "outstanding", (json_int_t)c.outstanding,
                                  "srtt_us", (json_int_t)(c.srtt / DC_US), "rto_us", (json_int_t)(c.rto / DC_US),
                                  "credits", (json_int_t)c.credits, "seq", (json_int_t)c.next_seq, "low",
                                  (json_int_t)c.low_seq, "bytes", (json_int_t)all.bytes[i]));
  }
  char map[MAP_CELLS + 1];
  blocks_map(r, map);
  uint64_t unwritten = __atomic_load_n(&r->unwritten, __ATOMIC_RELAXED);
  return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:s,s:o}", "blocks_resumed", (json_int_t)r->resumed, "resuming",
                   (json_int_t)r->resuming, "bytes", (json_int_t)bytes, "unwritten", (json_int_t)unwritten, "pieces",
                   (json_int_t)dc_pieces_held(r->pieces), "blocks_ok", (json_int_t)(r->ok - r->skipped), "bad_blocks",
                   (json_int_t)r->bad, "blocks", map, "trees", trees);
}
