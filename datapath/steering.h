/* Which worker has a tree. */
#ifndef DATAPATH_STEERING_H
#define DATAPATH_STEERING_H

#include <datacast/bytes.h>
#include <datacast/wire.h>
#include <datacast/buf.h>

/* A group has this many numbers, of which its trees are the first: they lie with workers in sequence, and those of the next
 * group begin one worker further. */
enum { STEERING_GROUP_LOG2 = 4 };

static inline unsigned steering_of_tree(uint32_t tree, unsigned workers)
{
  uint32_t turn = tree + (tree >> STEERING_GROUP_LOG2);
  return (workers & (workers - 1)) == 0 ? turn & (workers - 1)
                                        : turn % workers; /* the kernel divides; mostly that is a mask */
}

struct sock_fprog;

/* The same for the kernel: which socket of an interface, of one for each worker, gets a frame. */
const struct sock_fprog *steering_program(void);

enum { STEERING_ANY = -1 };

/* The worker that is to have this frame; STEERING_ANY: it belongs to no tree here, whoever has it may send it on. What is
 * none of Datacast's, and hellos, are worker 0's. lone_port: an appliance's frames have lost their label;
 * so may a host's have. */
static inline int steering_of(const struct dc_frame *f, bool lone_port, unsigned workers)
{
  uint32_t at = DC_ETHER_LEN;
  if (f->len < DC_ETHER_LEN + DC_LABEL_LEN)
    return 0;
  uint32_t type = dc_frame_ethertype(f);
  if (type == DC_ETHERTYPE_MPLS) {
    if (dc_get32(f->data + at) >> 12 != DC_LABEL_LOCAL)
      return STEERING_ANY;
    at += DC_LABEL_LEN;
  } else if (type != DC_ETHERTYPE_DATACAST || !lone_port) {
    return 0;
  }
  if (f->len < at + DC_HEADER_LEN)
    return STEERING_ANY;
  return (int)steering_of_tree(dc_get32(f->data + at + DC_AT_TREE), workers);
}

enum { STEERING_BYTES = DC_ETHER_LEN + DC_LABEL_LEN + DC_HEADER_LEN /* of a frame, that are looked at */ };

/* The same, and what any worker may have is spread by its label, as the kernel does. */
static inline unsigned steering_spread(const struct dc_frame *f, unsigned workers)
{
  int to = steering_of(f, true, workers);
  return to != STEERING_ANY                     ? (unsigned)to
         : f->len < DC_ETHER_LEN + DC_LABEL_LEN ? 0
                                                : (dc_get32(f->data + DC_ETHER_LEN) >> 12) % workers;
}

#endif
