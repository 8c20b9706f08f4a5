#ifndef DATACAST_NODE_INTEREST_P4
#define DATACAST_NODE_INTEREST_P4

// What a tree measures: the time from sending an interest on to its data (RFC 6298's gain of 1/8; 0: not measured), the
// interests sent on so far, the newest of them by that count that was answered.
REGISTER("tree_response", 48, NODE_TREES, tree_response);
REGISTER("tree_order", 32, NODE_TREES, tree_order);
REGISTER("tree_answered", 32, NODE_TREES, tree_answered);

// What the node did, beside what it refused.
const bit<32> EVENT_INTERESTS = 0;
const bit<32> EVENT_HITS = 1;
const bit<32> EVENT_MISSES = 2;
const bit<32> EVENT_AGGREGATED = 3;
const bit<32> EVENT_AGAIN = 4;
const bit<32> EVENT_DATA = 5;
const bit<32> EVENT_DUP = 6;
const bit<32> EVENT_STORED = 7;
const bit<32> EVENT_TREES = 8;
const bit<32> EVENTS = 16;

// An interest without RETX that repeats a waiting one is sent on after so many times (as a shift) a RETX's patience.
#define REPEAT_PATIENCE 3

#define HALF(NAME, WIDTH) (hdr.NAME.isValid() ? hdr.NAME.bytes : WIDTH##w0)

// All that tells one way on from another: the segment, and the first of what follows.
#define WAY_OF { fwd.ports, fwd.n, hdr.datacast.stops, meta.node.body, HALF(half128, 1024), HALF(half64, 512), \
    HALF(half32, 256), HALF(half16, 128), HALF(half8, 64), HALF(half4, 32), HALF(half2, 16), HALF(piece[0], 2048) }

// One number of an interest: answered from the store, added to those who wait, or sent on.
control Interest(inout headers_t hdr, inout metadata_t meta) {
    CheckRoute() check_route;
    Trees() trees;
    Children() children;
    Capacity() capacity;
    InStore() in_store;
    Answer() answer;
    Waiting() waiting;
    MakeWaiting() make_waiting;
    WriteWaiting() write_waiting;
    Lag() measure_lag;
    COUNTER("node_events", events, EVENTS);

    apply {
        segment_t ret;
        segment_t fwd;
        bit<1> fresh = 0;
        bit<32> seq = hdr.datacast.seq;
        bit<32> asking = 0;
        check_route.apply(hdr, meta, ret, fwd);
        if (meta.reason == REASON_NONE) {
            trees.apply(hdr.datacast.tree, 1w1, meta, fresh);
        }
        if (meta.reason == REASON_NONE) {
            if (fresh == 1) {
                events.count(EVENT_TREES);
                WRITE(tree_response, meta.node.tree, 48w0);
                WRITE(tree_order, meta.node.tree, 32w0);
                WRITE(tree_answered, meta.node.tree, 32w0);
            }
            children.apply(ret, hdr.datacast.flags, fresh, meta, asking);
        }
        if (meta.reason == REASON_NONE) {
            bit<32> bytes;
            stored_t stored;
            bit<1> hit;
            bit<8> lag;
            bit<1> nocache = (hdr.datacast.flags & FLAG_NOCACHE) != 0 ? 1w1 : 1w0;
            events.count(EVENT_INTERESTS);
            if (hdr.datacast.more != 0) {
                CLONE_FOR_THE_REST;
            }
            measure_lag.apply(hdr.datacast, fresh, meta, lag);
            capacity.apply(hdr.datacast.cache, meta, bytes);
            in_store.apply(seq, bytes, nocache, meta, stored, hit);
            if (hit == 1) {
                events.count(EVENT_HITS);
                answer.apply(hdr, stored, ret, meta);
            } else {
                bit<192> tags;
                bit<8> place;
                waiting_t entry;
                bit<48> patience;
                bit<32> answered;
                bit<16> way;
                bit<1> send = 1;
                READ(tree_response, meta.node.tree, patience);
                READ(tree_answered, meta.node.tree, answered);
                patience = patience + (patience >> 1);
                patience = patience < meta.node.retx_min ? meta.node.retx_min : patience;
                HASH_16(way, WAY_OF);
                waiting.apply(seq, meta, tags, place, entry);
                if (place != 255) {
                    bit<48> age = meta.now - entry.sent;
                    bit<1> retx = (hdr.datacast.flags & FLAG_RETX) != 0 ? 1w1 : 1w0;
                    bit<32> later = answered - entry.order; // > 0: data asked for later is here, this one was lost
                    entry.children = entry.children | (32w1 << meta.node.child);
                    entry.store = entry.store | hdr.stop.flags[0:0];
                    send = (nocache == 1 && entry.nocache == 0)
                        || (retx == 0 && age >= patience << REPEAT_PATIENCE)
                        || (retx == 1 && (way != entry.way || age >= patience
                                          || (later != 0 && later[31:31] == 0))) ? 1w1 : 1w0;
                    entry.again = entry.again | send;
                    if (send == 1) {
                        events.count(EVENT_AGAIN);
                    }
                } else {
                    bit<48> life = patience << REPEAT_PATIENCE;
                    life = life < WAITING_LIFE_MIN ? WAITING_LIFE_MIN : life;
                    make_waiting.apply(seq, life, meta, tags, place);
                    entry.children = 32w1 << meta.node.child;
                    entry.store = hdr.stop.flags[0:0];
                    entry.again = 0;
                    events.count(EVENT_MISSES);
                }
                if (place == 255) {
                    meta.reason = REASON_WAITING;
                } else {
                    if (send == 1) {
                        bit<32> order;
                        READ(tree_order, meta.node.tree, order);
                        entry.sent = meta.now;
                        entry.order = order + 1;
                        entry.way = way;
                        entry.up = fwd.ports[127:112];
                        entry.nocache = nocache;
                        WRITE(tree_order, meta.node.tree, entry.order);
                        hdr.datacast.stops = hdr.datacast.stops - 1;
                        hdr.datacast.length = meta.node.body;
                        hdr.datacast.flags = asking != 0 ? hdr.datacast.flags & ~FLAG_LAST : hdr.datacast.flags;
                        hdr.datacast.lag = lag;
                        hdr.datacast.cache = hdr.datacast.cache > STORE_CODE ? STORE_CODE : hdr.datacast.cache;
                        hdr.datacast.more = 0;
                        meta.node.way = fwd;
                        meta.node.sends = 1;
                    } else {
                        events.count(EVENT_AGGREGATED);
                    }
                    write_waiting.apply(seq, place, entry, meta);
                }
            }
            hdr.stop.setInvalid();
            EIGHT(NO_SEGMENT_PORT)
        }
    }
}

