#ifndef DATACAST_NODE_TREES_P4
#define DATACAST_NODE_TREES_P4

// Which place a tree has. Trees stand in sets of 8, by a hash of their id; an interest of one that is not there takes a
// free place of its set, or the one unused for longest of those that data never came for (anybody can invent a tree), or
// of all when that is TREE_IDLE. Nobody has to be asked, so a tree works from its first interest on, also while the
// controller is away.
REGISTER("tree_ids", 256, NODE_SETS, tree_ids);    // 8 ids
REGISTER("tree_used", 192, 2 * NODE_SETS, tree_used);  // twice 4 times of the last interest; 0: free
REGISTER("tree_proven", 8, NODE_SETS, tree_proven); // a bit for each place: data came for its tree
REGISTER("tree_epoch", 16, NODE_TREES, tree_epoch); // counts the owners of a place: what they left is nobody's

// Words are 256 bits wide at most: bmv2 shifts by no more.
#define TREE_IS(W, ROW, AT) way = (ROW[48*AT+47:48*AT] != 0 && ids[32*W+31:32*W] == id) ? 8w##W : way;
#define TREE_OLDER(W, ROW, AT) oldest = proven[W:W] ++ ROW[48*AT+47:48*AT] < since ? 8w##W : oldest; \
    since = proven[W:W] ++ ROW[48*AT+47:48*AT] < since ? proven[W:W] ++ ROW[48*AT+47:48*AT] : since;
#define TREE_PUT(W, ROW, AT) ids[32*W+31:32*W] = way == W ? id : ids[32*W+31:32*W];
#define TREE_TOUCH(W, ROW, AT) ROW[48*AT+47:48*AT] = way == W ? meta.now : ROW[48*AT+47:48*AT];
#define WAYS(M) M(0, low, 0) M(1, low, 1) M(2, low, 2) M(3, low, 3) M(4, high, 0) M(5, high, 1) M(6, high, 2) M(7, high, 3)

// make: an interest's tree is given a place. fresh: it was.
control Trees(in bit<32> id, in bit<1> make, inout metadata_t meta, out bit<1> fresh) {
    apply {
        bit<32> set;
        bit<256> ids;
        bit<192> low;
        bit<192> high;
        bit<8> way = 255;
        fresh = 0;
        HASH(crc32, set, { id }, NODE_SETS);
        READ(tree_ids, set, ids);
        READ(tree_used, set << 1, low);
        READ(tree_used, (set << 1) + 1, high);
        WAYS(TREE_IS)
        if (way == 255 && make == 0) {
            meta.reason = REASON_UNKNOWN_TREE;
        } else if (way == 255) {
            bit<8> oldest = 0;
            bit<8> proven;
            READ(tree_proven, set, proven);
            bit<49> since = proven[0:0] ++ low[47:0]; // those that data came for are behind all others
            WAYS(TREE_OLDER)
            if (since[48:48] == 1 && meta.now - since[47:0] < TREE_IDLE) {
                meta.reason = REASON_TREES;
            } else {
                way = oldest;
                fresh = 1;
                WAYS(TREE_PUT)
                WRITE(tree_ids, set, ids);
                WRITE(tree_proven, set, proven & ~(8w1 << way));
            }
        }
        meta.node.tree = set[3:0] ++ way[2:0];
        READ(tree_epoch, meta.node.tree, meta.node.epoch);
        if (fresh == 1) {
            meta.node.epoch = meta.node.epoch == 0xffff ? 16w1 : meta.node.epoch + 1; // 0: never owned
            WRITE(tree_epoch, meta.node.tree, meta.node.epoch);
        }
        if (make == 1 && meta.reason == REASON_NONE) {
            WAYS(TREE_TOUCH)
            WRITE(tree_used, set << 1, low);
            WRITE(tree_used, (set << 1) + 1, high);
        }
    }
}

// Data that was asked for came: only when it is idle does its tree give way now.
control Prove(in node_t node) {
    apply {
        bit<8> proven;
        READ(tree_proven, node.tree[6:3], proven);
        WRITE(tree_proven, node.tree[6:3], proven | (8w1 << node.tree[2:0]));
    }
}

#endif
