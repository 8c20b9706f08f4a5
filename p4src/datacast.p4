// Datacast's forwarding for a programmable switch (v1model, bmv2); a cache appliance hangs on it. This file only wires.
#include <core.p4>

#include "include/constants.p4"
#include "shared/sizes.p4"
#include "shared/reasons.p4"
#include "target/v1model.p4"
#include "parser.p4"
#include "control/segment.p4"
#include "control/bridge.p4"
#include "control/discovery.p4"
#include "control/accounting.p4"

parser DatacastParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    TOP_OF_STACK(accept, ethernet)
}

control DatacastIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Arrived() arrived;
    Received() received;
    Refused() refused;
    Segment() segment;
    Replicate() replicate;
    Bridge() bridge;
    FromController() from_controller;
    ToController() to_controller;
    Leaves() leaves;

    apply {
        arrived.apply(meta, standard_metadata);
        received.apply(meta.in_port);
        if (meta.malformed == 1) {
            meta.reason = hdr.label.isValid() ? REASON_STACK : REASON_TRUNCATED;
        } else if (hdr.packet_out.isValid()) {
            from_controller.apply(hdr, meta);
        } else if (hdr.label.isValid()) {
            if (hdr.label.label >= LABEL_REPLICATE) {
                replicate.apply(hdr, meta);
            } else {
                segment.apply(hdr, meta);
            }
        } else if (hdr.ethernet.ether_type == ETHERTYPE_DATACAST) {
            meta.reason = REASON_NO_ENDPOINT; // a switch has none
        } else if (hdr.ethernet.ether_type == ETHERTYPE_HELLO) {
            meta.reason = REASON_ETHERTYPE; // between the two ends of a link: never bridged, never passed on
        } else if (hdr.ethernet.ether_type == ETHERTYPE_LLDP) {
            to_controller.apply(hdr, meta);
        } else {
            bridge.apply(hdr, meta);
        }
        if (meta.reason != REASON_NONE) {
            refused.apply(meta.reason);
        }
        leaves.apply(meta, standard_metadata);
    }
}

control DatacastEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Copied() copied;
    Link() link;
    Sent() sent;

    apply {
        copied.apply(meta, standard_metadata);
        if (meta.out_port != NOWHERE) {
            if (meta.routed == 1) {
                link.apply(hdr, meta);
            }
            sent.apply(meta.out_port);
        }
    }
}

control DatacastDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.label);
        packet.emit(hdr.next);
    }
}

NO_CHECKSUMS(headers_t, metadata_t)

@pkginfo(name = "datacast", contact = "p4src/README.md")
V1Switch(DatacastParser(), NoChecksumToVerify(), DatacastIngress(), DatacastEgress(), NoChecksumToCompute(),
         DatacastDeparser()) main;
