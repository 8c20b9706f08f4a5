/* A receiver's blocks: verified one after another, fetched again when they are bad, taken over from before; the end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fetching.h"
#include "receiver.h"
#include "receiver_state.h"
#include "wants.h"

/* A block whose checksum failed so many times will not come right: the digest or the disk is at fault. */
enum { BAD_MAX = 8 };

void blocks_fail_errno(struct group *g, int error)
{
  struct fault why;
  target_fault(&why, error, g->receiver->target.name);
  group_fail(g, &why);
}

/* ---- the end ---- */

static void tell_done(struct group *g)
{
  group_event(g, "done",
              json_pack("{s:I,s:I,s:I,s:I}", "t_ns", (json_int_t)g->t_done_ns, "bytes",
                        (json_int_t)wants_bytes(g->receiver->skip, &g->layout), "blocks_ok",
                        (json_int_t)(g->receiver->ok - g->receiver->skipped), "bad_blocks",
                        (json_int_t)g->receiver->bad));
}

void receiver_repeat(struct group *g)
{
  if (g->state == GROUP_DONE)
    tell_done(g);
}

static void finished(struct job *j)
{
  struct group *g = j->owner;
  g->receiver->finishing = false;
  if (g->state != GROUP_RUNNING)
    return;
  if (j->error == EBADMSG && j->expects && !j->bundle) {
    char is[2 * SHA256_LEN + 1], wanted[2 * SHA256_LEN + 1];
    hex_write(is, j->sha256, SHA256_LEN);
    hex_write(wanted, g->sha256, SHA256_LEN);
    struct fault why;
    fault_set(&why, "digest", "the file's SHA-256 is %s, expected was %s: the source has another file", is, wanted);
    group_fail(g, &why);
    return;
  }
  if (j->error == EBADE) {
    struct fault why;
    fault_set(&why, "digest", "%s%s%.255s has another SHA-256 than expected: the origin has another one", j->name,
              j->wrong[0] == '\0' ? "" : "/", j->wrong[0] == '\0' ? ": its list of files" : j->wrong);
    group_fail(g, &why);
    return;
  }
  if ((j->error == ENOTSUP || j->error == E2BIG) && j->wrong[0] != '\0') {
    struct fault why;
    fault_set(&why, "no_xattrs",
              "%s/%.255s: its file system keeps no extended attributes%s: an agent without --xattrs, or another "
              "--dest",
              j->name, j->wrong, j->error == E2BIG ? " as large as this one's" : "");
    group_fail(g, &why);
    return;
  }
  if (j->error == EBADMSG) {
    struct fault why;
    fault_set(&why, "bad_bundle", "%s: what has come is no directory, or not one that may be made here", j->name);
    group_fail(g, &why);
    return;
  }
  if (j->error != 0) {
    blocks_fail_errno(g, j->error == EINTR ? EIO : j->error);
    return;
  }
  g->state = GROUP_DONE;
  g->t_done_ns = loop_realtime_ns();
  log_info("group %s: %s is whole and verified (%llu bytes, %llu pieces came again)", g->id, j->name,
           (unsigned long long)g->layout.size, (unsigned long long)receiver_again(g));
  left_save(&g->all->left);
  tell_done(g);
}

static void finish_if_whole(struct group *g)
{
  struct receiver *r = g->receiver;
  if (g->state != GROUP_RUNNING || r->finishing || r->noting > 0 || r->ok < r->blocks)
    return;
  if (!fetching_over(g) || __atomic_load_n(&r->unwritten, __ATOMIC_RELAXED) > 0)
    return; /* what has its name is its user's: nothing is written into it any more */
  receiver_rests(g);
  struct job *j = target_finish(&r->target, host_of(g)->sync);
  if (j == NULL) {
    blocks_fail_errno(g, ENOMEM);
    return;
  }
  r->finishing = true;
  j->bundle = g->bundle;
  j->owners = host_of(g)->owners;
  j->xattrs = host_of(g)->xattrs;
  j->expects = g->expects;
  memcpy(j->sha256, g->sha256, sizeof j->sha256);
  j->keep = host_of(g)->keep_partial;
  j->done = finished;
  j->owner = g;
  worker_submit(host_of(g)->disk, j, NULL);
}

