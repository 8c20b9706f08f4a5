/* For cffi: limits, wire, route, endpoint. */
enum {
  DC_SEG_MAX,
  DC_STOPS_MAX,
  DC_ROUTE_MAX,
  DC_PORT_MAX,
  DC_CHILDREN_MAX,
  DC_NODE_PORTS_MAX,
  DC_NODE_TX_MAX,
  DC_CREDITS_MAX,
  DC_EXTENTS_MAX,
  DC_PREFIX_MAX,
  DC_PAYLOAD_MAX,
  DC_NODE_TREES_MAX,
  DC_NODE_SLOTS_MAX,
  ...
};

struct dc_header {
  uint8_t type;
  uint8_t flags;
  uint16_t length;
  uint32_t tree;
  uint32_t seq;
  uint8_t stops;
  uint8_t lag;
  uint8_t cache;
  uint8_t more;
  ...;
};
enum dc_drop {
  DC_DROP_NONE,
  DC_DROP_TRUNCATED,
  DC_DROP_VERSION,
  DC_DROP_TYPE,
  DC_DROP_RESERVED,
  DC_DROP_ETHERTYPE,
  DC_DROP_LABEL,
  DC_DROP_PORT,
  DC_DROP_STACK,
  DC_DROP_ROUTE,
  DC_DROP_NO_ENDPOINT,
  DC_DROP_UNKNOWN_TREE,
  DC_DROP_UNWANTED,
  DC_DROP_TREES,
  DC_DROP_CHILDREN,
  DC_DROP_WAITING,
  DC_DROP_QUEUE,
  DC_DROP_BEYOND,
  DC_DROP_OVERSIZED,
  DC_DROP_RANGE,
  DC_DROP_UTURN,
  DC_DROP_MAX,
  ...
};
const char *dc_drop_name(enum dc_drop why);
enum dc_drop dc_header_parse(const uint8_t *p, size_t len, struct dc_header *h);
void dc_header_write(uint8_t *p, const struct dc_header *h);
uint32_t dc_label_read(const uint8_t *p, bool *bottom);
void dc_label_write(uint8_t *p, uint32_t label, bool bottom);
void dc_ether_write(uint8_t *p, const uint8_t *dst, const uint8_t *src, uint16_t ethertype);
uint8_t dc_cache_code(uint64_t bytes);
uint64_t dc_cache_bytes(uint8_t code);

struct dc_segment {
  uint8_t n;
  bool local;
  uint16_t port[...];
  ...;
};
struct dc_stop {
  bool store;
  struct dc_segment ret;
  struct dc_segment fwd;
  ...;
};
size_t dc_stop_parse(const uint8_t *p, size_t len, struct dc_stop *s);
size_t dc_stop_write(uint8_t *p, size_t cap, const struct dc_stop *s);
unsigned dc_route_check(const uint8_t *p, size_t len);
bool dc_segment_equal(const struct dc_segment *a, const struct dc_segment *b);
size_t dc_segment_write(uint8_t *p, const struct dc_segment *seg, const uint8_t *dst, const uint8_t *src);

struct dc_path {
  struct dc_segment first;
  uint8_t stops;
  uint16_t rest_len;
  uint8_t rest[...];
  ...;
};
int dc_path_parse(struct dc_path *path, const uint8_t *blob, size_t len);
size_t dc_interest_write(uint8_t *p, size_t cap, const struct dc_path *path, const struct dc_header *h,
                         const uint8_t *dst, const uint8_t *src);
enum dc_drop dc_interest_at_source(const uint8_t *p, size_t len, struct dc_header *h, struct dc_segment *ret);
size_t dc_data_write(uint8_t *p, size_t cap, const struct dc_segment *ret, const struct dc_header *h,
                     const uint8_t *dst, const uint8_t *src);
