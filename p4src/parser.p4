#ifndef DATACAST_PARSER_P4
#define DATACAST_PARSER_P4

// Ethernet and the stack to its bottom. A frame that ends too early arrives with its error in standard_metadata.
parser DatacastParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: from_controller;
            default: ethernet;
        }
    }

    state from_controller {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }

    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_MPLS: label;
            default: accept;
        }
    }

    state label {
        packet.extract(hdr.label);
        transition select(hdr.label.bottom) {
            0: below;
            default: accept;
        }
    }

    state below {
        packet.extract(hdr.below.next); // one too many is an error, too
        transition select(hdr.below.last.bottom) {
            0: below;
            default: accept;
        }
    }
}

control DatacastDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.label);
        packet.emit(hdr.below);
    }
}

#endif
