/* What the parts of one agent share. */
#ifndef AGENT_HOST_H
#define AGENT_HOST_H

#include "datapath/tls.h"
#include "datapath/loop.h"
#include "roots.h"
#include "shard.h"
#include "stage.h"
#include "walks.h"

struct registration;
struct led;
struct room;

struct host {
  const char *name;      /* this node's, as in the topology */
  const char *addr;      /* where it listens for requests */
  struct loop *loop;     /* of all but the frames: the home loop */
  struct shards *shards; /* of the frames */
  struct registration *registration;
  struct worker *worker; /* writes and hashes */
  struct worker *disk;   /* what may wait for the disk as long as it likes */
  struct worker *fetch;  /* gets bytes from origins */
  struct worker *probe;  /* asks them what they have: an origin that stands still must not keep others from it */
  const char *origins;   /* file of --origins; NULL: nothing is fetched */
  struct stages stages;
  size_t ahead_room; /* bytes that sources may still keep of what they have read (ahead.h) */
  struct walks walks;
  uint16_t fixed_ports; /* from the command line; behind them stand slots for tunnels */
  struct led *led;      /* where these lead (registrant.c); owned */
  struct roots dest_roots, source_roots;
  struct room *room;    /* in dest_roots, as it was found last (registrant.c); owned; NULL: it was not yet */
  bool looking;         /* it is being looked for */
  const char *key_file; /* this agent's private key, never sent; NULL: it has none */
  struct security security;
  bool sync;         /* fsync before the rename */
  bool owners;       /* who owns what is in directories is told and kept */
  bool xattrs;       /* and its extended attributes */
  bool keep_partial; /* at the end of the process too */
};

#endif
