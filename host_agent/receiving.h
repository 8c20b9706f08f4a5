/* A receiver's tree in its shard: asks for pieces and puts them together into runs for the file. */
#ifndef AGENT_RECEIVING_H
#define AGENT_RECEIVING_H

#include "datacast/receiver.h"
#include "group.h"
#include "stage.h"

struct receiver_tree {
  struct endpoint endpoint; /* first */
  struct group *group;
  struct tree_params params;
  bool attached; /* the home loop's: the shard has it, and the rest is the shard's from then on */
  struct shard *shard;
  struct receiver_tree *next; /* of its group's in this shard */
  uint8_t cache_code;
  dc_receiver *core;
  struct dc_path *path;              /* NULL: no route yet */
  struct file *file;                 /* one reference; NULL: nothing is written any more */
  bool asks;                         /* what is held from before is known */
  bool began;                        /* it was told that data has come */
  bool rerouted;                     /* nothing new came over the changed route yet */
  uint64_t bytes, again, unroutable; /* again: pieces of good blocks that came once more */
  struct stage stage;                /* arrived, not handed on to be written yet */
};

/* Over calls of the shard (shard.h), or when the tree is detached. False: this tree id is taken. */
bool receiving_attach(struct receiver_tree *t) __attribute__((nonnull));
void receiving_detach(struct receiver_tree *t) __attribute__((nonnull));
/* The block is whole: what trees in this shard hold of it is handed on. `group`, `shard`: posted, where its last piece came to
 * another shard. */
void receiving_complete(void *group, uint64_t block, void *shard);
/* What arrived is on its way to the file. */
void receiving_hand_on(struct receiver_tree *t) __attribute__((nonnull));

/* receiver.c, in the home loop: what a tree tells. */
void receiver_hears_first(void *tree, uint64_t t_ns, void *nothing);
void receiver_hears_resumed(void *tree, uint64_t t_ns, void *nothing);

#endif
