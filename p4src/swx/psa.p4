// Datacast's forwarding for the Portable Switch Architecture: DPDK's SWX pipeline, compiled by p4c-dpdk. A cache appliance
// hangs on it. What this target cannot do, and why this file shares no control with datacast.p4:
// docs/decisions/p4-on-swx.md.
#include <core.p4>
#include <psa.p4>

#include "../include/constants.p4"
#include "../shared/reasons.p4"

typedef bit<32> number_t;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> ether_type;
}

// p4c-dpdk 1.2.4 takes the fields of a shared byte from its low end, the wire format has the first one at the high end. So
// an entry of the stack is one word here.
header mpls_t {
    bit<32> word;
}

struct headers_t {
    ethernet_t ethernet;
    mpls_t     label;
    mpls_t     next;
}

struct metadata_t {
    bit<32> reason;
    bit<32> label;
    bit<32> below;
    bit<32> bottom;
    bit<32> out_port;
}

struct nothing_t {
}

parser PsaParser(packet_in packet, out headers_t hdr, inout metadata_t meta, in psa_ingress_parser_input_metadata_t istd,
                 in nothing_t resubmitted, in nothing_t recirculated) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_MPLS: label;
            default: accept;
        }
    }
    state label {
        packet.extract(hdr.label);
        meta.bottom = (hdr.label.word >> 8) & 1;
        transition select(meta.bottom) {
            0: next;
            default: accept;
        }
    }
    state next {
        packet.extract(hdr.next);
        transition accept;
    }
}

control PsaIngress(inout headers_t hdr, inout metadata_t meta, in psa_ingress_input_metadata_t istd,
                   inout psa_ingress_output_metadata_t ostd) {
    @name("drop_reason")
    Counter<bit<64>, bit<32>>(REASONS, PSA_CounterType_t.PACKETS) refused;

    // ADJ(p). Nothing turns back over the link it came by.
    @name("forward")
    action forward(bit<32> port) {
        meta.out_port = port;
        if (port == (number_t)istd.ingress_port) {
            meta.reason = (bit<32>)REASON_UTURN;
        }
    }

    // LOCAL: out of the port the cache appliance hangs on. A stack ends there.
    @name("appliance")
    action appliance(bit<32> port) {
        meta.out_port = port;
        if (meta.bottom == 0) {
            meta.reason = (bit<32>)REASON_STACK;
        }
    }

    @name("no_such_label")
    action no_such_label() {
        meta.reason = (bit<32>)REASON_LABEL;
    }

    @name("segment")
    table segment {
        key = {
            meta.label : exact @name("label");
        }
        actions = {
            forward;
            appliance;
            @defaultonly no_such_label;
        }
        const default_action = no_such_label();
        size = 512;
    }

    @name("address")
    action address(bit<48> dst, bit<48> src) {
        hdr.ethernet.dst = dst;
        hdr.ethernet.src = src;
    }

    @name("unknown_neighbour")
    action unknown_neighbour() {
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
        size = 512;
    }

    apply {
        meta.reason = 0;
        if (hdr.label.isValid()) {
            meta.label = hdr.label.word >> 12;
            if (hdr.next.isValid()) {
                // Under an adjacency stands another one, or LOCAL: no switch makes a frame that none would forward.
                meta.below = hdr.next.word >> 12;
                // Nested: p4c-dpdk 1.2.4 takes `a && b` for `a || b` here.
                if (meta.below < (bit<32>)LABEL_ADJ) {
                    if (meta.below != (bit<32>)LABEL_LOCAL) {
                        meta.reason = (bit<32>)REASON_LABEL;
                    }
                }
            }
            if (meta.reason == 0) {
                segment.apply();
            }
        } else {
            meta.reason = (bit<32>)REASON_ETHERTYPE;
        }
        if (meta.reason == 0) {
            if (meta.bottom == 1) {
                hdr.ethernet.ether_type = ETHERTYPE_DATACAST;
            }
            hdr.label.setInvalid();
            link.apply();
            send_to_port(ostd, (PortId_t)meta.out_port);
        } else {
            refused.count(meta.reason);
            ingress_drop(ostd);
        }
    }
}

control PsaIngressDeparser(packet_out packet, out nothing_t cloned, out nothing_t resubmitted, out nothing_t normal,
                           inout headers_t hdr, in metadata_t meta, in psa_ingress_output_metadata_t istd) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.label);
        packet.emit(hdr.next);
    }
}

// The egress of p4c-dpdk is empty: SWX has one pipeline from port to port.
parser PsaEgressParser(packet_in packet, out headers_t hdr, inout metadata_t meta, in psa_egress_parser_input_metadata_t istd,
                       in nothing_t normal, in nothing_t cloned, in nothing_t cloned_again) {
    state start {
        transition accept;
    }
}

control PsaEgress(inout headers_t hdr, inout metadata_t meta, in psa_egress_input_metadata_t istd,
                  inout psa_egress_output_metadata_t ostd) {
    apply {
    }
}

control PsaEgressDeparser(packet_out packet, out nothing_t cloned, out nothing_t recirculated, inout headers_t hdr,
                          in metadata_t meta, in psa_egress_output_metadata_t istd,
                          in psa_egress_deparser_input_metadata_t edstd) {
    apply {
    }
}

IngressPipeline(PsaParser(), PsaIngress(), PsaIngressDeparser()) ingress;
EgressPipeline(PsaEgressParser(), PsaEgress(), PsaEgressDeparser()) egress;

@pkginfo(name = "datacast-psa", contact = "p4src/README.md")
PSA_Switch(ingress, PacketReplicationEngine(), egress, BufferingQueueingEngine()) main;
