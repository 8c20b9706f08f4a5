#ifndef DATACAST_SEGMENT_P4
#define DATACAST_SEGMENT_P4

// Pop the top label and forward (SR-MPLS adjacency segments). One entry per port and one for LOCAL: nothing here
// knows of groups or trees.
control Segment(inout headers_t hdr, inout metadata_t meta) {
    DIRECT_COUNTER("segment_counter", per_label);

    action pop(port_t port) {
        hdr.ethernet.ether_type = hdr.label.bottom == 1 ? ETHERTYPE_DATACAST : ETHERTYPE_MPLS;
        hdr.label.setInvalid();
        meta.out_port = port;
        meta.routed = 1;
    }

    // ADJ(p). Nothing turns back over the link it came by; what the node sends did not come by one.
    @name("forward")
    action forward(port_t port) {
        per_label.count();
        meta.reason = meta.inner == 0 && port == meta.in_port ? REASON_UTURN : REASON_NONE;
        pop(port);
    }

    // LOCAL: out of the port the cache appliance hangs on. A stack ends there.
    @name("appliance")
    action appliance(port_t port) {
        per_label.count();
        meta.reason = hdr.label.bottom == 1 ? REASON_NONE : REASON_STACK;
        pop(port);
    }

    @name("no_such_label")
    action no_such_label() {
        per_label.count();
        meta.reason = hdr.label.label == LABEL_LOCAL ? (hdr.label.bottom == 1 ? REASON_NO_ENDPOINT : REASON_STACK)
            : (hdr.label.label >= LABEL_ADJ ? REASON_PORT : REASON_LABEL);
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
        // Under an adjacency stands another one, or LOCAL: no switch makes a frame that none would forward.
        if (hdr.next.isValid() && hdr.next.label < LABEL_ADJ && hdr.next.label != LABEL_LOCAL) {
            meta.reason = hdr.label.label == LABEL_LOCAL ? REASON_STACK : REASON_LABEL;
        } else {
            segment.apply();
        }
    }
}

// REPLICATE(b), from the appliance only: a copy out of every port in b (docs/decisions/replication-offload.md). All
// ports are in P4_GROUP_ALL; the copies that are not wanted end in the egress, so no set of ports needs a group of its own.
control Replicate(inout headers_t hdr, inout metadata_t meta) {
    DIRECT_COUNTER("replicate_counter", per_port);

    @name("replicate")
    action replicate() {
        per_port.count();
        hdr.ethernet.ether_type = hdr.label.bottom == 1 ? ETHERTYPE_DATACAST : ETHERTYPE_MPLS;
        meta.copies = (bit<32>)hdr.label.label[18:0];
        meta.group = P4_GROUP_ALL;
        meta.routed = 1;
        hdr.label.setInvalid();
    }

    @name("no_appliance_there")
    action no_appliance_there() {
        per_port.count();
        meta.reason = REASON_LABEL;
    }

    @name("replicate_from")
    table replicate_from {
        key = {
            meta.in_port : exact @name("port");
        }
        actions = {
            replicate;
            @defaultonly no_appliance_there;
        }
        const default_action = no_appliance_there();
        counters = per_port;
        size = 4;
    }

    apply {
        replicate_from.apply();
    }
}

// In the egress: the addresses of the next link. Broadcast where the neighbour is not known.
control Link(inout headers_t hdr, inout metadata_t meta) {
    DIRECT_COUNTER("link_counter", per_link);

    @name("address")
    action address(bit<48> dst, bit<48> src) {
        per_link.count();
        hdr.ethernet.dst = dst;
        hdr.ethernet.src = src;
    }

    @name("unknown_neighbour")
    action unknown_neighbour() {
        per_link.count();
        hdr.ethernet.dst = 0xffffffffffff;
        hdr.ethernet.src = 0;
    }

    @name("link")
    table link {
        key = {
            meta.out_port : exact @name("port");
        }
        actions = {
            address;
            @defaultonly unknown_neighbour;
        }
        const default_action = unknown_neighbour();
        counters = per_link;
        size = 512;
    }

    apply {
        link.apply();
    }
}

#endif
