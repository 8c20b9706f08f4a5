/* For cffi: pieces, rate control, source and receiver. dc_header and dc_segment stand in the wire's cdef. */
struct dc_layout {
  uint64_t size;
  uint32_t piece;
  uint32_t per_block;
};
uint64_t dc_layout_pieces(const struct dc_layout *l);
uint32_t dc_layout_blocks(const struct dc_layout *l);
uint32_t dc_layout_piece_len(const struct dc_layout *l, uint64_t i);

typedef struct dc_pieces dc_pieces;
size_t dc_pieces_size(const struct dc_layout *l);
dc_pieces *dc_pieces_init(void *memory, const struct dc_layout *l);
bool dc_pieces_has(const dc_pieces *p, uint64_t piece);
bool dc_pieces_add(dc_pieces *p, uint64_t piece);
uint32_t dc_pieces_drop_block(dc_pieces *p, uint32_t block);
void dc_pieces_seal_block(dc_pieces *p, uint32_t block);
bool dc_pieces_sealed(const dc_pieces *p, uint64_t first, uint64_t count);
bool dc_pieces_block_whole(const dc_pieces *p, uint32_t block);
uint64_t dc_pieces_held(const dc_pieces *p);
bool dc_pieces_whole(const dc_pieces *p);

struct dc_extent {
  uint32_t seq;
  uint32_t count;
  uint64_t first;
};
struct dc_extents {
  uint32_t n;
  ...;
};
int dc_extents_append(struct dc_extents *x, const struct dc_extent *e);
bool dc_extents_piece(const struct dc_extents *x, uint32_t seq, uint64_t *piece);
uint32_t dc_extents_end(const struct dc_extents *x);
void dc_extents_forget(struct dc_extents *x, uint32_t seq, const dc_pieces *p);
void dc_extents_cut(struct dc_extents *x, uint32_t seq);

struct dc_cc_params {
  uint64_t rate_init;
  uint64_t rate_min;
  uint64_t rate_max;
  uint64_t delta;
  uint64_t interval;
  uint32_t packet_bytes;
  ...;
};
struct dc_cc_ops {
  const char *name;
  ...;
};
const struct dc_cc_ops *dc_cc_find(const char *name);

struct dc_source_cfg {
  const struct dc_cc_ops *cc;
  struct dc_cc_params params;
  uint32_t burst_packets;
  uint64_t patience;
  ...;
};
struct dc_source_counters {
  uint64_t interests, merged, duplicates, refetches, new_packets, dup_packets;
  uint64_t drop[...];
  uint64_t rate;
  uint32_t queued;
  uint32_t next_seq;
  ...;
};
typedef struct dc_source dc_source;
struct dc_source_tx {
  uint32_t seq;
  uint8_t flags;
  const struct dc_segment *ret;
};
size_t dc_source_size(void);
dc_source *dc_source_init(void *memory, uint64_t now, const struct dc_source_cfg *cfg);
void dc_source_assign(dc_source *s, uint32_t seq, uint32_t count);
void dc_source_cut(dc_source *s, uint32_t seq);
void dc_source_handle(dc_source *s, uint64_t now, const struct dc_header *h, const struct dc_segment *ret);
unsigned dc_source_poll(dc_source *s, uint64_t now, struct dc_source_tx *out, unsigned cap);
uint64_t dc_source_next_wake(const dc_source *s);
void dc_source_counters(const dc_source *s, struct dc_source_counters *out);

struct dc_receiver_cfg {
  uint32_t credits, batch;
  uint64_t rto_min, rto_max, rto_init;
  uint32_t reorder;
  ...;
};
enum dc_rx_result { DC_RX_NEW, DC_RX_DUPLICATE, DC_RX_UNKNOWN, DC_RX_LENGTH, DC_RX_UNASKED };
struct dc_receiver_counters {
  uint64_t interests, retransmitted, by_gap, by_timeout, data, duplicates, unknown, bad_length;
  uint32_t outstanding, credits;
  uint64_t srtt, rto;
  uint32_t next_seq;
  ...;
};
typedef struct dc_receiver dc_receiver;
struct dc_interest {
  uint32_t seq;
  uint8_t flags;
  uint8_t more;
};
size_t dc_receiver_size(void);
void dc_receiver_cfg_default(struct dc_receiver_cfg *cfg);
dc_receiver *dc_receiver_init(void *memory, uint64_t now, const struct dc_receiver_cfg *cfg, dc_pieces *pieces);
int dc_receiver_assign(dc_receiver *r, const struct dc_extent *e);
void dc_receiver_cut(dc_receiver *r, uint32_t seq);
void dc_receiver_leave(dc_receiver *r);
void dc_receiver_restart(dc_receiver *r, uint64_t now);
uint32_t dc_receiver_refetch(dc_receiver *r, uint64_t first_piece, uint32_t count);
bool dc_receiver_carries(const dc_receiver *r, uint64_t piece);
enum dc_rx_result dc_receiver_handle(dc_receiver *r, uint64_t now, const struct dc_header *h, uint64_t *piece);
unsigned dc_receiver_poll(dc_receiver *r, uint64_t now, struct dc_interest *out, unsigned cap);
uint64_t dc_receiver_next_wake(const dc_receiver *r);
bool dc_receiver_idle(const dc_receiver *r);
void dc_receiver_counters(const dc_receiver *r, struct dc_receiver_counters *out);
