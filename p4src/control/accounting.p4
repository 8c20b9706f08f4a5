#ifndef DATACAST_ACCOUNTING_P4
#define DATACAST_ACCOUNTING_P4

// Frames and bytes per port, and frames refused by reason.
control Received(in standard_metadata_t standard_metadata) {
    @name("port_rx") counter(PORTS, CounterType.packets_and_bytes) received;
    apply {
        received.count((bit<32>)standard_metadata.ingress_port);
    }
}

control Sent(in standard_metadata_t standard_metadata) {
    @name("port_tx") counter(PORTS, CounterType.packets_and_bytes) sent;
    apply {
        sent.count((bit<32>)standard_metadata.egress_port);
    }
}

control Refused(in metadata_t meta, inout standard_metadata_t standard_metadata) {
    @name("drop_reason") counter(REASONS, CounterType.packets_and_bytes) refused;
    apply {
        refused.count((bit<32>)meta.reason);
        mark_to_drop(standard_metadata);
    }
}

#endif
