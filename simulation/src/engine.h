/* The simulator's inside. One sim is one thread; everything follows from the calls made and the seed. */
#ifndef DATACAST_SIM_ENGINE_H
#define DATACAST_SIM_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api.h"
#include "datacast/endpoint.h"
#include "datacast/node.h"
#include "datacast/receiver.h"
#include "datacast/source.h"

/* ---- events, in the order of (time, who) ---- */
enum who { WHO_LINK, WHO_ASKER, WHO_SOURCE, WHO_STRAY, WHO_TCP, WHO_GROUP, WHO_LIMIT };
#define WHO(kind, index) ((uint32_t)(kind) << 28 | (uint32_t)(index))
#define WHO_KIND(w) ((enum who)((w) >> 28))
#define WHO_INDEX(w) ((w)&0x0fffffffu)

enum { EVENTS_BUCKETS = 4096, EVENTS_SHIFT = 10, EVENTS_CELL = 15 };

struct event {
  dc_time at;
  uint32_t who;
};

struct event_cell { /* some of a bucket's */
  uint32_t n, next;
  struct event event[EVENTS_CELL];
};

struct events {
  struct event *now; /* the bucket at hand, sorted; from `at` on still to come */
  size_t at, n_now, cap_now;
  uint64_t open;  /* number of that bucket: its time divided by 2^shift ns */
  uint32_t shift; /* EVENTS_SHIFT at first */
  uint32_t free;  /* cells to use again */
  struct event_cell *cell;
  size_t n_cells, cap_cells;
  struct event *later; /* a heap of what is farther away than the wheel reaches */
  size_t n_later, cap_later;
  uint64_t looks, seen; /* buckets and events since the width was looked at */
  uint64_t full[EVENTS_BUCKETS / 64];
  uint32_t bucket[EVENTS_BUCKETS];
};

void events_push(struct events *e, dc_time at, uint32_t who);
/* Whether there is another one; then e->now[e->at] is the next. The caller counts e->at up to take it. */
bool events_ready(struct events *e);
void events_free(struct events *e);

/* ---- memory, given back all at once ---- */
struct chunk;
struct memory {
  struct chunk *chunks;
  char *at;
  size_t left, taken;
  size_t limit; /* what was available when it was first asked for */
  bool huge;    /* the simulation is large enough for huge pages */
};

/* Zeroed, at a cache line. */
void *memory_take(struct memory *m, size_t bytes);
void memory_free(struct memory *m);
/* 0, or a sim_fail when the machine has no room for so many bytes more. */
int memory_room(sim *s, double bytes);

/* ---- packets ---- */
#define STAMP 8 /* bytes of a payload that really exist: they say which piece it is */
enum { SMALL = 128, MIDDLE = 448, BIG = 1536, BODY = 24, BODY_BIG = 1536 };
enum size { SIZE_SMALL, SIZE_MIDDLE, SIZE_BIG, SIZES };

/* What the core may keep of a frame (its dc_buf), shared by all copies of it: of data the Datacast header and the
 * payload's stamp; of an interest, which no node keeps, nothing: its receiver has one for all. */
struct body {
  uint32_t refs;
  uint32_t payload;
  uint16_t n; /* bytes that are stored */
  bool big;
  struct pool *pool;
  struct body *next;
  uint8_t byte[];
};

/* A frame on its way. */
struct packet {
  struct packet *next;
  struct body *body;
  dc_time departs, arrives;
  uint32_t wire;    /* bytes it takes on a link */
  uint32_t len;     /* of the frame, payload included */
  uint32_t payload; /* of a data packet; only its first STAMP bytes are stored */
  uint16_t start;   /* of the frame in `byte` */
  uint16_t real;    /* bytes of it that are stored: all but a payload's behind the stamp */
  uint16_t head;    /* where the Datacast header stands in it */
  uint8_t size;     /* of `byte` */
  bool data, tcp;
  uint8_t byte[] __attribute__((aligned(8)));
};

struct pool {
  struct packet *packet[SIZES];
  struct body *body, *body_big;
  struct memory *memory;
  uint64_t packets, bodies; /* in use */
};

extern const struct dc_buf_ops packet_ops;
struct packet *packet_new(struct pool *pool, size_t cap);
size_t packet_room(const struct packet *p);
struct body *body_new(struct pool *pool, size_t n);
void body_give(struct body *b);
void packet_give(struct pool *pool, struct packet *p);  /* and its reference to the body */
void packet_spend(struct pool *pool, struct packet *p); /* without */
/* ---- the network ---- */
struct link {                 /* what a hop needs stands in front */
  struct packet *head, *tail; /* on the way, in order */
  struct packet *leaving;     /* first that has not left the sender yet */
  dc_node *node;              /* at the far end */
  uint32_t waiting;           /* from `leaving` on */
  uint32_t queue;
  int to;
  uint16_t to_port;
  bool up, faulty;
  dc_time delay, busy;
  dc_time last;        /* arrival of the last one sent */
  uint64_t rate, rest; /* rest: of busy, in 1/rate ns */
  uint64_t memo_ns, memo_rest;
  uint32_t memo_len;
  int from;
  struct sim_link_stats count;
  struct sim_faults faults;
} __attribute__((aligned(64)));

