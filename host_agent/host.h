/* What the parts of one agent share. */
#ifndef AGENT_HOST_H
#define AGENT_HOST_H

#include "datapath/tls.h"
#include "forward.h"
#include "roots.h"
#include "worker.h"

struct host {
  const char *name; /* this node's, as in the topology */
  struct loop *loop;
  struct forward *forward;
  struct worker *worker;
  struct roots dest_roots, source_roots;
  struct security security;
  bool sync; /* fsync before the rename */
  bool keep_partial; /* at the end of the process too */
};

#endif