/* ---- blocks ---- */

static void verify_more(struct group *g);

static void ask_again(struct group *g, uint32_t block)
{
  struct receiver *r = g->receiver;
  uint32_t lost, asked;
  r->there[block] = 0;
  dc_pieces_drop_block(r->pieces, block);
  asked = receiver_refetch(g, block, &lost);
  log_warn("group %s: block %u failed its checksum, %u pieces are fetched again past the caches, %u have to be "
           "assigned again",
           g->id, block, asked, lost);
  group_event(g, "bad_block",
              json_pack("{s:I,s:I,s:I}", "block", (json_int_t)block, "pieces", (json_int_t)asked, "forgotten",
                        (json_int_t)lost));
}

static uint64_t block_bytes(const struct group *g, uint32_t block)
{
  uint64_t bytes = (uint64_t)g->layout.piece * g->layout.per_block, left = g->layout.size - block * bytes;
  return left < bytes ? left : bytes;
}

/* A block from before was hashed. What did not survive is fetched in its turn: nothing was asked for yet. */
static void claim_checked(struct group *g, uint32_t block, bool good)
{
  struct receiver *r = g->receiver;
  r->claimed[block] = 0;
  if (good)
    r->known[block] = 1;
  r->resumed += good;
  if (!good) {
    r->state[block] = BLOCK_OPEN;
    r->there[block] = 0;
    r->bytes -= block_bytes(g, block);
    dc_pieces_drop_block(r->pieces, block);
  }
  if (--r->resuming > 0)
    return;
  log_info("group %s: goes on from %u of %u blocks that it had verified before", g->id, r->resumed, r->blocks);
  receiver_asks(g);
  if (g->fetching != NULL && g->state == GROUP_RUNNING)
    fetching_go_on(g);
}

static void noted(struct job *j)
{
  struct group *g = j->owner;
  g->receiver->noting--;
  finish_if_whole(g); /* the table lies behind the file's bytes, and is cut off */
}

/* In a thread: a slow disk must not hold up the loop, nor with it hellos and what is forwarded for others. */
static void note(struct group *g, uint32_t block)
{
  struct receiver *r = g->receiver;
  struct job *j = target_note_verified(&r->target, block, r->digest[block]);
  if (j == NULL)
    return; /* it would be fetched again, nothing worse */
  j->done = noted;
  j->owner = g;
  r->noting++;
  worker_submit(host_of(g)->worker, j, NULL);
}

static void judge(struct group *g, uint32_t block, bool good)
{
  struct receiver *r = g->receiver;
  if (good) {
    r->state[block] = BLOCK_OK;
    r->ok++;
    dc_pieces_seal_block(r->pieces, block);
  }
  if (r->claimed[block]) {
    claim_checked(g, block, good);
  } else if (good) {
    note(g, block);
  } else if (dc_pieces_sealed(r->pieces, (uint64_t)block * g->layout.per_block, 1)) {
    struct fault why;
    fault_set(&why, "changed", "block %u came from the origin and over a tree, and was not the same both times", block);
    group_fail(g, &why);
    return;
  } else {
    r->state[block] = BLOCK_OPEN;
    r->bad++;
    if (++r->fails[block] == BAD_MAX) {
      struct fault why;
      fault_set(&why, "checksum", "block %u failed its checksum %d times", block, BAD_MAX);
      group_fail(g, &why);
      return;
    }
    ask_again(g, block);
  }
  verify_more(g);
  finish_if_whole(g);
}

static void wait_for_turn(struct receiver *r, uint32_t block)
{
  r->state[block] = BLOCK_WHOLE;
  if (r->waiting++ == 0)
    r->cursor = block;
}

