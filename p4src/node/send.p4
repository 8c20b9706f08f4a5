#ifndef DATACAST_NODE_SEND_P4
#define DATACAST_NODE_SEND_P4

// In the egress: a frame of the node's own gets its segment's labels, the own port's among them, and goes around once
// more: the forwarding then takes it as it would take it from an appliance.
#define LABEL_FOR(I, HIGH, LOW) if (way.n > I) { hdr.front[I].setValid(); \
    hdr.front[I].label = LABEL_ADJ + (bit<20>)way.ports[HIGH:LOW]; hdr.front[I].traffic_class = 0; \
    hdr.front[I].bottom = way.n == I + 1 && way.local == 0 ? 1w1 : 1w0; hdr.front[I].ttl = LABEL_TTL; }

control Send(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {
        segment_t way = meta.node.way;
        if (meta.group != 0) {
            bit<144> segment;
            READ(child_segment, meta.node.tree ++ meta.copy[4:0], segment);
            way.ports = segment[143:16];
            way.n = segment[15:8];
            way.local = segment[7:7];
        }
        if (meta.group != 0 && way.ports[127:112] == (bit<16>)meta.in_port) {
            mark_to_drop(standard_metadata); // to a child behind the link it came by
        } else {
            hdr.label.setInvalid();
            if (way.local == 1) {
                hdr.label.setValid();
                hdr.label.label = LABEL_LOCAL;
                hdr.label.traffic_class = 0;
                hdr.label.bottom = 1;
                hdr.label.ttl = LABEL_TTL;
            }
            hdr.ethernet.ether_type = ETHERTYPE_MPLS;
            LABEL_FOR(0, 127, 112)
            LABEL_FOR(1, 111, 96)
            LABEL_FOR(2, 95, 80)
            LABEL_FOR(3, 79, 64)
            LABEL_FOR(4, 63, 48)
            LABEL_FOR(5, 47, 32)
            LABEL_FOR(6, 31, 16)
            LABEL_FOR(7, 15, 0)
            meta.inner = 1;
            truncate((bit<32>)(ETHER_LEN + HEADER_LEN + hdr.datacast.length)
                     + (bit<32>)LABEL_LEN * (bit<32>)(way.n + (7w0 ++ way.local)));
            RECIRCULATE;
        }
    }
}

// To the loop: no more than is there already.
control Loop(in headers_t hdr) {
    apply {
        truncate((bit<32>)(ETHER_LEN + GROWING_LEN + HEADER_LEN + hdr.datacast.length) - 256 * (bit<32>)hdr.growing.left);
    }
}

// What is left of a range after its first number goes around as an interest of its own.
control Rest(inout headers_t hdr, inout metadata_t meta) {
    apply {
        meta.past = meta.past + 1;
        hdr.datacast.seq = hdr.datacast.seq + 1;
        hdr.datacast.more = hdr.datacast.more - 1;
        RECIRCULATE;
    }
}

#endif
