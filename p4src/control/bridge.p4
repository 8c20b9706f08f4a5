#ifndef DATACAST_BRIDGE_P4
#define DATACAST_BRIDGE_P4

// Ordinary Ethernet beside Datacast. Whose address is seen where it is not known is told to the controller, which
// answers with an entry in `source` and `destination`; entries not used age. What is not known is flooded to
// P4_GROUP_FLOOD, which the controller keeps free of loops.
control Bridge(inout headers_t hdr, inout metadata_t meta) {
    bit<256> members_low = 0;
    bit<256> members_high = 0;
    bit<1> settled = 0;

    DIRECT_COUNTER("bridging_counter", per_kind);
    DIRECT_COUNTER("source_counter", per_source);
    DIRECT_COUNTER("destination_counter", per_destination);

    // Ports 0 to 255 and 256 to 511 that take part, a bit each.
    @name("bridge")
    action bridge(bit<256> low, bit<256> high) {
        per_kind.count();
        members_low = low;
        members_high = high;
    }

    @name("refuse")
    action refuse() {
        per_kind.count();
    }

    @name("bridging")
    table bridging {
        key = {
            hdr.ethernet.src[40:40] : exact @name("group"); // nobody's address is a group's
        }
        actions = {
            bridge;
            @defaultonly refuse;
        }
        const default_action = refuse();
        counters = per_kind;
        size = 2;
    }

    @name("lives_at")
    action lives_at(port_t port) {
        per_source.count();
        settled = port == meta.in_port ? 1w1 : 1w0;
    }

    @name("not_seen_before")
    action not_seen_before() {
        per_source.count();
    }

    @name("source")
    table source {
        key = {
            hdr.ethernet.src : exact @name("address");
        }
        actions = {
            lives_at;
            @defaultonly not_seen_before;
        }
        const default_action = not_seen_before();
        counters = per_source;
        support_timeout = true;
        size = 1024;
    }

    @name("to")
    action to(port_t port) {
        per_destination.count();
        meta.out_port = port == meta.in_port ? NOWHERE : port; // its own segment has it already
    }

    @name("flood")
    action flood() {
        per_destination.count();
        meta.group = P4_GROUP_FLOOD;
        meta.copies = 1; // all copies of this group have the same number
    }

    @name("destination")
    table destination {
        key = {
            hdr.ethernet.dst : exact @name("address");
        }
        actions = {
            to;
            @defaultonly flood;
        }
        const default_action = flood();
        counters = per_destination;
        size = 1024;
    }

    apply {
        bridging.apply();
        HAS_PORT(members_low, members_high, meta.in_port, settled)
        if (settled == 0) {
            meta.reason = REASON_ETHERTYPE;
        } else {
            settled = 0;
            source.apply();
            if (settled == 0) {
                LEARN(hdr.ethernet.src, meta.in_port);
            }
            destination.apply();
        }
    }
}

#endif
