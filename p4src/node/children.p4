#ifndef DATACAST_NODE_CHILDREN_P4
#define DATACAST_NODE_CHILDREN_P4

// The children of a tree: distinct return segments, found by a mark (their CRC-32) and then compared whole.
REGISTER("child_count", 8, NODE_TREES, child_count);
REGISTER("child_marks", 256, NODE_TREES * 4, child_marks); // four times 8 marks
REGISTER("child_segment", 144, NODE_TREES * NODE_CHILDREN, child_segment); // ports 128, number 8, local, 0
REGISTER("child_heard", 48, NODE_TREES * NODE_CHILDREN, child_heard);
REGISTER("child_asking", 32, NODE_TREES, child_asking); // a bit each: heard more than once, and has not said LAST

#define CHILD_AT(C) (meta.node.tree ++ C[4:0])
#define CHILD_IS(I, ROW, AT) child = (I < count && marks##ROW[32*AT+31:32*AT] == mark) ? 8w##I : child;
#define CHILD_OLDER(I) READ(child_heard, meta.node.tree ++ 5w##I, heard); \
    child = heard < since ? 8w##I : child; since = heard < since ? heard : since;
#define CHILD_PUT(I, ROW, AT) marks##ROW[32*AT+31:32*AT] = child == I ? mark : marks##ROW[32*AT+31:32*AT];
#define MARKS(M) M(0, 0, 0) M(1, 0, 1) M(2, 0, 2) M(3, 0, 3) M(4, 0, 4) M(5, 0, 5) \
    M(6, 0, 6) M(7, 0, 7) M(8, 1, 0) M(9, 1, 1) M(10, 1, 2) M(11, 1, 3) M(12, 1, 4) M(13, 1, 5) \
    M(14, 1, 6) M(15, 1, 7) M(16, 2, 0) M(17, 2, 1) M(18, 2, 2) M(19, 2, 3) M(20, 2, 4) M(21, 2, 5) \
    M(22, 2, 6) M(23, 2, 7) M(24, 3, 0) M(25, 3, 1) M(26, 3, 2) M(27, 3, 3) M(28, 3, 4) M(29, 3, 5) \
    M(30, 3, 6) M(31, 3, 7)
#define ROWS_READ(R) READ(child_marks, meta.node.tree ++ 2w##R, marks##R);
#define ROWS_WRITE(R) WRITE(child_marks, meta.node.tree ++ 2w##R, marks##R);

// fresh: the tree has its place only now. asking: some child asks for more.
control Children(in segment_t ret, in bit<8> flags, in bit<1> fresh, inout metadata_t meta, out bit<32> asking) {
    apply {
        bit<8> count;
        bit<256> marks0;
        bit<256> marks1;
        bit<256> marks2;
        bit<256> marks3;
        bit<32> mark;
        bit<8> child = 255;
        bit<1> asks = 0;
        bit<144> segment = ret.ports ++ ret.n ++ ret.local ++ 7w0;
        READ(child_count, meta.node.tree, count);
        READ(child_asking, meta.node.tree, asking);
        FOUR(ROWS_READ)
        HASH_32(mark, { segment });
        if (fresh == 1) {
            count = 0;
            asking = 0;
        }
        MARKS(CHILD_IS)
        if (child != 255) {
            bit<144> known;
            READ(child_segment, CHILD_AT(child), known);
            meta.reason = known == segment ? REASON_NONE : REASON_CHILDREN; // two of one mark
            asks = (flags & FLAG_LAST) == 0 ? 1w1 : 1w0;
        } else {
            if (count < NODE_CHILDREN) {
                child = count;
                count = count + 1;
                WRITE(child_count, meta.node.tree, count);
            } else {
                bit<48> since = meta.now;
                bit<48> heard;
                THIRTY_TWO(CHILD_OLDER)
                if (child == 255 || meta.now - since < CHILD_STALE) {
                    meta.reason = REASON_CHILDREN;
                } else { // what waited under its number was another's: the place begins anew
                    meta.node.epoch = meta.node.epoch == 0xffff ? 16w1 : meta.node.epoch + 1;
                    WRITE(tree_epoch, meta.node.tree, meta.node.epoch);
                }
            }
            if (meta.reason == REASON_NONE) {
                MARKS(CHILD_PUT)
                FOUR(ROWS_WRITE)
                WRITE(child_segment, CHILD_AT(child), segment);
            }
        }
        if (meta.reason == REASON_NONE) {
            WRITE(child_heard, CHILD_AT(child), meta.now);
            if (meta.past == 0) { // the rest of a range is no other interest
                asking = (asking & ~(32w1 << child)) | ((31w0 ++ asks) << child);
                WRITE(child_asking, meta.node.tree, asking);
            }
        }
        meta.node.child = child;
    }
}

#endif
