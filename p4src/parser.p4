#ifndef DATACAST_PARSER_P4
#define DATACAST_PARSER_P4

// Ethernet, the top of the stack and, under it, one label more: nothing else is needed to pop and send on. A frame that
// ends too early arrives with meta.malformed. UNDER_LOCAL: where to go on below LOCAL at the
// bottom; LOOPED: with what comes back by the loop.
#define TOP_OF_STACK(UNDER_LOCAL, LOOPED) \
    state start { \
        transition select(standard_metadata.ingress_port) { \
            P4_CPU_PORT: from_controller; \
            P4_LOOP_IN: LOOPED; \
            default: ethernet; \
        } \
    } \
    state from_controller { \
        packet.extract(hdr.packet_out); \
        transition ethernet; \
    } \
    state ethernet { \
        packet.extract(hdr.ethernet); \
        transition select(hdr.ethernet.ether_type) { \
            ETHERTYPE_MPLS: label; \
            default: accept; \
        } \
    } \
    state label { \
        packet.extract(hdr.label); \
        transition select(hdr.label.bottom, hdr.label.label) { \
            (0, _): next; \
            (1, LABEL_LOCAL): UNDER_LOCAL; \
            default: accept; \
        } \
    } \
    state next { \
        packet.extract(hdr.next); \
        transition accept; \
    }

#endif