// Data: to everybody who waits for it, and into the store.
control Data(inout headers_t hdr, inout metadata_t meta) {
    Trees() trees;
    Prove() prove;
    Waiting() waiting;
    EndWaiting() end_waiting;
    Keep() keep;
    COUNTER("node_data_events", events, EVENTS);

    apply {
        bit<1> fresh;
        bit<192> tags;
        bit<8> place;
        waiting_t entry;
        trees.apply(hdr.datacast.tree, 1w0, meta, fresh);
        if (meta.reason == REASON_NONE) {
            waiting.apply(hdr.datacast.seq, meta, tags, place, entry);
            // What nobody asked for is not even stored: nothing can be planted in a cache.
            if (place == 255 || entry.up != (bit<16>)meta.in_port) {
                meta.reason = REASON_UNWANTED;
            } else {
                bit<8> count;
                prove.apply(meta.node);
                end_waiting.apply(hdr.datacast.seq, place, meta, tags);
                events.count(EVENT_DATA);
                if ((hdr.datacast.flags & FLAG_DUP) != 0) {
                    events.count(EVENT_DUP); // answered out of turn: says nothing of time or order
                } else {
                    bit<48> response;
                    bit<32> answered;
                    bit<48> took = meta.now - entry.sent;
                    READ(tree_response, meta.node.tree, response);
                    READ(tree_answered, meta.node.tree, answered);
                    bit<32> later = entry.order - answered;
                    if (entry.again == 0) {
                        response = response == 0 ? took : (took >= response ? response + ((took - response) >> 3)
                            : response - ((response - took) >> 3));
                        WRITE(tree_response, meta.node.tree, response);
                    }
                    if (later[31:31] == 0) {
                        WRITE(tree_answered, meta.node.tree, entry.order);
                    }
                    if (entry.store == 1) {
                        events.count(EVENT_STORED);
                        keep.apply(hdr, meta);
                    }
                }
                READ(child_count, meta.node.tree, count);
                meta.copies = entry.children;
                meta.group = P4_GROUP_CHILDREN + (bit<16>)count;
                meta.node.sends = 1;
            }
        }
    }
}

#endif
