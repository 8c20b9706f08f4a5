/* What can grow in the data path has its limit here (the core's are in datacast/limits.h). */
#ifndef DATAPATH_LIMITS_H
#define DATAPATH_LIMITS_H

enum {
  PORT_QUEUE = 256,     /* frames that wait for one port; a power of two */
  PORT_BATCH = 32,      /* frames of one system call */
  RX_BUDGET = 64,       /* frames taken from one port before the others get their turn */
  RING_BYTES = 2 << 20, /* receive ring of one port */
  SOCKET_SEND_BYTES = 4 << 20,
  LINK_REPORTS_MAX = 256 /* changes of links that the fabric manager has not acknowledged */
};

#endif
