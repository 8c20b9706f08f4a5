#ifndef DATACAST_NODE_SERVICE_P4
#define DATACAST_NODE_SERVICE_P4

// Whose LOCAL is it? One entry, with the ports this switch has (0 to 255, 256 to 511, a bit each), makes it the node's own.
control Service(inout headers_t hdr, inout metadata_t meta) {
    DIRECT_COUNTER("service_counter", per_label);

    @name("serve")
    action serve(bit<256> low, bit<256> high, bit<48> retx_min, bit<32> capacity) {
        per_label.count();
        meta.node.ports_low = low;
        meta.node.ports_high = high;
        meta.node.retx_min = retx_min;
        meta.node.capacity = capacity;
    }

    @name("no_service")
    action no_service() {
        per_label.count();
        meta.reason = hdr.label.bottom == 1 ? REASON_NO_ENDPOINT : REASON_STACK;
    }

    @name("service")
    table service {
        key = {
            hdr.label.label : exact @name("label");
        }
        actions = {
            serve;
            @defaultonly no_service;
        }
        const default_action = no_service();
        counters = per_label;
        size = 2;
    }

    apply {
        service.apply();
    }
}

#endif
