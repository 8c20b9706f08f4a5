#ifndef DATACAST_DISCOVERY_P4
#define DATACAST_DISCOVERY_P4

// Frames between the controller and the links: LLDP up, what the controller says down.
control FromController(inout headers_t hdr, inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = hdr.packet_out.egress_port;
        hdr.packet_out.setInvalid();
    }
}

control ToController(inout headers_t hdr, inout standard_metadata_t standard_metadata) {
    apply {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = standard_metadata.ingress_port;
        hdr.packet_in.pad = 0;
        standard_metadata.egress_spec = CPU_PORT;
    }
}

#endif
