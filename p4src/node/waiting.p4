#ifndef DATACAST_NODE_WAITING_P4
#define DATACAST_NODE_WAITING_P4

// Waiting interests: for each number that was sent on, which children want it. A number may stand in any of the 4
// places of its set, as in the core (libdatacast/src/waiting.h).
REGISTER("waiting_tags", 192, NODE_TREES * NODE_WAITING_SETS, waiting_tags);   // 4 x (epoch 16, number 32)
REGISTER("waiting_entry", 152, NODE_TREES * NODE_WAITING, waiting_entry);

struct waiting_t {
    bit<48> sent;     // when it was last sent on
    bit<32> children; // who waits: a bit per child
    bit<32> order;    // number of the last sending on
    bit<16> way;      // tells the route of the last sending on from others
    bit<16> up;       // the port it was sent out of: data is taken from there only
    bit<1>  store;    // the data is to be stored
    bit<1>  nocache;  // what was sent on is not to be answered from a cache
    bit<1>  again;    // sent on more than once: says nothing of the response time
}

#define WAITING_SET(SEQ) (meta.node.tree ++ SEQ[6:0])
#define WAITING_AT(SEQ, W) (meta.node.tree ++ SEQ[6:0] ++ W[1:0])
#define WAITING_IS(W) place = tags[48*W+47:48*W] == tag ? 8w##W : place;
#define WAITING_FREE(W) place = place == 255 && tags[48*W+47:48*W+32] != meta.node.epoch ? 8w##W : place;
#define WAITING_OLDER(W) READ(waiting_entry, WAITING_SET(seq) ++ 2w##W, raw); \
    place = raw[151:104] < since ? 8w##W : place; since = raw[151:104] < since ? raw[151:104] : since;
#define WAITING_PUT(W) tags[48*W+47:48*W] = place == W ? tag : tags[48*W+47:48*W];

// Who waits for a number. place: 255 when nobody does.
control Waiting(in bit<32> seq, in metadata_t meta, out bit<192> tags, out bit<8> place, out waiting_t entry) {
    apply {
        bit<48> tag = meta.node.epoch ++ seq;
        bit<152> raw;
        place = 255;
        READ(waiting_tags, WAITING_SET(seq), tags);
        FOUR(WAITING_IS)
        READ(waiting_entry, WAITING_AT(seq, place), raw); // of any place when there is none
        entry.sent = raw[151:104];
        entry.children = raw[103:72];
        entry.order = raw[71:40];
        entry.way = raw[39:24];
        entry.up = raw[23:8];
        entry.store = raw[7:7];
        entry.nocache = raw[6:6];
        entry.again = raw[5:5];
    }
}

// A place for a number that nobody waits for yet; 255 when there is none: the set is full of younger ones.
control MakeWaiting(in bit<32> seq, in bit<48> life, in metadata_t meta, inout bit<192> tags, inout bit<8> place) {
    apply {
        bit<48> tag = meta.node.epoch ++ seq;
        FOUR(WAITING_FREE)
        if (place == 255) {
            bit<48> since = meta.now;
            bit<152> raw;
            FOUR(WAITING_OLDER)
            if (meta.now - since < life) {
                place = 255;
            }
        }
        if (place != 255) {
            FOUR(WAITING_PUT)
            WRITE(waiting_tags, WAITING_SET(seq), tags);
        }
    }
}

control WriteWaiting(in bit<32> seq, in bit<8> place, in waiting_t e, in metadata_t meta) {
    apply {
        WRITE(waiting_entry, WAITING_AT(seq, place), e.sent ++ e.children ++ e.order ++ e.way ++ e.up ++ e.store
              ++ e.nocache ++ e.again ++ 5w0);
    }
}

// It was answered.
control EndWaiting(in bit<32> seq, in bit<8> place, in metadata_t meta, inout bit<192> tags) {
    apply {
        bit<48> tag = 0;
        FOUR(WAITING_PUT)
        WRITE(waiting_tags, WAITING_SET(seq), tags);
    }
}

#endif