static void verified(struct job *j)
{
  struct group *g = j->owner;
  struct receiver *r = g->receiver;
  uint32_t block = (uint32_t)j->tag;
  r->verifying--;
  if (g->state != GROUP_RUNNING)
    return;
  if (j->error != 0 && !(j->error < 0 && r->claimed[block])) {
    if (j->error != EINTR)
      blocks_fail_errno(g, j->error > 0 ? j->error : EIO);
    return;
  }
  if (r->state[block] == BLOCK_STALE) {
    wait_for_turn(r, block);
    verify_more(g);
    return;
  }
  judge(g, block, j->error == 0 && memcmp(j->digest, r->digest[block], DIGEST_LEN) == 0);
}

static void verify(struct group *g, uint32_t block)
{
  struct receiver *r = g->receiver;
  struct job *j = job_new(JOB_HASH);
  if (j == NULL) {
    blocks_fail_errno(g, ENOMEM);
    return;
  }
  uint64_t bytes = (uint64_t)g->layout.piece * g->layout.per_block;
  j->file = file_ref(r->target.file);
  j->off = block * bytes;
  j->len = g->layout.size - j->off < bytes ? g->layout.size - j->off : bytes;
  j->flush = host_of(g)->sync;
  j->done = verified;
  j->owner = g;
  j->tag = block;
  r->state[block] = BLOCK_VERIFYING;
  r->waiting--;
  r->verifying++;
  worker_submit(host_of(g)->worker, j, NULL);
}

/* Hand waiting blocks to the worker, a few at a time so that groups take turns. */
static void verify_more(struct group *g)
{
  struct receiver *r = g->receiver;
  while (r->waiting > 0 && r->verifying < VERIFY_AT_ONCE && g->state == GROUP_RUNNING) {
    while (r->state[r->cursor] != BLOCK_WHOLE)
      r->cursor = r->cursor + 1 < r->blocks ? r->cursor + 1 : 0;
    verify(g, r->cursor);
  }
}

/* No byte is new twice, so as many as it has are all of them. */
static bool all_there(const struct group *g, uint32_t block)
{
  return g->receiver->there[block] == block_bytes(g, block);
}

/* A run of the block is in the file, or its digest came. */
static void look_at(struct group *g, uint32_t block)
{
  struct receiver *r = g->receiver;
  if (r->state[block] != BLOCK_OPEN || !r->known[block] || !all_there(g, block))
    return; /* and again when they come */
  if (r->hashed[block]) {
    r->hashed[block] = 0;
    judge(g, block, memcmp(r->found[block], r->digest[block], DIGEST_LEN) == 0);
    return;
  }
  wait_for_turn(r, block);
  verify_more(g);
}

void blocks_wrote(struct group *g, const struct job *j)
{
  struct receiver *r = g->receiver;
  uint32_t block = (uint32_t)j->tag;
  __atomic_sub_fetch(&r->unwritten, j->len, __ATOMIC_RELAXED);
  if (g->state != GROUP_RUNNING || j->error == EINTR)
    return;
  if (j->error != 0) {
    blocks_fail_errno(g, j->error);
    return;
  }
  if (j->digested && !r->doubted[block]) {
    memcpy(r->found[block], j->digest, DIGEST_LEN);
    r->hashed[block] = 1;
  }
  r->there[block] += j->len;
  if (r->state[block] == BLOCK_OPEN && dc_pieces_block_whole(r->pieces, block) && !all_there(g, block))
    receiver_complete(g, block);
  if (r->state[block] != BLOCK_OPEN) /* it was fetched meanwhile */
    blocks_doubt(g, block);
  look_at(g, block);
  blocks_go(g);
}

void blocks_doubt(struct group *g, uint32_t block)
{
  struct receiver *r = g->receiver;
  r->doubted[block] = 1;
  r->hashed[block] = 0;
  if (r->state[block] == BLOCK_VERIFYING)
    r->state[block] = BLOCK_STALE;
  if (g->state != GROUP_RUNNING || r->state[block] != BLOCK_OK)
    return;
  r->ok--;
  wait_for_turn(r, block);
}

