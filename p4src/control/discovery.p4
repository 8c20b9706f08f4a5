#ifndef DATACAST_DISCOVERY_P4
#define DATACAST_DISCOVERY_P4

// Frames between the controller and the links: LLDP up, what the controller says down.
control FromController(inout headers_t hdr, inout metadata_t meta) {
    apply {
        meta.out_port = hdr.packet_out.egress_port;
        hdr.packet_out.setInvalid();
    }
}

control ToController(inout headers_t hdr, inout metadata_t meta) {
    apply {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = meta.in_port;
        hdr.packet_in.pad = 0;
        meta.out_port = P4_CPU_PORT;
    }
}

#endif
