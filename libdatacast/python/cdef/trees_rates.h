/* For cffi: trees with rates. */
enum dc_rates_error { DC_RATES_OK, DC_RATES_SUM, DC_RATES_NONE, ... };
enum { DC_RATES_TREES_MAX, ... };
struct dc_rates;
struct dc_rates_query {
  uint32_t source;
  const uint32_t *receiver;
  uint32_t receivers;
  uint32_t most;
  bool together;
  const uint32_t *capacity;
  const uint32_t *wish;
  ...;
};
size_t dc_rates_size(const struct dc_net *net, uint32_t receivers, uint32_t most);
struct dc_rates *dc_rates_init(void *memory, const struct dc_net *net, uint32_t receivers, uint32_t most);
enum dc_rates_error dc_rates_compute(struct dc_rates *r, const struct dc_rates_query *q, uint32_t *node);
uint32_t dc_rates_trees(const struct dc_rates *r);
uint32_t dc_rates_tree_rate(const struct dc_rates *r, uint32_t tree);
uint32_t dc_rates_tree(struct dc_rates *r, uint32_t tree, uint32_t *node, uint32_t *arc);
uint64_t dc_rates_got(const struct dc_rates *r, uint32_t i);
uint64_t dc_rates_bound(const struct dc_rates *r, uint32_t i);
void dc_rates_cut(struct dc_rates *r, uint32_t i, uint8_t *side);
bool dc_rates_was_split(const struct dc_rates *r);
