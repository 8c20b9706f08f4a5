// Datacast's forwarding and its node in one (v1model, bmv2): interests and data under LOCAL are handled in the pipeline
// itself, no appliance is needed. This file only wires.
#define DATACAST_NODE

#include <core.p4>

#include "include/constants.p4"
#include "shared/sizes.p4"
#include "shared/reasons.p4"
#include "shared/repeat.p4"
#include "shared/node_headers.p4"
#include "target/v1model.p4"
#include "parser.p4"
#include "node/parser.p4"
#include "control/segment.p4"
#include "control/bridge.p4"
#include "control/discovery.p4"
#include "control/accounting.p4"
#include "node/service.p4"
#include "node/check.p4"
#include "node/trees.p4"
#include "node/children.p4"
#include "node/store.p4"
#include "node/waiting.p4"
#include "node/lag.p4"
#include "node/interest.p4"
#include "node/send.p4"

control NodeIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Arrived() arrived;
    Received() received;
    Refused() refused;
    Segment() segment;
    Bridge() bridge;
    FromController() from_controller;
    ToController() to_controller;
    Service() service;
    CheckHeader() check_header;
    Interest() interest;
    Data() data;
    Grow() grow;
    Leaves() leaves;

    apply {
        arrived.apply(meta, standard_metadata);
        if (meta.again == 0) {
            received.apply(meta.in_port);
        }
        if (meta.malformed == 1 && !hdr.datacast.isValid()) {
            meta.reason = !hdr.label.isValid() || hdr.label.label == LABEL_LOCAL ? REASON_TRUNCATED : REASON_STACK;
        } else if (hdr.packet_out.isValid()) {
            from_controller.apply(hdr, meta);
        } else if (hdr.growing.isValid()) {
            grow.apply(hdr, meta);
        } else if (hdr.label.isValid() && hdr.label.label == LABEL_LOCAL) {
            service.apply(hdr, meta);
            if (hdr.label.bottom == 0) {
                meta.reason = REASON_STACK;
            }
            if (meta.reason == REASON_NONE) {
                check_header.apply(hdr, meta);
            }
            if (meta.reason == REASON_NONE) {
                if (hdr.datacast.pkt_type == TYPE_INTEREST) {
                    interest.apply(hdr, meta);
                } else {
                    data.apply(hdr, meta);
                }
            }
        } else if (hdr.label.isValid()) {
            segment.apply(hdr, meta);
        } else if (hdr.ethernet.ether_type == ETHERTYPE_DATACAST) {
            meta.reason = REASON_NO_ENDPOINT; // a switch has none
        } else if (hdr.ethernet.ether_type == ETHERTYPE_HELLO) {
            meta.reason = REASON_ETHERTYPE; // between the two ends of a link: never bridged, never passed on
        } else if (hdr.ethernet.ether_type == ETHERTYPE_LLDP) {
            to_controller.apply(hdr, meta);
        } else {
            bridge.apply(hdr, meta);
        }
        if (meta.node.sends == 1) {
            meta.out_port = P4_INNER_PORT + (port_t)hdr.datacast.seq[1:0];
        }
        if (meta.reason != REASON_NONE) {
            refused.apply(meta.reason);
        }
        leaves.apply(meta, standard_metadata);
    }
}

control NodeEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Copied() copied;
    Link() link;
    Sent() sent;
    Send() send;
    Rest() rest;
    Loop() loop;

    apply {
        copied.apply(meta, standard_metadata);
        if (standard_metadata.instance_type == COPY_BY_CLONE) {
            rest.apply(hdr, meta);
        } else if (meta.out_port != NOWHERE) {
            if (meta.node.sends == 1) {
                send.apply(hdr, meta, standard_metadata);
            } else if (hdr.growing.isValid()) {
                loop.apply(hdr);
            } else {
                if (meta.routed == 1) {
                    link.apply(hdr, meta);
                }
                sent.apply(meta.out_port);
            }
        }
    }
}

NO_CHECKSUMS(headers_t, metadata_t)

@pkginfo(name = "datacast-node", contact = "p4src/README.md")
V1Switch(NodeParser(), NoChecksumToVerify(), NodeIngress(), NodeEgress(), NoChecksumToCompute(), NodeDeparser()) main;
