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

/* ---- events: a 4-ary heap of (time, who) ---- */
enum who { WHO_LINK, WHO_ASKER, WHO_SOURCE, WHO_STRAY, WHO_TCP, WHO_GROUP };
#define WHO(kind, index) ((uint32_t)(kind) << 28 | (uint32_t)(index))
#define WHO_KIND(w) ((enum who)((w) >> 28))
#define WHO_INDEX(w) ((w) & 0x0fffffffu)

struct event {
  dc_time at;
  uint32_t who;
};

struct events {
  struct event *heap;
  size_t n, cap;
};

void events_push(struct events *e, dc_time at, uint32_t who);
void events_pop(struct events *e);
/* The first one takes place again later: cheaper than pop and push. */
void events_postpone(struct events *e, dc_time at);

/* ---- packets ---- */
#define STAMP 8 /* bytes of a payload that really exist: they say which piece it is */
enum { SMALL = 320, BIG = 1536 };

struct packet { /* the core's dc_buf */
  uint32_t refs;
  uint32_t wire;    /* bytes it takes on a link */
  uint32_t len;     /* of the frame, payload included */
  uint32_t payload; /* of a data packet; only its first STAMP bytes are stored */
  uint32_t real;    /* bytes of the frame that are stored */
  uint16_t start, cap;
  bool data, tcp;
  struct packet *next;
  dc_time departs, arrives;
  uint32_t link;      /* a stray's */
  uint32_t flow, hop; /* TCP: the connection, links passed */
  uint64_t number;    /* TCP: segment, or the next one expected */
  dc_time echo;       /* TCP: when the segment was sent */
  bool ack, resent;
  uint8_t byte[];
};

struct pool {
  struct packet *small, *big;
  uint64_t alive;
};

extern const struct dc_buf_ops packet_ops;
static inline void packet_give(struct packet *p) { packet_ops.unref((dc_buf *)(void *)p); }
void pool_free(struct pool *pool); /* what is in it; nothing may be alive */
struct packet *packet_new(struct pool *pool, size_t cap);

/* ---- the network ---- */
struct link {
  struct packet *head, *tail; /* on the way, in order */
  struct packet *leaving;     /* first that has not left the sender yet */
  uint32_t waiting;           /* from `leaving` on */
  uint32_t queue;
  int from, to;
  uint16_t to_port;
  bool up, faulty;
  uint64_t rate;
  dc_time delay, busy, last;
  uint64_t rest; /* of busy, in 1/rate ns */
  uint32_t memo_len;
  uint64_t memo_ns, memo_rest;
  struct sim_faults faults;
  struct sim_link_stats count;
};

struct vertex {
  dc_node *node;
  void *memory;
  bool host;
  uint16_t ports;
  int *out; /* directed link per port, -1: none */
  int *askers, *sources;
  int n_askers, n_sources;
  uint64_t cache_bytes;
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

struct asker { /* a receiver in one tree */
  int tree, member;
  bool routed;
  dc_receiver *r;
  struct dc_path path;
  dc_time armed;
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
  struct dc_layout layout;
  int *members;
  int n;
  int *trees;
  int n_trees;
  dc_time start, stop;
  bool running;
  int whole;
};

struct tcp;

struct local { /* a frame from an endpoint for its own host's node */
  int vertex;
  struct packet *p;
};

struct sim {
  dc_time now;
  uint64_t rng, digest, hops;
  int framing;
  const char *error;
  bool ready;
  struct events events;
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
  struct tcp **flows;
  int n_flows;
  struct packet *strays[4096];
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

/* vertex.c */
void vertex_room(const sim *s, struct dc_node_cfg *cfg); /* all but ports and endpoint */
void vertex_prepare(sim *s, int v);
void vertex_frame(sim *s, int v, uint16_t port, struct packet *p);
void vertex_local(sim *s, int v, struct packet *p); /* later in this same moment */
void vertex_drain(sim *s);

/* host.c */
void host_frame(sim *s, int v, const uint8_t *p, uint32_t len, uint32_t real);
void source_event(sim *s, int tree);
void asker_event(sim *s, int asker);
void group_event(sim *s, int group);
uint64_t content(const sim *s, int group, uint64_t piece);
void member_start(sim *s, int member);

/* tcp.c */
void tcp_arrive(sim *s, struct packet *p);
void tcp_event(sim *s, int flow);
void tcp_free(sim *s);

#endif