struct vertex {
  dc_node *node;
  bool host;
  uint16_t ports;
  int *out; /* directed link per port, -1: none */
  struct endpoint *askers, *sources;
  int n_askers, n_sources;
  uint64_t cache_bytes, cache_bytes_max; /* C, and what a node keeps at most whatever interests ask for */
  uint32_t each;                         /* what it gives a tree unasked; 0: C */
  uint64_t memory;                       /* of all trees together; 0: no bound */
};

struct endpoint {
  uint32_t id; /* of the tree */
  int index;   /* of the asker or the tree */
};

/* ---- endpoints ---- */
struct member { /* a receiver of a group: the file, over all trees */
  int group, index, vertex;
  bool alive, started;
  dc_pieces *pieces;
  uint8_t *bad; /* per piece: its content is wrong */
  uint64_t wrong, bad_blocks;
  dc_time first, finish, start;
};

struct asker { /* a receiver in one tree; one cache line */
  dc_receiver *r;
  dc_time armed;
  struct body *route; /* of its interests; NULL: it has no route */
  uint8_t *interest;  /* one, written once: all others are copies with another header */
  struct dc_path *path;
  int tree, member;
  int out;              /* link that they leave by; -1: to this host's own node */
  uint16_t front, rest; /* bytes of an interest in front of the Datacast header and behind it */
  uint8_t stops;
};

struct tree {
  int group;
  uint32_t id;
  struct sim_tree_cfg cfg;
  dc_source *source;
  struct dc_extents extents;
  bool paused;
  int first_asker; /* of member 0; one per member of the group, side by side */
  dc_time armed, first;
  uint64_t dropped;
};

struct group {
  struct sim_group_cfg cfg;
  uint8_t cache_code; /* of cfg.cache_bytes, for the interests */
  struct dc_layout layout;
  int *members;
  int n;
  int *trees;
  int n_trees;
  dc_time start, stop;
  bool running;
  int whole;
};

struct limit { /* a tree's share of the links, from a time on */
  int tree;
  dc_time at;
  uint64_t bps;
};

struct tcp;

struct stray { /* a frame that comes out of order */
  struct packet *p;
  int link;
};

struct local { /* a frame from an endpoint for its own host's node */
  int vertex;
  struct packet *p;
};

struct sim {
  dc_time now;
  uint64_t rng, digest, hops;
  bool damaged; /* some link has altered frames: an interest may have asked for another C */
  int framing;
  const char *error;
  char text[160]; /* of an error with numbers */
  bool ready;
  struct events events;
  struct memory memory;
  struct pool pool;
  struct link *links;
  int n_links;
  struct vertex *vertices;
  int n_vertices;
  struct member *members;
  int n_members;
  struct asker *askers;
  int n_askers;
  struct tree *trees;
  int n_trees;
  struct group *groups;
  int n_groups;
  int unfinished; /* running members without a stop that are not whole */
  struct limit *limits;
  int n_limits;
  struct tcp **flows;
  int n_flows;
  struct stray strays[4096];
  struct local *local;
  size_t local_n, local_cap;
  struct dc_tx tx[DC_NODE_TX_MAX];
};

/* Room for one more in an array that grows by doubling. */
void *grow(void *array, int n, size_t each);
uint64_t sim_random(sim *s);
/* True once in 10^9 / ppb times. */
bool sim_chance(sim *s, uint32_t ppb);
int sim_fail(sim *s, const char *why);

/* link.c */
void link_send(sim *s, int link, struct packet *p);
void link_event(sim *s, int link);
void stray_event(sim *s, uint32_t i);

/* ahead.c */
void look_ahead(const sim *s);

/* vertex.c */
void vertex_room(const sim *s, struct dc_node_cfg *cfg); /* all but ports and endpoint */
size_t vertex_memory(const sim *s, int v);               /* of its node */
void vertex_prepare(sim *s, int v);
void vertex_frame(sim *s, int v, dc_node *node, uint16_t port, struct packet *p); /* vertex v's node */
void vertex_local(sim *s, int v, struct packet *p);                               /* later in this same moment */
void vertex_drain(sim *s);

/* host.c */
void host_frame(sim *s, int v, const struct packet *p);
void asker_route(sim *s, struct asker *a); /* its path is there */
void source_event(sim *s, int tree);
void limit_event(sim *s, int limit);
void asker_wake(sim *s, struct asker *a);
void asker_event(sim *s, int asker);
void group_event(sim *s, int group);
uint64_t content(const sim *s, int group, uint64_t piece);
void member_start(sim *s, int member);

/* tcp.c */
void tcp_arrive(sim *s, struct packet *p);
void tcp_event(sim *s, int flow);
void tcp_free(sim *s);

#endif
