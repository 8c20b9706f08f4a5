/* For cffi: the network, trees, routes of trees. */
enum dc_net_kind { DC_NET_ANY, DC_NET_BCUBE, DC_NET_TORUS, DC_NET_HYPERCUBE, DC_NET_FATTREE, ... };
enum { DC_NODE_HOST, DC_NODE_FORWARDS, DC_NODE_CACHE, DC_NODE_BESIDE, DC_TREES_MAX, ... };
struct dc_net_link {
  uint32_t u, v, u_port, v_port;
};
struct dc_net_cfg {
  uint32_t nodes, links, trees;
  enum dc_net_kind kind;
  uint32_t n, k;
  ...;
};
struct dc_net;
struct dc_trees;
size_t dc_net_size(const struct dc_net_cfg *cfg);
struct dc_net *dc_net_init(void *memory, const struct dc_net_cfg *cfg, const struct dc_net_link *link,
                           const uint8_t *flags, const uint16_t *msd);
enum dc_net_kind dc_net_kind(const struct dc_net *net);
uint32_t dc_net_arc(const struct dc_net *net, uint32_t v, uint32_t port);
void dc_net_set_up(struct dc_net *net, uint32_t arc, bool up);
void dc_net_set_cache(struct dc_net *net, uint32_t v, bool can);
bool dc_net_is_up(const struct dc_net *net, uint32_t arc);
uint32_t dc_trees_floor(struct dc_trees *s, uint32_t source, unsigned times);
size_t dc_trees_size(const struct dc_net *net);
struct dc_trees *dc_trees_init(void *memory, const struct dc_net *net);
struct dc_trees_query {
  uint32_t source;
  const uint32_t *receiver;
  uint32_t receivers;
  uint32_t most;
  const uint16_t *load;
  ...;
};
unsigned dc_trees_compute(struct dc_trees *s, const struct dc_trees_query *q);
unsigned dc_trees_exact(struct dc_trees *s, const struct dc_trees_query *q, unsigned wanted);
struct dc_trees_repaired {
  uint64_t changed, lost, added;
  ...;
};
struct dc_trees_repaired dc_trees_repair(struct dc_trees *s, const uint32_t *arc, uint32_t arcs);
uint32_t dc_trees_load(struct dc_trees *s, unsigned tree, const uint32_t *arc, uint32_t arcs);
void dc_trees_reset(struct dc_trees *s, const struct dc_trees_query *q);
uint32_t dc_trees_down(const struct dc_trees *s, uint32_t *arc);
void dc_trees_take_down(struct dc_trees *s, const uint32_t *arc, uint32_t arcs);
uint64_t dc_trees_held(const struct dc_trees *s);
uint32_t dc_trees_depth(const struct dc_trees *s, unsigned tree);
uint32_t dc_trees_nodes(struct dc_trees *s, unsigned tree, uint32_t *node, uint32_t *arc);
uint32_t dc_trees_bound_degree(const struct dc_trees *s);
uint32_t dc_trees_bound_maxflow(struct dc_trees *s);
uint32_t dc_trees_reachable(struct dc_trees *s, uint8_t *reached);

enum dc_routes_error {
  DC_ROUTES_OK,
  DC_ROUTES_SPACE,
  DC_ROUTES_MISSING,
  DC_ROUTES_MSD,
  DC_ROUTES_LONG,
  DC_ROUTES_STOPS,
  DC_ROUTES_CHILDREN,
  ...
};
struct dc_routes_result {
  enum dc_routes_error error;
  uint32_t node;
  size_t bytes;
  uint32_t labels;
  uint32_t interest;
  ...;
};
struct dc_routes_result dc_trees_routes(struct dc_trees *s, unsigned tree, uint8_t *out, size_t cap, uint32_t *at);
