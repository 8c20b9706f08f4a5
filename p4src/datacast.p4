// Datacast's forwarding for a programmable switch (v1model, bmv2). This file only wires.
#include <core.p4>
#include <v1model.p4>

#include "include/constants.p4"
#include "shared/target.p4"
#include "shared/reasons.p4"
#include "shared/headers.p4"
#include "parser.p4"
#include "control/segment.p4"
#include "control/bridge.p4"
#include "control/discovery.p4"
#include "control/accounting.p4"

control DatacastIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Received() received;
    Refused() refused;
    Segment() segment;
    Bridge() bridge;
    FromController() from_controller;
    ToController() to_controller;

    apply {
        received.apply(standard_metadata);
        if (standard_metadata.parser_error != error.NoError) {
            meta.reason = hdr.label.isValid() ? REASON_STACK : REASON_TRUNCATED;
        } else if (hdr.packet_out.isValid()) {
            from_controller.apply(hdr, standard_metadata);
        } else if (hdr.label.isValid()) {
            segment.apply(hdr, meta, standard_metadata);
        } else if (hdr.ethernet.ether_type == ETHERTYPE_DATACAST) {
            meta.reason = REASON_NO_ENDPOINT; // a switch has none
        } else if (hdr.ethernet.ether_type == ETHERTYPE_HELLO) {
            meta.reason = REASON_ETHERTYPE; // between the two ends of a link: never bridged, never passed on
        } else if (hdr.ethernet.ether_type == ETHERTYPE_LLDP) {
            to_controller.apply(hdr, standard_metadata);
        } else {
            bridge.apply(hdr, meta, standard_metadata);
        }
        if (meta.reason != REASON_NONE) {
            refused.apply(meta, standard_metadata);
        }
    }
}

control DatacastEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Sent() sent;

    apply {
        if (standard_metadata.instance_type == COPY_BY_PRE
            && standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata); // flooding spares the port the frame came from
        } else {
            sent.apply(standard_metadata);
        }
    }
}

// An MPLS stack and the Datacast header carry no checksum of their own.
control NoChecksumToVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control NoChecksumToCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

V1Switch(DatacastParser(), NoChecksumToVerify(), DatacastIngress(), DatacastEgress(), NoChecksumToCompute(),
         DatacastDeparser()) main;
