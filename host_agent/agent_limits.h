/* What can grow in the agent has its limit here (the core's are in datacast/limits.h). */
#ifndef AGENT_LIMITS_H
#define AGENT_LIMITS_H

enum {
  /* Signalling (docs/signalling.md). */
  CONNECTIONS_MAX = 128,          /* that others opened to us */
  PEERS_MAX = 256,                /* connections to children that are kept */
  CALLS_MAX = 16384,              /* requests under way to children */
  CALLER_REQUESTS_MAX = 4 * 1024, /* of one caller that wait for members: four for each of as many groups as can be */
  CALLER_BYTES_MAX = 32 << 20,    /* and their messages: eight of the longest */
  CALLER_CALLS_MAX = CALLS_MAX / 2,
  ANSWER_MAX = 128 << 10, /* bytes of a child's answer, for each member that it answers for */
  EVENT_MAX = 256 << 10,  /* of an event that is passed on; what is passed on may be written longer than it came */
  TREE_DEPTH_MAX = 64,
  TREE_MEMBERS_MAX = 8192,
  TREE_CHILDREN_MAX = 128,
  NAME_MAX_LEN = 64,         /* of a node or a group */
  TIMEOUT_DEFAULT_MS = 2000, /* of a request */
  TIMEOUT_MAX_MS = 60000,

  /* Frames. */
  SHARDS_MAX = 8, /* threads that have them */

  /* Groups. */
  GROUPS_DEFAULT = 64,
  GROUPS_LIMIT = 1024,
  GROUP_TREES_MAX = 32,
  TREES_MAX = 1024,           /* of all groups together */
  SOURCE_EXTENTS_MAX = 65536, /* that one tree of a source remembers */
  ROOTS_MAX = 16,
  LEASE_DEFAULT_MS = 30000,
  LEASES_KEPT = 10, /* so much longer a receiver keeps what it has when nobody asks for it */
  LEASE_MAX_MS = 24 * 3600 * 1000,
  LEFT_NOTE_MAX = 16 << 20, /* bytes of the note of what is left */

  /* Files. */
  STAMP_MAX_LEN = 64,                          /* of what names a source's file as it is */
  MARK_LEN = NAME_MAX_LEN + STAMP_MAX_LEN + 2, /* of what names a receiver's, with its end */
  BLOCKS_MAX = 1 << 18,
  HELD_ROWS_MAX = 4096,    /* runs of blocks that a host tells to have of what a group left */
  WANTS_MAX = 1024,        /* ranges of blocks that a member names */
  AHEAD_BLOCKS = 4,        /* that are read, hashed and kept before a source's tree comes to them */
  AHEAD_BYTES = 64 << 20,  /* of all sources' kept blocks */
  VERIFY_AT_ONCE = 4,      /* blocks of one group that wait to be read back */
  HASH_AT_ONCE = 4,        /* and of one source, to be hashed that none of its trees comes to */
  WORKER_THREADS_MAX = 32, /* of one kind */
  HASH_THREADS_MAX = 4,    /* that write and hash; as many as there are processors, two at least */
  DISK_THREADS = 3,        /* that sync, rename, reserve, free and walk */
  STAGE_BYTES = 256 << 10, /* run of a receiver's tree that is written with one call */
  STAGES_SPARE = 32,       /* such runs on their way to the disk, beside one of each tree */
  DIGESTS_PER_EVENT = 1024,
  FETCH_AT_ONCE = 4,         /* blocks that a group asks its origin for at once */
  FETCH_BLOCKS_MAX = 64,     /* of one request */
  FETCH_BYTES_MAX = 8 << 20, /* and its bytes, beyond a block */
  FETCH_STAT_MAX = 64,       /* objects that one request asks about */
  READ_MAX = 1 << 20,        /* bytes that a controller reads at once, for another site */
  READINGS_MAX = 32,
  FOLDERS_KEPT = 8,   /* directories that are being walked, or were just now */
  FETCH_THREADS = 32, /* requests to origins, of all groups: one that stands still has its thread */
  PROBE_THREADS = 8,
};

#define PIECES_MAX (UINT64_C(1) << 27)

#endif
