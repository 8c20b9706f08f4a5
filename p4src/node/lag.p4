#ifndef DATACAST_NODE_LAG_P4
#define DATACAST_NODE_LAG_P4

// How far the slowest child is behind what goes on (docs/wire.md). The core looks at all children each time; here one child
// is held to be the slowest until another one is slower, it is done, or it was not heard of for LAG_HEARD.
REGISTER("lag_child", 8, NODE_TREES, lag_child);
REGISTER("lag_seq", 32, NODE_TREES, lag_seq); // what all below it have asked for
REGISTER("lag_heard", 48, NODE_TREES, lag_heard);

const bit<48> LAG_HEARD = 150000;

// Packets as a code: a power of two and its 32nd parts, less 32, rounded down.
#define LAG_CODE(E) else if (v[E + 5:E + 5] == 1) { lag = 3w##E ++ v[E + 4:E]; }

// How far the slowest is behind as h.seq is asked for; fresh: the tree has its place only now. That others have a batch still to ask
// for is no distance (dc_tree_lag).
control Lag(in datacast_t h, in bit<1> fresh, in metadata_t meta, out bit<8> lag) {
    apply {
        bit<8> child;
        bit<32> slowest;
        bit<48> heard;
        READ(lag_child, meta.node.tree, child);
        READ(lag_seq, meta.node.tree, slowest);
        READ(lag_heard, meta.node.tree, heard);
        bit<32> last = h.seq + (bit<32>)h.more;
        bit<32> behind = ((26w0 ++ 1w1 ++ h.lag[4:0]) << h.lag[7:5]) - 32;
        bit<32> own = last > behind ? last - behind : 0;
        if (fresh == 1 || meta.now - heard > LAG_HEARD || child == meta.node.child || own <= slowest) {
            if ((h.flags & (FLAG_RETX | FLAG_NOCACHE)) == 0 || fresh == 1) {
                slowest = own;
                WRITE(lag_child, meta.node.tree, meta.node.child);
                WRITE(lag_seq, meta.node.tree, slowest);
                WRITE(lag_heard, meta.node.tree, (h.flags & FLAG_LAST) != 0 ? 48w0 : meta.now);
            }
        }
        bit<32> first = h.seq - (meta.past + h.more < BATCH_MAX ? (bit<32>)meta.past : 0);
        bit<32> told = behind > (bit<32>)h.more ? behind - (bit<32>)h.more : 0;
        bit<32> v = first > slowest ? first - slowest : 0;
        v = told > v ? told : v;
        v = v > 8032 ? 8064 : v + 32;
        if (v[12:12] == 1) { lag = 3w7 ++ v[11:7]; }
        LAG_CODE(6) LAG_CODE(5) LAG_CODE(4) LAG_CODE(3) LAG_CODE(2) LAG_CODE(1)
        else { lag = 3w0 ++ v[4:0]; }
    }
}

#endif