bool blocks_fetched(struct group *g, uint32_t block, const uint8_t digest[32], struct fault *why)
{
  struct receiver *r = g->receiver;
  if (r->known[block] && memcmp(r->digest[block], digest, DIGEST_LEN) != 0)
    return fault_set(why, "changed", "block %u differs from what another host has fetched", block);
  memcpy(r->digest[block], digest, DIGEST_LEN);
  r->known[block] = 1;
  if (r->state[block] == BLOCK_OK)
    return true;
  uint64_t first = (uint64_t)block * g->layout.per_block, end = first + g->layout.per_block;
  for (uint64_t p = first; p < end && p < dc_layout_pieces(&g->layout); p++)
    if (dc_pieces_add(r->pieces, p))
      r->bytes += dc_layout_piece_len(&g->layout, p);
  if (r->state[block] != BLOCK_OPEN) /* read back for another reason: that says the same */
    return true;
  judge(g, block, true);
  return true;
}

bool receiver_digest(struct group *g, uint32_t block, const uint8_t digest[32], struct fault *why)
{
  struct receiver *r = g->receiver;
  if (block >= r->blocks)
    return fault_set(why, "bad_request", "block %u: the file has %u blocks", block, r->blocks);
  if (r->known[block] && memcmp(r->digest[block], digest, 32) != 0 && r->state[block] == BLOCK_OK)
    return fault_set(why, "changed", "block %u was verified with another digest", block);
  memcpy(r->digest[block], digest, 32);
  r->known[block] = 1;
  if (g->state == GROUP_RUNNING)
    look_at(g, block);
  return true;
}

void blocks_resume(struct group *g)
{
  struct receiver *r = g->receiver;
  static const uint8_t none[32];
  target_read_verified(&r->target, r->digest, r->blocks);
  uint64_t pieces = dc_layout_pieces(&g->layout);
  for (uint32_t b = 0; b < r->blocks; b++) {
    if (memcmp(r->digest[b], none, 32) == 0 || r->state[b] != BLOCK_OPEN)
      continue;
    uint64_t first = (uint64_t)b * g->layout.per_block, end = first + g->layout.per_block;
    for (uint64_t p = first; p < end && p < pieces; p++)
      dc_pieces_add(r->pieces, p);
    r->bytes += block_bytes(g, b);
    r->claimed[b] = 1; /* its digest is known when it was found good */
    wait_for_turn(r, b);
    r->resuming++;
  }
  if (r->resuming == 0)
    log_info("group %s: goes on from 0 of %u blocks that it had verified before", g->id, r->blocks);
}

/* As good as verified: nothing more is asked for. */
static void pass(struct receiver *r, const struct dc_layout *l, uint32_t block)
{
  uint64_t pieces = dc_layout_pieces(l), first = (uint64_t)block * l->per_block, end = first + l->per_block;
  for (uint64_t p = first; p < end && p < pieces; p++)
    dc_pieces_add(r->pieces, p);
  dc_pieces_seal_block(r->pieces, block);
  r->state[block] = BLOCK_OK;
  r->ok++;
}

void blocks_whole(struct group *g)
{
  struct receiver *r = g->receiver;
  for (uint32_t b = 0; b < r->blocks; b++)
    pass(r, &g->layout, b);
  r->resumed = r->blocks;
  r->bytes = g->layout.size;
  g->state = GROUP_DONE;
  g->t_done_ns = loop_realtime_ns();
  log_info("group %s: goes on from %u of %u blocks that it had verified before: the file is there", g->id, r->blocks,
           r->blocks);
}

void blocks_skip(struct group *g)
{
  struct receiver *r = g->receiver;
  for (uint32_t b = 0; r->skip != NULL && b < r->blocks; b++) {
    if (!r->skip[b])
      continue;
    pass(r, &g->layout, b);
    r->skipped++;
  }
}

void blocks_go(struct group *g)
{
  verify_more(g);
  finish_if_whole(g);
}
