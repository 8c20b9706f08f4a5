#ifndef DATACAST_NODE_STORE_P4
#define DATACAST_NODE_STORE_P4

// The content store of a tree: a FIFO of C bytes. Payloads lie in a ring of pieces of 256 bytes, one behind the other,
// (the compiler takes registers of 2,048 bits at most); where each begins stands in `store_entry`, by its number. Nothing is ever taken out: a packet is there while no more
// than C bytes, and no more pieces than the ring has, were stored since it came.
REGISTER("store_piece", 2048, NODE_TREES * NODE_CHUNKS, store_piece);
REGISTER("store_entry", 152, NODE_TREES * NODE_PACKETS, store_entry);
REGISTER("store_bytes", 48, NODE_TREES, store_bytes);     // stored so far
REGISTER("store_pieces", 32, NODE_TREES, store_pieces);   // the same in pieces
REGISTER("store_capacity", 32, NODE_TREES, store_capacity);

struct stored_t {
    bit<16> epoch;
    bit<32> seq;
    bit<16> length;
    bit<8>  flags;
    bit<32> first;  // piece
    bit<48> before; // bytes stored before it
}

#define STORE_AT(SEQ) (meta.node.tree ++ SEQ[8:0])
#define PIECE_AT(N) (meta.node.tree ++ N[9:0])
#define PIECE_PUT(I) if (pieces > I) { at = first + I; WRITE(store_piece, PIECE_AT(at), hdr.piece[I].bytes); }
#define NO_PIECE(I) hdr.piece[I].setInvalid();
// The last piece, shorter than 256 bytes, in halves: each has a register of its own width, by the packet's number.
#define HALVES_OF(M) M(half128, 7) M(half64, 6) M(half32, 5) M(half16, 4) M(half8, 3) M(half4, 2) M(half2, 1) M(half1, 0)
REGISTER("store_half128", 1024, NODE_TREES * NODE_PACKETS, store_half128);
REGISTER("store_half64", 512, NODE_TREES * NODE_PACKETS, store_half64);
REGISTER("store_half32", 256, NODE_TREES * NODE_PACKETS, store_half32);
REGISTER("store_half16", 128, NODE_TREES * NODE_PACKETS, store_half16);
REGISTER("store_half8", 64, NODE_TREES * NODE_PACKETS, store_half8);
REGISTER("store_half4", 32, NODE_TREES * NODE_PACKETS, store_half4);
REGISTER("store_half2", 16, NODE_TREES * NODE_PACKETS, store_half2);
REGISTER("store_half1", 8, NODE_TREES * NODE_PACKETS, store_half1);
#define HALF_PUT(NAME, BIT) if (length[BIT:BIT] == 1) { WRITE(store_##NAME, STORE_AT(hdr.datacast.seq), hdr.NAME.bytes); }
#define HALF_GET(NAME, BIT) hdr.NAME.setInvalid(); \
    if (length[BIT:BIT] == 1) { hdr.NAME.setValid(); READ(store_##NAME, STORE_AT(hdr.datacast.seq), hdr.NAME.bytes); }

// C as the interest asks for it (docs/wire.md), no more than there is.
control Capacity(in bit<8> code, in metadata_t meta, out bit<32> capacity) {
    apply {
        capacity = (28w1 ++ code[3:0]) << (8 + (4w0 ++ code[7:4]));
        capacity = code == 0 ? meta.node.capacity : (capacity > STORE_BYTES ? STORE_BYTES : capacity);
        WRITE(store_capacity, meta.node.tree, capacity);
    }
}

// Is the packet there? forget: it is not, from now on.
control InStore(in bit<32> seq, in bit<32> capacity, in bit<1> forget, in metadata_t meta, out stored_t entry,
                out bit<1> hit) {
    apply {
        bit<152> raw;
        bit<48> bytes;
        bit<32> pieces;
        READ(store_entry, STORE_AT(seq), raw);
        READ(store_bytes, meta.node.tree, bytes);
        READ(store_pieces, meta.node.tree, pieces);
        entry.epoch = raw[151:136];
        entry.seq = raw[135:104];
        entry.length = raw[103:88];
        entry.flags = raw[87:80];
        entry.first = raw[79:48];
        entry.before = raw[47:0];
        hit = entry.epoch == meta.node.epoch && entry.seq == seq && bytes - entry.before <= (bit<48>)capacity
            && pieces - entry.first <= NODE_CHUNKS ? 1w1 : 1w0;
        if (hit == 1 && forget == 1) {
            WRITE(store_entry, STORE_AT(seq), 152w0);
            hit = 0;
        }
    }
}

// The data at hand becomes the newest packet.
control Keep(in headers_t hdr, in metadata_t meta) {
    apply {
        bit<32> capacity;
        READ(store_capacity, meta.node.tree, capacity);
        if (meta.node.whole == 1 && (bit<32>)hdr.datacast.length <= capacity) {
            bit<16> length = hdr.datacast.length;
            bit<8> pieces = length[15:8];
            bit<48> bytes;
            bit<32> first;
            bit<32> at;
            READ(store_bytes, meta.node.tree, bytes);
            READ(store_pieces, meta.node.tree, first);
            WRITE(store_entry, STORE_AT(hdr.datacast.seq),
                  meta.node.epoch ++ hdr.datacast.seq ++ length ++ hdr.datacast.flags ++ first ++ bytes);
            THIRTY_FIVE(PIECE_PUT)
            HALVES_OF(HALF_PUT)
            WRITE(store_pieces, meta.node.tree, first + (bit<32>)pieces);
            WRITE(store_bytes, meta.node.tree, bytes + (bit<48>)length);
        }
    }
}

// The interest at hand becomes the data that answers it. bmv2 lets a frame grow by 512 bytes between coming in and going
// out, so it begins with the last, short piece, and gets two more in front each time it comes back by the loop (Grow).
control Answer(inout headers_t hdr, in stored_t entry, in segment_t ret, inout metadata_t meta) {
    apply {
        bit<16> length = entry.length;
        hdr.datacast.pkt_type = TYPE_DATA;
        hdr.datacast.flags = entry.flags;
        hdr.datacast.length = length;
        hdr.datacast.stops = 0;
        hdr.datacast.lag = 0;
        hdr.datacast.cache = 0;
        hdr.datacast.more = 0;
        FOUR(NO_PIECE) // an interest has no more
        HALVES_OF(HALF_GET)
        if (length[15:8] == 0) {
            meta.node.way = ret;
            meta.node.sends = 1;
        } else {
            hdr.label.setInvalid();
            hdr.growing.setValid();
            hdr.growing.left = length[15:8];
            hdr.growing.tree = 1w0 ++ meta.node.tree;
            hdr.growing.epoch = meta.node.epoch;
            hdr.growing.first = entry.first;
            hdr.growing.ports = ret.ports;
            hdr.growing.n = ret.n;
            hdr.growing.local = 7w0 ++ ret.local;
            hdr.growing.room = 0;
            meta.out_port = P4_LOOP_OUT;
        }
    }
}

// Two more pieces in front. What was overwritten since the answer was begun ends here; the child asks again.
control Grow(inout headers_t hdr, inout metadata_t meta) {
    apply {
        bit<16> epoch;
        bit<32> pieces;
        bit<32> at;
        meta.node.tree = hdr.growing.tree[6:0];
        READ(tree_epoch, meta.node.tree, epoch);
        READ(store_pieces, meta.node.tree, pieces);
        if (epoch == hdr.growing.epoch && pieces - hdr.growing.first <= NODE_CHUNKS) {
            meta.out_port = P4_LOOP_OUT;
            hdr.growing.left = hdr.growing.left - 1;
            at = hdr.growing.first + (bit<32>)hdr.growing.left;
            hdr.piece[1].setValid();
            READ(store_piece, PIECE_AT(at), hdr.piece[1].bytes);
            if (hdr.growing.left != 0) {
                hdr.growing.left = hdr.growing.left - 1;
                at = at - 1;
                hdr.piece[0].setValid();
                READ(store_piece, PIECE_AT(at), hdr.piece[0].bytes);
            }
            if (hdr.growing.left == 0) {
                meta.node.way.ports = hdr.growing.ports;
                meta.node.way.n = hdr.growing.n;
                meta.node.way.local = hdr.growing.local[0:0];
                meta.node.sends = 1;
                hdr.growing.setInvalid();
            }
        }
    }
}

#endif
