/* For cffi: buffers and the node. */
typedef struct dc_buf dc_buf;
struct dc_buf_ops {
  ...;
};
struct dc_frame {
  dc_buf *buf;
  const uint8_t *data;
  uint32_t len;
  uint16_t port;
  ...;
};
#define DC_PORT_HOST ...
struct dc_tx {
  dc_buf *buf;
  uint32_t off;
  uint32_t len;
  uint16_t port;
  uint16_t prefix_len;
  uint8_t prefix[...];
  ...;
};

dc_buf *pybuf_new(const uint8_t *bytes, size_t len);
const uint8_t *pybuf_data(const dc_buf *b);
void pybuf_ref(dc_buf *b);
void pybuf_unref(dc_buf *b);
size_t pybuf_count(void);
void *pymem_new(size_t size);
void pymem_free(void *memory);
const struct dc_buf_ops *pybuf_ops(void);

struct dc_node_cfg {
  uint16_t ports;
  bool endpoint;
  bool lone_port;
  uint32_t cache_bytes;
  uint32_t cache_bytes_max;
  uint64_t memory_bytes;
  uint32_t memory_packets;
  uint32_t trees;
  uint32_t store_slots;
  uint32_t waiting_slots;
  uint64_t retx_min;
  uint64_t idle;
  ...;
};
void dc_node_cfg_default(struct dc_node_cfg *cfg);
int dc_node_cfg_check(const struct dc_node_cfg *cfg, const char **what);
size_t dc_node_size(const struct dc_node_cfg *cfg);
typedef struct dc_node dc_node;
dc_node *dc_node_init(void *memory, const struct dc_node_cfg *cfg, const struct dc_buf_ops *ops);
void dc_node_clear(dc_node *node);
void dc_node_set_port(dc_node *node, uint16_t port, const uint8_t *own, const uint8_t *neighbour);
unsigned dc_node_handle(dc_node *node, uint64_t now, const struct dc_frame *frame, struct dc_tx *out, unsigned cap);

struct dc_port_counters {
  uint64_t rx_frames, rx_bytes, tx_frames, tx_bytes;
  uint64_t tx_data, tx_data_payload;
  ...;
};
struct dc_tree_counters {
  uint32_t tree;
  uint64_t interests, hits, misses, aggregated, retx_forwarded;
  uint64_t data, stored, evicted, replicated, dup_data;
  uint64_t bytes;
  uint32_t packets;
  uint32_t waiting;
  uint32_t children;
  ...;
};
struct dc_node_counters {
  uint64_t forwarded;
  uint64_t interests, hits, data, to_endpoint;
  uint64_t trees_evicted;
  uint64_t drop[...];
  uint32_t trees;
  uint64_t bytes;
  ...;
};
void dc_node_counters(const dc_node *node, struct dc_node_counters *out);
void dc_node_port_counters(const dc_node *node, uint16_t port, struct dc_port_counters *out);
unsigned dc_node_tree_counters(const dc_node *node, struct dc_tree_counters *out, unsigned cap);
