#ifndef DATACAST_SEGMENT_P4
#define DATACAST_SEGMENT_P4

// Pop the top label and forward (SR-MPLS adjacency segments). One entry per port and one for LOCAL: nothing here
// knows of groups or trees.
control Segment(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    @name("segment_counter")
    direct_counter(CounterType.packets_and_bytes) per_label;

    // No frame leaves by the port it came in by.
    action pop(bit<9> port) {
        meta.reason = meta.reason == REASON_NONE && port == standard_metadata.ingress_port ? REASON_UTURN : meta.reason;
        hdr.ethernet.ether_type = hdr.label.bottom == 1 ? ETHERTYPE_DATACAST : ETHERTYPE_MPLS;
        hdr.label.setInvalid();
        standard_metadata.egress_spec = port;
    }

    // ADJ(p): the addresses are those of the next link; broadcast where the neighbour is not known.
    @name("forward")
    action forward(bit<9> port, bit<48> dst, bit<48> src) {
        per_label.count();
        hdr.ethernet.dst = dst;
        hdr.ethernet.src = src;
        pop(port);
    }

    // LOCAL: out of the port the cache appliance hangs on. A stack ends there.
    @name("appliance")
    action appliance(bit<9> port) {
        per_label.count();
        meta.reason = hdr.label.bottom == 1 ? REASON_NONE : REASON_STACK;
        pop(port);
    }

    @name("no_such_label")
    action no_such_label() {
        per_label.count();
        if (hdr.label.label == LABEL_LOCAL) {
            meta.reason = hdr.label.bottom == 1 ? REASON_NO_ENDPOINT : REASON_STACK;
        } else {
            meta.reason = hdr.label.label >= LABEL_ADJ ? REASON_PORT : REASON_LABEL;
        }
    }

    @name("segment")
    table segment {
        key = {
            hdr.label.label : exact @name("label");
        }
        actions = {
            forward;
            appliance;
            @defaultonly no_such_label;
        }
        const default_action = no_such_label();
        counters = per_label;
        size = 512;
    }

    apply {
        segment.apply();
    }
}

#endif
