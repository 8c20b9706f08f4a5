/* What the simulator offers. Plain declarations: Python's cffi reads this same file. Times are nanoseconds, rates
 * bit/s. */
typedef struct sim sim;

/* How many bytes a frame takes on a link. */
enum sim_framing {
  SIM_ETHERNET, /* the whole frame as libdatacast writes it */
  SIM_PAPER     /* the paper's section 6.2: 16-byte headers of interests and data, nothing else */
};

sim *sim_new(uint64_t seed, int framing);
void sim_free(sim *s);
/* Why the last call that returned a negative number did so. */
const char *sim_error(const sim *s);
/* Names of the rules of rate control; NULL after the last. */
const char *sim_rule(unsigned i);

/* ---- the network; all before the first sim_run ---- */
int sim_vertex(sim *s, bool host);
/* A cable between ports; returns the directed link a -> b, the link b -> a has the next number. `queue`: packets that
 * may wait behind the one on the wire. */
int sim_cable(sim *s, int a, int port_a, int b, int port_b, uint64_t rate, uint64_t delay, uint32_t queue);

/* A node's bound on memory: what it gives a tree unasked, and all trees together. Without it there is room for what all ask for. */
int sim_node_memory(sim *s, int vertex, uint32_t each, uint64_t all);

struct sim_group_cfg {
  int source;     /* vertex */
  uint64_t size;  /* bytes of the file */
  uint32_t piece; /* payload bytes of a data packet */
  uint32_t per_block;
  uint64_t cache_bytes; /* C */
  uint32_t waiting; /* waiting interests that a node has room for per tree; 0: enough for all credits there may be */
};
int sim_group(sim *s, const struct sim_group_cfg *cfg);
int sim_receiver(sim *s, int group, int vertex);

struct sim_tree_cfg {
  const char *cc;
  uint64_t rate_init, rate_min, rate_max, delta, interval;
  uint32_t burst;        /* packets */
  uint32_t packet_bytes; /* what a full data packet takes on the source's link */
  uint32_t credits, batch;
  uint64_t rto_min, rto_max, rto_init;
  uint32_t reorder;
};
int sim_tree(sim *s, int group, uint32_t id, const struct sim_tree_cfg *cfg);
/* The route of a receiver (its index in the group) in a tree, as a blob of docs/wire.md. */
int sim_route(sim *s, int tree, int receiver, const uint8_t *blob, size_t len);
/* All routes of a tree from its arcs child -> parent; waypoints are where it branches. */
int sim_routes(sim *s, int tree, const int *child, const int *parent, int arcs);
/* Pieces [first, first + count) come over this tree, behind what it has already. */
int sim_extent(sim *s, int tree, uint64_t first, uint32_t count);
/* When the group's receivers begin to ask; `stop`: when they fall silent for good (UINT64_MAX: never). */
int sim_schedule(sim *s, int group, uint64_t start, uint64_t stop);
/* At that time the tree's source learns its share of the links, bit/s; 0: all of what they carry. */
int sim_limit(sim *s, int tree, uint64_t at, uint64_t bps);

/* A TCP connection with an endless supply of data along a path of directed links, acknowledgements along another. */
int sim_tcp(sim *s, const char *flavour, const int *path, int links, const int *back, int back_links, uint64_t start,
            uint64_t stop, uint32_t segment);

/* ---- running ---- */
/* The nodes come to be; nothing can be added any more. -1 when the machine lacks the memory. The first sim_run does it
 * too, but cannot say so: it aborts. */
int sim_prepare(sim *s);
/* Until `until`, or until every scheduled group that has no stop is whole (when `whole`). Returns the time reached. */
uint64_t sim_run(sim *s, uint64_t until, bool whole);
uint64_t sim_now(const sim *s);

/* ---- faults, between two runs ---- */
struct sim_faults { /* of one directed link; probabilities in parts per billion */
  uint32_t loss_data, loss_interest, duplicate, reorder, corrupt;
  uint64_t reorder_by; /* a reordered frame comes so much later */
  uint64_t jitter;     /* each frame comes later by up to so much, in order: a host's processor */
  bool early;          /* what is lost is lost before it takes the link's time, as in its queue */
};
int sim_link_faults(sim *s, int link, const struct sim_faults *f);
int sim_link_rate(sim *s, int link, uint64_t rate);
int sim_link_delay(sim *s, int link, uint64_t delay);
int sim_link_hold(sim *s, int link, uint64_t time); /* its sender stands still for so long: what it sends waits */
int sim_link_up(sim *s, int link, bool up);
uint64_t sim_link_free(const sim *s, int link); /* when what it has taken in will have left it */
int sim_node_wipe(sim *s, int vertex);          /* content stores */
int sim_node_restart(sim *s, int vertex);       /* everything it knows */
int sim_source_pause(sim *s, int tree, bool pause);
int sim_receiver_kill(sim *s, int group, int receiver);
int sim_receiver_resume(sim *s, int group, int receiver);             /* keeps the whole blocks */
int sim_receiver_start(sim *s, int group, int receiver, uint64_t at); /* later than the group */

/* ---- what came out ---- */
struct sim_receiver_stats {
  bool whole, alive;
  uint64_t finish, pieces, bytes, first;
  uint64_t wrong;      /* pieces held whose content is not the source's */
  uint64_t bad_blocks; /* found and fetched again */
};
struct sim_tree_stats {
  uint64_t rate, interests, merged, duplicates, refetches, new_packets, dup_packets, first, dropped, queued;
  uint32_t seq, numbers; /* one past the newest sent; sent so far, each counted once */
};
struct sim_asker_stats { /* a receiver in one tree */
  uint64_t interests, retransmitted, by_gap, by_timeout, data, duplicates, unknown, srtt, rto;
  uint32_t credits, outstanding, seq; /* the next one to ask for */
};
struct sim_link_stats {
  uint64_t frames, bytes, data, data_bytes, payload, dropped, lost;
  uint32_t queue_max;
};
struct sim_node_stats {
  uint64_t interests, hits, data, forwarded, drops, bytes, evicted, misses, aggregated, waiting;
};
int sim_receiver_stats(const sim *s, int group, int receiver, struct sim_receiver_stats *out);
int sim_tree_stats(const sim *s, int tree, struct sim_tree_stats *out);
int sim_asker_stats(const sim *s, int tree, int receiver, struct sim_asker_stats *out);
int sim_link_stats(const sim *s, int link, struct sim_link_stats *out);
int sim_node_stats(const sim *s, int vertex, struct sim_node_stats *out);
uint64_t sim_tcp_bytes(const sim *s, int flow); /* acknowledged */
uint64_t sim_hops(const sim *s);                /* packets that crossed a link */
uint64_t sim_digest(const sim *s);              /* of every event so far: two runs that agree in it were the same */
int sim_links(const sim *s);
/* Books that must balance; NULL, or what does not. Written for the fault campaigns. */
const char *sim_check(sim *s);

/* ---- for another simulator ---- */
/* All of it as text, before the first sim_run (simulation/ns3/README.md says how it reads); NULL when something in it
 * cannot be said so. The caller gives it back with sim_text_free. */
char *sim_describe(sim *s);
void sim_text_free(char *text);
