#ifndef DATACAST_NODE_LAG_P4
#define DATACAST_NODE_LAG_P4

// How near the slowest child is to falling out of the store, in 255ths (docs/wire.md). The core looks at all children
// each time; here one child is held to be the slowest until another one is slower or it was not heard of for LAG_HEARD.
REGISTER("lag_child", 8, NODE_TREES, lag_child);
REGISTER("lag_value", 8, NODE_TREES, lag_value);
REGISTER("lag_heard", 48, NODE_TREES, lag_heard);
REGISTER("store_newest", 48, NODE_TREES, store_newest); // highest number stored 32, length of what came last 16

const bit<48> LAG_HEARD = 100000;

// 4096 / (16 + m): dividing by a capacity of (16 + m) x 2^e is multiplying by it.
#define SHARE(M) (M == 0 ? 32w256 : (M == 1 ? 32w240 : (M == 2 ? 32w227 : (M == 3 ? 32w215 : (M == 4 ? 32w204 : \
    (M == 5 ? 32w195 : (M == 6 ? 32w186 : (M == 7 ? 32w178 : (M == 8 ? 32w170 : (M == 9 ? 32w163 : (M == 10 ? 32w157 \
    : (M == 11 ? 32w151 : (M == 12 ? 32w146 : (M == 13 ? 32w141 : (M == 14 ? 32w136 : 32w132)))))))))))))))

// told: what the interest brought; last: the highest number it asks for; fresh: the tree has its place only now.
control Lag(in bit<8> told, in bit<32> last, in bit<8> flags, in bit<8> code, in bit<1> fresh, in metadata_t meta,
            out bit<8> lag) {
    apply {
        bit<48> newest;
        bit<8> child;
        bit<48> heard;
        READ(lag_child, meta.node.tree, child);
        READ(lag_value, meta.node.tree, lag);
        READ(lag_heard, meta.node.tree, heard);
        READ(store_newest, meta.node.tree, newest);
        if (fresh == 1) {
            newest = 0;
            WRITE(store_newest, meta.node.tree, newest);
        }
        // 256 x distance in bytes / C, by the code of C; the default is taken to be that of STORE_BYTES.
        bit<8> size = code == 0 ? 8w0x50 : code;
        bit<32> behind = newest[47:16] > last ? newest[47:16] - last : 0;
        behind = behind > 0xffff ? 0xffff : behind;
        bit<64> share = ((bit<64>)behind * (bit<64>)newest[15:0] * (bit<64>)SHARE(size[3:0])) >> (12 + (4w0 ++ size[7:4]));
        bit<8> own = share > 255 ? 8w255 : share[7:0];
        own = own < told ? told : own;
        if (fresh == 1 || meta.now - heard > LAG_HEARD || child == meta.node.child || own >= lag) {
            if ((flags & (FLAG_RETX | FLAG_NOCACHE)) == 0 || fresh == 1) {
                lag = own;
                WRITE(lag_child, meta.node.tree, meta.node.child);
                WRITE(lag_value, meta.node.tree, lag);
                WRITE(lag_heard, meta.node.tree, meta.now);
            }
        }
        lag = lag < told ? told : lag;
    }
}

// A packet was stored.
control Newest(in bit<32> seq, in bit<16> length, in metadata_t meta) {
    apply {
        bit<48> newest;
        READ(store_newest, meta.node.tree, newest);
        newest[47:16] = seq > newest[47:16] ? seq : newest[47:16];
        newest[15:0] = length;
        WRITE(store_newest, meta.node.tree, newest);
    }
}

#endif
