/* A receiver's blocks where what is written, fetched and verified crosses. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datapath/tests/check.h"
#include "receiver.h"
#include "receiver_state.h"

enum { SIZE = 2000, PIECE = 1000 };

static struct loop loop;
static struct worker worker, disk;
static struct shards none;
static struct host host = {.name = "me", .loop = &loop, .shards = &none, .worker = &worker, .disk = &disk};
static struct groups groups;
static char folder[64];
static uint8_t good[SIZE], bad[PIECE] = {1};

static unsigned finished(void)
{
  unsigned n = 0;
  pthread_mutex_lock(&worker.lock);
  for (const struct job *j = worker.finished; j != NULL; j = j->next)
    n++;
  pthread_mutex_unlock(&worker.lock);
  return n;
}

/* A tree's run, handed on before the block was fetched, gets to the file. */
static void write_late(struct group *g, uint64_t off, const uint8_t *bytes)
{
  struct receiver *r = g->receiver;
  const struct job j = {.off = off, .len = PIECE};
  CHECK(pwrite(r->target.file->fd, bytes, PIECE, (off_t)off) == PIECE);
  __atomic_add_fetch(&r->unwritten, PIECE, __ATOMIC_RELAXED);
  blocks_wrote(g, &j);
}

/* The block is being read back, for the first run; the second comes behind the reader. */
static void what_is_written_while_a_block_is_verified_is_looked_at(void)
{
  struct group g = {.all = &groups, .id = "g", .role = ROLE_RECEIVER};
  struct fault why;
  uint8_t digest[DIGEST_LEN];
  blake3_hasher h;
  char dest[96];
  g.layout = (struct dc_layout){.size = SIZE, .piece = PIECE, .per_block = 2};
  snprintf(dest, sizeof dest, "%s/file", folder);
  CHECK(receiver_open(&g, dest, NULL, &why));
  CHECK(pwrite(g.receiver->target.file->fd, good, SIZE, 0) == SIZE);
  blake3_hasher_init(&h);
  blake3_hasher_update(&h, good, SIZE);
  blake3_hasher_finalize(&h, digest, DIGEST_LEN);
  CHECK(blocks_fetched(&g, 0, digest, &why));
  write_late(&g, 0, good);
  while (finished() < 2) /* it is noted, and read */
    usleep(100);
  write_late(&g, PIECE, bad);
  for (unsigned i = 0; i < 1000 && g.state == GROUP_RUNNING; i++)
    (void)loop_serve(&loop, loop_clock() + 10 * DC_MS);
  CHECK(g.state == GROUP_FAILED && strcmp(g.fault.code, "changed") == 0);
  receiver_close(&g, false);
}

int main(void)
{
  struct fault why;
  snprintf(folder, sizeof folder, "/tmp/test-blocks-XXXXXX");
  CHECK(mkdtemp(folder) != NULL && loop_open(&loop) == 0);
  CHECK(worker_open(&worker, &loop, 2, 2) == 0 && worker_open(&disk, &loop, 1, 1) == 0);
  CHECK(roots_add(&host.dest_roots, folder, &why));
  stages_open(&host.stages);
  groups_init(&groups, &host, 1);
  what_is_written_while_a_block_is_verified_is_looked_at();
  worker_close(&worker);
  worker_close(&disk);
  stages_close(&host.stages);
  roots_close(&host.dest_roots);
  loop_close(&loop);
  CHECK(rmdir(folder) == 0);
  return 0;
}
